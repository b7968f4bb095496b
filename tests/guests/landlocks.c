/* Landlock: landlock_create_ruleset(2), landlock_add_rule(2), landlock_restrict_self(2), landlock(7). Where a kernel has none there is
 * nothing to compare with; what came with a later version is left out on an earlier one. */
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>

enum { CREATE = 444, ADD_RULE, RESTRICT_SELF };
enum { EXECUTE = 1, WRITE_FILE = 2, READ_FILE = 4, READ_DIR = 8, REMOVE_DIR = 16, REMOVE_FILE = 32, MAKE_CHAR = 64, MAKE_DIR = 128,
       MAKE_REG = 256, MAKE_SOCK = 512, MAKE_FIFO = 1024, MAKE_BLOCK = 2048, MAKE_SYM = 4096, REFER = 8192, TRUNCATE = 16384,
       IOCTL_DEV = 32768 };
enum { BIND = 1, CONNECT = 2 };
enum { ABSTRACT = 1, SIGNAL = 2 };
enum { PATH_BENEATH = 1, NET_PORT };

struct attributes { uint64_t files, ports, scoped; };
struct __attribute__((packed)) path_rule { uint64_t rights; int parent; };
struct port_rule { uint64_t rights, port; };

static long abi;

static int ruleset(uint64_t files, uint64_t ports, uint64_t scoped) {
    struct attributes a = {files, ports, scoped};
    size_t len = scoped ? 24 : ports ? 16 : 8;
    return (int)syscall(CREATE, &a, len, 0);
}
static int allow(int rules, const char *path, uint64_t rights) {
    struct path_rule r = {rights, open(path, O_PATH | O_CLOEXEC)};
    int result = (int)syscall(ADD_RULE, rules, PATH_BENEATH, &r, 0), e = errno;
    close(r.parent);
    errno = e;
    return result;
}
static int allow_port(int rules, uint64_t port, uint64_t rights) {
    struct port_rule r = {rights, port};
    return (int)syscall(ADD_RULE, rules, NET_PORT, &r, 0);
}
static int enforce(int rules) {
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? (int)syscall(RESTRICT_SELF, rules, 0) : -1;
}

/* Number of the first step that does not go as it should, 0 if all do. */
#define STEP(n, cond) do { if (!(cond)) { printf("# step %d: errno %d (%s)\n", n, errno, strerror(errno)); fflush(stdout); return n; } } while (0)
#define REFUSED(n, call, err) do { errno = 0; STEP(n, (call) == -1 && errno == (err)); } while (0)

