/* N times one operation on a file: open, read or write of so many bytes, stat. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    const char *kind = argv[1];
    size_t size = strtoul(argv[2], NULL, 10);
    long n = atol(argv[3]);
    char *block = malloc(size + 1);
    memset(block, 'x', size);
    char name[] = "bench-XXXXXX";
    int f = mkstemp(name);
    if (f < 0 || write(f, block, size) != (ssize_t)size)
        return 1;
    struct stat st;
    for (long i = 0; i < n; i++) {
        int bad;
        if (strcmp(kind, "read") == 0)
            bad = pread(f, block, size, 0) != (ssize_t)size;
        else if (strcmp(kind, "write") == 0)
            bad = pwrite(f, block, size, 0) != (ssize_t)size;
        else if (strcmp(kind, "stat") == 0)
            bad = stat("/usr/share/doc/bash", &st) != 0;
        else {
            int g = open(name, O_RDONLY);
            bad = g < 0 || close(g) != 0;
        }
        if (bad) {
            perror(kind);
            return 1;
        }
    }
    return unlink(name);
}
