/* Keys and keyrings: add_key(2), request_key(2), keyctl(2), keyrings(7). Where a container forbids them natively there is nothing
 * to compare with. */
#include "guest.h"
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { THREAD = -1, PROCESS = -2, SESSION = -3, USER = -4, USER_SESSION = -5, GROUP = -6 };
enum {
    GET_ID, JOIN, UPDATE, REVOKE, CHOWN, SETPERM, DESCRIBE, CLEAR, LINK, UNLINK, SEARCH, READ, INSTANTIATE, NEGATE, SET_DEFAULT,
    SET_TIMEOUT, ASSUME, GET_SECURITY, TO_PARENT, REJECT, INVALIDATE = 21, RESTRICT = 29, MOVE, CAPABILITIES
};
enum { WHO = 4321 };

static int add(const char *type, const char *name, const void *payload, size_t len, int ring) {
    return (int)syscall(SYS_add_key, type, name, payload, len, ring);
}
static int user_key(const char *name, int ring) { return add("user", name, "secret", 6, ring); }
static int ring_key(const char *name, int ring) { return add("keyring", name, NULL, 0, ring); }
static int request(const char *type, const char *name, const char *callout, int ring) {
    return (int)syscall(SYS_request_key, type, name, callout, ring);
}
static long ctl(int operation, long a, long b, long c, long d) { return syscall(SYS_keyctl, operation, a, b, c, d); }
static long ctl1(int operation, long a) { return ctl(operation, a, 0, 0, 0); }
static long ctl2(int operation, long a, long b) { return ctl(operation, a, b, 0, 0); }

/* True if a keyring has just these keys, in whatever order. */
static int holds(int ring, int count, const int *keys) {
    int found[8] = {0}, same = 0;
    if (ctl(READ, ring, (long)found, sizeof found, 0) != count * (long)sizeof *keys)
        return 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            same += keys[i] == found[j];
    return same == count;
}

/* The exit status of a child that runs `f`. */
static int child(int (*f)(int), int with) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(f(with));
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void types_say_what_a_payload_may_be(void) {
    static char much[1 << 20];
    CHECK(ctl1(JOIN, 0) > 0);
    CHECK(ring_key("abc", SESSION) > 0);
    FAILS(add("keyring", "bcd", "x", 1, SESSION), EINVAL);
    FAILS(add("user", "abc", "", 0, SESSION), EINVAL);
    FAILS(add("user", "abc", much, 32768, SESSION), EINVAL);
    FAILS(add("user", "abc", much, sizeof much, SESSION), EINVAL);
    FAILS(add("user", "", "x", 1, SESSION), EINVAL);
    FAILS(add("user", NULL, "x", 1, SESSION), EINVAL);
    FAILS(add("user", "abc", NULL, 1, SESSION), EFAULT);
    FAILS(add("logon", "abc", "x", 1, SESSION), EINVAL);
    FAILS(add("logon", ":abc", "x", 1, SESSION), EINVAL);
    int hidden = add("logon", "a:bc", "xyz", 3, SESSION);
    CHECK(hidden > 0);
    FAILS(ctl(READ, hidden, 0, 0, 0), EOPNOTSUPP);
    FAILS(add("no such type", "abc", "x", 1, SESSION), ENODEV);
    FAILS(add("a name that no type of a key can have", "abc", "x", 1, SESSION), EINVAL);
    FAILS(add("", "abc", "x", 1, SESSION), EINVAL);
    FAILS(add(".user", "abc", "x", 1, SESSION), EPERM);
    FAILS(ring_key(".abc", SESSION), EPERM);
    FAILS(add("user", "abc", "x", 1, GROUP), EINVAL);
    FAILS(add("user", "abc", "x", 1, 0), EINVAL);
    FAILS(add("user", "abc", "x", 1, hidden), ENOTDIR);
}

