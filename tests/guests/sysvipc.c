/* System V shared memory and semaphores across processes. shmop(2), semop(2). */
#include "guest.h"
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>

union semun { int val; struct semid_ds *buf; unsigned short *array; };

/* The exit status of a child that runs `f`. */
static int child(int (*f)(int), int id) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(f(id));
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int attach_and_answer(int id) {
    int *shared = shmat(id, NULL, 0);
    if (shared == (void *)-1 || shared[0] != 42)
        return 1;
    shared[1000] = 43;
    return shmdt(shared) == 0 ? 0 : 2;
}

static void a_segment_is_shared(void) {
    int id = shmget(IPC_PRIVATE, 5000, IPC_CREAT | 0600);
    CHECK(id >= 0);
    int *shared = shmat(id, NULL, 0);
    CHECK(shared != (void *)-1 && shared[0] == 0);
    shared[0] = 42;
    SAME(child(attach_and_answer, id), 0);
    SAME(shared[1000], 43);
    struct shmid_ds ds;
    CHECK(shmctl(id, IPC_STAT, &ds) == 0);
    SAME(ds.shm_segsz, 5000);
    SAME(ds.shm_nattch, 1);
    SAME(ds.shm_cpid, getpid());
    SAME(ds.shm_perm.mode & 0777, 0600);
    CHECK(ds.shm_lpid != getpid() && ds.shm_atime > 0 && ds.shm_dtime > 0);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0 && shmdt(shared) == 0);
    FAILS(shmctl(id, IPC_STAT, &ds), EINVAL);
    FAILS(shmdt(shared), EINVAL);
}

static int *inherited;
static int count_attachments(int id) {
    struct shmid_ds ds;
    inherited[1] = 7;
    return shmctl(id, IPC_STAT, &ds) == 0 ? (int)ds.shm_nattch : -1;
}

static void fork_attaches_and_the_end_detaches(void) {
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    inherited = shmat(id, NULL, 0);
    CHECK(id >= 0 && inherited != (void *)-1);
    SAME(child(count_attachments, id), 2);
    SAME(inherited[1], 7);
    struct shmid_ds ds;
    CHECK(shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_nattch == 1);
    /* removed, it lives on while attached, and can still be attached by its number */
    CHECK(shmctl(id, IPC_RMID, NULL) == 0 && shmctl(id, IPC_STAT, &ds) == 0);
    CHECK((ds.shm_perm.mode & SHM_DEST) != 0 && inherited[1] == 7);
    int *again = shmat(id, NULL, SHM_RDONLY);
    CHECK(again != (void *)-1 && again[1] == 7);
    CHECK(munmap(again, 4096) == 0);
    CHECK(munmap(inherited, 4096) == 0);
    FAILS(shmctl(id, IPC_STAT, &ds), EINVAL);
}

static void keys_and_what_is_refused(void) {
    key_t key = 0x5e5e0000 + getpid() % 60000;
    FAILS(shmget(key, 4096, 0600), ENOENT);
    FAILS(shmget(key, 0, IPC_CREAT | 0600), EINVAL);
    int id = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0600);
    CHECK(id >= 0);
    SAME(shmget(key, 100, 0), id);
    CHECK(shmat(id, (void *)1, SHM_RND | SHM_REMAP) == (void *)-1 && errno == EINVAL);
    SAME(shmget(key, 0, IPC_CREAT | 0600), id);
    FAILS(shmget(key, 8192, 0), EINVAL);
    FAILS(shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0600), EEXIST);
    FAILS(shmat(id, (void *)1234567, 0), EINVAL);
    FAILS(shmat(-1, NULL, 0), EINVAL);
    char *at = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    FAILS(shmat(id, at, 0), EINVAL);
    CHECK(shmat(id, at + 100, SHM_RND | SHM_REMAP) == at);
    at[4095] = 1;
    CHECK(shmdt(at) == 0 && munmap(at + 4096, 4096) == 0);
    FAILS(shmdt(at + 4096), EINVAL);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    FAILS(shmget(key, 4096, 0600), ENOENT);
}

static int take_and_give(int id) {
    struct sembuf take = {0, -1, 0}, give = {1, 1, 0};
    return semop(id, &take, 1) == 0 && semop(id, &give, 1) == 0 ? 0 : 1;
}

