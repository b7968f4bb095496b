/* File handles (name_to_handle_at(2), open_by_handle_at(2)) and other calls whose arguments are checked in an order of their own:
 * clone3(2), io_setup(2), ioprio_set(2), capget(2), execveat(2), kcmp(2). */
#include "guest.h"
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif
#define RNDGETENTCNT _IOR('R', 0, int)
struct children { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; };
struct capability_header { unsigned version; int pid; };

struct handle { unsigned bytes; int type; unsigned char data[128]; };

static void handles(void) {
    int f = open("h", O_RDWR | O_CREAT, 0600), mount;
    CHECK(f >= 0 && write(f, "text", 4) == 4 && close(f) == 0 && symlink("h", "link") == 0);
    struct handle h = {0}, again;
    FAILS(syscall(SYS_name_to_handle_at, AT_FDCWD, "h", &h, &mount, 0), EOVERFLOW);
    CHECK(h.bytes > 0 && h.bytes <= 128);
    SAME(syscall(SYS_name_to_handle_at, AT_FDCWD, "h", &h, &mount, 0), 0);
    again = (struct handle){.bytes = h.bytes};
    SAME(syscall(SYS_name_to_handle_at, AT_FDCWD, "link", &again, &mount, AT_SYMLINK_FOLLOW), 0);
    CHECK(memcmp(&h, &again, 8 + h.bytes) == 0);
    FAILS(syscall(SYS_name_to_handle_at, AT_FDCWD, "none", &h, &mount, 0), ENOENT);
    FAILS(syscall(SYS_name_to_handle_at, AT_FDCWD, "", &h, &mount, 0), ENOENT);
    FAILS(syscall(SYS_name_to_handle_at, -1, "h", &h, &mount, 0), EBADF);
    FAILS(syscall(SYS_name_to_handle_at, AT_FDCWD, "h", &h, &mount, 0x10000), EINVAL);
    again.bytes = 129;
    FAILS(syscall(SYS_name_to_handle_at, AT_FDCWD, "h", &again, &mount, 0), EINVAL);
    errno = 0;
    int opened = syscall(SYS_open_by_handle_at, AT_FDCWD, &h, O_RDONLY);
    if (opened >= 0) { /* for those who may search anywhere */
        char text[8] = "";
        CHECK(read(opened, text, 8) == 4 && strcmp(text, "text") == 0 && close(opened) == 0);
        again = (struct handle){.bytes = h.bytes};
        CHECK(syscall(SYS_name_to_handle_at, AT_FDCWD, "link", &again, &mount, 0) == 0);
        FAILS(syscall(SYS_open_by_handle_at, AT_FDCWD, &again, O_RDONLY), ELOOP);
        again.bytes = 0;
        FAILS(syscall(SYS_open_by_handle_at, AT_FDCWD, &again, O_RDONLY), EINVAL);
        CHECK(unlink("h") == 0);
        FAILS(syscall(SYS_open_by_handle_at, AT_FDCWD, &h, O_RDONLY), ESTALE);
    } else {
        SAME(errno, EPERM);
        CHECK(unlink("h") == 0);
    }
    CHECK(unlink("link") == 0);
}