static void a_second_key_of_a_name_updates_or_replaces_the_first(void) {
    char text[16] = "";
    CHECK(ctl1(JOIN, 0) > 0);
    int key = user_key("k", SESSION);
    CHECK(key > 0);
    SAME(add("user", "k", "longer", 6, SESSION), key);
    SAME(ctl(UPDATE, key, (long)"new", 3, 0), 0);
    SAME(ctl(READ, key, (long)text, sizeof text, 0), 3);
    CHECK(strcmp(text, "new") == 0);
    /* less room than there is: nothing is stored */
    strcpy(text, "....");
    SAME(ctl(READ, key, (long)text, 2, 0), 3);
    CHECK(strcmp(text, "....") == 0);
    FAILS(ctl(UPDATE, key, (long)text, 4097, 0), EINVAL);
    FAILS(ctl(UPDATE, key, 0, 3, 0), EFAULT);
    int ring = ring_key("r", SESSION), again = ring_key("r", SESSION);
    CHECK(ring > 0 && again > 0 && ring != again);
    FAILS(ctl(UPDATE, again, (long)"x", 1, 0), EOPNOTSUPP);
    int both[] = {key, again};
    CHECK(holds(SESSION, 2, both));
    /* a revoked key is not updated */
    SAME(ctl1(REVOKE, key), 0);
    int other = user_key("k", SESSION);
    CHECK(other > 0 && other != key);
}

static void keys_describe_themselves(void) {
    char text[128], wanted[128], label[8] = "xx";
    CHECK(ctl1(JOIN, 0) > 0);
    int key = user_key("a name", SESSION);
    snprintf(wanted, sizeof wanted, "user;%d;%d;3f010000;a name", getuid(), getgid());
    SAME(ctl(DESCRIBE, key, (long)text, sizeof text, 0), strlen(wanted) + 1);
    CHECK(strcmp(text, wanted) == 0);
    SAME(ctl(DESCRIBE, key, 0, 0, 0), strlen(wanted) + 1);
    SAME(ctl(SETPERM, key, 0x3f1f0b01, 0, 0), 0);
    CHECK(ctl(DESCRIBE, key, (long)text, sizeof text, 0) > 0 && strstr(text, ";3f1f0b01;") != NULL);
    FAILS(ctl2(SETPERM, key, 0x80000000), EINVAL);
    CHECK(ctl(GET_SECURITY, key, (long)label, sizeof label, 0) > 0);
    CHECK(ctl(DESCRIBE, SESSION, (long)text, sizeof text, 0) > 0 && strncmp(text, "keyring;", 8) == 0 && strstr(text, ";3f030000;_ses"));
    SAME(ctl(CHOWN, key, -1, -1, 0), 0);
    SAME(ctl(CHOWN, key, getuid(), getgid(), 0), 0);
    /* without the right to view it */
    SAME(ctl2(SETPERM, key, 0x3e000000), 0);
    FAILS(ctl(DESCRIBE, key, 0, 0, 0), EACCES);
    FAILS(ctl(DESCRIBE, 0x7ffffff0, 0, 0, 0), ENOKEY);
}

static void rings_hold_links(void) {
    CHECK(ctl1(JOIN, 0) > 0);
    int ring = ring_key("r", SESSION), below = ring_key("b", ring), key = user_key("k", below);
    CHECK(ring > 0 && below > 0 && key > 0);
    CHECK(holds(below, 1, &key));
    SAME(ctl2(LINK, key, ring), 0);
    SAME(ctl2(LINK, key, ring), 0);
    int both[] = {below, key};
    CHECK(holds(ring, 2, both));
    FAILS(ctl2(LINK, ring, below), EDEADLK);
    FAILS(ctl2(LINK, ring, ring), EDEADLK);
    FAILS(ctl2(LINK, key, key), ENOTDIR);
    FAILS(ctl1(CLEAR, key), ENOTDIR);
    SAME(ctl2(UNLINK, key, ring), 0);
    FAILS(ctl2(UNLINK, key, ring), ENOENT);
    FAILS(ctl2(UNLINK, below, key), ENOTDIR);
    SAME(ctl1(CLEAR, below), 0);
    CHECK(holds(below, 0, NULL));
    key = user_key("k", ring);
    SAME(ctl(MOVE, key, ring, below, 0), 0);
    CHECK(holds(below, 1, &key) && holds(ring, 1, &below));
    FAILS(ctl(MOVE, key, ring, below, 0), ENOENT);
    int twin = user_key("k", ring);
    FAILS(ctl(MOVE, twin, ring, below, 1), EEXIST);
    FAILS(ctl(MOVE, twin, ring, below, 2), EINVAL);
    SAME(ctl(MOVE, twin, ring, below, 0), 0);
    CHECK(holds(below, 1, &twin));
    /* room for the numbers of keys comes in whole numbers */
    char odd[7];
    FAILS(ctl(READ, below, (long)odd, sizeof odd, 0), EINVAL);
}

