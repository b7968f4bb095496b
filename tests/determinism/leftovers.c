/* Prints what calls leave behind below the stack pointer: the dynamic linker's lazy binding saves the vector state there,
 * with which of its components are in use, so that whatever the simulator has left in a register would be seen. */
#define _GNU_SOURCE
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 4096 };
static uint64_t seen[WORDS];

__attribute__((noinline)) static void look(const char *after) {
    uint64_t here;
    volatile uint64_t *below = (uint64_t *)((uintptr_t)&here & ~15ul) - WORDS;
    for (int i = 0; i < WORDS - 96; i++)
        seen[i] = below[i];
    for (int i = 0; i < WORDS - 96; i++)
        if (seen[i] != 0)
            printf("%s %d %016llx\n", after, i - WORDS, (unsigned long long)seen[i]);
}

int main(void) {
    static char bytes[65536];
    struct stat s;
    struct addrinfo *found;
    look("start");
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes || stat("/", &s) != 0)
        return 1;
    look("copies");
    usleep(10);
    look("sleep");
    if (getaddrinfo("localhost", "80", NULL, &found) != 0)
        return 1;
    look("names");
    freeaddrinfo(found);
    return 0;
}
