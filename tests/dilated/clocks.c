/* Everything by which a program can tell how fast time passes, measured against CLOCK_MONOTONIC: one line for each, its name
   and the seconds of it in a wait of `SPAN` seconds. Runs natively as well. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <x86intrin.h>

#define SPAN 0.1
#define MS 100
#define NS 100000000L

static double clock_of(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static double now(void) { return clock_of(CLOCK_MONOTONIC); }
static double start;
static void begin(void) { start = now(); }
static void end(const char *name) { printf("wait %s %.6f\n", name, now() - start); fflush(stdout); }
static struct timespec later(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    t.tv_nsec += NS;
    if (t.tv_nsec >= 1000000000L) { t.tv_sec++; t.tv_nsec -= 1000000000L; }
    return t;
}
static const struct timespec span = {0, NS};
static volatile sig_atomic_t rung;
static void ring(int signal) { (void)signal; rung++; }
static void *sleeper(void *argument) { (void)argument; usleep(MS * 1000); return NULL; }

static void waits(void) {
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    struct pollfd one = {.fd = pair[0], .events = POLLIN};
    begin(); poll(&one, 1, MS); end("poll");
    begin(); ppoll(&one, 1, &span, NULL); end("ppoll");
    fd_set set;
    FD_ZERO(&set); FD_SET(pair[0], &set);
    struct timeval tv = {0, MS * 1000};
    begin(); select(pair[0] + 1, &set, NULL, NULL, &tv); end("select");
    FD_SET(pair[0], &set);
    begin(); pselect(pair[0] + 1, &set, NULL, NULL, &span, NULL); end("pselect");
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event);
    begin(); epoll_wait(epoll, &event, 1, MS); end("epoll_wait");
    sigset_t none;
    sigemptyset(&none);
    begin(); epoll_pwait(epoll, &event, 1, MS, &none); end("epoll_pwait");
    int word = 7;
    begin(); syscall(SYS_futex, &word, FUTEX_WAIT, 7, &span, NULL, 0); end("futex");
    begin();
    struct timespec at = later(CLOCK_MONOTONIC);
    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 7, &at, NULL, FUTEX_BITSET_MATCH_ANY); end("futex_bitset");
    begin(); nanosleep(&span, NULL); end("nanosleep");
    begin();
    at = later(CLOCK_REALTIME);
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL); end("clock_nanosleep_until");
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&mutex);
    begin();
    at = later(CLOCK_REALTIME);
    pthread_cond_timedwait(&condition, &mutex, &at); end("pthread_cond_timedwait");
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    begin();
    at = later(CLOCK_REALTIME);
    sem_timedwait(&semaphore, &at); end("sem_timedwait");
    int sems = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf take = {0, -1, 0};
    if (sems >= 0) {
        begin(); semtimedop(sems, &take, 1, &span); end("semtimedop");
        semctl(sems, 0, IPC_RMID);
    }
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
    mqd_t queue = mq_open("/clocks", O_CREAT | O_RDWR, 0600, &attributes);
    if (queue != (mqd_t)-1) {
        char text[8];
        begin();
        at = later(CLOCK_REALTIME);
        mq_timedreceive(queue, text, sizeof text, NULL, &at); end("mq_timedreceive");
        mq_unlink("/clocks");
    }
    sigset_t usr1;
    sigemptyset(&usr1); sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    begin(); sigtimedwait(&usr1, NULL, &span); end("sigtimedwait");
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    tv = (struct timeval){0, MS * 1000};
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    char byte;
    begin(); (void)!read(pair[0], &byte, 1); end("SO_RCVTIMEO");
    socklen_t len = sizeof tv;
    getsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &tv, &len);
    printf("same rcvtimeo %ld %d\n", (long)tv.tv_usec, MS * 1000);
    pthread_t thread;
    begin(); pthread_create(&thread, NULL, sleeper, NULL); pthread_join(thread, NULL); end("thread");
    begin();
    if (fork() == 0) { usleep(MS * 1000); _exit(0); }
    wait(NULL); end("fork");
    begin(); (void)!system("sleep 0.1"); printf("child sleep %.6f\n", now() - start);
}

static void timers(void) {
    unsigned long long count;
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec once = {.it_value = span};
    begin();
    timerfd_settime(fd, 0, &once, NULL);
    (void)!read(fd, &count, 8); end("timerfd");
    begin();
    once.it_value = later(CLOCK_REALTIME);
    fd = timerfd_create(CLOCK_REALTIME, 0);
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &once, NULL);
    (void)!read(fd, &count, 8); end("timerfd_until");
    struct itimerspec often = {.it_value = {0, NS / 4}, .it_interval = {0, NS / 4}};
    begin();
    timerfd_settime(fd, 0, &often, NULL);
    for (int expiries = 0; expiries < 4;) { (void)!read(fd, &count, 8); expiries += count; }
    end("timerfd_interval");
    signal(SIGALRM, ring);
    struct itimerval alarm = {.it_value = {0, MS * 1000}};
    sigset_t block, old;
    sigemptyset(&block); sigaddset(&block, SIGALRM);
    sigprocmask(SIG_BLOCK, &block, &old);
    begin();
    setitimer(ITIMER_REAL, &alarm, NULL);
    while (rung < 1) sigsuspend(&old); end("setitimer");
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &once, NULL);
    once.it_value = span;
    begin();
    timer_settime(timer, 0, &once, NULL);
    while (rung < 2) sigsuspend(&old); end("timer_settime");
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static double uptime(void) {
    double seconds = 0;
    FILE *file = fopen("/proc/uptime", "r");
    if (!file || fscanf(file, "%lf", &seconds) != 1) seconds = -1;
    fclose(file);
    return seconds;
}
static double written(const char *name) {
    struct stat stat;
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    (void)!write(fd, "x", 1);
    fstat(fd, &stat);
    close(fd);
    return stat.st_mtim.tv_sec + stat.st_mtim.tv_nsec / 1e9;
}

/* Other clocks in half a second of CLOCK_MONOTONIC. */
static void clocks(void) {
    struct timeval a, b;
    struct sysinfo info;
    struct tms unused;
    double up = uptime(), file = written("a");
    double real = clock_of(CLOCK_REALTIME), raw = clock_of(CLOCK_MONOTONIC_RAW), boot = clock_of(CLOCK_BOOTTIME);
    unsigned long long counter = __rdtsc();
    gettimeofday(&a, NULL);
    long ticks = times(&unused);
    double began = now();
    usleep(500000);
    double passed = now() - began;
    gettimeofday(&b, NULL);
    printf("clock CLOCK_REALTIME %.6f %.6f\n", clock_of(CLOCK_REALTIME) - real, passed);
    printf("clock CLOCK_MONOTONIC_RAW %.6f %.6f\n", clock_of(CLOCK_MONOTONIC_RAW) - raw, passed);
    printf("clock CLOCK_BOOTTIME %.6f %.6f\n", clock_of(CLOCK_BOOTTIME) - boot, passed);
    printf("clock gettimeofday %.6f %.6f\n", b.tv_sec - a.tv_sec + (b.tv_usec - a.tv_usec) / 1e6, passed);
    printf("tick times %.6f %.6f\n", (times(&unused) - ticks) / 100.0, passed);
    printf("clock mtime %.6f %.6f\n", written("b") - file, passed);
    printf("tick uptime %.6f %.6f\n", uptime() - up, passed);
    unsigned long long half = __rdtsc() - counter;
    began = now(); counter = __rdtsc();
    usleep(250000);
    printf("clock rdtsc %.6f %.6f\n", (double)(__rdtsc() - counter) / half * passed, now() - began);
    sysinfo(&info);
    printf("second sysinfo %ld %.6f\n", info.uptime, clock_of(CLOCK_BOOTTIME));
    printf("second time %ld %.6f\n", (long)time(NULL), clock_of(CLOCK_REALTIME));
}