static void semaphores_hand_over(void) {
    int id = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
    CHECK(id >= 0);
    SAME(semctl(id, 0, GETVAL), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(take_and_give(id));
    struct sembuf give = {0, 1, 0}, take = {1, -1, 0};
    for (int i = 0; i < 3000 && semctl(id, 0, GETNCNT) == 0; i++)
        sleep_ms(1);
    SAME(semctl(id, 0, GETNCNT), 1);
    SAME(semctl(id, 0, GETZCNT), 0);
    CHECK(semop(id, &give, 1) == 0 && semop(id, &take, 1) == 0);
    SAME(semctl(id, 0, GETPID), pid);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(semctl(id, 0, IPC_RMID) == 0);
    FAILS(semctl(id, 0, GETVAL), EINVAL);
}

static void all_operations_or_none(void) {
    int id = semget(IPC_PRIVATE, 3, 0600);
    unsigned short values[3] = {5, 1, 0}, got[3];
    union semun all = {.array = values}, read = {.array = got};
    CHECK(id >= 0 && semctl(id, 0, SETALL, all) == 0);
    struct sembuf two[2] = {{0, -3, IPC_NOWAIT}, {1, -2, IPC_NOWAIT}};
    FAILS(semop(id, two, 2), EAGAIN);
    CHECK(semctl(id, 0, GETALL, read) == 0 && got[0] == 5 && got[1] == 1);
    two[1].sem_op = -1;
    CHECK(semop(id, two, 2) == 0 && semctl(id, 0, GETALL, read) == 0 && got[0] == 2 && got[1] == 0);
    struct sembuf zero[2] = {{1, 0, 0}, {1, 1, 0}};
    CHECK(semop(id, zero, 2) == 0 && semctl(id, 1, GETVAL) == 1);
    struct sembuf beyond = {3, 1, 0}, much = {2, 32767, 0}, more = {2, 1, 0};
    FAILS(semop(id, &beyond, 1), EFBIG);
    CHECK(semop(id, &much, 1) == 0);
    FAILS(semop(id, &more, 1), ERANGE);
    FAILS(semop(id, &more, 0), EINVAL);
    FAILS(semop(id, &more, 100000), E2BIG);
    FAILS(semctl(id, 0, SETVAL, (union semun){.val = 40000}), ERANGE);
    struct timespec wait = {0, 20000000};
    struct sembuf never = {1, -9, 0};
    uint64_t start = now_ms();
    FAILS(semtimedop(id, &never, 1, &wait), EAGAIN);
    CHECK(lasted(now_ms() - start, 20));
    struct semid_ds ds;
    CHECK(semctl(id, 0, IPC_STAT, (union semun){.buf = &ds}) == 0 && ds.sem_nsems == 3 && ds.sem_otime > 0);
    CHECK(semctl(id, 0, IPC_RMID) == 0);
}

static int take_with_undo(int id) {
    struct sembuf take = {0, -2, SEM_UNDO};
    return semop(id, &take, 1) == 0 && semctl(id, 0, GETVAL) == 1 ? 0 : 1;
}

static int wait_for_nothing(int id) {
    struct sembuf take = {0, -100, 0};
    return semop(id, &take, 1) == -1 && errno == EIDRM ? 0 : 1;
}

static void what_a_process_took_comes_back(void) {
    int id = semget(IPC_PRIVATE, 1, 0600);
    CHECK(id >= 0 && semctl(id, 0, SETVAL, (union semun){.val = 3}) == 0);
    SAME(child(take_with_undo, id), 0);
    SAME(semctl(id, 0, GETVAL), 3);
    pid_t pid = fork();
    if (pid == 0)
        _exit(wait_for_nothing(id));
    for (int i = 0; i < 3000 && semctl(id, 0, GETNCNT) == 0; i++)
        sleep_ms(1);
    CHECK(semctl(id, 0, IPC_RMID) == 0);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void nothing(int sig) { (void)sig; }

static void a_signal_interrupts(void) {
    int id = semget(IPC_PRIVATE, 1, 0600);
    struct sigaction sa = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    struct sembuf take = {0, -1, 0};
    CHECK(id >= 0 && sigaction(SIGALRM, &sa, NULL) == 0);
    alarm(1);
    FAILS(semop(id, &take, 1), EINTR); /* whatever SA_RESTART says */
    CHECK(semctl(id, 0, IPC_RMID) == 0);
}

/* The number in a file; -2 if it cannot be read. */
static int number_in(const char *path) {
    int number = -2;
    FILE *f = fopen(path, "r");
    if (f != NULL) {
        fscanf(f, "%d", &number);
        fclose(f);
    }
    return number;
}
/* True if a number could be written to a file: not by everybody, and not in every container. */
static int write_number(const char *path, int number) {
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return 0;
    fprintf(f, "%d", number);
    return fclose(f) == 0;
}

static void the_next_identifier_can_be_chosen(void) {
    const char *next = "/proc/sys/kernel/shm_next_id";
    int wanted = 32768 * 5 + 1234;
    if (number_in(next) == -2)
        return; /* a kernel without CONFIG_CHECKPOINT_RESTORE */
    SAME(number_in(next), -1);
    if (!write_number(next, wanted))
        return;
    SAME(number_in(next), wanted);
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    if (id != wanted)
        shmctl(id, IPC_RMID, NULL);
    SAME(id, wanted);
    SAME(number_in(next), -1);
    /* one that there is does not come again */
    CHECK(write_number(next, wanted));
    int other = shmget(IPC_PRIVATE, 4096, 0600);
    CHECK(other >= 0 && other != wanted);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0 && shmctl(other, IPC_RMID, NULL) == 0);
    CHECK(!write_number(next, -1));
}

static void limits_are_told(void) {
    struct shminfo info;
    CHECK(shmctl(0, IPC_INFO, (struct shmid_ds *)&info) >= 0);
    SAME(number_in("/proc/sys/kernel/shmmni"), info.shmmni);
}

GUEST(T(the_next_identifier_can_be_chosen), T(limits_are_told), T(a_segment_is_shared), T(fork_attaches_and_the_end_detaches), T(keys_and_what_is_refused), T(semaphores_hand_over),
      T(all_operations_or_none), T(what_a_process_took_comes_back), T(a_signal_interrupts))