/* The exit status of a child that runs `f`: what it enforces is its own. */
static int child(int (*f)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(f());
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int made(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : -1;
}
static int opened(const char *path, int flags) {
    int fd = open(path, flags);
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : -1;
}

static void rulesets_are_checked(void) {
    struct attributes a = {READ_FILE, 0, 0};
    char large[64] = {READ_FILE};
    CHECK(abi >= 1);
    FAILS(syscall(CREATE, &a, 8, 1), EINVAL);
    FAILS(syscall(CREATE, &a, 8, 1u << 30), EINVAL);
    FAILS(syscall(CREATE, NULL, 8, 0), EFAULT);
    FAILS(syscall(CREATE, &a, 7, 0), EINVAL);
    FAILS(syscall(CREATE, &a, 4097, 0), E2BIG);
    FAILS(syscall(CREATE, (void *)-1, 8, 0), EFAULT);
    large[63] = 1;
    FAILS(syscall(CREATE, large, sizeof large, 0), E2BIG);
    FAILS(ruleset(0, 0, 0), ENOMSG);
    FAILS(ruleset(1ull << 40, 0, 0), EINVAL);
    int rules = ruleset(READ_FILE | WRITE_FILE | READ_DIR, 0, 0);
    CHECK(rules >= 0 && fcntl(rules, F_GETFD) == FD_CLOEXEC);
    char byte = 0;
    FAILS(read(rules, &byte, 1), EINVAL);
    FAILS(write(rules, &byte, 1), EINVAL);
    SAME(allow(rules, ".", READ_FILE), 0);
    FAILS(allow(rules, ".", 0), ENOMSG);
    FAILS(allow(rules, ".", EXECUTE), EINVAL);
    FAILS(allow(rules, "/dev/null", READ_DIR), EINVAL);
    FAILS(allow(rules, "not there", READ_FILE), EBADF);
    FAILS(allow(-1, ".", READ_FILE), EBADF);
    FAILS(allow(0, ".", READ_FILE), EBADFD);
    struct path_rule itself = {READ_FILE, rules};
    FAILS(syscall(ADD_RULE, rules, PATH_BENEATH, &itself, 0), EBADFD);
    FAILS(syscall(ADD_RULE, rules, PATH_BENEATH, &itself, 1), EINVAL);
    FAILS(syscall(ADD_RULE, rules, 77, &itself, 0), EINVAL);
    FAILS(syscall(ADD_RULE, rules, PATH_BENEATH, NULL, 0), EFAULT);
    /* it takes CAP_SYS_ADMIN, which a container's root need not have, or no_new_privs */
    errno = 0;
    CHECK(syscall(RESTRICT_SELF, rules, 1u << 30) == -1 && (errno == EPERM || (geteuid() == 0 && errno == EINVAL)));
    if (errno == EPERM)
        FAILS(syscall(RESTRICT_SELF, rules, 0), EPERM);
    else
        FAILS(syscall(RESTRICT_SELF, -1, 0), EBADF);
    close(rules);
}

static int files(void) {
    int rules = ruleset(READ_FILE | WRITE_FILE | READ_DIR | MAKE_REG | MAKE_DIR | MAKE_SYM | MAKE_FIFO | REMOVE_FILE | REMOVE_DIR, 0, 0);
    STEP(1, rules >= 0 && allow(rules, "open", READ_FILE | WRITE_FILE | READ_DIR | MAKE_REG | REMOVE_FILE) == 0);
    STEP(2, allow(rules, "shut/readable", READ_FILE) == 0);
    int before = open("shut/file", O_RDWR);
    STEP(3, before >= 0 && enforce(rules) == 0);
    STEP(4, opened("open/file", O_RDWR) == 0 && opened("open", O_RDONLY) == 0 && made("open/new") == 0 && unlink("open/new") == 0);
    STEP(5, opened("open/below/file", O_RDWR) == 0);
    REFUSED(6, opened("shut/file", O_RDONLY), EACCES);
    REFUSED(7, opened("shut/file", O_WRONLY), EACCES);
    REFUSED(8, opened("shut", O_RDONLY), EACCES);
    STEP(9, opened("shut/readable", O_RDONLY) == 0);
    REFUSED(10, opened("shut/readable", O_RDWR), EACCES);
    REFUSED(11, made("shut/new"), EACCES);
    /* a file without a name takes the same rights */
    int nameless = opened("open", O_TMPFILE | O_RDWR) == 0;
    STEP(24, nameless || errno == EOPNOTSUPP);
    if (nameless)
        REFUSED(25, opened("shut", O_TMPFILE | O_RDWR), EACCES);
    REFUSED(12, mkdir("open/directory", 0755), EACCES);
    REFUSED(13, symlink("x", "open/link"), EACCES);
    REFUSED(14, mkfifo("open/fifo", 0644), EACCES);
    REFUSED(15, unlink("shut/file"), EACCES);
    REFUSED(16, rmdir("open/below"), EACCES);
    REFUSED(17, rename("shut/file", "shut/other"), EACCES);
    STEP(18, rename("open/file", "open/other") == 0 && rename("open/other", "open/file") == 0);
    /* by whatever way it is named */
    REFUSED(19, opened("open/../shut/file", O_RDONLY), EACCES);
    REFUSED(20, opened("open/leads", O_RDONLY), EACCES);
    /* what is open stays open, and a mere place takes no right; nor does anything else */
    char byte = 'x';
    STEP(21, write(before, &byte, 1) == 1 && opened("shut/file", O_PATH) == 0);
    struct stat s;
    STEP(22, stat("shut/file", &s) == 0 && chmod("shut/file", 0600) == 0 && access("shut/file", R_OK) == 0 && chdir("shut") == 0);
    return 0;
}

static void files_are_reached_by_rules_alone(void) {
    CHECK(mkdir("open", 0755) == 0 && mkdir("open/below", 0755) == 0 && mkdir("shut", 0755) == 0);
    CHECK(made("open/file") == 0 && made("open/below/file") == 0 && made("shut/file") == 0 && made("shut/readable") == 0);
    CHECK(symlink("../shut/file", "open/leads") == 0);
    SAME(child(files), 0);
    CHECK(unlink("open/file") == 0 && unlink("open/below/file") == 0 && unlink("open/leads") == 0);
    CHECK(unlink("shut/file") == 0 && unlink("shut/readable") == 0);
    CHECK(rmdir("open/below") == 0 && rmdir("open") == 0 && rmdir("shut") == 0);
}

static int reads_neither(void) {
    REFUSED(30, opened("a/file", O_RDONLY), EACCES);
    REFUSED(31, opened("b/file", O_RDONLY), EACCES);
    return 0;
}

static int layers(void) {
    int first = ruleset(READ_FILE, 0, 0), second = ruleset(READ_FILE, 0, 0);
    STEP(1, allow(first, "a", READ_FILE) == 0 && allow(second, "b", READ_FILE) == 0);
    STEP(2, enforce(first) == 0 && opened("a/file", O_RDONLY) == 0);
    REFUSED(3, opened("b/file", O_RDONLY), EACCES);
    /* rules that are added later are for those who enforce it then */
    STEP(4, allow(first, "b", READ_FILE) == 0);
    REFUSED(5, opened("b/file", O_RDONLY), EACCES);
    STEP(6, enforce(second) == 0);
    STEP(7, child(reads_neither) == 0 && reads_neither() == 0);
    /* 16 layers, and no more */
    int any = ruleset(MAKE_BLOCK, 0, 0);
    for (int n = 0; n < 14; n++)
        STEP(8, enforce(any) == 0);
    REFUSED(9, enforce(any), E2BIG);
    return 0;
}

static void layers_add_up_and_are_inherited(void) {
    CHECK(mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0 && made("a/file") == 0 && made("b/file") == 0);
    SAME(child(layers), 0);
    CHECK(unlink("a/file") == 0 && unlink("b/file") == 0 && rmdir("a") == 0 && rmdir("b") == 0);
}

static int execution(void) {
    int rules = ruleset(EXECUTE | WRITE_FILE, 0, 0);
    STEP(1, enforce(rules) == 0);
    REFUSED(2, execl("/proc/self/exe", "landlocks", "executed", (char *)NULL), EACCES);
    return 0;
}
static int execution_inherits(void) {
    int rules = ruleset(WRITE_FILE, 0, 0);
    STEP(1, enforce(rules) == 0);
    execl("/proc/self/exe", "landlocks", "executed", (char *)NULL);
    return 2;
}
static int executed(void) { return opened("file", O_WRONLY) == -1 && errno == EACCES ? 0 : 3; }

static void execution_takes_a_right_and_keeps_the_rest(void) {
    CHECK(made("file") == 0);
    SAME(child(execution), 0);
    SAME(child(execution_inherits), 0);
    CHECK(unlink("file") == 0);
}

static int moves(void) {
    int rules = ruleset(READ_FILE | WRITE_FILE | REFER, 0, 0);
    STEP(1, allow(rules, "a", REFER) == 0 && allow(rules, "b", REFER) == 0 && allow(rules, "rich", REFER | READ_FILE) == 0);
    STEP(2, enforce(rules) == 0);
    STEP(3, rename("a/file", "b/file") == 0);
    REFUSED(4, rename("b/file", "c/file"), EXDEV);
    REFUSED(5, link("b/file", "c/file"), EXDEV);
    STEP(6, link("b/file", "a/file") == 0 && unlink("b/file") == 0);
    /* where a file would have more rights it cannot go */
    REFUSED(7, rename("a/file", "rich/file"), EXDEV);
    STEP(8, rename("rich/own", "a/own") == 0 && rename("a/file", "a/other") == 0 && rename("a/other", "a/file") == 0);
    /* without a right of its own, a move is refused too */
    int more = ruleset(MAKE_REG, 0, 0);
    STEP(9, allow(more, "a", MAKE_REG) == 0 && enforce(more) == 0);
    REFUSED(10, rename("a/file", "b/file"), EACCES);
    return 0;
}

static void moves_give_no_rights(void) {
    if (abi < 2)
        return;
    CHECK(mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0 && mkdir("c", 0755) == 0 && mkdir("rich", 0755) == 0);
    CHECK(made("a/file") == 0 && made("rich/own") == 0);
    SAME(child(moves), 0);
    CHECK(unlink("a/file") == 0 && unlink("a/own") == 0);
    CHECK(rmdir("a") == 0 && rmdir("b") == 0 && rmdir("c") == 0 && rmdir("rich") == 0);
}

static int unhandled_moves(void) {
    int rules = ruleset(READ_FILE, 0, 0);
    STEP(1, allow(rules, ".", READ_FILE) == 0 && enforce(rules) == 0);
    REFUSED(2, rename("a/file", "file"), EXDEV);
    STEP(3, rename("a/file", "a/other") == 0 && rename("a/other", "a/file") == 0);
    return 0;
}

static void moves_are_denied_unless_granted(void) {
    CHECK(mkdir("a", 0755) == 0 && made("a/file") == 0);
    SAME(child(unhandled_moves), 0);
    CHECK(unlink("a/file") == 0 && rmdir("a") == 0);
}

static int truncation(void) {
    int rules = ruleset(WRITE_FILE | TRUNCATE, 0, 0);
    STEP(1, allow(rules, ".", WRITE_FILE) == 0 && allow(rules, "cut", TRUNCATE) == 0);
    int before = open("file", O_WRONLY);
    STEP(2, before >= 0 && enforce(rules) == 0);
    STEP(3, truncate("cut", 0) == 0 && opened("cut", O_WRONLY | O_TRUNC) == 0);
    REFUSED(4, truncate("file", 0), EACCES);
    REFUSED(5, opened("file", O_WRONLY | O_TRUNC), EACCES);
    int fd = open("file", O_WRONLY), cut = open("cut", O_WRONLY);
    STEP(6, fd >= 0 && cut >= 0 && ftruncate(cut, 0) == 0 && ftruncate(before, 0) == 0);
    REFUSED(7, ftruncate(fd, 0), EACCES);
    return 0;
}

static void truncation_is_a_right_of_its_own(void) {
    if (abi < 3)
        return;
    CHECK(made("file") == 0 && made("cut") == 0);
    SAME(child(truncation), 0);
    CHECK(unlink("file") == 0 && unlink("cut") == 0);
}

static struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}
static int bound(int type, int port) {
    struct sockaddr_in a = loopback(port);
    int s = socket(AF_INET, type, 0), r = bind(s, (struct sockaddr *)&a, sizeof a), e = errno;
    close(s);
    errno = e;
    return r;
}
static int connected(int port) {
    struct sockaddr_in a = loopback(port);
    int s = socket(AF_INET, SOCK_STREAM, 0), r = connect(s, (struct sockaddr *)&a, sizeof a), e = errno;
    close(s);
    errno = e;
    return r;
}

