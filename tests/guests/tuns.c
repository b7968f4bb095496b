/* TUN and TAP interfaces: packets to and from a program. */
#include "privileged.h"
#include <linux/if_tun.h>
#include <net/ethernet.h>

static int tun_open(char *name, int flags) {
    int fd = open("/dev/net/tun", O_RDWR);
    struct ifreq r = {.ifr_flags = flags};
    strcpy(r.ifr_name, name);
    if (fd >= 0 && ioctl(fd, TUNSETIFF, &r) != 0) {
        close(fd);
        return -1;
    }
    strcpy(name, r.ifr_name);
    return fd;
}

/* Up, with an address of a /24. */
static int configure(const char *name, const char *ip) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq r = {0};
    strcpy(r.ifr_name, name);
    struct sockaddr_in own = at(ip, 0), mask = at("255.255.255.0", 0);
    memcpy(&r.ifr_addr, &own, sizeof own);
    int ok = ioctl(s, SIOCSIFADDR, &r) == 0;
    memcpy(&r.ifr_netmask, &mask, sizeof mask);
    ok = ok && ioctl(s, SIOCSIFNETMASK, &r) == 0;
    ok = ok && ioctl(s, SIOCGIFFLAGS, &r) == 0;
    r.ifr_flags |= IFF_UP;
    ok = ok && ioctl(s, SIOCSIFFLAGS, &r) == 0;
    close(s);
    return ok;
}

/* The next packet that is UDP over IPv4 (others may come in between). */
static int next_udp(int fd, unsigned char *b, int room, int ip_at) {
    for (int i = 0; i < 20; i++) {
        if (!comes(fd, 1000))
            return -1;
        int n = read(fd, b, room);
        if (n >= ip_at + 28 && b[ip_at] == 0x45 && b[ip_at + 9] == 17)
            return n;
    }
    return -1;
}

static void swap(unsigned char *a, unsigned char *b, int n) {
    for (int i = 0; i < n; i++) {
        unsigned char c = a[i];
        a[i] = b[i];
        b[i] = c;
    }
}

/* The answer to a datagram: addresses and ports the other way round, no checksum. */
static void turn_round(unsigned char *ip) {
    swap(ip + 12, ip + 16, 4);
    swap(ip + 20, ip + 22, 2);
    ip[26] = ip[27] = 0;
}

static void packets_go_to_a_program_and_come_back(void) {
    char name[IFNAMSIZ] = "";
    int fd = tun_open(name, IFF_TUN | IFF_NO_PI);
    CHECK(fd >= 0);
    SAME(strncmp(name, "tun", 3), 0);
    CHECK(configure(name, "10.77.0.1"));
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = at("10.77.0.9", 4000);
    SAME(sendto(s, "hello", 5, 0, (struct sockaddr *)&to, sizeof to), 5);
    unsigned char b[2000];
    SAME(next_udp(fd, b, sizeof b, 0), 33);
    SAME(memcmp(b + 28, "hello", 5), 0);
    SAME(b[16] << 24 | b[17] << 16 | b[18] << 8 | b[19], 0x0a4d0009);
    turn_round(b);
    SAME(write(fd, b, 33), 33);
    CHECK(comes(s, 1000));
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    SAME(recvfrom(s, b, sizeof b, 0, (struct sockaddr *)&from, &len), 5);
    SAME(from.sin_addr.s_addr, to.sin_addr.s_addr);
    FAILS(write(fd, "zero", 4), EINVAL); /* IP of version 7 */
    close(s);
    close(fd);
    SAME(if_nametoindex(name), 0); /* gone with its program */
}

static void packets_have_information_in_front_of_them(void) {
    char name[IFNAMSIZ] = "probe%d";
    int fd = tun_open(name, IFF_TUN);
    CHECK(fd >= 0);
    SAME(strcmp(name, "probe0"), 0);
    CHECK(configure(name, "10.77.1.1"));
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = at("10.77.1.9", 4000);
    SAME(sendto(s, "x", 1, 0, (struct sockaddr *)&to, sizeof to), 1);
    unsigned char b[2000];
    SAME(next_udp(fd, b, sizeof b, 4), 4 + 29);
    SAME(b[2] << 8 | b[3], ETH_P_IP);
    SAME(b[0] | b[1], 0);
    struct ifreq r = {0};
    SAME(ioctl(fd, TUNGETIFF, &r), 0);
    SAME(strcmp(r.ifr_name, "probe0"), 0);
    CHECK(r.ifr_flags & IFF_TUN);
    close(s);
    close(fd);
}