/* A processor that is busy for as long as the clock says cannot have worked longer. */
static void usage(void) {
    struct rusage usage;
    double began = now(), before = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    while (now() - began < 0.2) {}
    double used = clock_of(CLOCK_PROCESS_CPUTIME_ID) - before, passed = now() - began;
    getrusage(RUSAGE_SELF, &usage);
    double all = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("used process %.6f %.6f\n", used, passed);
    printf("used rusage %.6f %.6f\n", all, clock_of(CLOCK_PROCESS_CPUTIME_ID));
}

static void signals(void) {
    /* All signals blocked, and every call still answered. */
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    begin(); usleep(MS * 1000); end("all_signals_blocked");
    sigprocmask(SIG_SETMASK, &old, NULL);
    struct timespec times[2] = {{1700000000, 123456789}, {0, 0}};
    clock_gettime(CLOCK_REALTIME, &times[1]);
    struct stat stat;
    written("c");
    utimensat(AT_FDCWD, "c", times, 0);
    lstat("c", &stat);
    printf("same atime %ld %d\n", stat.st_atim.tv_nsec, 123456789);
    printf("same mtime %ld %ld\n", stat.st_mtim.tv_nsec, times[1].tv_nsec);
    printf("same io_uring %d %d\n", (int)syscall(425, 8, NULL) == -1 && (errno == ENOSYS || errno == EFAULT || errno == EPERM), 1);
}

static void stamps(void) {
    int on = 1, s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in self = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof self;
    bind(s, (struct sockaddr *)&self, sizeof self);
    getsockname(s, (struct sockaddr *)&self, &len);
    setsockopt(s, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    double before = clock_of(CLOCK_REALTIME);
    sendto(s, "x", 1, 0, (struct sockaddr *)&self, sizeof self);
    char byte, control[256];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    recvmsg(s, &message, 0);
    double after = clock_of(CLOCK_REALTIME);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_type == SO_TIMESTAMPNS) {
            struct timespec t;
            memcpy(&t, CMSG_DATA(c), sizeof t);
            double at = t.tv_sec + t.tv_nsec / 1e9;
            printf("same packet_stamp %d %d\n", before - 0.001 <= at && at <= after + 0.001, 1);
        }
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    waits();
    timers();
    clocks();
    usage();
    signals();
    stamps();
    puts("done");
    return 0;
}
