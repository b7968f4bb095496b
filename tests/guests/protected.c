/* Links and files of others in directories that everybody may write to, proc_sys_fs(5) "protected_*", by the settings that are in force;
 * and giving files away, chown(2). As root, by children that have become somebody else; an ordinary user cannot try. */
#include "guest.h"
#include <sys/wait.h>

enum { WHO = 4321, OTHER = 4322, OWNER = 4323 };
enum { FIFOS, HARDLINKS, REGULAR, SYMLINKS, SETTINGS };
static const char *const names[] = {"fifos", "hardlinks", "regular", "symlinks"};
static int setting[SETTINGS];
static int folder = -1;

static int prepare(void) {
    if (geteuid() != 0)
        return 0;
    for (int i = 0; i < SETTINGS; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/sys/fs/protected_%s", names[i]);
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%d", &setting[i]) != 1)
            setting[i] = 0;
        if (file)
            fclose(file);
    }
    static int made;
    char path[64];
    snprintf(path, sizeof path, "/tmp/protected-%d-%d", getpid(), made++);
    folder = mkdir(path, 0700) == 0 ? open(path, O_RDONLY | O_DIRECTORY) : -1;
    return folder >= 0 && chmod(path, 01777) == 0 && fchdir(folder) == 0 && chown(".", OWNER, 0) == 0;
}
static void clean(void) {
    char path[4096];
    static const char *const all[] = {"file", "fifo", "link", "other", "program", "own"};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        unlink(all[i]);
    if (getcwd(path, sizeof path) && chdir("/") == 0)
        rmdir(path);
    close(folder);
}
static int make(const char *name, int mode, int uid) {
    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    return fd >= 0 && fchown(fd, uid, uid) == 0 && fchmod(fd, mode) == 0 && close(fd) == 0;
}

/* The errno of `f` as somebody, 0 if it went well. */
static int as(int uid, int (*f)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(setgid(uid) != 0 || setuid(uid) != 0 ? 255 : f() == -1 ? errno : 0);
    int status = -1;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static int reads_link(void) { return open("link", O_RDONLY); }
static int opens_link_itself(void) { return open("link", O_PATH | O_NOFOLLOW); }
static int creates(void) { return open("file", O_CREAT | O_WRONLY, 0600); }
static int writes(void) { return open("file", O_WRONLY); }
static int creates_fifo(void) { return open("fifo", O_CREAT | O_RDWR | O_NONBLOCK, 0600); }
static int links(void) { return link("file", "other"); }
static int links_program(void) { return link("program", "other"); }
static int links_fifo(void) { return link("fifo", "other"); }
static int allocates(void) {
    int fd = open("file", O_WRONLY);
    return fd < 0 ? -1 : fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4096);
}
static int empties(void) { return open("file", O_RDONLY | O_TRUNC); }
static int cuts_fifo(void) { return truncate("fifo", 0); }
static int keeps_owner(void) { return chown("file", -1, -1); }
static int says_owner(void) { return chown("file", WHO, -1); }
static int says_group(void) { return chown("file", -1, WHO); }

static void symlinks_of_others(void) {
    if (!prepare())
        return;
    CHECK(make("file", 0666, OTHER) && symlink("file", "link") == 0 && lchown("link", OTHER, OTHER) == 0);
    int refused = setting[SYMLINKS] ? EACCES : 0;
    SAME(as(WHO, reads_link), refused);
    SAME(as(OTHER, reads_link), 0);
    SAME(as(WHO, opens_link_itself), 0);
    SAME(reads_link() == -1 ? errno : 0, refused);
    CHECK(lchown("link", OWNER, OWNER) == 0);
    SAME(as(WHO, reads_link), 0);
    CHECK(lchown("link", OTHER, OTHER) == 0 && chmod(".", 0777) == 0);
    SAME(as(WHO, reads_link), 0);
    clean();
}

