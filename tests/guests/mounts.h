/* What programs share that mount, in a mount namespace of their own. */
#ifndef MOUNTS_H
#define MOUNTS_H
#include "guest.h"
#include <sched.h>
#include <sys/mount.h>

#define ST_VALID 0x20

/* The line of a file of /proc that holds `part`, or an empty one. */
static const char *line_with(const char *file, const char *part) {
    static char found[1024];
    FILE *f = fopen(file, "r");
    while (f != NULL && fgets(found, sizeof found, f) != NULL)
        if (strstr(found, part) != NULL) {
            fclose(f);
            return found;
        }
    if (f != NULL)
        fclose(f);
    return strcpy(found, "");
}
static int put(const char *path, const char *text) {
    int f = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    int ok = f >= 0 && write(f, text, strlen(text)) == (ssize_t)strlen(text);
    return f >= 0 && close(f) == 0 && ok;
}
static int holds(const char *path, const char *text) {
    char there[64] = "";
    int f = open(path, O_RDONLY);
    int ok = f >= 0 && read(f, there, sizeof there - 1) >= 0 && strcmp(there, text) == 0;
    return f >= 0 && close(f) == 0 && ok;
}

static int alone(void) {
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        puts("# skipped: mounting takes root");
        return 0;
    }
    scratch_enter();
    chmod(".", 0755);
    return 1;
}

#endif
