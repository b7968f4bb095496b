/* Every call that SO_RCVTIMEO or SO_SNDTIMEO limits, semaphores, io_getevents and sigtimedwait: for each what it gives and how long it takes, by
   CLOCK_MONOTONIC, and whether SIGALRM's handler alone ends it early. Runs natively as well. One line for each:
   name, result, errno, seconds, least and most seconds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static double began;
/* The clock is read before what ends the wait is started: a busy machine comes in between. */
static void begin(void) { began = now(); }
static void say(const char *name, long result, double least) {
    int error = result < 0 ? errno : 0;
    printf("%s %ld %d %.6f %.3f\n", name, result, error, now() - began, least);
    fflush(stdout);
}
static void within(int s, int option, double seconds) {
    struct timeval v = {(long)seconds, (long)(seconds * 1e6) % 1000000}, got;
    socklen_t len = sizeof got;
    if (setsockopt(s, SOL_SOCKET, option, &v, sizeof v) != 0)
        perror("setsockopt");
    getsockopt(s, SOL_SOCKET, option, &got, &len);
    /* Some kernels count in steps of 10 ms. */
    long more = (got.tv_sec - v.tv_sec) * 1000000 + got.tv_usec - v.tv_usec;
    if (more < 0 || more >= 10000)
        printf("differs %ld.%06ld %ld.%06ld\n", v.tv_sec, (long)v.tv_usec, got.tv_sec, (long)got.tv_usec);
}
static void ring(int n) { (void)n; }
/* A thread rings, as timers of the kernel go on while a host is frozen. */
static pthread_t waiting;
static void *ring_later(void *argument) {
    nanosleep(argument, NULL);
    pthread_kill(waiting, SIGALRM);
    return NULL;
}
static void ring_in(long ms) {
    static struct timespec span;
    pthread_t thread;
    span = (struct timespec){0, ms * 1000000};
    waiting = pthread_self();
    pthread_create(&thread, NULL, ring_later, &span);
    pthread_detach(thread);
}
struct later { int s; double after; const char *text; };
static void *write_later(void *argument) {
    struct later *l = argument;
    struct timespec t = {(long)l->after, (long)(l->after * 1e9) % 1000000000};
    nanosleep(&t, NULL);
    (void)!write(l->s, l->text, strlen(l->text));
    return NULL;
}

