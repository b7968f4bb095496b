/* Pseudo-terminals: the line discipline, sizes, controlling terminals, job control, hang-ups. pty(7), termios(3),
 * ioctl_tty(2), credentials(7). */
#include "guest.h"
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

static int m, s; /* master and slave of the test under way */

static int open_pair(void) {
    m = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    return m >= 0 && grantpt(m) == 0 && unlockpt(m) == 0 && (s = open(ptsname(m), O_RDWR | O_NOCTTY)) >= 0;
}
static void close_pair(void) { close(s), close(m); }
static int set(tcflag_t clear, tcflag_t set) {
    struct termios t;
    if (tcgetattr(s, &t) != 0)
        return 0;
    t.c_lflag = (t.c_lflag & ~clear) | set;
    return tcsetattr(s, TCSANOW, &t) == 0;
}
static int type(const char *text) { return write(m, text, strlen(text)) == (ssize_t)strlen(text); }
/* Waits until there is something to read. */
static int ready(int fd, int ms) {
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, ms) == 1 ? p.revents : 0;
}
static char got[8192];
/* Reads once; the text, or NULL if nothing comes. */
static const char *text(int fd) {
    if (!ready(fd, 2000))
        return NULL;
    ssize_t n = read(fd, got, sizeof got - 1);
    if (n < 0)
        return NULL;
    got[n] = 0;
    return got;
}
/* What the master shows until it has said `n` bytes. */
static const char *screen(size_t n) {
    size_t have = 0;
    while (have < n && ready(m, 2000)) {
        ssize_t r = read(m, got + have, sizeof got - 1 - have);
        if (r <= 0)
            break;
        have += (size_t)r;
    }
    got[have] = 0;
    return got;
}
static int is(const char *a, const char *b) {
    if (a != NULL && strcmp(a, b) == 0)
        return 1;
    printf("# got \"");
    for (; a && *a; a++)
        printf(*a < 32 || *a == 127 ? "\\x%02x" : "%c", (unsigned char)*a);
    puts("\"");
    return 0;
}
#define SHOWS(t) CHECK(is(screen(strlen(t)), t))

static void names(void) {
    struct stat st, by_name;
    char path[64], link[64];
    CHECK(open_pair());
    CHECK(isatty(s) && isatty(m) && ptsname_r(m, path, sizeof path) == 0);
    CHECK(strncmp(path, "/dev/pts/", 9) == 0 && ttyname_r(s, link, sizeof link) == 0 && is(link, path));
    CHECK(fstat(s, &st) == 0 && stat(path, &by_name) == 0);
    CHECK(S_ISCHR(st.st_mode) && st.st_ino == by_name.st_ino && st.st_rdev == by_name.st_rdev);
    SAME(st.st_rdev >> 8, 136);
    SAME(st.st_mode & 0700, 0600);
    CHECK(fstat(m, &st) == 0 && st.st_rdev == 0x502);
    FAILS(lseek(s, 0, SEEK_CUR), ESPIPE);
    close_pair();
    FAILS(stat(path, &st), ENOENT);
}