static void a_tap_speaks_ethernet(void) {
    char name[IFNAMSIZ] = "tap7";
    int fd = tun_open(name, IFF_TAP | IFF_NO_PI);
    CHECK(fd >= 0);
    CHECK(configure(name, "10.77.2.1"));
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = at("10.77.2.9", 4000);
    SAME(sendto(s, "over", 4, 0, (struct sockaddr *)&to, sizeof to), 4);
    /* it asks for its neighbour first */
    unsigned char b[2000];
    int n, asked = 0;
    for (int i = 0; i < 20 && !asked; i++) {
        CHECK(comes(fd, 1000));
        n = read(fd, b, sizeof b);
        asked = n >= 42 && b[12] == 8 && b[13] == 6;
    }
    CHECK(asked);
    SAME(b[21], 1);
    static const unsigned char mac[6] = {2, 0, 0, 0, 0, 9};
    memcpy(b, b + 6, 6);
    memcpy(b + 6, mac, 6);
    b[21] = 2;
    memcpy(b + 32, b + 22, 10);
    memcpy(b + 22, mac, 6);
    inet_pton(AF_INET, "10.77.2.9", b + 28);
    SAME(write(fd, b, 42), 42);
    SAME(next_udp(fd, b, sizeof b, 14), 14 + 32);
    SAME(memcmp(b, mac, 6), 0);
    SAME(memcmp(b + 42, "over", 4), 0);
    swap(b, b + 6, 6);
    turn_round(b + 14);
    SAME(write(fd, b, 46), 46);
    CHECK(comes(s, 1000));
    SAME(recv(s, b, sizeof b, 0), 4);
    close(s);
    close(fd);
}

static void what_is_not_configured_fails(void) {
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    CHECK(fd >= 0);
    char b[100];
    FAILS(read(fd, b, sizeof b), EBADFD);
    FAILS(write(fd, b, sizeof b), EBADFD);
    struct ifreq r = {.ifr_flags = IFF_NO_PI};
    FAILS(ioctl(fd, TUNSETIFF, &r), EINVAL);
    FAILS(ioctl(fd, TUNGETIFF, &r), EBADFD);
    unsigned features = 0;
    SAME(ioctl(fd, TUNGETFEATURES, &features), 0);
    CHECK((features & IFF_TUN) && (features & IFF_TAP) && (features & IFF_NO_PI) && (features & IFF_VNET_HDR));
    r = (struct ifreq){.ifr_name = "mine", .ifr_flags = IFF_TUN | IFF_NO_PI};
    SAME(ioctl(fd, TUNSETIFF, &r), 0);
    FAILS(read(fd, b, sizeof b), EAGAIN);
    FAILS(write(fd, "E", 1), EIO); /* it is down */
    int other = open("/dev/net/tun", O_RDWR);
    FAILS(ioctl(other, TUNSETIFF, &r), EBUSY);
    r = (struct ifreq){.ifr_name = "lo", .ifr_flags = IFF_TUN};
    FAILS(ioctl(other, TUNSETIFF, &r), EINVAL);
    close(other);
    close(fd);
}

static void an_interface_outlives_its_program_if_it_is_to(void) {
    char name[IFNAMSIZ] = "lasting";
    int fd = tun_open(name, IFF_TUN | IFF_NO_PI);
    CHECK(fd >= 0);
    SAME(ioctl(fd, TUNSETPERSIST, 1), 0);
    struct ifreq r = {0};
    SAME(ioctl(fd, TUNGETIFF, &r), 0);
    SAME(r.ifr_flags & IFF_PERSIST, IFF_PERSIST);
    close(fd);
    CHECK(if_nametoindex("lasting") != 0);
    /* it is no TAP interface, and not to be made anew */
    CHECK(tun_open(name, IFF_TAP | IFF_NO_PI) < 0);
    SAME(errno, EINVAL);
    CHECK(tun_open(name, IFF_TUN | IFF_NO_PI | IFF_TUN_EXCL) < 0);
    SAME(errno, EBUSY);
    /* it stays so with another program, until one says otherwise */
    fd = tun_open(name, IFF_TUN | IFF_NO_PI);
    CHECK(fd >= 0);
    close(fd);
    CHECK(if_nametoindex("lasting") != 0);
    fd = tun_open(name, IFF_TUN | IFF_NO_PI);
    CHECK(fd >= 0);
    SAME(ioctl(fd, TUNSETPERSIST, 0), 0);
    close(fd);
    SAME(if_nametoindex("lasting"), 0);
}

GUEST_WITH(lo_up(), T(packets_go_to_a_program_and_come_back), T(packets_have_information_in_front_of_them), T(a_tap_speaks_ethernet),
           T(what_is_not_configured_fails), T(an_interface_outlives_its_program_if_it_is_to))
