/* What root may give up, keep and take back. credentials(7), capabilities(7). Each in a child of its own. */
#include "guest.h"
#include <grp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SETGID_ = 6, SETUID_ = 7, NET_BIND = 10 };

/* <linux/capability.h>, which musl's compiler does not find. */
struct cap_header { uint32_t version; int pid; };
struct cap_data { uint32_t effective, permitted, inheritable; };
#define VERSION_3 0x20080522

struct caps { uint64_t effective, permitted, inheritable; };

static int get_caps(struct caps *c) {
    struct cap_header h = {VERSION_3, 0};
    struct cap_data d[2];
    if (syscall(SYS_capget, &h, d) != 0)
        return -1;
    c->effective = d[0].effective | (uint64_t)d[1].effective << 32;
    c->permitted = d[0].permitted | (uint64_t)d[1].permitted << 32;
    c->inheritable = d[0].inheritable | (uint64_t)d[1].inheritable << 32;
    return 0;
}
static int set_caps(struct caps c) {
    struct cap_header h = {VERSION_3, 0};
    struct cap_data d[2] = {
        {(uint32_t)c.effective, (uint32_t)c.permitted, (uint32_t)c.inheritable},
        {(uint32_t)(c.effective >> 32), (uint32_t)(c.permitted >> 32), (uint32_t)(c.inheritable >> 32)}};
    return (int)syscall(SYS_capset, &h, d);
}
static int has(uint64_t set, int cap) { return (int)(set >> cap & 1); }

/* Runs `f` in a child if this is root with the power to change ids; true if nothing failed there. */
static int in_child(void (*f)(void)) {
    struct caps c;
    if (geteuid() != 0 || get_caps(&c) != 0 || !has(c.effective, SETUID_) || !has(c.effective, SETGID_))
        return 1;
    pid_t pid = fork();
    if (pid == 0) {
        guest_failed = 0;
        f();
        fflush(stdout);
        _exit(guest_failed);
    }
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void drops(void) {
    gid_t groups[2] = {2000, 1000}, got[2];
    struct caps c;
    CHECK(setgroups(2, groups) == 0 && getgroups(2, got) == 2 && got[0] == 1000 && got[1] == 2000);
    CHECK(setgid(1000) == 0 && setuid(1000) == 0);
    SAME(getuid(), 1000);
    SAME(geteuid(), 1000);
    SAME(getegid(), 1000);
    CHECK(get_caps(&c) == 0 && c.effective == 0 && c.permitted == 0);
    FAILS(setuid(0), EPERM);
    /* who may not change them may not leave them as they are either */
    FAILS(prctl(PR_SET_SECUREBITS, prctl(PR_GET_SECUREBITS)), EPERM);
    FAILS(setgid(0), EPERM);
    FAILS(setgroups(0, NULL), EPERM);
    FAILS(setresuid(1000, 1000, 0), EPERM);
    CHECK(setresuid(1000, 1000, 1000) == 0 && setuid(1000) == 0);
}
static void dropping_is_for_good(void) { CHECK(in_child(drops)); }

static void lends(void) {
    uid_t r, e, s;
    struct caps c;
    CHECK(seteuid(1000) == 0 && getresuid(&r, &e, &s) == 0 && r == 0 && e == 1000 && s == 0);
    CHECK(get_caps(&c) == 0 && c.effective == 0 && has(c.permitted, SETUID_));
    FAILS(setgroups(0, NULL), EPERM);
    CHECK(seteuid(0) == 0 && get_caps(&c) == 0 && c.effective == c.permitted);
    CHECK(setreuid(1000, 1000) == 0 && getresuid(&r, &e, &s) == 0 && r == 1000 && e == 1000 && s == 1000);
    FAILS(seteuid(0), EPERM);
}
static void groups(void) {
    gid_t r, e, s;
    CHECK(setresgid(1000, 1001, 1002) == 0 && getresgid(&r, &e, &s) == 0 && r == 1000 && e == 1001 && s == 1002);
    CHECK(setregid((gid_t)-1, 1000) == 0 && getresgid(&r, &e, &s) == 0 && r == 1000 && e == 1000 && s == 1002);
    CHECK(setregid(1003, (gid_t)-1) == 0 && getresgid(&r, &e, &s) == 0 && r == 1003 && e == 1000 && s == 1000);
    SAME(syscall(SYS_setfsuid, 1000), 0);
    SAME(syscall(SYS_setfsuid, -1), 1000);
    SAME(syscall(SYS_setfsuid, 0), 1000);
    SAME(syscall(SYS_setfsgid, 1003), 1000);
    SAME(syscall(SYS_setfsgid, -1), 1003);
    CHECK(setuid(1000) == 0);
    CHECK(setregid(1000, 1003) == 0 && getgid() == 1000 && getegid() == 1003);
    FAILS(setregid(5, (gid_t)-1), EPERM);
    FAILS(setresgid((gid_t)-1, 5, (gid_t)-1), EPERM);
    FAILS(setreuid(5, (uid_t)-1), EPERM);
    SAME(syscall(SYS_setfsuid, 5), 1000);
    SAME(syscall(SYS_setfsuid, 5), 1000); /* refused, and it says so only by staying */
}
static void group_ids(void) { CHECK(in_child(groups)); }

static void the_effective_id_can_come_back(void) { CHECK(in_child(lends)); }

static void keeps(void) {
    struct caps c, old;
    CHECK(get_caps(&old) == 0 && prctl(PR_SET_KEEPCAPS, 1) == 0 && prctl(PR_GET_KEEPCAPS) == 1);
    CHECK(setuid(1000) == 0 && get_caps(&c) == 0);
    SAME(c.effective, 0);
    SAME(c.permitted, old.permitted);
    FAILS(setgid(1000), EPERM);
    CHECK(set_caps((struct caps){1u << SETGID_, 1u << SETGID_, 0}) == 0 && setgid(1000) == 0);
    FAILS(set_caps((struct caps){1u << SETUID_, 1u << SETUID_, 0}), EPERM);
    FAILS(setuid(0), EPERM);
    CHECK(get_caps(&c) == 0 && c.effective == 1u << SETGID_ && c.permitted == 1u << SETGID_);
}
static void capabilities_can_be_kept(void) { CHECK(in_child(keeps)); }

static void ambient(void) {
    struct caps c;
    CHECK(prctl(PR_CAPBSET_READ, NET_BIND) >= 0);
    FAILS(prctl(PR_CAPBSET_READ, 63), EINVAL);
    SAME(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, NET_BIND, 0, 0), 0);
    CHECK(get_caps(&c) == 0);
    if (!has(c.permitted, NET_BIND))
        return;
    c.inheritable = 0;
    CHECK(set_caps(c) == 0);
    FAILS(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, NET_BIND, 0, 0), EPERM);
    c.inheritable = 1u << NET_BIND;
    CHECK(set_caps(c) == 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, NET_BIND, 0, 0) == 0);
    SAME(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, NET_BIND, 0, 0), 1);
    CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0);
    SAME(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, NET_BIND, 0, 0), 0);
    FAILS(prctl(PR_CAP_AMBIENT, 99, NET_BIND, 0, 0), EINVAL);
}
static void ambient_capabilities(void) { CHECK(in_child(ambient)); }