static void locked_slaves(void) {
    int n = -1, on = 1;
    m = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    CHECK(m >= 0 && ioctl(m, TIOCGPTN, &n) == 0 && n >= 0);
    FAILS(open(ptsname(m), O_RDWR | O_NOCTTY), EIO);
    CHECK(unlockpt(m) == 0);
    s = ioctl(m, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(s >= 0 && isatty(s) && fcntl(s, F_GETFD) == FD_CLOEXEC);
    CHECK(ioctl(m, TIOCSPTLCK, &on) == 0);
    FAILS(open(ptsname(m), O_RDWR | O_NOCTTY), EIO);
    close_pair();
}

static void canonical_lines(void) {
    char b[16];
    CHECK(open_pair());
    CHECK(type("half"));
    SAME(ready(s, 50), 0);
    CHECK(type(" a line\rnext\n"));
    CHECK(is(text(s), "half a line\n"));
    int n = -1;
    CHECK(ioctl(s, FIONREAD, &n) == 0);
    SAME(n, 5);
    SAME(read(s, b, 3), 3);
    CHECK(is(text(s), "t\n"));
    SHOWS("half a line\r\nnext\r\n");
    CHECK(fcntl(s, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
    FAILS(read(s, b, sizeof b), EAGAIN);
    close_pair();
}

static void editing(void) {
    CHECK(open_pair());
    CHECK(type("abx\x7f" "c word\x17\x01\t\n"));
    CHECK(is(text(s), "abc \x01\t\n"));
    SHOWS("abx\x08 \x08" "c word\x08 \x08\x08 \x08\x08 \x08\x08 \x08^A\t\r\n");
    CHECK(type("gone\x15stays\n"));
    CHECK(is(text(s), "stays\n"));
    SHOWS("gone\x08 \x08\x08 \x08\x08 \x08\x08 \x08stays\r\n");
    CHECK(type("\x16\x03\n")); /* quoted */
    CHECK(is(text(s), "\x03\n"));
    SHOWS("^\x08^C\r\n");
    CHECK(type("\t\x7f.\n"));
    CHECK(is(text(s), ".\n"));
    SHOWS("\t\x08\x08\x08\x08\x08\x08\x08\x08.\r\n");
    close_pair();
}

static void ends_of_files(void) {
    char b[16];
    CHECK(open_pair() && set(ECHO, 0));
    CHECK(type("ab\x04"));
    SAME(read(s, b, sizeof b), 2);
    CHECK(type("\x04"));
    SAME(ready(s, 1000), POLLIN);
    SAME(read(s, b, sizeof b), 0);
    CHECK(type("\x04line\n"));
    SAME(read(s, b, sizeof b), 0);
    CHECK(is(text(s), "line\n"));
    close_pair();
}

static void raw_mode(void) {
    struct termios t, before;
    char b[64];
    CHECK(open_pair() && tcgetattr(s, &before) == 0);
    t = before;
    cfmakeraw(&t);
    CHECK(tcsetattr(s, TCSAFLUSH, &t) == 0);
    CHECK(type("\r\x03\x04"));
    CHECK(is(text(s), "\r\x03\x04"));
    CHECK(write(s, "\n", 1) == 1);
    SHOWS("\n");
    t.c_cc[VMIN] = 3, t.c_cc[VTIME] = 0;
    CHECK(tcsetattr(s, TCSANOW, &t) == 0 && type("ab"));
    SAME(ready(s, 50), 0);
    CHECK(type("cd"));
    CHECK(is(text(s), "abcd"));
    t.c_cc[VMIN] = 0, t.c_cc[VTIME] = 2;
    CHECK(tcsetattr(s, TCSANOW, &t) == 0);
    uint64_t begin = now_ms();
    SAME(read(s, b, sizeof b), 0);
    CHECK(lasted(now_ms() - begin, 200));
    t.c_cc[VTIME] = 0;
    CHECK(tcsetattr(s, TCSANOW, &t) == 0);
    SAME(read(s, b, sizeof b), 0);
    t.c_cc[VMIN] = 10, t.c_cc[VTIME] = 1;
    CHECK(tcsetattr(s, TCSANOW, &t) == 0 && type("xyz"));
    begin = now_ms();
    SAME(read(s, b, sizeof b), 3);
    CHECK(lasted(now_ms() - begin, 100));
    CHECK(tcsetattr(s, TCSANOW, &before) == 0);
    close_pair();
}

static void settings(void) {
    struct termios t, u;
    struct winsize w = {24, 80, 0, 0}, v;
    CHECK(open_pair() && tcgetattr(s, &t) == 0 && tcgetattr(m, &u) == 0);
    SAME(t.c_lflag, ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN);
    SAME(t.c_iflag, ICRNL | IXON);
    SAME(t.c_oflag, OPOST | ONLCR);
    CHECK(memcmp(t.c_cc, u.c_cc, 19) == 0 && t.c_lflag == u.c_lflag);
    SAME(cfgetospeed(&t), B38400);
    SAME(t.c_cc[VINTR], 3);
    SAME(t.c_cc[VEOF], 4);
    SAME(t.c_cc[VERASE], 0x7f);
    CHECK(ioctl(s, TIOCGWINSZ, &v) == 0 && v.ws_row == 0 && v.ws_col == 0);
    CHECK(ioctl(m, TIOCSWINSZ, &w) == 0 && ioctl(s, TIOCGWINSZ, &v) == 0);
    CHECK(v.ws_row == 24 && v.ws_col == 80);
    cfsetspeed(&t, B9600);
    t.c_cflag |= PARENB;
    CHECK(tcsetattr(s, TCSADRAIN, &t) == 0 && tcgetattr(s, &u) == 0);
    SAME(cfgetispeed(&u), B9600);
    SAME(u.c_cflag & (PARENB | CSIZE), CS8);
    FAILS(ioctl(s, TIOCGPTN, &v), ENOTTY);
    FAILS(ioctl(s, TIOCMGET, &v), ENOTTY);
    FAILS(tcflush(s, 77), EINVAL);
    close_pair();
}

static void flushing(void) {
    CHECK(open_pair() && set(ECHO, 0));
    CHECK(type("lost\n") && ready(s, 1000) && tcflush(s, TCIFLUSH) == 0);
    SAME(ready(s, 50), 0);
    CHECK(type("kept\n"));
    CHECK(is(text(s), "kept\n"));
    close_pair();
}

static void stopping_output(void) {
    CHECK(open_pair() && set(ECHO, 0));
    CHECK(type("\x13")); /* ^S */
    sleep_ms(20);
    CHECK(fcntl(s, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
    FAILS(write(s, "x", 1), EAGAIN);
    CHECK(type("\x11"));
    sleep_ms(20);
    SAME(write(s, "x", 1), 1);
    SHOWS("x");
    CHECK(tcflow(s, TCOOFF) == 0);
    FAILS(write(s, "y", 1), EAGAIN);
    CHECK(tcflow(s, TCOON) == 0);
    SAME(write(s, "y", 1), 1);
    SHOWS("y");
    close_pair();
}

static void packets(void) {
    int on = 1;
    char b[16];
    CHECK(open_pair() && ioctl(m, TIOCPKT, &on) == 0);
    CHECK(write(s, "hi", 2) == 2 && ready(m, 1000));
    SAME(read(m, b, sizeof b), 3);
    CHECK(b[0] == TIOCPKT_DATA && b[1] == 'h' && b[2] == 'i');
    CHECK(tcflow(s, TCOOFF) == 0 && ready(m, 1000));
    SAME(read(m, b, sizeof b), 1);
    SAME(b[0], TIOCPKT_STOP);
    close_pair();
}

static void slaves_that_close(void) {
    char b[16];
    char name[64];
    CHECK(open_pair() && ptsname_r(m, name, sizeof name) == 0 && set(ECHO, 0));
    CHECK(write(s, "bye", 3) == 3 && close(s) == 0);
    SHOWS("bye");
    SAME(ready(m, 1000), POLLHUP);
    FAILS(read(m, b, sizeof b), EIO);
    CHECK((s = open(name, O_RDWR | O_NOCTTY)) >= 0); /* and opens again */
    SAME(ready(m, 20), 0);
    SAME(write(s, "x", 1), 1);
    SAME(read(m, b, sizeof b), 1);
    close_pair();
}

static void masters_that_close(void) {
    char b[16];
    CHECK(open_pair() && close(m) == 0);
    SAME(read(s, b, sizeof b), 0);
    FAILS(write(s, "x", 1), EIO);
    struct termios t;
    FAILS(tcgetattr(s, &t), EIO);
    struct pollfd p = {s, POLLIN | POLLOUT, 0};
    SAME(poll(&p, 1, 0), 1);
    SAME(p.revents, POLLIN | POLLOUT | POLLERR | POLLHUP);
    close(s);
}

/* Forks a child that leads a session with the slave as its terminal and runs `run`, whose value it exits with. */
static pid_t leader(int (*run)(void)) {
    pid_t p = fork();
    if (p != 0)
        return p;
    alarm(20);
    close(m);
    if (setsid() < 0 || ioctl(s, TIOCSCTTY, 0) != 0)
        _exit(90);
    _exit(run());
}
static int code_of(pid_t p) {
    int st;
    return waitpid(p, &st, 0) != p ? -1 : WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st);
}

static int lead(void) {
    int tty = open("/dev/tty", O_RDWR);
    if (tty < 0 || tcgetpgrp(tty) != getpid() || tcgetsid(s) != getpid())
        return 1;
    if (ioctl(s, TIOCSCTTY, 0) != 0) /* once more is no error */
        return 2;
    if (tcsetpgrp(tty, 999999) != -1 || errno != ESRCH)
        return 3;
    if (ioctl(tty, TIOCNOTTY) == 0)
        return 4; /* the hang-up ends us */
    return 5;
}
static volatile sig_atomic_t hups;
static void on_hup(int n) { hups += n == SIGHUP; }
static int give_up(void) {
    signal(SIGHUP, on_hup);
    if (ioctl(s, TIOCNOTTY) != 0)
        return 1;
    if (open("/dev/tty", O_RDWR) != -1 || errno != ENXIO)
        return 2;
    if (tcgetpgrp(s) != -1 || errno != ENOTTY)
        return 3;
    return hups == 1 ? 0 : 4;
}
static int open_gives_a_terminal(void) {
    signal(SIGHUP, SIG_IGN);
    char name[64];
    ttyname_r(s, name, sizeof name);
    if (ioctl(s, TIOCNOTTY) != 0)
        return 1;
    int t = open(name, O_RDWR | O_NOCTTY);
    if (open("/dev/tty", O_RDWR) != -1)
        return 2;
    close(t);
    t = open(name, O_RDWR);
    return t >= 0 && open("/dev/tty", O_RDWR) >= 0 && tcgetsid(t) == getpid() ? 0 : 3;
}

static void controlling_terminals(void) {
    pid_t pgrp;
    CHECK(open_pair());
    FAILS(ioctl(s, TIOCGPGRP, &pgrp), ENOTTY);
    SAME(code_of(leader(lead)), 1000 + SIGHUP);
    SAME(code_of(leader(give_up)), 0);
    SAME(code_of(leader(open_gives_a_terminal)), 0);
    close_pair();
}

static int wait_for_interrupt(void) {
    write(s, "ready\n", 6);
    return pause();
}
static void typed_signals(void) {
    const int signals[] = {SIGINT, SIGQUIT};
    for (int i = 0; i < 2; i++) {
        CHECK(open_pair());
        pid_t p = leader(wait_for_interrupt);
        SHOWS("ready\r\n");
        CHECK(type(i == 0 ? "\x03" : "\x1c"));
        SAME(code_of(p), 1000 + signals[i]);
        SHOWS(i == 0 ? "^C" : "^\\");
        close_pair();
    }
}

static volatile sig_atomic_t resized;
static void on_winch(int n) { resized += n == SIGWINCH; }
static int wait_for_size(void) {
    struct winsize w;
    signal(SIGWINCH, on_winch);
    write(s, "ready\n", 6);
    while (!resized)
        usleep(10000);
    return ioctl(s, TIOCGWINSZ, &w) == 0 ? w.ws_col : 1;
}
static void resizing(void) {
    struct winsize w = {30, 100, 0, 0};
    CHECK(open_pair());
    pid_t p = leader(wait_for_size);
    SHOWS("ready\r\n");
    CHECK(ioctl(m, TIOCSWINSZ, &w) == 0);
    SAME(code_of(p), 100);
    close_pair();
}

static int hung_up(void) {
    signal(SIGHUP, on_hup);
    write(s, "ready\n", 6);
    char b[16];
    while (!hups)
        usleep(10000);
    return read(s, b, sizeof b) == 0 && write(s, "x", 1) == -1 && errno == EIO &&
                   open("/dev/tty", O_RDWR) == -1 && errno == ENXIO
               ? 7
               : 1;
}
static void hang_ups(void) {
    CHECK(open_pair());
    pid_t p = leader(hung_up);
    SHOWS("ready\r\n");
    close(m);
    SAME(code_of(p), 7);
    close(s);
}

/* A shell's job control: a child in a group of its own, in the background and then in the foreground. */
static int shell(void) {
    int st;
    signal(SIGTTOU, SIG_IGN);
    pid_t job = fork();
    if (job == 0) {
        char b[16];
        setpgid(0, 0);
        signal(SIGTTOU, SIG_DFL);
        ssize_t n = read(s, b, sizeof b);
        _exit(n == 3 && memcmp(b, "go\n", 3) == 0 ? 3 : 4);
    }
    setpgid(job, job);
    if (waitpid(job, &st, WUNTRACED) != job || !WIFSTOPPED(st) || WSTOPSIG(st) != SIGTTIN)
        return 1;
    if (tcsetpgrp(s, job) != 0 || kill(-job, SIGCONT) != 0)
        return 2;
    write(s, "prompt\n", 7);
    if (waitpid(job, &st, WUNTRACED) != job || !WIFEXITED(st) || WEXITSTATUS(st) != 3)
        return 3;
    if (tcsetpgrp(s, getpid()) != 0 || tcgetpgrp(s) != getpid())
        return 4;
    struct termios t;
    tcgetattr(s, &t);
    t.c_lflag |= TOSTOP;
    tcsetattr(s, TCSANOW, &t);
    job = fork();
    if (job == 0) {
        setpgid(0, 0);
        signal(SIGTTOU, SIG_DFL);
        write(s, "back", 4);
        _exit(6);
    }
    setpgid(job, job);
    if (waitpid(job, &st, WUNTRACED) != job || !WIFSTOPPED(st) || WSTOPSIG(st) != SIGTTOU)
        return 5;
    if (tcsetpgrp(s, job) != 0 || kill(job, SIGCONT) != 0 || waitpid(job, &st, 0) != job || WEXITSTATUS(st) != 6)
        return 6;
    job = fork();
    if (job == 0) { /* SIGTSTP from the keyboard */
        setpgid(0, 0);
        tcsetpgrp(s, getpid());
        signal(SIGTTOU, SIG_DFL);
        write(s, "stop me\n", 8);
        for (;;)
            pause();
    }
    if (waitpid(job, &st, WUNTRACED) != job || !WIFSTOPPED(st) || WSTOPSIG(st) != SIGTSTP)
        return 7;
    kill(job, SIGKILL);
    return waitpid(job, &st, 0) == job ? 0 : 8;
}
static void job_control(void) {
    CHECK(open_pair() && set(ECHO, 0));
    pid_t p = leader(shell);
    SHOWS("prompt\r\n");
    CHECK(type("go\n"));
    SHOWS("backstop me\r\n");
    CHECK(type("\x1a"));
    SAME(code_of(p), 0);
    close_pair();
}

/* Nobody does job control for an orphaned group: reading from the background fails. */
static int orphan_reads(void) {
    int p[2];
    char c = 0;
    if (pipe(p) != 0)
        return 1;
    pid_t job = fork();
    if (job == 0) {
        setpgid(0, 0);
        pid_t inner = fork();
        if (inner == 0) {
            while (getppid() != 1 && usleep(5000) == 0 && c++ < 50) {
            }
            char b[4];
            c = read(s, b, sizeof b) == -1 && errno == EIO;
            write(p[1], &c, 1);
            _exit(0);
        }
        _exit(0);
    }
    waitpid(job, NULL, 0);
    return read(p[0], &c, 1) == 1 && c == 1 ? 0 : 2;
}
static void orphaned_groups(void) {
    CHECK(open_pair());
    SAME(code_of(leader(orphan_reads)), 0);
    close_pair();
}

static void full_buffers(void) {
    static char big[100000];
    memset(big, 'x', sizeof big);
    CHECK(open_pair() && set(ECHO | ICANON, 0));
    CHECK(fcntl(s, F_SETFL, O_RDWR | O_NONBLOCK) == 0 && fcntl(m, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
    ssize_t total = 0, n;
    struct pollfd p = {s, POLLOUT, 0};
    int room;
    // Linux hands on what was written a moment later, so there may be room again.
    do {
        while ((n = write(s, big, sizeof big)) > 0)
            total += n;
        CHECK(n == -1 && errno == EAGAIN && total >= 4096 && total < 100000);
        room = poll(&p, 1, 0);
    } while (room == 1);
    SAME(room, 0);
    while (total > 0 && ready(m, 1000) && (n = read(m, got, sizeof got)) > 0)
        total -= n;
    SAME(total, 0);
    SAME(poll(&p, 1, 1000), 1);
    close_pair();
}

/* struct termio of System V: the lower halves of the flags and the first eight control characters. */
static void old_settings(void) {
    struct old { unsigned short iflag, oflag, cflag, lflag; unsigned char line, cc[8]; } o;
    struct termios t;
    CHECK(open_pair());
    CHECK(ioctl(s, TCGETA, &o) == 0 && tcgetattr(s, &t) == 0);
    SAME(o.lflag, t.c_lflag & 0xffff);
    SAME(o.cc[VINTR], t.c_cc[VINTR]);
    o.lflag &= ~(ECHO | ICANON), o.cc[VINTR] = 7;
    CHECK(ioctl(s, TCSETA, &o) == 0 && tcgetattr(s, &t) == 0);
    SAME(t.c_lflag & (ECHO | ICANON), 0);
    SAME(t.c_cc[VINTR], 7);
    FAILS(ioctl(s, TCGETA, (void *)8), EFAULT);
    CHECK(ioctl(s, TCSETAW, &o) == 0 && ioctl(s, TCSETAF, &o) == 0);
    close_pair();
}

GUEST(T(names), T(locked_slaves), T(canonical_lines), T(editing), T(ends_of_files), T(raw_mode), T(settings), T(flushing),
      T(stopping_output), T(packets), T(slaves_that_close), T(masters_that_close), T(controlling_terminals),
      T(typed_signals), T(resizing), T(hang_ups), T(job_control), T(orphaned_groups), T(full_buffers), T(old_settings))
