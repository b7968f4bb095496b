/* Limits that are enforced, setrlimit(2). */
#include "guest.h"
#include <sys/resource.h>
#include <sys/wait.h>

/* As root a child becomes somebody without processes; others have too many to count. */
static void a_user_has_only_so_many_processes(void) {
    if (geteuid() != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit two = {2, 2};
        if (setgid(54321) != 0 || setuid(54321) != 0 || setrlimit(RLIMIT_NPROC, &two) != 0)
            _exit(1);
        pid_t first = fork();
        if (first == 0) {
            pause();
            _exit(0);
        }
        if (first < 0)
            _exit(2);
        if (fork() != -1 || errno != EAGAIN)
            _exit(3);
        kill(first, SIGKILL);
        waitpid(first, NULL, 0);
        /* there is room again */
        pid_t again = fork();
        if (again == 0)
            _exit(0);
        _exit(again > 0 && waitpid(again, NULL, 0) == again ? 0 : 4);
    }
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid);
    SAME(status, 0);
}

GUEST(T(a_user_has_only_so_many_processes))