int main(void) {
    char bytes[4096];
    struct sigaction action = {.sa_handler = ring, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    const double odd[] = {0.05, 0.2, 0.6, 1, 1.05, 1.5, 5, 59.999, 3600};
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bind(udp, (void *)&any, sizeof any);
    for (unsigned n = 0; n < sizeof odd / sizeof *odd; n++) { within(udp, SO_RCVTIMEO, odd[n]); within(udp, SO_SNDTIMEO, odd[n]); }
    within(udp, SO_SNDTIMEO, 0);
    within(udp, SO_RCVTIMEO, 0.1);
    begin(); say("recv", recv(udp, bytes, 10, 0), 0.1);
    begin(); say("read", read(udp, bytes, 10), 0.1);
    struct iovec two[2] = {{bytes, 5}, {bytes + 5, 5}};
    struct msghdr header = {.msg_iov = two, .msg_iovlen = 2};
    begin(); say("recvmsg", recvmsg(udp, &header, 0), 0.1);
    begin(); say("readv", readv(udp, two, 2), 0.1);
    struct mmsghdr many[2] = {{.msg_hdr = header}, {.msg_hdr = header}};
    begin(); say("recvmmsg", recvmmsg(udp, many, 2, 0, NULL), 0.1);
    begin(); say("recv_nonblocking", recv(udp, bytes, 10, MSG_DONTWAIT), 0);
    begin(); ring_in(40);
    say("recv_interrupted", recv(udp, bytes, 10, 0), 0.04);
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    within(pair[0], SO_RCVTIMEO, 0.16);
    struct later l = {pair[1], 0.04, "half"};
    pthread_t thread;
    pthread_create(&thread, NULL, write_later, &l);
    begin(); say("recv_all", recv(pair[0], bytes, 10, MSG_WAITALL), 0.16);
    pthread_join(thread, NULL);
    l.text = "0123456789";
    begin(); pthread_create(&thread, NULL, write_later, &l);
    say("recv_in_time", recv(pair[0], bytes, 10, 0), 0.04);
    pthread_join(thread, NULL);
    within(pair[0], SO_SNDTIMEO, 0.1);
    static char big[4 << 20];
    begin(); say("write_partly", write(pair[0], big, sizeof big) < (long)sizeof big ? 1 : 0, 0.1);
    begin(); say("write_full", write(pair[0], big, 100), 0.1);
    begin(); say("sendmsg_full", sendmsg(pair[0], &header, MSG_NOSIGNAL), 0.1);
    /* A reader that comes later lets a write end whole. */
    int flow[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, flow);
    within(flow[0], SO_SNDTIMEO, 5);
    begin();
    if (fork() == 0) {
        usleep(80000);
        for (long got = 0, n; got < (long)sizeof big && (n = read(flow[1], bytes, sizeof bytes)) > 0; got += n) {}
        _exit(0);
    }
    say("write_whole", write(flow[0], big, sizeof big), 0.08);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof any;
    bind(listener, (void *)&any, sizeof any);
    listen(listener, 1);
    getsockname(listener, (void *)&any, &len);
    within(listener, SO_RCVTIMEO, 0.1);
    begin(); say("accept", accept(listener, NULL, NULL), 0.1);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    within(client, SO_SNDTIMEO, 0.2);
    begin(); say("connect", connect(client, (void *)&any, sizeof any), 0);
    begin(); int server = accept(listener, NULL, NULL); say("accepted", server > 0, 0);
    begin(); say("recv_inherited", recv(server, bytes, 10, 0), 0.1);
    errno = 0;
    begin(); say("connect_again", connect(client, (void *)&any, sizeof any), 0);
    int refused = socket(AF_INET, SOCK_STREAM, 0);
    within(refused, SO_SNDTIMEO, 0.2);
    close(listener); close(server);
    begin(); say("connect_refused", connect(refused, (void *)&any, sizeof any), 0);
    int sems = semget(IPC_PRIVATE, 1, 0600);
    if (sems >= 0) {
        struct sembuf take = {0, -1, 0};
        struct timespec span = {0, 200000000};
        begin(); say("semtimedop", semtimedop(sems, &take, 1, &span), 0.2);
        begin(); ring_in(80);
        say("semop_interrupted", semop(sems, &take, 1), 0.08);
        semctl(sems, 0, IPC_RMID);
    }
    aio_context_t events = 0;
    if (syscall(SYS_io_setup, 1, &events) == 0) {
        struct io_event one;
        struct timespec span = {0, 200000000}, longer = {5, 0};
        begin(); say("io_getevents", syscall(SYS_io_getevents, events, 1L, 1L, &one, &span), 0.2);
        begin(); ring_in(80);
        say("io_getevents_interrupted", syscall(SYS_io_getevents, events, 1L, 1L, &one, &longer), 0.08);
        begin(); ring_in(80);
        say("io_getevents_for_ever", syscall(SYS_io_getevents, events, 1L, 1L, &one, NULL), 0.08);
        syscall(SYS_io_destroy, events);
    }
    sigset_t usr1;
    sigemptyset(&usr1); sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    struct timespec span = {0, 200000000};
    begin(); say("sigtimedwait", sigtimedwait(&usr1, NULL, &span), 0.2);
    begin(); ring_in(80);
    say("sigwaitinfo_interrupted", sigwaitinfo(&usr1, NULL), 0.08);
    kill(getpid(), SIGUSR1);
    begin(); say("sigtimedwait_pending", sigtimedwait(&usr1, NULL, &span), 0);
    puts("done");
    return 0;
}