static void a_restricted_ring_takes_nothing_more(void) {
    CHECK(ctl1(JOIN, 0) > 0);
    int ring = ring_key("r", SESSION), key = user_key("k", ring);
    FAILS(ctl(RESTRICT, ring, (long)"user", 0, 0), EINVAL);
    FAILS(ctl(RESTRICT, ring, (long)"user", (long)"x", 0), ENOENT);
    FAILS(ctl(RESTRICT, key, 0, 0, 0), ENOTDIR);
    SAME(ctl(RESTRICT, ring, 0, 0, 0), 0);
    FAILS(ctl(RESTRICT, ring, 0, 0, 0), EEXIST);
    FAILS(user_key("l", ring), EPERM);
    FAILS(ctl2(LINK, key, ring), EPERM);
    SAME(ctl2(UNLINK, key, ring), 0);
}

static void searches_go_down_from_the_threads_rings(void) {
    CHECK(ctl1(JOIN, 0) > 0);
    int ring = ring_key("r", SESSION), below = ring_key("b", ring), key = user_key("found", below);
    CHECK(ring > 0 && below > 0 && key > 0);
    SAME(ctl(SEARCH, SESSION, (long)"user", (long)"found", 0), key);
    SAME(ctl(SEARCH, ring, (long)"keyring", (long)"b", 0), below);
    FAILS(ctl(SEARCH, ring, (long)"user", (long)"lost", 0), ENOKEY);
    FAILS(ctl(SEARCH, ring, (long)"no such type", (long)"found", 0), ENOKEY);
    FAILS(ctl(SEARCH, key, (long)"user", (long)"found", 0), ENOTDIR);
    SAME(request("user", "found", NULL, 0), key);
    SAME(request("user", "found", NULL, ring), key);
    int both[] = {below, key};
    CHECK(holds(ring, 2, both));
    FAILS(request("user", "lost", NULL, 0), ENOKEY);
    FAILS(request("no such type", "found", NULL, 0), ENOKEY);
    FAILS(request("keyring", "lost", "how", SESSION), EPERM);
    FAILS(request("user", (char *)-1, NULL, 0), EFAULT);
    FAILS(request((char *)-1, "found", NULL, 0), EFAULT);
    FAILS(request("user", "found", (char *)-1, 0), EFAULT);
    FAILS(request(".user", "found", NULL, 0), EPERM);
    /* a ring that may not be searched hides what is below it */
    SAME(ctl2(SETPERM, ring, 0x37000000), 0);
    FAILS(request("user", "found", NULL, 0), ENOKEY);
}

static void a_key_that_nobody_makes_is_known_not_to_exist(void) {
    int key = 0;
    CHECK(ctl1(JOIN, 0) > 0);
    CHECK(request("user", "guest test, lost", "how", SESSION) == -1 && (errno == ENOENT || errno == ENOKEY));
    FAILS(request("user", "guest test, lost", "how", SESSION), ENOKEY);
    SAME(ctl(READ, SESSION, (long)&key, sizeof key, 0), sizeof key);
    FAILS(ctl(READ, key, 0, 0, 0), ENOKEY);
    FAILS(ctl1(REVOKE, key), ENOKEY);
    /* a payload makes it exist */
    SAME(user_key("guest test, lost", SESSION), key);
    SAME(request("user", "guest test, lost", "how", SESSION), key);
    /* who may not write to the ring that it would be in does not get it */
    CHECK(ctl1(JOIN, 0) > 0);
    SAME(ctl2(SETPERM, SESSION, 0x0b000000), 0);
    SAME(ctl1(SET_DEFAULT, 3), 0);
    FAILS(request("user", "guest test, lost", "how", 0), EACCES);
    SAME(ctl1(SET_DEFAULT, 0), 3);
    FAILS(ctl1(SET_DEFAULT, 6), EINVAL);
    SAME(ctl1(SET_DEFAULT, -1), 0);
}

