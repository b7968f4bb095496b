/* Network namespaces, network_namespaces(7): interfaces, addresses, ports, names and settings of their own. Each test runs in children, in a
 * user namespace unless root runs it. */
#include "guest.h"
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#define NEED(cond) do { if (!(cond)) { printf("# line %d: %s (errno %d)\n", __LINE__, #cond, errno); fflush(stdout); _exit(1); } } while (0)
#define REFUSED(call, err) do { errno = 0; NEED((call) == -1); NEED(errno == (err)); } while (0)

static int ended(pid_t child) {
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int in_child(void (*run)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run();
        _exit(0);
    }
    return ended(child);
}

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    NEED(fd >= 0 && write(fd, text, strlen(text)) > 0);
    close(fd);
}
static const char *get(const char *path) {
    static char text[8192];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    text[n < 0 ? 0 : n] = 0;
    return text;
}

/* A new network, with a user namespace for an ordinary user, who is root there. */
static void part(void) {
    unsigned uid = getuid(), gid = getgid();
    NEED(unshare(CLONE_NEWNET | (uid == 0 ? 0 : CLONE_NEWUSER)) == 0);
    if (uid == 0)
        return;
    char line[64];
    put("/proc/self/setgroups", "deny");
    snprintf(line, sizeof line, "0 %u 1", uid);
    put("/proc/self/uid_map", line);
    snprintf(line, sizeof line, "0 %u 1", gid);
    put("/proc/self/gid_map", line);
}

static void bring_lo_up(void) {
    struct ifreq lo = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    NEED(ioctl(fd, SIOCGIFFLAGS, &lo) == 0 && !(lo.ifr_flags & IFF_UP));
    lo.ifr_flags |= IFF_UP;
    NEED(ioctl(fd, SIOCSIFFLAGS, &lo) == 0);
    close(fd);
}

