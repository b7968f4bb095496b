/* Leases on files, fcntl(2) "Leases": who holds one is told when somebody else opens the file, and they wait. */
#include "guest.h"
#include <sys/wait.h>

static volatile int told, told_fd;
static void on_break(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    told++, told_fd = info->si_fd;
}

static void given_and_taken_back(void) {
    int f = open("leased", O_CREAT | O_RDONLY, 0600);
    SAME(fcntl(f, F_GETLEASE), F_UNLCK);
    FAILS(fcntl(f, F_SETLEASE, F_UNLCK), EAGAIN);
    FAILS(fcntl(f, F_SETLEASE, 77), EINVAL);
    SAME(fcntl(f, F_SETLEASE, F_RDLCK), 0);
    SAME(fcntl(f, F_GETLEASE), F_RDLCK);
    SAME(fcntl(f, F_SETLEASE, F_WRLCK), 0);
    SAME(fcntl(f, F_GETLEASE), F_WRLCK);
    SAME(fcntl(f, F_SETLEASE, F_UNLCK), 0);
    SAME(fcntl(f, F_GETLEASE), F_UNLCK);
    int other = open("leased", O_WRONLY);
    FAILS(fcntl(f, F_SETLEASE, F_RDLCK), EAGAIN);
    FAILS(fcntl(f, F_SETLEASE, F_WRLCK), EAGAIN);
    FAILS(fcntl(other, F_SETLEASE, F_WRLCK), EAGAIN);
    close(other), close(f);
    int p[2];
    CHECK(pipe(p) == 0);
    FAILS(fcntl(p[0], F_SETLEASE, F_RDLCK), EINVAL);
    close(p[0]), close(p[1]);
    unlink("leased");
}

static void broken_by_another(void) {
    struct sigaction action = {.sa_sigaction = on_break, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN + 1, &action, NULL);
    int f = open("leased", O_CREAT | O_RDONLY, 0600), go[2];
    CHECK(pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        char c;
        close(f); /* the lease belongs to the open file */
        f = -1;
        read(go[0], &c, 1);
        if (open("leased", O_RDWR | O_NONBLOCK) != -1 || errno != EWOULDBLOCK)
            _exit(1);
        int w = open("leased", O_RDWR); /* waits */
        _exit(w >= 0 && write(w, "x", 1) == 1 ? 0 : 2);
    }
    sleep_ms(30);
    CHECK(fcntl(f, F_SETSIG, SIGRTMIN + 1) == 0);
    SAME(fcntl(f, F_SETLEASE, F_WRLCK), 0);
    told = 0;
    CHECK(write(go[1], "g", 1) == 1);
    for (int i = 0; i < 100 && told == 0; i++)
        sleep_ms(10);
    SAME(told, 1);
    SAME(told_fd, f);
    SAME(fcntl(f, F_GETLEASE), F_UNLCK); /* what is asked for */
    sleep_ms(50);
    struct stat st;
    CHECK(fstat(f, &st) == 0 && st.st_size == 0);
    SAME(fcntl(f, F_SETLEASE, F_UNLCK), 0);
    int status;
    waitpid(child, &status, 0);
    SAME(status, 0);
    close(f), close(go[0]), close(go[1]);
    unlink("leased");
}

static void closing_gives_it_up(void) {
    int f = open("leased", O_CREAT | O_RDONLY, 0600);
    SAME(fcntl(f, F_SETLEASE, F_RDLCK), 0);
    int r = open("leased", O_RDONLY); /* readers are not in the way */
    CHECK(r >= 0);
    close(f);
    int w = open("leased", O_WRONLY);
    CHECK(w >= 0);
    close(w), close(r);
    unlink("leased");
}

int main(int argc, char **argv) {
    static const struct guest_test tests[] = {T(given_and_taken_back), T(broken_by_another), T(closing_gives_it_up)};
    scratch_enter();
    return guest_run(argc, argv, tests, (int)(sizeof tests / sizeof *tests));
}