/* AT_HANDLE_MNT_ID_UNIQUE, AT_HANDLE_CONNECTABLE and AT_HANDLE_FID, since Linux 6.12, 6.13 and 6.5. */
static void kinds_of_handles(void) {
    enum { UNIQUE = 1, CONNECTABLE = 2, FID = 0x200 };
    uint64_t mount = 0;
    struct handle h = {.bytes = 128};
    int f = open("h", O_RDWR | O_CREAT, 0600);
    CHECK(f >= 0);
    if (syscall(SYS_name_to_handle_at, AT_FDCWD, "h", &h, &mount, CONNECTABLE) != 0 && errno == EINVAL && may_lack_calls()) {
        close(f), unlink("h");
        return;
    }
    SAME(h.type >> 16, 1);
    h.bytes = 128;
    FAILS(syscall(SYS_name_to_handle_at, AT_FDCWD, "h", &h, &mount, CONNECTABLE | FID), EINVAL);
    FAILS(syscall(SYS_name_to_handle_at, f, "", &h, &mount, CONNECTABLE | AT_EMPTY_PATH), EINVAL);
    SAME(syscall(SYS_name_to_handle_at, AT_FDCWD, "h", &h, &mount, UNIQUE), 0);
    SAME(h.type >> 16, 0);
    CHECK(mount >> 31 != 0);
    h.bytes = 128;
    SAME(syscall(SYS_name_to_handle_at, AT_FDCWD, "/proc/filesystems", &h, &mount, FID), 0);
    h.bytes = 128;
    SAME(syscall(SYS_name_to_handle_at, AT_FDCWD, ".", &h, &mount, CONNECTABLE), 0);
    SAME(h.type >> 16, 3); /* and a directory */
    int opened = syscall(SYS_open_by_handle_at, AT_FDCWD, &h, O_RDONLY);
    CHECK(opened >= 0 || errno == EPERM);
    if (opened >= 0) {
        close(opened);
        h.type |= 0x100000;
        FAILS(syscall(SYS_open_by_handle_at, AT_FDCWD, &h, O_RDONLY), EINVAL);
    }
    close(f), unlink("h");
}

static void children(void) {
    struct children a = {.flags = CLONE_FS | CLONE_NEWNS, .exit_signal = SIGCHLD};
    FAILS(syscall(SYS_clone3, &a, sizeof a), EINVAL);
    a = (struct children){.flags = CLONE_PIDFD, .pidfd = 8, .exit_signal = SIGCHLD};
    FAILS(syscall(SYS_clone3, &a, sizeof a), EFAULT);
}

static void limits_of_numbers(void) {
    unsigned long context = 0;
    FAILS(syscall(SYS_io_setup, -1, &context), EINVAL);
    FAILS(syscall(SYS_io_setup, 0, &context), EINVAL);
    FAILS(syscall(SYS_ioprio_set, 1, 0, 0 << 13 | 4), EINVAL); /* no class, a level */
    FAILS(syscall(SYS_ioprio_set, 1, 0, 5 << 13), EINVAL);
    SAME(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 4), 0);
    SAME(syscall(SYS_ioprio_get, 1, 0), 2 << 13 | 4);
    struct capability_header head = {0x20080522, -1};
    unsigned data[6];
    FAILS(syscall(SYS_capget, &head, data), EINVAL);
    SAME(syscall(SYS_kcmp, getpid(), getpid(), 6, 0, 0), 0);
}

static void links_are_not_executed(void) {
    char *arguments[] = {"true", NULL};
    CHECK(symlink("/bin/true", "program") == 0);
    pid_t child = vfork();
    if (child == 0) {
        syscall(SYS_execveat, AT_FDCWD, "program", arguments, NULL, AT_SYMLINK_NOFOLLOW);
        _exit(errno);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    SAME(WEXITSTATUS(status), ELOOP);
    CHECK(unlink("program") == 0);
}

static void what_is_no_link_or_file(void) {
    int f = open("plain", O_RDWR | O_CREAT, 0600), d = open(".", O_RDONLY), w = open("plain", O_WRONLY);
    char b[8];
    FAILS(readlinkat(f, "", b, sizeof b), ENOENT);
    FAILS(readlink("plain", b, sizeof b), EINVAL);
    SAME(readahead(f, 0, 10), 0);
    FAILS(readahead(d, 0, 10), EINVAL);
    FAILS(readahead(w, 0, 10), EBADF);
    CHECK(close(f) == 0 && close(d) == 0 && close(w) == 0 && unlink("plain") == 0);
}

static void the_random_device_is_seeded(void) {
    int f = open("/dev/urandom", O_RDONLY), bits = 0;
    CHECK(f >= 0 && ioctl(f, RNDGETENTCNT, &bits) == 0 && close(f) == 0);
    SAME(bits, 256);
}

GUEST_WITH(scratch_enter(), T(handles), T(kinds_of_handles), T(children), T(limits_of_numbers), T(links_are_not_executed),
           T(what_is_no_link_or_file), T(the_random_device_is_seeded))
