/* Options and files that few programs ask for: IPv6 ancillary data, clone3's size of set_tid, speculation control, files of /proc about locks, timers and interrupts. */
#include "guest.h"
#include <netinet/in.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

#ifndef PR_GET_SPECULATION_CTRL
#define PR_GET_SPECULATION_CTRL 52
#define PR_SET_SPECULATION_CTRL 53
#endif

static void ancillary_data_of_ipv6_is_asked_for_and_read_back(void) {
    int s = socket(AF_INET6, SOCK_DGRAM, 0), on = 7, off = 0, value;
    socklen_t len;
    CHECK(s >= 0);
    static const int options[] = {IPV6_RECVRTHDR, IPV6_RECVHOPOPTS, IPV6_RECVDSTOPTS, IPV6_RECVPKTINFO, IPV6_RECVHOPLIMIT};
    for (unsigned n = 0; n < sizeof options / sizeof *options; n++) {
        value = -1, len = sizeof value;
        CHECK(getsockopt(s, IPPROTO_IPV6, options[n], &value, &len) == 0 && value == 0);
        CHECK(setsockopt(s, IPPROTO_IPV6, options[n], &on, sizeof on) == 0);
        CHECK(getsockopt(s, IPPROTO_IPV6, options[n], &value, &len) == 0 && value == 1);
        CHECK(setsockopt(s, IPPROTO_IPV6, options[n], &off, sizeof off) == 0);
        CHECK(getsockopt(s, IPPROTO_IPV6, options[n], &value, &len) == 0 && value == 0);
    }
    FAILS(setsockopt(s, IPPROTO_IPV6, IPV6_RECVDSTOPTS, &on, 1), EINVAL);
    close(s);
}

static void clone3_has_ids_if_their_number_is_given(void) {
    uint64_t words[11] = {0};
    words[4] = SIGCHLD;
    words[9] = 1; /* set_tid_size without set_tid */
    FAILS(syscall(SYS_clone3, words, sizeof words), EINVAL);
    pid_t id = 1;
    words[8] = (uintptr_t)&id, words[9] = 0;
    FAILS(syscall(SYS_clone3, words, sizeof words), EINVAL);
    words[9] = 33;
    FAILS(syscall(SYS_clone3, words, sizeof words), EINVAL);
}

static void speculation_has_a_state(void) {
    for (int kind = 0; kind < 2; kind++)
        CHECK(prctl(PR_GET_SPECULATION_CTRL, kind, 0, 0, 0) >= 0);
    FAILS(prctl(PR_GET_SPECULATION_CTRL, 99, 0, 0, 0), ENODEV);
    FAILS(prctl(PR_GET_SPECULATION_CTRL, 0, 1, 0, 0), EINVAL);
    FAILS(prctl(PR_SET_SPECULATION_CTRL, 99, 4, 0, 0), ENODEV);
    FAILS(prctl(PR_SET_SPECULATION_CTRL, 0, 4, 1, 0), EINVAL);
}

static void a_huge_alarm_is_read_back(void) {
    struct itimerval left;
    SAME(alarm(UINT_MAX), 0);
    CHECK(getitimer(ITIMER_REAL, &left) == 0);
    CHECK(left.it_value.tv_sec >= 4294967290 && left.it_value.tv_sec <= UINT_MAX && left.it_interval.tv_sec == 0);
    CHECK(alarm(0) >= 4294967290);
    CHECK(getitimer(ITIMER_REAL, &left) == 0 && left.it_value.tv_sec == 0 && left.it_value.tv_usec == 0);
}

/* True if a line of the file has all of these, in this order. */
static int has_line(const char *path, const char *one, const char *two, const char *three) {
    FILE *file = fopen(path, "r");
    char line[1024];
    int found = 0;
    while (file && fgets(line, sizeof line, file)) {
        char *at = strstr(line, one);
        at = at ? strstr(at, two) : NULL;
        found |= at && strstr(at, three);
    }
    if (file)
        fclose(file);
    return found;
}

static void locks_are_listed(void) {
    char path[] = "/tmp/probes.XXXXXX", number[64], pid[32];
    int fd = mkstemp(path);
    CHECK(fd >= 0 && ftruncate(fd, 100) == 0);
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    snprintf(number, sizeof number, ":%llu ", (unsigned long long)st.st_ino);
    snprintf(pid, sizeof pid, " %d ", getpid());
    CHECK(!has_line("/proc/locks", "ADVISORY", pid, number));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
    CHECK(fcntl(fd, F_SETLK, &lock) == 0 && flock(fd, LOCK_SH) == 0);
    strcat(number, "10 14");
    CHECK(has_line("/proc/locks", "POSIX  ADVISORY  WRITE", pid, number));
    snprintf(number, sizeof number, ":%llu 0 EOF", (unsigned long long)st.st_ino);
    CHECK(has_line("/proc/locks", "FLOCK  ADVISORY  READ", pid, number));
    close(fd);
    CHECK(!has_line("/proc/locks", "ADVISORY", pid, number));
    unlink(path);
}

static void timers_are_listed(void) {
    timer_t id;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2, .sigev_value.sival_int = 0x1234};
    char notify[64];
    snprintf(notify, sizeof notify, "notify: signal/pid.%d", getpid());
    CHECK(!has_line("/proc/self/timers", "notify", "", ""));
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &id) == 0);
    CHECK(has_line("/proc/self/timers", "signal: 12/", "1234", "\n"));
    CHECK(has_line("/proc/self/timers", notify, "", "\n"));
    CHECK(has_line("/proc/self/timers", "ClockID: 1", "", "\n"));
    CHECK(timer_delete(id) == 0);
    CHECK(!has_line("/proc/self/timers", "notify", "", ""));
}

static void further_files_are_there(void) {
    char line[8192] = "";
    FILE *file = fopen("/proc/interrupts", "r");
    CHECK(file && fgets(line, sizeof line, file));
    fclose(file);
    int count = 0;
    for (char *at = line; (at = strstr(at, "CPU")); at += 3)
        count++;
    SAME(count, sysconf(_SC_NPROCESSORS_ONLN));
    CHECK(has_line("/proc/interrupts", "LOC:", "Local timer interrupts", "\n"));
    file = fopen("/proc/sys/fs/aio-max-nr", "r");
    CHECK(file && fgets(line, sizeof line, file) && atol(line) >= 65536);
    fclose(file);
    file = fopen("/proc/sys/kernel/ns_last_pid", "r");
    CHECK(file && fgets(line, sizeof line, file) && atoi(line) >= getpid());
    fclose(file);
    CHECK(has_line("/proc/self/cpuset", "/", "", "\n"));
}

GUEST(T(ancillary_data_of_ipv6_is_asked_for_and_read_back), T(clone3_has_ids_if_their_number_is_given), T(speculation_has_a_state), T(a_huge_alarm_is_read_back),
      T(locks_are_listed), T(timers_are_listed), T(further_files_are_there))
