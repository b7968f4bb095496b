/* Message queues of System V and of POSIX across processes. msgop(2), mq_overview(7). */
#include "guest.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/wait.h>

struct text { long kind; char bytes[100]; };

static int send_text(int id, long kind, const char *text, int flags) {
    struct text m = {.kind = kind};
    strcpy(m.bytes, text);
    return msgsnd(id, &m, strlen(text), flags);
}

static void messages_come_by_type(void) {
    int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    CHECK(id >= 0);
    CHECK(send_text(id, 3, "three", 0) == 0 && send_text(id, 1, "one", 0) == 0 && send_text(id, 2, "two", 0) == 0);
    CHECK(send_text(id, 2, "again", 0) == 0);
    struct msqid_ds ds;
    CHECK(msgctl(id, IPC_STAT, &ds) == 0);
    CHECK(ds.msg_qnum == 4 && ds.msg_lspid == getpid() && ds.msg_lrpid == 0 && ds.msg_stime > 0 && ds.msg_rtime == 0);
    SAME(ds.msg_perm.mode & 0777, 0600);
    struct text m;
    SAME(msgrcv(id, &m, sizeof m.bytes, 2, 0), 3);
    CHECK(m.kind == 2 && memcmp(m.bytes, "two", 3) == 0);
    SAME(msgrcv(id, &m, sizeof m.bytes, -2, 0), 3);
    CHECK(m.kind == 1);
    SAME(msgrcv(id, &m, sizeof m.bytes, 3, MSG_EXCEPT), 5);
    CHECK(m.kind == 2 && memcmp(m.bytes, "again", 5) == 0);
    FAILS(msgrcv(id, &m, 2, 0, 0), E2BIG);
    SAME(msgrcv(id, &m, 2, 0, MSG_NOERROR), 2);
    CHECK(m.kind == 3 && memcmp(m.bytes, "th", 2) == 0);
    FAILS(msgrcv(id, &m, sizeof m.bytes, 0, IPC_NOWAIT), ENOMSG);
    FAILS(send_text(id, 0, "zero", 0), EINVAL);
    FAILS(msgsnd(id, &m, 8193, 0), EINVAL);
    CHECK(msgctl(id, IPC_STAT, &ds) == 0 && ds.msg_qnum == 0 && ds.msg_lrpid == getpid());
    CHECK(msgctl(id, IPC_RMID, NULL) == 0);
    FAILS(send_text(id, 1, "gone", 0), EINVAL);
}

static void senders_and_receivers_wait(void) {
    int id = msgget(IPC_PRIVATE, 0600);
    CHECK(id >= 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct text m;
        int ok = msgrcv(id, &m, sizeof m.bytes, 7, 0) == 5 && memcmp(m.bytes, "hello", 5) == 0;
        ok = ok && send_text(id, 8, "thanks", 0) == 0;
        /* until the queue is removed */
        ok = ok && msgrcv(id, &m, sizeof m.bytes, 9, 0) == -1 && errno == EIDRM;
        _exit(ok ? 0 : 1);
    }
    CHECK(send_text(id, 6, "not for it", 0) == 0);
    sleep_ms(20);
    CHECK(send_text(id, 7, "hello", 0) == 0);
    struct text m;
    SAME(msgrcv(id, &m, sizeof m.bytes, 8, 0), 6);
    sleep_ms(20);
    CHECK(msgctl(id, IPC_RMID, NULL) == 0);
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    SAME(status, 0);
}