static void keys_end(void) {
    char text[8];
    CHECK(ctl1(JOIN, 0) > 0);
    int expires = user_key("e", SESSION), kept = user_key("k", SESSION), revoked = user_key("r", SESSION), gone = user_key("g", SESSION);
    SAME(ctl2(SET_TIMEOUT, expires, 1), 0);
    SAME(ctl2(SET_TIMEOUT, kept, 1), 0);
    SAME(ctl2(SET_TIMEOUT, kept, 0), 0);
    SAME(ctl1(REVOKE, revoked), 0);
    FAILS(ctl(READ, revoked, (long)text, sizeof text, 0), EKEYREVOKED);
    FAILS(ctl1(REVOKE, revoked), EKEYREVOKED);
    FAILS(request("user", "r", NULL, 0), EKEYREVOKED);
    SAME(ctl1(INVALIDATE, gone), 0);
    /* on Linux it is nobody's at once, and gone some time later */
    for (int i = 0; i < 3000 && ctl(READ, gone, (long)text, sizeof text, 0) == -1 && errno == EACCES; i++)
        sleep_ms(1);
    FAILS(ctl(READ, gone, (long)text, sizeof text, 0), ENOKEY);
    FAILS(ctl1(INVALIDATE, gone), ENOKEY);
    sleep_ms(2100);
    FAILS(ctl(READ, expires, (long)text, sizeof text, 0), EKEYEXPIRED);
    FAILS(ctl2(LINK, expires, SESSION), EKEYEXPIRED);
    SAME(ctl(READ, kept, (long)text, sizeof text, 0), 6);
    int ring = ring_key("r", SESSION);
    SAME(ctl1(REVOKE, ring), 0);
    FAILS(user_key("x", ring), EKEYREVOKED);
}

static int in_a_child(int process_ring) {
    if (ctl2(GET_ID, PROCESS, 0) != -1 || errno != ENOKEY)
        return 1;
    if (ctl2(GET_ID, THREAD, 0) != -1 || errno != ENOKEY)
        return 2;
    if (ctl2(GET_ID, process_ring, 0) != -1 || errno != EACCES)
        return 3;
    return ctl2(GET_ID, PROCESS, 1) != process_ring ? 0 : 4;
}

static int session_in_a_child(int session) { return ctl2(GET_ID, SESSION, 0) == session ? 0 : 1; }

static int through_execution(int session) {
    char number[16];
    snprintf(number, sizeof number, "%d", session);
    if (ctl2(GET_ID, PROCESS, 1) <= 0 || ctl2(GET_ID, THREAD, 1) <= 0)
        return 11;
    execl("/proc/self/exe", "keys", "executed", number, (char *)NULL);
    return 12;
}

/* What the program does when it is executed for this. */
static int executed(int session) {
    if (ctl2(GET_ID, PROCESS, 0) != -1 || errno != ENOKEY)
        return 1;
    if (ctl2(GET_ID, THREAD, 0) != -1 || errno != ENOKEY)
        return 2;
    return session_in_a_child(session) == 0 ? 0 : 3;
}

static void children_have_the_session_alone(void) {
    int session = (int)ctl1(JOIN, 0);
    CHECK(session > 0 && ctl2(GET_ID, THREAD, 1) > 0);
    int ring = (int)ctl2(GET_ID, PROCESS, 1);
    SAME(ctl2(GET_ID, PROCESS, 0), ring);
    SAME(child(in_a_child, ring), 0);
    SAME(child(session_in_a_child, session), 0);
    SAME(child(through_execution, session), 0);
}

static void *in_a_thread(void *rings) {
    int *of = rings;
    TCHECK(ctl2(GET_ID, PROCESS, 0) == of[0]);
    long own = ctl2(GET_ID, THREAD, 0);
    TCHECK(own > 0 && own != of[1]);
    /* the session of one thread is its own once it joins another */
    TCHECK(ctl1(JOIN, 0) > 0 && ctl2(GET_ID, SESSION, 0) != of[2]);
    return of;
}

static void threads_share_the_process_ring(void) {
    int of[3];
    of[2] = (int)ctl1(JOIN, 0);
    of[1] = (int)ctl2(GET_ID, THREAD, 1);
    of[0] = (int)ctl2(GET_ID, PROCESS, 1);
    CHECK(of[0] > 0 && of[1] > 0 && of[2] > 0);
    pthread_t thread;
    void *result = NULL;
    CHECK(pthread_create(&thread, NULL, in_a_thread, of) == 0 && pthread_join(thread, &result) == 0);
    CHECK(result == of);
    SAME(ctl2(GET_ID, SESSION, 0), of[2]);
}

static int joins(int session) { return ctl1(JOIN, (long)"guest test, s") == session ? 0 : 1; }

static int gives(int unused) {
    (void)unused;
    return ctl1(JOIN, (long)"guest test, given") > 0 && ctl1(TO_PARENT, 0) == 0 ? 0 : 1;
}

