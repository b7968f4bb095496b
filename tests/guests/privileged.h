/* What programs share that configure a network of their own: natively they run in a network namespace
 * (tests/kernel/test_guests.py sees to that), where nothing is up at first. */
#ifndef PRIVILEGED_H
#define PRIVILEGED_H
#include "guest.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

__attribute__((unused)) static void lo_up(void) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq r = {.ifr_name = "lo"};
    if (ioctl(s, SIOCGIFFLAGS, &r) == 0) {
        r.ifr_flags |= IFF_UP;
        ioctl(s, SIOCSIFFLAGS, &r);
    }
    close(s);
}

__attribute__((unused)) static struct sockaddr_in at(const char *ip, int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, ip, &a.sin_addr);
    return a;
}

/* Whether something can be read within a while. */
__attribute__((unused)) static int comes(int fd, int ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1 && (p.revents & POLLIN);
}

__attribute__((unused)) static unsigned short internet_sum(const void *data, int len) {
    const unsigned char *p = data;
    unsigned sum = 0;
    for (int i = 0; i + 1 < len; i += 2)
        sum += p[i] << 8 | p[i + 1];
    if (len & 1)
        sum += p[len - 1] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons(~sum & 0xffff);
}
#endif
