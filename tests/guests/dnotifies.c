/* Directory notification, F_NOTIFY of fcntl(2): signals to the owner of an open directory. */
#include "guest.h"
#include <sys/wait.h>

static volatile sig_atomic_t told, told_fd, told_code, told_band;

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    told++;
    told_fd = info->si_fd, told_code = info->si_code, told_band = (int)info->si_band;
}
static int begin(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    told = 0;
    sigaction(SIGRTMIN + 1, &action, NULL), sigaction(SIGIO, &action, NULL);
    return mkdir("d", 0700) == 0 ? open("d", O_RDONLY | O_DIRECTORY) : -1;
}
static void put(const char *name) { close(open(name, O_WRONLY | O_CREAT, 0600)); }

static void once_and_always(void) {
    int d = begin();
    CHECK(d >= 0 && fcntl(d, F_SETSIG, SIGRTMIN + 1) == 0);
    SAME(fcntl(d, F_NOTIFY, DN_CREATE), 0);
    put("d/a");
    SAME(told, 1);
    SAME(told_fd, d);
    SAME(told_code, POLL_MSG);
    SAME(told_band, 0x441);
    put("d/b");
    SAME(told, 1);
    SAME(fcntl(d, F_NOTIFY, DN_DELETE | DN_RENAME | DN_MULTISHOT), 0);
    CHECK(rename("d/a", "d/c") == 0); /* within the directory; a name also goes from it */
    SAME(told, 3);
    CHECK(rename("d/c", "c") == 0);
    SAME(told, 4);
    CHECK(unlink("d/b") == 0);
    SAME(told, 5);
    SAME(fcntl(d, F_NOTIFY, 0), 0);
    CHECK(rename("c", "d/c") == 0 && unlink("d/c") == 0);
    SAME(told, 5);
    CHECK(close(d) == 0 && rmdir("d") == 0);
}

static void of_files_and_of_itself(void) {
    int d = begin();
    CHECK(d >= 0);
    put("d/a");
    SAME(fcntl(d, F_NOTIFY, DN_MODIFY | DN_ATTRIB | DN_ACCESS | DN_MULTISHOT), 0);
    int f = open("d/a", O_RDWR);
    char b[4];
    CHECK(write(f, "text", 4) == 4);
    SAME(told, 1);
    SAME(told_code, SI_KERNEL); /* without F_SETSIG SIGIO says no more */
    CHECK(pread(f, b, 4, 0) == 4);
    SAME(told, 2);
    CHECK(chmod("d/a", 0640) == 0);
    SAME(told, 3);
    CHECK(chmod("d", 0750) == 0);
    SAME(told, 4);
    CHECK(close(f) == 0 && unlink("d/a") == 0);
    /* A copy of the descriptor that is closed takes it back. */
    told = 0;
    int copy = dup(d);
    CHECK(close(copy) == 0 && chmod("d", 0700) == 0);
    SAME(told, 0);
    CHECK(close(d) == 0 && rmdir("d") == 0);
}

static void owners(void) {
    int d = begin();
    CHECK(d >= 0 && fcntl(d, F_SETSIG, SIGRTMIN + 1) == 0);
    SAME(fcntl(d, F_GETOWN), 0);
    SAME(fcntl(d, F_NOTIFY, DN_CREATE | DN_MULTISHOT), 0);
    SAME(fcntl(d, F_GETOWN), getpid());
    pid_t child = fork(); /* whoever does it; its own descriptor asks for nothing */
    if (child == 0) {
        put("d/a");
        _exit(close(d) == 0 ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    SAME(told, 1);
    put("d/b");
    SAME(told, 2);
    CHECK(unlink("d/a") == 0 && unlink("d/b") == 0 && close(d) == 0 && rmdir("d") == 0);
}

static void errors(void) {
    int f = open("f", O_RDWR | O_CREAT, 0600), p = open(".", O_PATH);
    FAILS(fcntl(f, F_NOTIFY, DN_CREATE), ENOTDIR);
    SAME(fcntl(f, F_NOTIFY, 0), 0);
    SAME(fcntl(f, F_NOTIFY, DN_MULTISHOT), 0);
    FAILS(fcntl(p, F_NOTIFY, DN_CREATE), EBADF);
    CHECK(close(f) == 0 && close(p) == 0 && unlink("f") == 0);
}

int main(int argc, char **argv) {
    static const struct guest_test tests[] = {T(once_and_always), T(of_files_and_of_itself), T(owners), T(errors)};
    scratch_enter();
    int here = open(".", O_RDONLY | O_DIRECTORY);
    if (fcntl(here, F_NOTIFY, DN_CREATE) == -1 && errno == EINVAL) {
        printf("# skipped: this kernel has no directory notification\n");
        return 77;
    }
    close(here);
    return guest_run(argc, argv, tests, (int)(sizeof tests / sizeof *tests));
}