static struct sockaddr_in here(int port) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return name;
}
/* A listener at a port of its own choice, which it stores. */
static int listener(int *port) {
    struct sockaddr_in name = here(*port);
    socklen_t len = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    NEED(fd >= 0 && bind(fd, (struct sockaddr *)&name, len) == 0 && listen(fd, 5) == 0);
    NEED(getsockname(fd, (struct sockaddr *)&name, &len) == 0);
    *port = ntohs(name.sin_port);
    return fd;
}
static int connected(int port) {
    struct sockaddr_in name = here(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    NEED(fd >= 0);
    if (connect(fd, (struct sockaddr *)&name, sizeof name) == 0)
        return fd;
    int e = errno;
    close(fd);
    errno = e;
    return -1;
}

static void alone(void) {
    part();
    struct if_nameindex *all = if_nameindex();
    NEED(all != NULL && all[0].if_index == 1 && strcmp(all[0].if_name, "lo") == 0 && all[1].if_index == 0);
    if_freenameindex(all);
    NEED(strstr(get("/proc/net/dev"), "lo:") != NULL && strstr(get("/proc/net/dev"), "eth") == NULL);
    NEED(strstr(get("/proc/net/route"), "\neth") == NULL);
    /* It has no addresses and is down. */
    int port = 0;
    REFUSED(connected(80), ENETUNREACH);
    struct sockaddr_in name = here(0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    NEED(bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    struct ifreq lo = {.ifr_name = "lo"};
    REFUSED(ioctl(fd, SIOCGIFADDR, &lo), EADDRNOTAVAIL);
    bring_lo_up();
    NEED(ioctl(fd, SIOCGIFADDR, &lo) == 0);
    close(fd);
    int inside = listener(&port), client = connected(port);
    NEED(client >= 0);
    int server = accept(inside, NULL, NULL);
    char bytes[8];
    NEED(server >= 0 && write(client, "inside", 6) == 6 && read(server, bytes, 8) == 6 && memcmp(bytes, "inside", 6) == 0);
    close(client);
    NEED(read(server, bytes, 8) == 0);
}
static void a_new_network_has_lo_alone(void) { CHECK(in_child(alone)); }

static void ports(void) {
    int port = 0, outside = listener(&port);
    pid_t child = fork();
    if (child == 0) {
        part();
        bring_lo_up();
        REFUSED(connected(port), ECONNREFUSED);
        int inside = listener(&port), client = connected(port);
        NEED(client >= 0 && close(accept(inside, NULL, NULL)) == 0);
        NEED(strstr(get("/proc/net/tcp"), ":") != NULL);
        /* What was made outside stays there. */
        int server = accept(outside, NULL, NULL);
        char byte;
        NEED(server >= 0 && read(server, &byte, 1) == 1 && byte == 'o' && write(server, "i", 1) == 1);
        _exit(0);
    }
    int client = connected(port);
    char byte;
    NEED(client >= 0 && write(client, "o", 1) == 1 && read(client, &byte, 1) == 1 && byte == 'i');
    NEED(ended(child));
}
static void ports_are_a_networks_own(void) { CHECK(in_child(ports)); }

static void waiting(void) {
    int port = 0, outside = listener(&port), ready[2];
    char byte;
    NEED(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        part();
        bring_lo_up();
        int own = 0, inside = listener(&own), set = epoll_create1(0);
        struct epoll_event one = {.events = EPOLLIN, .data.fd = outside}, two = {.events = EPOLLIN, .data.fd = inside};
        NEED(epoll_ctl(set, EPOLL_CTL_ADD, outside, &one) == 0 && epoll_ctl(set, EPOLL_CTL_ADD, inside, &two) == 0);
        NEED(write(ready[1], "x", 1) == 1);
        NEED(epoll_wait(set, &one, 1, -1) == 1 && one.data.fd == outside);
        close(accept(outside, NULL, NULL));
        pid_t second = fork();
        if (second == 0)
            _exit(connected(own) >= 0 ? 0 : 1);
        NEED(epoll_wait(set, &one, 1, -1) == 1 && one.data.fd == inside);
        NEED(ended(second));
        struct timespec soon = {.tv_nsec = 1000000};
        /* Nothing more is there: the time runs out. */
        close(accept(inside, NULL, NULL));
        struct pollfd both[2] = {{outside, POLLIN, 0}, {inside, POLLIN, 0}};
        NEED(ppoll(both, 2, &soon, NULL) == 0);
        _exit(0);
    }
    NEED(read(ready[0], &byte, 1) == 1 && connected(port) >= 0);
    NEED(ended(child));
}
static void sockets_of_two_networks_are_waited_for(void) { CHECK(in_child(waiting)); }

static int unix_socket(const char *path, int abstract, int (*how)(int, const struct sockaddr *, socklen_t)) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path + abstract, sizeof name.sun_path - 1, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    NEED(fd >= 0);
    if (how(fd, (struct sockaddr *)&name, offsetof(struct sockaddr_un, sun_path) + abstract + strlen(path)) == 0)
        return fd;
    int e = errno;
    close(fd);
    errno = e;
    return -1;
}

static void names(void) {
    char name[64];
    snprintf(name, sizeof name, "guest-netspaces-%d", getpid());
    int abstract = unix_socket(name, 1, bind), path = unix_socket("socket", 0, bind);
    NEED(abstract >= 0 && path >= 0 && listen(abstract, 5) == 0 && listen(path, 5) == 0);
    pid_t child = fork();
    if (child == 0) {
        part();
        REFUSED(unix_socket(name, 1, connect), ECONNREFUSED);
        NEED(unix_socket(name, 1, bind) >= 0);
        NEED(strstr(get("/proc/net/unix"), "socket\n") == NULL);
        /* A path leads to a socket wherever it was made. */
        int fd = unix_socket("socket", 0, connect);
        NEED(fd >= 0 && write(fd, "x", 1) == 1);
        char byte;
        NEED(read(fd, &byte, 1) == 1 && byte == 'y');
        _exit(0);
    }
    int server = accept(path, NULL, NULL);
    char byte;
    NEED(server >= 0 && read(server, &byte, 1) == 1 && byte == 'x' && write(server, "y", 1) == 1);
    NEED(ended(child));
}
static void abstract_names_are_a_networks_own(void) {
    CHECK(in_child(names));
    unlink("socket");
}

static void settings(void) {
    char before[16];
    snprintf(before, sizeof before, "%.8s", get("/proc/sys/net/ipv4/ip_default_ttl"));
    part();
    NEED(strcmp(get("/proc/sys/net/ipv4/ip_default_ttl"), "64\n") == 0);
    put("/proc/sys/net/ipv4/ip_default_ttl", "99");
    NEED(strcmp(get("/proc/sys/net/ipv4/ip_default_ttl"), "99\n") == 0);
    NEED(access("/proc/sys/net/ipv4/conf/lo", F_OK) == 0 && access("/proc/sys/net/ipv4/conf/eth0", F_OK) == -1);
}
static void settings_are_a_networks_own(void) {
    char before[16];
    snprintf(before, sizeof before, "%.8s", get("/proc/sys/net/ipv4/ip_default_ttl"));
    CHECK(in_child(settings));
    CHECK(strcmp(before, get("/proc/sys/net/ipv4/ip_default_ttl")) == 0);
}

/* How many interfaces rtnetlink tells of, and the index of the last one. */
static int links(int fd, int *last) {
    struct { struct nlmsghdr head; struct ifinfomsg body; } ask = {
        {.nlmsg_len = sizeof ask, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP, .nlmsg_seq = 1}, {.ifi_family = AF_UNSPEC}};
    static char buffer[65536];
    int count = 0;
    NEED(send(fd, &ask, sizeof ask, 0) == sizeof ask);
    for (;;) {
        int n = recv(fd, buffer, sizeof buffer, 0);
        NEED(n > 0);
        for (struct nlmsghdr *one = (struct nlmsghdr *)buffer; NLMSG_OK(one, (unsigned)n); one = NLMSG_NEXT(one, n)) {
            if (one->nlmsg_type == NLMSG_DONE)
                return count;
            NEED(one->nlmsg_type == RTM_NEWLINK);
            *last = ((struct ifinfomsg *)NLMSG_DATA(one))->ifi_index;
            count++;
        }
    }
}

static void entering(void) {
    int own = open("/proc/self/ns/net", O_RDONLY), outside = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), last = 0;
    struct stat a, b;
    NEED(own >= 0 && outside >= 0 && stat("/proc/self/ns/net", &a) == 0);
    int before = links(outside, &last);
    part();
    NEED(stat("/proc/self/ns/net", &b) == 0 && a.st_ino != b.st_ino);
    int inside = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    NEED(links(inside, &last) == 1 && last == 1);
    /* A socket stays in its network. */
    NEED(links(outside, &last) == before);
    if (getuid() == 0 && setns(own, CLONE_NEWNET) == 0) {
        NEED(stat("/proc/self/ns/net", &b) == 0 && a.st_ino == b.st_ino);
        NEED(links(inside, &last) == 1 && links(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), &last) == before);
    }
}
static void networks_are_entered(void) { CHECK(in_child(entering)); }

static void many(void) {
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        if (child == 0) {
            part();
            bring_lo_up();
            int port = 0, inside = listener(&port);
            _exit(connected(port) >= 0 && accept(inside, NULL, NULL) >= 0 ? 0 : 1);
        }
        NEED(ended(child));
    }
}
static void networks_come_and_go(void) { CHECK(in_child(many)); }

static void child_in_one(void) {
    int flags = CLONE_NEWNET | (getuid() == 0 ? 0 : CLONE_NEWUSER) | SIGCHLD, last = 0;
    pid_t child = syscall(SYS_clone, flags, 0, 0, 0, 0);
    if (child == 0)
        _exit(links(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), &last) == 1 ? 0 : 1);
    NEED(ended(child));
}
static void a_child_is_made_in_one(void) { CHECK(in_child(child_in_one)); }

GUEST_WITH(scratch_enter(), T(a_new_network_has_lo_alone), T(ports_are_a_networks_own), T(sockets_of_two_networks_are_waited_for),
           T(abstract_names_are_a_networks_own), T(settings_are_a_networks_own), T(networks_are_entered), T(networks_come_and_go),
           T(a_child_is_made_in_one))
