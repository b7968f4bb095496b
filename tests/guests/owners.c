/* Whose an object of interprocess communication is, and who may use it: ipc(2), mq_overview(7). As root, by a child that has
 * become somebody else; an ordinary user cannot try. */
#include "guest.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>

enum { KEY = 0x4711aa, SOMEBODY = 54321 };
union semun { int val; struct semid_ds *buf; unsigned short *array; };
struct text { long kind; char text[8]; };

/* Runs `f` as somebody else; 0, or the line at which it was not content. */
static int as_somebody(int (*f)(int), int id) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(setgid(SOMEBODY) != 0 || setuid(SOMEBODY) != 0 ? 255 : f(id));
    int status = -1;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
#define WANT(cond) do { if (!(cond)) return __LINE__; } while (0)
#define REFUSED(call, err) WANT((errno = 0, (long)(call)) == -1 && errno == (err))

static int private_segment(int id) {
    struct shmid_ds ds;
    REFUSED(shmat(id, NULL, SHM_RDONLY), EACCES);
    REFUSED(shmget(KEY, 100, 0600), EACCES);
    REFUSED(shmget(KEY, 100, IPC_CREAT | 0600), EACCES);
    REFUSED(shmctl(id, IPC_STAT, &ds), EACCES);
    REFUSED(shmctl(id, IPC_RMID, NULL), EPERM);
    REFUSED(shmctl(id, IPC_SET, &ds), EPERM);
    return 0;
}

static int readable_segment(int id) {
    const char *text = shmat(id, NULL, SHM_RDONLY);
    WANT(text != (void *)-1 && strcmp(text, "for all") == 0 && shmdt(text) == 0);
    REFUSED(shmat(id, NULL, 0), EACCES);
    WANT(shmget(KEY, 100, 0) == id && shmget(KEY, 100, 0444) == id);
    REFUSED(shmget(KEY, 100, 0666), EACCES);
    REFUSED(shmctl(id, IPC_RMID, NULL), EPERM);
    return 0;
}

static int own_segment(int id) {
    WANT(shmat(id, NULL, 0) != (void *)-1);
    WANT(shmctl(id, IPC_RMID, NULL) == 0);
    return 0;
}

static void segments(void) {
    if (geteuid() != 0)
        return;
    int id = shmget(KEY, 100, IPC_CREAT | IPC_EXCL | 0600);
    CHECK(id >= 0);
    char *text = shmat(id, NULL, 0);
    strcpy(text, "for all");
    SAME(as_somebody(private_segment, id), 0);
    struct shmid_ds ds;
    CHECK(shmctl(id, IPC_STAT, &ds) == 0);
    ds.shm_perm.mode = 0644;
    CHECK(shmctl(id, IPC_SET, &ds) == 0);
    SAME(as_somebody(readable_segment, id), 0);
    ds.shm_perm.mode = 0600;
    ds.shm_perm.uid = SOMEBODY;
    CHECK(shmctl(id, IPC_SET, &ds) == 0);
    SAME(as_somebody(own_segment, id), 0);
    CHECK(shmdt(text) == 0);
}

static int no_semaphore(int id) {
    struct sembuf up = {0, 1, 0}, zero = {0, 0, IPC_NOWAIT};
    REFUSED(semop(id, &up, 1), EACCES);
    REFUSED(semop(id, &zero, 1), EACCES);
    REFUSED(semctl(id, 0, GETVAL), EACCES);
    REFUSED(semctl(id, 0, SETVAL, (union semun){.val = 1}), EACCES);
    REFUSED(semctl(id, 0, IPC_RMID), EPERM);
    REFUSED(semget(KEY, 1, 0600), EACCES);
    return 0;
}

static int semaphore_to_look_at(int id) {
    struct sembuf up = {0, 1, 0}, zero = {0, 0, IPC_NOWAIT};
    WANT(semctl(id, 0, GETVAL) == 0 && semop(id, &zero, 1) == 0);
    REFUSED(semop(id, &up, 1), EACCES);
    REFUSED(semctl(id, 0, SETVAL, (union semun){.val = 1}), EACCES);
    return 0;
}

