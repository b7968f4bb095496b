/* The microbenchmarks of the Phantom paper (USENIX ATC 2022), figures 4 and 5.
 *
 *     micro KIND COUNT [BYTES]
 *
 *   loop      nothing: what to subtract
 *   return    nanosleep with a time that is refused: a call that does not block
 *   block     nanosleep of 1 ns: a call that blocks
 *   pipe      BYTES written to a pipe and read from it again */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    const char *kind = argv[1];
    long count = atol(argv[2]), bytes = argc > 3 ? atol(argv[3]) : 0;
    if (strcmp(kind, "loop") == 0) {
        for (volatile long i = 0; i < count; i++) {
        }
    } else if (strcmp(kind, "return") == 0) {
        struct timespec refused = {0, -1};
        for (long i = 0; i < count; i++)
            if (nanosleep(&refused, NULL) == 0)
                return 1;
    } else if (strcmp(kind, "block") == 0) {
        struct timespec moment = {0, 1};
        for (long i = 0; i < count; i++)
            if (nanosleep(&moment, NULL) != 0)
                return 1;
    } else if (strcmp(kind, "pipe") == 0) {
        int ends[2];
        char *data = calloc(1, (size_t)bytes);
        /* The default of 64 KiB takes the largest write whole. */
        if (data == NULL || pipe(ends) != 0 || fcntl(ends[1], F_GETPIPE_SZ) < bytes)
            return 1;
        for (long i = 0; i < count; i++)
            if (write(ends[1], data, (size_t)bytes) != bytes || read(ends[0], data, (size_t)bytes) != bytes)
                return 1;
    } else {
        return 2;
    }
    return 0;
}
