/* Makes one kind of call COUNT times; what a call costs is measured from outside, since the clock in here may be
 * a simulated one.
 *
 *     calls KIND COUNT
 *
 *   getppid   the libc's own call site: rewritten where the platform rewrites
 *   jit       the same call from generated code: it traps every time
 *   read      1 KiB from /dev/zero
 *   pipe      one byte through a pipe
 *   switch    a byte to another thread and back: two switches
 *   clock     clock_gettime, with a sleep after each 500, as a program that waits for events sleeps
 *   id        getppid in the same way
 *   spin      clock_gettime and nothing else: after the first 1,000 each moves the simulated clock
 *   loop      nothing: what to subtract */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <fcntl.h>
#include <unistd.h>

static int there[2], back[2];
static long count;

static void *answer(void *x) {
    char c;
    for (long i = 0; i < count; i++)
        if (read(there[0], &c, 1) != 1 || write(back[1], &c, 1) != 1)
            exit(1);
    return x;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    const char *kind = argv[1];
    count = atol(argv[2]);
    char b[1024] = {0};
    if (pipe(there) != 0 || pipe(back) != 0)
        return 1;
    if (strcmp(kind, "getppid") == 0) {
        for (long i = 0; i < count; i++)
            getppid();
    } else if (strcmp(kind, "jit") == 0) {
        static const unsigned char code[] = {0xb8, SYS_getppid, 0, 0, 0, 0x0f, 0x05, 0xc3};
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return 1;
        memcpy(page, code, sizeof code);
        for (long i = 0; i < count; i++)
            ((int (*)(void))page)();
    } else if (strcmp(kind, "read") == 0) {
        int z = open("/dev/zero", O_RDONLY);
        for (long i = 0; i < count; i++)
            if (read(z, b, sizeof b) != sizeof b)
                return 1;
    } else if (strcmp(kind, "pipe") == 0) {
        for (long i = 0; i < count; i++)
            if (write(there[1], b, 1) != 1 || read(there[0], b, 1) != 1)
                return 1;
    } else if (strcmp(kind, "switch") == 0) {
        pthread_t t;
        if (pthread_create(&t, NULL, answer, NULL) != 0)
            return 1;
        for (long i = 0; i < count; i++)
            if (write(there[1], b, 1) != 1 || read(back[0], b, 1) != 1)
                return 1;
        pthread_join(t, NULL);
    } else if (strcmp(kind, "clock") == 0 || strcmp(kind, "spin") == 0) {
        struct timespec t, least = {0, 1};
        int sleeps = kind[0] == 'c';
        for (long i = 0; i < count; i++) {
            clock_gettime(CLOCK_MONOTONIC, &t);
            if (sleeps && i % 500 == 499)
                nanosleep(&least, NULL);
        }
    } else if (strcmp(kind, "id") == 0) {
        struct timespec least = {0, 1};
        for (long i = 0; i < count; i++) {
            getppid();
            if (i % 500 == 499)
                nanosleep(&least, NULL);
        }
    } else if (strcmp(kind, "loop") == 0) {
        for (volatile long i = 0; i < count; i++) {
        }
    } else {
        return 2;
    }
    return 0;
}