static int port;

static int ports(void) {
    int rules = ruleset(0, BIND | CONNECT, 0);
    STEP(1, rules >= 0 && allow_port(rules, (uint64_t)port, CONNECT) == 0 && allow_port(rules, 0, BIND) == 0);
    REFUSED(2, allow_port(rules, 65536, BIND), EINVAL);
    REFUSED(3, allow_port(rules, 80, 4), EINVAL);
    REFUSED(4, allow_port(rules, 80, 0), ENOMSG);
    STEP(5, enforce(rules) == 0);
    STEP(6, connected(port) == 0 && bound(SOCK_STREAM, 0) == 0);
    REFUSED(7, connected(port ^ 1), EACCES);
    REFUSED(8, bound(SOCK_STREAM, port ^ 1), EACCES);
    /* of TCP alone, and of files not at all */
    STEP(9, bound(SOCK_DGRAM, 0) == 0 && opened("/dev/null", O_RDWR) == 0);
    return 0;
}

static void ports_are_reached_by_rules_alone(void) {
    if (abi < 4)
        return;
    struct sockaddr_in a = loopback(0);
    socklen_t len = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(s, (struct sockaddr *)&a, sizeof a) == 0 && listen(s, 5) == 0 && getsockname(s, (struct sockaddr *)&a, &len) == 0);
    port = ntohs(a.sin_port);
    SAME(child(ports), 0);
    close(s);
}