static void a_full_queue_makes_wait(void) {
    int id = msgget(IPC_PRIVATE, 0600);
    struct { long kind; char bytes[4096]; } big = {.kind = 1};
    for (int i = 0; i < 4; i++)
        CHECK(msgsnd(id, &big, 4096, IPC_NOWAIT) == 0);
    FAILS(msgsnd(id, &big, 1, IPC_NOWAIT), EAGAIN);
    pid_t pid = fork();
    if (pid == 0)
        _exit(msgsnd(id, &big, 100, 0) == 0 ? 0 : 1);
    sleep_ms(20);
    SAME(waitpid(pid, NULL, WNOHANG), 0);
    SAME(msgrcv(id, &big, 4096, 0, 0), 4096);
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    struct msqid_ds ds;
    CHECK(msgctl(id, IPC_STAT, &ds) == 0 && ds.msg_qnum == 4 && ds.__msg_cbytes == 3 * 4096 + 100);
    ds.msg_qbytes = 100;
    CHECK(msgctl(id, IPC_SET, &ds) == 0 && msgctl(id, IPC_STAT, &ds) == 0 && ds.msg_qbytes == 100);
    CHECK(msgctl(id, IPC_RMID, NULL) == 0);
}

static void keys_and_listing(void) {
    key_t key = 0x4d5e0000 + getpid() % 60000;
    FAILS(msgget(key, 0600), ENOENT);
    int id = msgget(key, IPC_CREAT | IPC_EXCL | 0640);
    CHECK(id >= 0);
    FAILS(msgget(key, IPC_CREAT | IPC_EXCL), EEXIST);
    SAME(msgget(key, 0), id);
    CHECK(send_text(id, 1, "12345", 0) == 0);
    char text[4096], expected[100];
    int fd = open("/proc/sysvipc/msg", O_RDONLY);
    ssize_t len = read(fd, text, sizeof text - 1);
    CHECK(len > 0);
    text[len] = 0;
    close(fd);
    CHECK(strncmp(text, "       key      msqid perms      cbytes       qnum lspid lrpid", 62) == 0);
    snprintf(expected, sizeof expected, "\n%10d %10d  %4o  %10d %10d %5d %5d ", key, id, 0640, 5, 1, getpid(), 0);
    CHECK(strstr(text, expected) != NULL);
    CHECK(access("/proc/sysvipc/sem", R_OK) == 0 && access("/proc/sysvipc/shm", R_OK) == 0);
    CHECK(msgctl(id, IPC_RMID, NULL) == 0);
}

static char name[64];
static mqd_t make(long count, long size, int flags) {
    static int number;
    struct mq_attr attr = {.mq_maxmsg = count, .mq_msgsize = size};
    snprintf(name, sizeof name, "/guest-%d-%d", getpid(), number++);
    return mq_open(name, O_CREAT | O_EXCL | O_RDWR | flags, 0600, &attr);
}

static void by_priority(void) {
    mqd_t q = make(5, 50, 0);
    CHECK(q >= 0);
    FAILS(mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, NULL), EEXIST);
    CHECK(mq_send(q, "low", 3, 1) == 0 && mq_send(q, "high", 4, 9) == 0 && mq_send(q, "high 2", 6, 9) == 0);
    struct mq_attr attr;
    CHECK(mq_getattr(q, &attr) == 0);
    CHECK(attr.mq_maxmsg == 5 && attr.mq_msgsize == 50 && attr.mq_curmsgs == 3 && attr.mq_flags == 0);
    char text[50];
    unsigned priority = 0;
    FAILS(mq_receive(q, text, 49, NULL), EMSGSIZE);
    SAME(mq_receive(q, text, sizeof text, &priority), 4);
    CHECK(priority == 9 && memcmp(text, "high", 4) == 0);
    SAME(mq_receive(q, text, sizeof text, NULL), 6);
    SAME(mq_receive(q, text, sizeof text, &priority), 3);
    SAME(priority, 1);
    FAILS(mq_send(q, text, 51, 0), EMSGSIZE);
    FAILS(mq_send(q, text, 1, 32768), EINVAL);
    CHECK(mq_unlink(name) == 0);
    FAILS(mq_unlink(name), ENOENT);
    FAILS(mq_open(name, O_RDWR), ENOENT);
    /* it lives on while it is open */
    CHECK(mq_send(q, "still", 5, 0) == 0);
    SAME(mq_receive(q, text, sizeof text, NULL), 5);
    CHECK(mq_close(q) == 0);
    FAILS(mq_send(q, "x", 1, 0), EBADF);
}

