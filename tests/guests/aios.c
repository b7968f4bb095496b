/* Asynchronous input and output of old: io_setup(2), io_submit(2), io_getevents(2), io_cancel(2), io_destroy(2). */
#include "guest.h"
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static int setup(unsigned n, aio_context_t *c) { return syscall(SYS_io_setup, n, c); }
static int submit(aio_context_t c, long n, struct iocb **list) { return syscall(SYS_io_submit, c, n, list); }
static int events(aio_context_t c, long least, long most, struct io_event *e, struct timespec *t) {
    return syscall(SYS_io_getevents, c, least, most, e, t);
}

static void written_and_read(void) {
    aio_context_t c = 0;
    CHECK(setup(8, &c) == 0 && c != 0);
    int f = open("aio", O_CREAT | O_RDWR, 0600), told = eventfd(0, 0);
    char out[] = "hello world", in[16] = "";
    struct iovec pieces[2] = {{in, 5}, {in + 8, 6}};
    struct iocb write = {.aio_data = 1, .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = f, .aio_buf = (uintptr_t)out, .aio_nbytes = 11,
                         .aio_offset = 3, .aio_flags = IOCB_FLAG_RESFD, .aio_resfd = told};
    struct iocb read1 = {.aio_data = 2, .aio_lio_opcode = IOCB_CMD_PREADV, .aio_fildes = f, .aio_buf = (uintptr_t)pieces, .aio_nbytes = 2,
                         .aio_offset = 3};
    struct iocb sync = {.aio_data = 3, .aio_lio_opcode = IOCB_CMD_FDSYNC, .aio_fildes = f};
    struct iocb *first[] = {&write, &sync}, *second[] = {&read1};
    SAME(submit(c, 2, first), 2);
    struct io_event got[4];
    struct timespec t = {5, 0};
    SAME(events(c, 2, 4, got, &t), 2);
    for (int i = 0; i < 2; i++) {
        CHECK(got[i].data == 1 || got[i].data == 3);
        SAME(got[i].res, got[i].data == 1 ? 11 : 0);
        CHECK(got[i].obj == (uintptr_t)(got[i].data == 1 ? &write : &sync));
    }
    uint64_t count = 0;
    CHECK(read(told, &count, 8) == 8);
    SAME(count, 1);
    SAME(submit(c, 1, second), 1);
    SAME(events(c, 1, 4, got, NULL), 1);
    SAME(got[0].res, 11);
    CHECK(memcmp(in, "hello", 5) == 0 && memcmp(in + 8, " world", 6) == 0);
    SAME(lseek(f, 0, SEEK_CUR), 0);
    t = (struct timespec){0, 20000000};
    SAME(events(c, 1, 4, got, &t), 0);
    sigset_t none;
    sigemptyset(&none);
    struct { const sigset_t *set; size_t size; } mask = {&none, 8};
    SAME(syscall(SYS_io_pgetevents, c, 1, 4, got, &t, &mask), 0);
    mask.size = 4;
    FAILS(syscall(SYS_io_pgetevents, c, 1, 4, got, &t, &mask), EINVAL);
    SAME(syscall(SYS_io_destroy, c), 0);
    FAILS(syscall(SYS_io_destroy, c), EINVAL);
    close(f), close(told);
    unlink("aio");
}

static void refused(void) {
    aio_context_t c = 0, used = 5;
    FAILS(setup(0, &c), EINVAL);
    FAILS(setup(1, &used), EINVAL);
    FAILS(setup(1, (void *)8), EFAULT);
    CHECK(setup(1, &c) == 0);
    int f = open("aio", O_CREAT | O_WRONLY, 0600);
    char text[4];
    struct iocb one = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = f, .aio_buf = (uintptr_t)text, .aio_nbytes = 4};
    struct iocb *list[] = {&one};
    FAILS(submit(c, 1, list), EBADF);
    one.aio_fildes = 999;
    FAILS(submit(c, 1, list), EBADF);
    one.aio_fildes = f, one.aio_lio_opcode = 77;
    FAILS(submit(c, 1, list), EINVAL);
    FAILS(submit(c, -1, list), EINVAL);
    SAME(submit(c, 0, list), 0);
    FAILS(submit(12345, 1, list), EINVAL);
    struct iocb *bad[] = {(struct iocb *)8};
    FAILS(submit(c, 1, bad), EFAULT);
    FAILS(submit(c, 1, (void *)8), EFAULT);
    struct io_event e;
    FAILS(events(c, 2, 1, &e, NULL), EINVAL);
    FAILS(events(c, -1, 1, &e, NULL), EINVAL);
    FAILS(events(12345, 0, 1, &e, NULL), EINVAL);
    SAME(events(c, 0, 1, &e, NULL), 0);
    FAILS(syscall(SYS_io_cancel, 12345, &one, &e), EINVAL);
    FAILS(syscall(SYS_io_cancel, c, (void *)8, &e), EFAULT);
    SAME(syscall(SYS_io_destroy, c), 0);
    close(f);
    unlink("aio");
}

/* What the kernel adds cannot wait, and may reach the number that nobody can write. */
static void more_than_is_counted(void) {
    aio_context_t c = 0;
    CHECK(setup(2, &c) == 0);
    int f = open("aio", O_CREAT | O_RDWR, 0600), told = eventfd(0, EFD_NONBLOCK);
    uint64_t count = UINT64_MAX - 1;
    CHECK(write(told, &count, 8) == 8);
    struct iocb one = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = f, .aio_buf = (uintptr_t)"x", .aio_nbytes = 1,
                       .aio_flags = IOCB_FLAG_RESFD, .aio_resfd = told};
    struct iocb *list[] = {&one};
    struct io_event got;
    for (int n = 0; n < 2; n++) {
        SAME(submit(c, 1, list), 1);
        SAME(events(c, 1, 1, &got, NULL), 1);
    }
    struct pollfd p = {told, POLLIN | POLLOUT, 0};
    SAME(poll(&p, 1, 0), 1);
    SAME(p.revents, POLLIN | POLLERR);
    count = 1;
    FAILS(write(told, &count, 8), EAGAIN);
    SAME(read(told, &count, 8), 8);
    CHECK(count == UINT64_MAX);
    syscall(SYS_io_destroy, c);
    close(f), close(told), unlink("aio");
}

int main(int argc, char **argv) {
    static const struct guest_test tests[] = {T(written_and_read), T(refused), T(more_than_is_counted)};
    scratch_enter();
    return guest_run(argc, argv, tests, (int)(sizeof tests / sizeof *tests));
}