static int requests(void) {
    struct termios t;
    int before = open("/dev/null", O_RDONLY), rules = ruleset(IOCTL_DEV, 0, 0);
    STEP(1, before >= 0 && enforce(rules) == 0);
    int after = open("/dev/null", O_RDONLY), on = 1;
    REFUSED(2, ioctl(before, TCGETS, &t), ENOTTY);
    REFUSED(3, ioctl(after, TCGETS, &t), EACCES);
    STEP(4, ioctl(after, FIOCLEX) == 0 && ioctl(after, FIONBIO, &on) == 0);
    return 0;
}

static void requests_to_devices_take_a_right(void) {
    if (abi < 5)
        return;
    SAME(child(requests), 0);
}

static pid_t outside;
static int scoped_signals(void) {
    STEP(1, kill(outside, 0) == 0 && enforce(ruleset(0, 0, SIGNAL)) == 0);
    REFUSED(2, kill(outside, 0), EPERM);
    STEP(3, kill(getpid(), 0) == 0);
    pid_t own = fork();
    if (own == 0) {
        pause();
        _exit(0);
    }
    int status;
    STEP(4, kill(own, SIGKILL) == 0 && waitpid(own, &status, 0) == own);
    return 0;
}

static struct sockaddr_un hidden(socklen_t *len) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    *len = offsetof(struct sockaddr_un, sun_path) + (socklen_t)snprintf(a.sun_path + 1, 40, "guest landlock %d", (int)outside) + 1;
    return a;
}
static int scoped_names(void) {
    socklen_t len;
    struct sockaddr_un a = hidden(&len);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    STEP(1, connect(s, (struct sockaddr *)&a, len) == 0);
    close(s);
    s = socket(AF_UNIX, SOCK_STREAM, 0);
    STEP(2, enforce(ruleset(0, 0, ABSTRACT)) == 0);
    REFUSED(3, connect(s, (struct sockaddr *)&a, len), EPERM);
    return 0;
}