static void sessions_are_joined_and_given(void) {
    char text[64];
    int session = (int)ctl1(JOIN, (long)"guest test, s");
    CHECK(session > 0);
    FAILS(ctl1(JOIN, (long)""), EINVAL);
    FAILS(ctl1(JOIN, (long)".guest"), EPERM);
    /* only a ring that its user may search is found by its name */
    SAME(child(joins, session), 1);
    SAME(ctl2(SETPERM, session, 0x3f1b0000), 0);
    CHECK(ctl1(JOIN, 0) != session);
    /* it goes with the last who had it, on Linux some time later */
    for (int i = 0; i < 3000 && ctl(DESCRIBE, session, 0, 0, 0) != -1; i++)
        sleep_ms(1);
    FAILS(ctl(DESCRIBE, session, 0, 0, 0), ENOKEY);
    session = (int)ctl1(JOIN, (long)"guest test, s");
    SAME(ctl2(SETPERM, session, 0x3f1b0000), 0);
    int ring = (int)ctl2(GET_ID, PROCESS, 1);
    SAME(ctl2(LINK, session, ring), 0);
    CHECK(ctl1(JOIN, 0) != session);
    SAME(child(joins, session), 0);
    SAME(ctl2(UNLINK, session, ring), 0);
    SAME(child(gives, 0), 0);
    CHECK(ctl(DESCRIBE, SESSION, (long)text, sizeof text, 0) > 0 && strstr(text, ";guest test, given") != NULL);
}

static int other_user(int key) {
    char text[8];
    if (setgid(WHO) != 0 || setuid(WHO) != 0)
        return 10;
    return ctl(READ, key, (long)text, sizeof text, 0) == -1 && errno == EACCES ? 0 : 1;
}

static int open_to_others(int key) {
    char text[8];
    if (setgid(WHO) != 0 || setuid(WHO) != 0)
        return 10;
    if (ctl(READ, key, (long)text, sizeof text, 0) != 6)
        return 1;
    if (ctl2(SETPERM, key, 0x3f3f3f3f) != -1 || errno != EACCES)
        return 2;
    if (ctl(CHOWN, key, WHO, -1, 0) != -1 || errno != EACCES)
        return 3;
    return ctl1(REVOKE, key) == -1 && errno == EACCES ? 0 : 4;
}

static int thread_ring_follows(int unused) {
    char text[64], wanted[64];
    (void)unused;
    if (ctl2(GET_ID, THREAD, 1) <= 0 || setgid(WHO) != 0 || setuid(WHO) != 0)
        return 10;
    snprintf(wanted, sizeof wanted, "keyring;%d;%d;3f010000;_tid", WHO, WHO);
    return ctl(DESCRIBE, THREAD, (long)text, sizeof text, 0) > 0 && strcmp(text, wanted) == 0 ? 0 : 1;
}

static int until_the_quota(int unused) {
    char name[16], line[128];
    int most = 0, used = -1;
    (void)unused;
    if (setgid(WHO) != 0 || setuid(WHO) != 0)
        return 10;
    FILE *f = fopen("/proc/sys/kernel/keys/maxkeys", "r");
    if (f == NULL || fscanf(f, "%d", &most) != 1)
        return 11;
    fclose(f);
    int n = 0;
    do
        snprintf(name, sizeof name, "%d", n);
    while (n++ <= most && user_key(name, PROCESS) > 0);
    if (n > most || errno != EDQUOT)
        return 1;
    f = fopen("/proc/key-users", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        int uid, keys;
        if (sscanf(line, "%d: %*d %*d/%*d %d/%*d", &uid, &keys) == 2 && uid == WHO)
            used = keys;
    }
    return used == most ? 0 : 2;
}

