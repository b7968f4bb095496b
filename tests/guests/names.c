/* Names of hosts through the C library: localhost and one's own. getaddrinfo(3). */
#include "guest.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

static int resolve(const char *name, const char *service, struct in_addr *out, uint16_t *port) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *r;
    int e = getaddrinfo(name, service, &hints, &r);
    if (e == 0) {
        struct sockaddr_in *a = (struct sockaddr_in *)r->ai_addr;
        *out = a->sin_addr, *port = ntohs(a->sin_port);
        freeaddrinfo(r);
    }
    return e;
}

static void localhost(void) {
    struct in_addr a;
    uint16_t port;
    SAME(resolve("localhost", "80", &a, &port), 0);
    SAME(ntohl(a.s_addr), INADDR_LOOPBACK);
    SAME(port, 80);
}

static void own_name(void) {
    char h[256];
    struct in_addr a;
    uint16_t port;
    CHECK(gethostname(h, sizeof h) == 0);
    SAME(resolve(h, "7", &a, &port), 0);
    CHECK(a.s_addr != 0);
    /* it is an address of ours: we can bind it */
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in b = {.sin_family = AF_INET, .sin_addr = a};
    CHECK(bind(s, (struct sockaddr *)&b, sizeof b) == 0);
    close(s);
}

static void numbers(void) {
    struct in_addr a;
    uint16_t port;
    SAME(resolve("192.0.2.7", "443", &a, &port), 0);
    SAME(ntohl(a.s_addr), 0xc0000207);
    struct sockaddr_in s = {.sin_family = AF_INET, .sin_port = htons(99), .sin_addr.s_addr = htonl(0xc0000207)};
    char host[64], service[16];
    SAME(getnameinfo((struct sockaddr *)&s, sizeof s, host, sizeof host, service, sizeof service,
                     NI_NUMERICHOST | NI_NUMERICSERV), 0);
    CHECK(strcmp(host, "192.0.2.7") == 0 && strcmp(service, "99") == 0);
}

GUEST(T(localhost), T(own_name), T(numbers))