static void files_of_others(void) {
    if (!prepare())
        return;
    CHECK(make("file", 0666, OTHER) && mkfifo("fifo", 0666) == 0 && chmod("fifo", 0666) == 0 && chown("fifo", OTHER, OTHER) == 0);
    SAME(as(WHO, creates), setting[REGULAR] ? EACCES : 0);
    SAME(as(WHO, writes), 0);
    SAME(as(OTHER, creates), 0);
    SAME(creates() == -1 ? errno : 0, setting[REGULAR] ? EACCES : 0);
    SAME(as(WHO, creates_fifo), setting[FIFOS] ? EACCES : 0);
    SAME(as(OTHER, creates_fifo), 0);
    CHECK(chmod(".", 01775) == 0);
    SAME(as(WHO, creates), setting[REGULAR] > 1 ? EACCES : 0);
    SAME(as(WHO, creates_fifo), setting[FIFOS] > 1 ? EACCES : 0);
    clean();
}

static void links_to_files_of_others(void) {
    if (!prepare())
        return;
    int refused = setting[HARDLINKS] ? EPERM : 0;
    CHECK(make("file", 0644, OTHER) && make("program", 04777, OTHER));
    SAME(as(WHO, links), refused);
    unlink("other");
    SAME(as(OTHER, links), 0);
    unlink("other");
    CHECK(chmod("file", 0666) == 0);
    SAME(as(WHO, links), 0);
    unlink("other");
    SAME(as(WHO, links_program), refused);
    unlink("other");
    CHECK(mkfifo("fifo", 0666) == 0 && chmod("fifo", 0666) == 0);
    SAME(as(WHO, links_fifo), refused);
    unlink("other");
    SAME(links_fifo(), 0);
    unlink("other");
    /* The file comes before the directory. */
    CHECK(chmod("file", 0600) == 0 && chmod(".", 0755) == 0);
    SAME(as(WHO, links), setting[HARDLINKS] ? EPERM : EACCES);
    clean();
}

static void owners_that_stay(void) {
    if (!prepare())
        return;
    CHECK(make("file", 0644, OTHER));
    SAME(as(WHO, keeps_owner), 0);
    SAME(as(WHO, says_owner), EPERM);
    SAME(as(WHO, says_group), EPERM);
    CHECK(chmod("file", 04755) == 0);
    SAME(as(WHO, keeps_owner), EPERM);
    struct stat s;
    CHECK(stat("file", &s) == 0);
    SAME(s.st_mode & 07777, 04755);
    SAME(as(OTHER, keeps_owner), 0);
    CHECK(stat("file", &s) == 0);
    SAME(s.st_mode & 07777, 0755);
    clean();
}

static int keeps_owner_of_group(void) { return chown("file", OTHER, -1); }

static void set_group_id_of_a_group(void) {
    if (!prepare())
        return;
    struct stat s;
    /* Mandatory locking once: it stays for members of the group, and is lost for others. */
    CHECK(make("file", 02644, OTHER));
    SAME(as(OTHER, keeps_owner_of_group), 0);
    CHECK(stat("file", &s) == 0);
    SAME(s.st_mode & 07777, 02644);
    CHECK(chown("file", OTHER, WHO) == 0 && chmod("file", 02644) == 0);
    SAME(as(OTHER, keeps_owner_of_group), 0);
    CHECK(stat("file", &s) == 0);
    SAME(s.st_mode & 07777, 0644);
    CHECK(chmod("file", 06777) == 0);
    SAME(allocates() == -1 ? errno : 0, 0);
    CHECK(stat("file", &s) == 0);
    SAME(s.st_mode & 07777, 06777);
    SAME(as(WHO, allocates), 0);
    CHECK(stat("file", &s) == 0);
    SAME(s.st_mode & 07777, 0777);
    CHECK(chmod("file", 06777) == 0);
    SAME(as(WHO, empties), 0);
    CHECK(stat("file", &s) == 0);
    SAME(s.st_mode & 07777, 0777);
    CHECK(mkfifo("fifo", 0600) == 0);
    int fd = open("fifo", O_RDWR);
    CHECK(fd >= 0 && chmod("fifo", 02711) == 0 && fchown(fd, OTHER, OTHER) == 0 && close(fd) == 0);
    CHECK(stat("fifo", &s) == 0);
    SAME(s.st_mode & 07777, 0711);
    clean();
}

static void only_files_are_cut(void) {
    if (!prepare())
        return;
    CHECK(mkfifo("fifo", 0600) == 0);
    SAME(as(WHO, cuts_fifo), EINVAL);
    clean();
}

GUEST(T(symlinks_of_others), T(files_of_others), T(links_to_files_of_others), T(owners_that_stay), T(set_group_id_of_a_group),
      T(only_files_are_cut))
