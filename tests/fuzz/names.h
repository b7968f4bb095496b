/* Operations on names in the file system. */
#define P(n) path_of[(unsigned long)(n) % PATHS]
OP(mkdir) { result(mkdir(P(a[0]), (mode_t)a[1])); }
OP(rmdir) { result(rmdir(P(a[0]))); }
OP(unlink) { result(unlink(P(a[0]))); }
OP(rename) { result(syscall(SYS_renameat2, AT_FDCWD, P(a[0]), AT_FDCWD, P(a[1]), a[2])); }
OP(link) { result(linkat(AT_FDCWD, P(a[0]), AT_FDCWD, P(a[1]), (int)a[2])); }
OP(symlink) { result(symlink(P(a[0]), P(a[1]))); }
OP(readlink) {
    long got = result(readlink(P(a[0]), (char *)buffer, size_of(a[1])));
    if (got >= 0)
        say(" %.*s", (int)got, (char *)buffer);
}
OP(truncate) { result(truncate(P(a[0]), a[1])); }
OP(stat) {
    struct stat s;
    say_stat(result(stat(P(a[0]), &s)), &s);
}
OP(lstat) {
    struct stat s;
    say_stat(result(lstat(P(a[0]), &s)), &s);
}
OP(chmod) { result(chmod(P(a[0]), (mode_t)a[1])); }
OP(access) { result(faccessat(AT_FDCWD, P(a[0]), (int)a[1], (int)a[2])); }
static int by_text(const void *x, const void *y) { return strcmp(*(char *const *)x, *(char *const *)y); }
/* The names, sorted: the order is the file system's affair. */
OP(getdents) {
    struct entry {
        uint64_t inode;
        int64_t next;
        unsigned short length;
        unsigned char type;
        char name[];
    };
    char *names[64];
    int n = 0;
    long got = syscall(SYS_getdents64, fd_at(a[0]), buffer, 8192);
    if (got < 0) {
        result(got);
        return;
    }
    for (long at = 0; at < got && n < 64;) {
        struct entry *e = (void *)(buffer + at);
        names[n++] = e->name;
        at += e->length;
    }
    qsort(names, (size_t)n, sizeof *names, by_text);
    for (int i = 0; i < n; i++)
        say(" %s", names[i]);
}
OP(chdir) {
    if (result(chdir(P(a[0]))) == 0)
        fchdir(here);
}
OP(mkfifo) { result(mkfifo(P(a[0]), (mode_t)a[1])); }
OP(utimens) {
    struct timespec t[2] = {{a[1], a[2]}, {a[1], UTIME_OMIT}};
    struct stat s;
    if (result(utimensat(AT_FDCWD, P(a[0]), t, (int)a[3])) == 0 && stat(P(a[0]), &s) == 0 && a[2] < 1000000000)
        say(" %ld", (long)s.st_atime);
}
/* a: slot, path, flags, mode, RESOLVE_*. */
OP(openat2) {
    struct open_how how = {.flags = (uint64_t)a[2], .mode = (uint64_t)a[3], .resolve = (uint64_t)a[4]};
    put(a[0], result(syscall(SYS_openat2, AT_FDCWD, P(a[1]), &how, sizeof how)));
}
/* A descriptor's file gets a name. */
OP(name_file) { result(linkat(fd_at(a[0]), "", AT_FDCWD, P(a[1]), AT_EMPTY_PATH)); }
OP(umask) { result(umask((mode_t)a[0])); }