static void others_have_the_rights_they_are_given(void) {
    if (getuid() != 0)
        return;
    CHECK(ctl1(JOIN, 0) > 0);
    int key = user_key("k", SESSION), open = user_key("o", SESSION);
    SAME(ctl2(SETPERM, open, 0x3f010003), 0);
    /* a session that may not be searched gives its keys to nobody */
    SAME(ctl2(SETPERM, SESSION, 0), 0);
    SAME(child(other_user, key), 0);
    SAME(child(open_to_others, open), 0);
    SAME(child(thread_ring_follows, 0), 0);
    SAME(child(until_the_quota, 0), 0);
    CHECK(ctl1(JOIN, 0) > 0);
    int given = user_key("g", SESSION);
    char text[64];
    /* what the child had is given back some time later */
    for (int i = 0; i < 3000 && ctl(CHOWN, given, WHO, WHO, 0) != 0 && errno == EDQUOT; i++)
        sleep_ms(1);
    SAME(ctl(CHOWN, given, WHO, WHO, 0), 0);
    CHECK(ctl(DESCRIBE, given, (long)text, sizeof text, 0) > 0 && strncmp(text, "user;4321;4321;", 15) == 0);
}

static void users_have_rings_that_stay(void) {
    char text[64], wanted[64];
    long user = ctl2(GET_ID, USER, 0), session = ctl2(GET_ID, USER_SESSION, 0);
    CHECK(user > 0 && session > 0 && user != session);
    SAME(ctl2(GET_ID, USER, 1), user);
    snprintf(wanted, sizeof wanted, "keyring;%d;65534;1f3f0000;_uid.%d", getuid(), getuid());
    CHECK(ctl(DESCRIBE, user, (long)text, sizeof text, 0) > 0);
    CHECK(strcmp(text, wanted) == 0 || strstr(text, ";-1;1f3f0000;_uid.") != NULL);
    SAME(ctl(SEARCH, USER_SESSION, (long)"keyring", (long)strrchr(wanted, ';') + 1, 0), user);
}

static void what_is_refused(void) {
    unsigned char told[4] = {9, 9, 9, 9};
    FAILS(ctl(INSTANTIATE, 5, (long)"x", 1, 0), EPERM);
    FAILS(ctl(INSTANTIATE, 5, (long)"x", 1 << 20, 0), EINVAL);
    FAILS(ctl(NEGATE, 5, 10, 0, 0), EPERM);
    FAILS(ctl(REJECT, 5, 10, ENOKEY, 0), EPERM);
    FAILS(ctl(REJECT, 5, 10, 0, 0), EINVAL);
    SAME(ctl1(ASSUME, 0), 0);
    FAILS(ctl1(ASSUME, -2), EINVAL);
    FAILS(ctl1(ASSUME, 5), ENOKEY);
    FAILS(ctl1(4711, 0), EOPNOTSUPP);
    FAILS(ctl1(REVOKE, 0), EINVAL);
    FAILS(ctl1(REVOKE, -7), ENOKEY);
    SAME(ctl2(CAPABILITIES, (long)told, sizeof told), 2);
    CHECK((told[0] & 0xe1) == 0xe1 && told[2] == 0 && told[3] == 0);
}

static void proc_lists_keys(void) {
    char line[256], wanted[64], text[256] = "";
    CHECK(ctl1(JOIN, 0) > 0);
    int key = user_key("guest test, listed", SESSION);
    snprintf(wanted, sizeof wanted, "%08x ", key);
    FILE *f = fopen("/proc/keys", "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, wanted, strlen(wanted)) == 0)
            strcpy(text, line);
    fclose(f);
    snprintf(wanted, sizeof wanted, "perm 3f010000 %5d %5d user      guest test, listed: 6\n", getuid(), getgid());
    CHECK(strncmp(text + 9, "I--Q---", 7) == 0 && strstr(text, wanted) != NULL);
}

/* Keys are not there everywhere: containers forbid them, and all who are the same user share that user's keyrings and may have
 * taken them from each other. */
static int first(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "executed") == 0)
        exit(executed(atoi(argv[2])));
    if (ctl1(JOIN, 0) == -1 || ctl2(GET_ID, USER, 0) == -1) {
        printf("# skipped: keyrings cannot be used here: %s\n", strerror(errno));
        exit(77);
    }
    return 0;
}

GUEST_WITH(first(argc, argv), T(types_say_what_a_payload_may_be), T(a_second_key_of_a_name_updates_or_replaces_the_first),
           T(keys_describe_themselves), T(rings_hold_links), T(a_restricted_ring_takes_nothing_more),
           T(searches_go_down_from_the_threads_rings), T(a_key_that_nobody_makes_is_known_not_to_exist), T(keys_end),
           T(children_have_the_session_alone), T(sessions_are_joined_and_given), T(others_have_the_rights_they_are_given),
           T(users_have_rings_that_stay), T(what_is_refused), T(proc_lists_keys), T(threads_share_the_process_ring))
