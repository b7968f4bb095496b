/* Operations on descriptors of all kinds. a[0], a[1]... are the numbers of the line. */
#define OP(name) static void do_##name(const long *a)
#define UNUSED (void)a

OP(pipe) {
    int p[2];
    if (worked(pipe2(p, (int)a[2])) == 0) {
        say(" %d %d", p[0], p[1]);
        put(a[0], p[0]);
        put(a[1], p[1]);
    }
}
OP(eventfd) { put(a[0], result(syscall(SYS_eventfd2, a[1], a[2]))); }
OP(memfd) { put(a[0], result(memfd_create("m", (unsigned)a[1]))); }
OP(epoll) { put(a[0], result(epoll_create1((int)a[1]))); }
OP(timerfd) { put(a[0], result(timerfd_create((int)a[1], (int)a[2]))); }
OP(inotify) { put(a[0], result(inotify_init1((int)a[1]))); }
OP(inotify_add) { result(inotify_add_watch(fd_at(a[0]), path_of[a[1] % PATHS], (uint32_t)a[2])); }
OP(inotify_rm) { result(inotify_rm_watch(fd_at(a[0]), (int)a[1])); }
OP(signalfd) {
    uint64_t mask = (uint64_t)a[2];
    long old = a[1] ? fd_at(a[0]) : -1;
    put(a[0], result(syscall(SYS_signalfd4, old, &mask, 8, a[3])));
}
OP(open) { put(a[0], result(open(path_of[a[1] % PATHS], (int)a[2], (mode_t)a[3]))); }
OP(close) {
    int *place = &slot[a[0] % SLOTS];
    result(close(*place));
    *place = -1;
}
OP(close_range) {
    int first = fd_at(a[0]), last = fd_at(a[1]);
    if (result(syscall(SYS_close_range, first < 0 ? 3 : first, last, a[2])) == 0)
        for (int i = 0; i < SLOTS; i++)
            if (slot[i] >= 0 && fcntl(slot[i], F_GETFD) == -1)
                slot[i] = -1;
}
OP(dup) { put(a[1], result(dup(fd_at(a[0])))); }
static void forget_others(long kept) {
    for (int i = 0; i < SLOTS; i++)
        if (i != kept % SLOTS && slot[i] == slot[kept % SLOTS])
            slot[i] = -1;
}
OP(dup2) {
    if (result(dup2(fd_at(a[0]), fd_at(a[1]))) >= 0)
        forget_others(a[1]);
}
OP(dup3) {
    if (result(dup3(fd_at(a[0]), fd_at(a[1]), (int)a[2])) >= 0)
        forget_others(a[1]);
}
OP(dupfd) { put(a[1], result(fcntl(fd_at(a[0]), a[3] ? F_DUPFD_CLOEXEC : F_DUPFD, a[2]))); }
OP(fcntl) { result(fcntl(fd_at(a[0]), (int)a[1], a[2])); }
OP(lock) {
    struct flock l = {.l_type = (short)a[2], .l_whence = (short)a[3], .l_start = a[4], .l_len = a[5]};
    if (result(fcntl(fd_at(a[0]), (int)a[1], &l)) == 0)
        say(" %d %d %ld %ld %s", l.l_type, l.l_whence, l.l_start, l.l_len, pid_name(l.l_pid));
}
OP(flock) { result(flock(fd_at(a[0]), (int)a[1])); }
static size_t size_of(long n) { return n < 0 || n > BUFFER ? BUFFER : (size_t)n; }
/* What an inotify or signal descriptor gives has cookies and process ids in it. */
static void say_read(long fd, long got) {
    static char target[64];
    char proc[32];
    snprintf(proc, sizeof proc, "/proc/self/fd/%ld", fd);
    memset(target, 0, sizeof target);
    readlink(proc, target, sizeof target - 1);
    if (strstr(target, "inotify")) {
        for (long at = 0; at + (long)sizeof(struct inotify_event) <= got;) {
            const struct inotify_event *e = (const void *)(buffer + at);
            /* What has no name goes by its number. */
            const char *name = e->len == 0 ? "" : e->name[0] == '#' ? "#" : e->name;
            say(" (%d %x %s %s)", e->wd, e->mask, e->cookie ? "cookie" : "", name);
            at += (long)(sizeof *e + e->len);
        }
    } else if (strstr(target, "signalfd")) {
        for (long at = 0; at + (long)sizeof(struct signalfd_siginfo) <= got; at += (long)sizeof(struct signalfd_siginfo)) {
            const struct signalfd_siginfo *s = (const void *)(buffer + at);
            say(" (%u code %d value %d status %d %s)", s->ssi_signo, s->ssi_code, s->ssi_int, s->ssi_status,
                pid_name((pid_t)s->ssi_pid));
        }
    } else
        say_bytes(buffer, got);
}
OP(read) {
    long got = result(syscall(SYS_read, fd_at(a[0]), buffer, size_of(a[1])));
    say_read(fd_at(a[0]), got);
}
/* What an eventfd counts: a whole number. */
OP(event_write) {
    uint64_t value = (uint64_t)a[1];
    result(syscall(SYS_write, fd_at(a[0]), &value, sizeof value));
}
OP(event_read) {
    uint64_t value = 0;
    if (result(syscall(SYS_read, fd_at(a[0]), &value, sizeof value)) == sizeof value)
        say(" %llu", (unsigned long long)value);
}
OP(write) { result(syscall(SYS_write, fd_at(a[0]), fill(size_of(a[1])), size_of(a[1]))); }
OP(readv) {
    struct iovec v[2] = {{buffer, size_of(a[1]) / 2}, {buffer + BUFFER / 2, size_of(a[2]) / 2}};
    long got = result(readv(fd_at(a[0]), v, 2));
    long first = got < (long)v[0].iov_len ? got : (long)v[0].iov_len;
    say_bytes(buffer, first);
    say_bytes(buffer + BUFFER / 2, got - first);
}
OP(writev) {
    unsigned char *bytes = fill(BUFFER);
    struct iovec v[2] = {{bytes, size_of(a[1]) / 2}, {bytes + 500, size_of(a[2]) / 2}};
    result(writev(fd_at(a[0]), v, (int)a[3]));
}
OP(pread) {
    long got = result(pread(fd_at(a[0]), buffer, size_of(a[1]), a[2]));
    say_bytes(buffer, got);
}
OP(pwrite) { result(pwrite(fd_at(a[0]), fill(size_of(a[1])), size_of(a[1]), a[2])); }
/* a: slot, two lengths, position (-1: the file's own), RWF_*. */
OP(preadv2) {
    struct iovec v[2] = {{buffer, size_of(a[1]) / 2}, {buffer + BUFFER / 2, size_of(a[2]) / 2}};
    long got = result(preadv2(fd_at(a[0]), v, 2, a[3], (int)a[4]));
    long first = got < (long)v[0].iov_len ? got : (long)v[0].iov_len;
    say_bytes(buffer, first);
    say_bytes(buffer + BUFFER / 2, got - first);
}
OP(pwritev2) {
    unsigned char *bytes = fill(BUFFER);
    struct iovec v[2] = {{bytes, size_of(a[1]) / 2}, {bytes + 500, size_of(a[2]) / 2}};
    result(pwritev2(fd_at(a[0]), v, 2, a[3], (int)a[4]));
}
/* Positions in a directory are the file system's affair. */
OP(lseek) {
    struct stat s;
    if (a[1] == 0 || fstat(fd_at(a[0]), &s) != 0 || !S_ISDIR(s.st_mode))
        result(lseek(fd_at(a[0]), a[1], (int)a[2]));
}
OP(ftruncate) { result(ftruncate(fd_at(a[0]), a[1])); }
OP(fallocate) { result(fallocate(fd_at(a[0]), (int)a[1], a[2], a[3])); }
OP(fsync) { result(a[1] ? fdatasync(fd_at(a[0])) : fsync(fd_at(a[0]))); }
static void say_stat(long got, const struct stat *s) {
    if (got != 0)
        return;
    say(" mode %o", s->st_mode);
    /* A directory's size and links are its file system's affair. */
    if (S_ISREG(s->st_mode) || S_ISLNK(s->st_mode) || S_ISFIFO(s->st_mode))
        say(" links %ld size %ld", (long)s->st_nlink, (long)s->st_size);
}
OP(fstat) {
    struct stat s;
    say_stat(result(fstat(fd_at(a[0]), &s)), &s);
}
OP(fchmod) { result(fchmod(fd_at(a[0]), (mode_t)a[1])); }
OP(sendfile) {
    off_t at = a[3];
    if (result(sendfile(fd_at(a[0]), fd_at(a[1]), a[3] >= 0 ? &at : NULL, (size_t)a[2])) >= 0 && a[3] >= 0)
        say(" at %ld", at);
}
OP(splice) {
    loff_t in = a[4], out = a[5];
    long got = splice(fd_at(a[0]), a[4] >= 0 ? &in : NULL, fd_at(a[1]), a[5] >= 0 ? &out : NULL, (size_t)a[2], (unsigned)a[3]);
    result(got);
    if (got >= 0)
        say(" %ld %ld", in, out);
}
OP(tee) { result(tee(fd_at(a[0]), fd_at(a[1]), (size_t)a[2], (unsigned)a[3])); }
OP(vmsplice) {
    /* The pipe may refer to these bytes, so they never change. */
    static unsigned char bytes[BUFFER] __attribute__((aligned(4096))) = {1, 2, 3};
    struct iovec v = {bytes, size_of(a[1])};
    result(vmsplice(fd_at(a[0]), &v, 1, (unsigned)a[2]));
}
OP(copy_file_range) { result(copy_file_range(fd_at(a[0]), NULL, fd_at(a[1]), NULL, (size_t)a[2], (unsigned)a[3])); }
OP(ioctl) {
    int value = (int)a[2];
    if (result(ioctl(fd_at(a[0]), (unsigned long)a[1], &value)) == 0)
        say(" %d", value);
}
OP(poll) {
    struct pollfd set[2] = {{fd_at(a[0]), (short)a[2], 0}, {fd_at(a[1]), (short)a[2], 0}};
    if (result(poll(set, 2, (int)a[3])) >= 0)
        say(" %x %x", set[0].revents, set[1].revents);
}
OP(select) {
    fd_set sets[3];
    int top = 0;
    for (int s = 0; s < 3; s++) {
        FD_ZERO(&sets[s]);
        for (int i = 0; i < 3; i++)
            if (fd_at(a[i]) >= 0) {
                FD_SET(fd_at(a[i]), &sets[s]);
                top = fd_at(a[i]) > top ? fd_at(a[i]) : top;
            }
    }
    struct timeval wait = {0, a[3]};
    if (result(select(top + 1, &sets[0], &sets[1], &sets[2], &wait)) >= 0)
        for (int i = 0; i < 3; i++)
            if (fd_at(a[i]) >= 0)
                say(" %d%d%d", !!FD_ISSET(fd_at(a[i]), &sets[0]), !!FD_ISSET(fd_at(a[i]), &sets[1]), !!FD_ISSET(fd_at(a[i]), &sets[2]));
}
OP(epoll_ctl) {
    struct epoll_event e = {.events = (uint32_t)a[3], .data.u64 = (uint64_t)a[2]};
    result(epoll_ctl(fd_at(a[0]), (int)a[1], fd_at(a[2]), &e));
}
OP(epoll_wait) {
    struct epoll_event e[SLOTS];
    long got = result(epoll_wait(fd_at(a[0]), e, a[1] > SLOTS ? SLOTS : (int)a[1], (int)a[2]));
    for (long i = 0; i < got; i++)
        say(" %d:%x", (int)e[i].data.u64, e[i].events);
}
/* What is left when the sequence has ended. */
static void say_descriptor(int i) {
    if (slot[i] < 0)
        return;
    struct stat s;
    int unread = -1;
    say("slot %d: fd %d flags %x cloexec %d", i, slot[i], fcntl(slot[i], F_GETFL), fcntl(slot[i], F_GETFD));
    say_stat(fstat(slot[i], &s), &s);
    if (!S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode) && ioctl(slot[i], FIONREAD, &unread) == 0)
        say(" unread %d", unread);
    /* Where a directory has been read to is its file system's affair. */
    say(" at %ld\n", S_ISDIR(s.st_mode) ? 0 : (long)lseek(slot[i], 0, SEEK_CUR));
}