static void waiting_with_and_without_an_end(void) {
    mqd_t q = make(1, 10, 0);
    char text[10];
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 30000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    uint64_t start = now_ms();
    FAILS(mq_timedreceive(q, text, sizeof text, NULL, &until), ETIMEDOUT);
    CHECK(lasted(now_ms() - start, 29));
    struct timespec wrong = {0, 1000000000};
    FAILS(mq_timedreceive(q, text, sizeof text, NULL, &wrong), EINVAL);
    CHECK(mq_send(q, "one", 3, 0) == 0);
    FAILS(mq_timedsend(q, "two", 3, 0, &until), ETIMEDOUT);
    pid_t pid = fork();
    if (pid == 0)
        _exit(mq_send(q, "two", 3, 0) == 0 ? 0 : 1);
    sleep_ms(20);
    SAME(mq_receive(q, text, sizeof text, NULL), 3);
    SAME(mq_receive(q, text, sizeof text, NULL), 3);
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    struct mq_attr attr = {.mq_flags = O_NONBLOCK}, old;
    CHECK(mq_setattr(q, &attr, &old) == 0 && old.mq_flags == 0);
    FAILS(mq_receive(q, text, sizeof text, NULL), EAGAIN);
    struct pollfd p = {.fd = q, .events = POLLIN | POLLOUT};
    CHECK(poll(&p, 1, 0) == 1 && p.revents == POLLOUT);
    CHECK(mq_send(q, "one", 3, 0) == 0);
    CHECK(poll(&p, 1, 0) == 1 && p.revents == POLLIN);
    FAILS(mq_send(q, "two", 3, 0), EAGAIN);
    mq_close(q);
    mq_unlink(name);
}

static volatile int told;
static volatile int told_value;
static void on_message(int s, siginfo_t *info, void *context) {
    (void)s;
    (void)context;
    told++;
    told_value = info->si_value.sival_int;
    if (info->si_code != SI_MESGQ || info->si_pid != getpid())
        told = 100;
}

static void notification(void) {
    mqd_t q = make(3, 10, 0);
    struct sigaction action = {.sa_sigaction = on_message, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42};
    CHECK(mq_notify(q, &event) == 0);
    FAILS(mq_notify(q, &event), EBUSY);
    CHECK(mq_send(q, "a", 1, 0) == 0);
    CHECK(told == 1 && told_value == 42);
    /* once, and only of a message to an empty queue */
    CHECK(mq_send(q, "b", 1, 0) == 0);
    SAME(told, 1);
    CHECK(mq_notify(q, &event) == 0);
    CHECK(mq_send(q, "c", 1, 0) == 0);
    SAME(told, 1);
    CHECK(mq_notify(q, NULL) == 0 && mq_notify(q, &event) == 0);
    char text[10];
    for (int i = 0; i < 3; i++)
        SAME(mq_receive(q, text, sizeof text, NULL), 1);
    CHECK(mq_send(q, "d", 1, 0) == 0);
    SAME(told, 2);
    mq_close(q);
    mq_unlink(name);
}

static volatile int called;
static void on_message_in_a_thread(union sigval value) { called = value.sival_int; }

static void notification_by_a_thread(void) {
    mqd_t q = make(3, 10, 0);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_message_in_a_thread, .sigev_value.sival_int = 43};
    /* the library's thread is told of a registration that goes, too, and does not call then */
    CHECK(mq_notify(q, &event) == 0 && mq_notify(q, NULL) == 0 && mq_notify(q, &event) == 0);
    FAILS(mq_notify(q, &event), EBUSY);
    SAME(called, 0);
    CHECK(mq_send(q, "a", 1, 0) == 0);
    for (int i = 0; i < 3000 && called == 0; i++)
        sleep_ms(1);
    SAME(called, 43);
    mq_close(q);
    mq_unlink(name);
}

GUEST(T(messages_come_by_type), T(senders_and_receivers_wait), T(a_full_queue_makes_wait), T(keys_and_listing),
      T(by_priority), T(waiting_with_and_without_an_end), T(notification), T(notification_by_a_thread))