static void semaphores(void) {
    if (geteuid() != 0)
        return;
    int id = semget(KEY, 1, IPC_CREAT | IPC_EXCL | 0600);
    CHECK(id >= 0);
    SAME(as_somebody(no_semaphore, id), 0);
    CHECK(semctl(id, 0, IPC_RMID) == 0);
    id = semget(KEY, 1, IPC_CREAT | IPC_EXCL | 0604);
    SAME(as_somebody(semaphore_to_look_at, id), 0);
    CHECK(semctl(id, 0, IPC_RMID) == 0);
}

static int no_queue(int id) {
    struct text text = {1, "a"};
    REFUSED(msgsnd(id, &text, 1, 0), EACCES);
    REFUSED(msgrcv(id, &text, 8, 0, IPC_NOWAIT), EACCES);
    REFUSED(msgctl(id, IPC_RMID, NULL), EPERM);
    REFUSED(msgget(KEY, 0600), EACCES);
    return 0;
}

static int queue_to_write_to(int id) {
    struct text text = {1, "a"};
    WANT(msgsnd(id, &text, 1, 0) == 0);
    REFUSED(msgrcv(id, &text, 8, 0, IPC_NOWAIT), EACCES);
    return 0;
}

static void queues(void) {
    if (geteuid() != 0)
        return;
    int id = msgget(KEY, IPC_CREAT | IPC_EXCL | 0600);
    CHECK(id >= 0);
    SAME(as_somebody(no_queue, id), 0);
    CHECK(msgctl(id, IPC_RMID, NULL) == 0);
    id = msgget(KEY, IPC_CREAT | IPC_EXCL | 0602);
    SAME(as_somebody(queue_to_write_to, id), 0);
    struct text text;
    SAME(msgrcv(id, &text, 8, 0, IPC_NOWAIT), 1);
    CHECK(msgctl(id, IPC_RMID, NULL) == 0);
}

static char name[64];

static int named_queue(int mode) {
    REFUSED(mq_open(name, O_RDWR), EACCES);
    REFUSED(mq_open(name, O_WRONLY), EACCES);
    mqd_t q = mq_open(name, O_RDONLY | O_NONBLOCK);
    if (mode == 0604) {
        char text[16];
        WANT(q >= 0 && mq_receive(q, text, sizeof text, NULL) == 2);
    } else {
        WANT(q == -1 && errno == EACCES);
    }
    REFUSED(mq_unlink(name), EACCES); /* EPERM of the kernel's */
    return 0;
}

static void named_queues(void) {
    if (geteuid() != 0)
        return;
    static const int modes[] = {0604, 0600};
    for (int i = 0; i < 2; i++) {
        struct mq_attr attr = {.mq_maxmsg = 2, .mq_msgsize = 16};
        snprintf(name, sizeof name, "/owners-%d-%d", getpid(), i);
        mode_t mask = umask(0022);
        mqd_t q = mq_open(name, O_CREAT | O_EXCL | O_RDWR, modes[i] | 0022, &attr);
        umask(mask);
        CHECK(q >= 0 && mq_send(q, "hi", 2, 0) == 0);
        SAME(as_somebody(named_queue, modes[i]), 0);
        CHECK(mq_close(q) == 0 && mq_unlink(name) == 0);
    }
}

static int named_segment(int unused) {
    (void)unused;
    REFUSED(shm_open(name, O_RDWR, 0), EACCES);
    int fd = shm_open(name, O_RDONLY, 0);
    WANT(fd >= 0 && mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
    REFUSED(mmap(NULL, 10, PROT_WRITE, MAP_SHARED, fd, 0), EACCES);
    WANT(shm_unlink(name) == -1 && (errno == EACCES || errno == EPERM)); /* by the C library */
    return 0;
}

static void named_segments(void) {
    if (geteuid() != 0)
        return;
    snprintf(name, sizeof name, "/owners-%d", getpid());
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0644);
    CHECK(fd >= 0 && ftruncate(fd, 10) == 0);
    SAME(as_somebody(named_segment, 0), 0);
    CHECK(shm_unlink(name) == 0);
}

GUEST(T(segments), T(semaphores), T(queues), T(named_queues), T(named_segments))
