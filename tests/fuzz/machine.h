/* What the operations of interpreter.c share: slots for what calls create, buffers, names for values that
 * differ from run to run (ports, process ids), and one line of output per call. */
#ifndef MACHINE_H
#define MACHINE_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { SLOTS = 12, REGIONS = 4, CHILDREN = 4, TIMERS = 4, PATHS = 8, NAMES = 64, BUFFER = 1 << 18 };

static int slot[SLOTS];             /* descriptors; -1 where there is none */
static unsigned char *region[REGIONS]; /* mappings */
static size_t region_length[REGIONS];
static pid_t child[CHILDREN];
static int timer_of[TIMERS];        /* the kernel's numbers of timers */
static unsigned char buffer[BUFFER];
static int line_number;
static int here; /* the directory that the sequence works in */

static const char *const path_of[PATHS] = {"a", "b", "d", "d/x", "l", "none/x", ".", "fifo"};

/* One line of output, collected while a call is made and written when it has ended. */
static char line[4096];
static size_t line_length;
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line + line_length, sizeof line - line_length, format, list);
    va_end(list);
    if (n > 0 && line_length + (size_t)n < sizeof line)
        line_length += (size_t)n;
}

/* The first port seen is P1, the next other one P2, and so forth; likewise process ids. */
static unsigned ports[NAMES];
static int port_name(unsigned port) {
    if (port == 0)
        return 0;
    for (int i = 0; i < NAMES; i++) {
        if (ports[i] == 0)
            ports[i] = port;
        if (ports[i] == port)
            return i + 1;
    }
    return NAMES + 1;
}
static const char *pid_name(pid_t pid) {
    static char text[16];
    if (pid <= 0)
        snprintf(text, sizeof text, "%d", pid);
    else if (pid == getpid())
        snprintf(text, sizeof text, "self");
    else {
        snprintf(text, sizeof text, "other");
        for (int i = 0; i < CHILDREN; i++)
            if (child[i] == pid)
                snprintf(text, sizeof text, "child%d", i);
    }
    return text;
}

/* "= 5" or "= -1 EAGAIN". */
static long result(long value) {
    if (value == -1)
        say(" = -1 %s", strerrorname_np(errno));
    else
        say(" = %ld", value);
    return value;
}
/* Only whether it worked. */
static long worked(long value) {
    if (value == -1)
        result(-1);
    else
        say(" = ok");
    return value;
}

/* What is sent depends on the line that sends it. */
static unsigned char *fill(size_t n) {
    n = n > BUFFER ? BUFFER : n;
    for (size_t i = 0; i < n; i++)
        buffer[i] = (unsigned char)(line_number * 37 + (int)i * 11 + (int)(i >> 8));
    return buffer;
}
static void say_bytes(const unsigned char *bytes, long n) {
    uint32_t hash = 2166136261u;
    for (long i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    if (n > 0)
        say(" [%08x]", hash);
}

static int fd_at(long n) { return slot[(unsigned long)n % SLOTS]; }
/* A new descriptor comes into a slot; what was there is closed. */
static void put(long n, long fd) {
    int *place = &slot[(unsigned long)n % SLOTS];
    if (fd < 0)
        return;
    if (*place >= 0 && *place != (int)fd)
        close(*place);
    *place = (int)fd;
}

static void say_address(const struct sockaddr_storage *a, socklen_t length) {
    say(" {%u", length);
    if (length >= 2)
        say(" family %d", a->ss_family);
    if (length >= sizeof(struct sockaddr_in) && a->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)a;
        say(" %s:P%d", inet_ntoa(in->sin_addr), port_name(in->sin_port));
    } else if (length >= sizeof(struct sockaddr_in6) && a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)a;
        char text[64];
        say(" %s:P%d", inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text), port_name(in->sin6_port));
    } else if (a->ss_family == AF_UNIX && length > 2) {
        const struct sockaddr_un *un = (const void *)a;
        if (un->sun_path[0] != 0)
            say(" %.*s", (int)(length - 2), un->sun_path);
        else if (length == 8)
            say(" @auto");
        else
            say(" @%c", un->sun_path[length - 3]);
    }
    say("}");
}
#endif