static void scopes_end_at_the_layer(void) {
    if (abi < 6)
        return;
    outside = getpid();
    SAME(child(scoped_signals), 0);
    socklen_t len;
    struct sockaddr_un a = hidden(&len);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(s, (struct sockaddr *)&a, len) == 0 && listen(s, 5) == 0);
    SAME(child(scoped_names), 0);
    close(s);
}

static int mounting(void) {
    STEP(1, enforce(ruleset(MAKE_BLOCK, 0, 0)) == 0);
    REFUSED(2, mount("none", ".", "tmpfs", 0, NULL), EPERM);
    REFUSED(3, umount2("/proc", MNT_DETACH), EPERM);
    return 0;
}

static void nothing_is_mounted_by_who_has_rules_about_files(void) { SAME(child(mounting), 0); }

static int first(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "executed") == 0)
        exit(executed());
    abi = syscall(CREATE, NULL, 0, 1);
    if (abi < 0) {
        printf("# skipped: landlock cannot be used here: %s\n", strerror(errno));
        exit(77);
    }
    scratch_enter();
    return 0;
}

GUEST_WITH(first(argc, argv), T(rulesets_are_checked), T(files_are_reached_by_rules_alone), T(layers_add_up_and_are_inherited),
           T(execution_takes_a_right_and_keeps_the_rest), T(moves_give_no_rights), T(moves_are_denied_unless_granted),
           T(truncation_is_a_right_of_its_own), T(ports_are_reached_by_rules_alone), T(requests_to_devices_take_a_right),
           T(scopes_end_at_the_layer), T(nothing_is_mounted_by_who_has_rules_about_files))