static void makes(void) {
    struct stat st;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char name[64];
    int s = socket(AF_UNIX, SOCK_STREAM, 0), f;
    CHECK(s >= 0 && setgid(1001) == 0 && setuid(1000) == 0);
    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/guest-socket-%d", (int)getpid());
    CHECK(bind(s, (struct sockaddr *)&at, sizeof at) == 0 && stat(at.sun_path, &st) == 0);
    CHECK(S_ISSOCK(st.st_mode) && st.st_uid == 1000 && st.st_gid == 1001 && chmod(at.sun_path, 0777) == 0);
    CHECK(unlink(at.sun_path) == 0);
    snprintf(name, sizeof name, "/tmp/guest-file-%d", (int)getpid());
    CHECK(mkfifo(name, 0600) == 0 && stat(name, &st) == 0 && st.st_uid == 1000 && unlink(name) == 0);
    CHECK(mkdir(name, 0700) == 0 && stat(name, &st) == 0 && st.st_uid == 1000 && rmdir(name) == 0);
    CHECK(symlink("x", name) == 0 && lstat(name, &st) == 0 && st.st_uid == 1000 && unlink(name) == 0);
    f = open(name, O_CREAT | O_RDWR, 0600);
    CHECK(f >= 0 && fstat(f, &st) == 0 && st.st_uid == 1000 && st.st_gid == 1001 && unlink(name) == 0);
}
static void what_a_user_makes_is_his(void) { CHECK(in_child(makes)); }

GUEST(T(dropping_is_for_good), T(the_effective_id_can_come_back), T(group_ids), T(capabilities_can_be_kept), T(ambient_capabilities),
      T(what_a_user_makes_is_his))
