/* Operations on sockets. */
OP(socketpair) {
    int p[2];
    if (worked(socketpair(AF_UNIX, (int)a[2], (int)a[3], p)) == 0) {
        say(" %d %d", p[0], p[1]);
        put(a[0], p[0]);
        put(a[1], p[1]);
    }
}
OP(socket) { put(a[0], result(socket((int)a[1], (int)a[2], (int)a[3]))); }

/* An address by kind: 0 and 1 any port on loopback (IPv4, IPv6), 2 and 3 the one that the socket in slot `of` is bound
 * to (3: on 0.0.0.0), 4 a path, 5 an abstract name, 6 none of a UNIX socket, 7 AF_UNSPEC, 8 too short, 9 a family that does not
 * exist, 10 0.0.0.0 and any port. */
static socklen_t address(struct sockaddr_storage *to, long kind, long of) {
    memset(to, 0, sizeof *to);
    struct sockaddr_in *in = (void *)to;
    struct sockaddr_in6 *in6 = (void *)to;
    struct sockaddr_un *un = (void *)to;
    socklen_t length = sizeof *to;
    switch (kind) {
    case 1:
        in6->sin6_family = AF_INET6;
        in6->sin6_addr = in6addr_loopback;
        return sizeof *in6;
    case 2:
    case 3:
        if (getsockname(fd_at(of), (void *)to, &length) == 0) {
            if (to->ss_family == AF_INET)
                in->sin_addr.s_addr = htonl(kind == 2 ? INADDR_LOOPBACK : INADDR_ANY);
            return length;
        }
        break;
    case 4:
        un->sun_family = AF_UNIX;
        snprintf(un->sun_path, sizeof un->sun_path, "s%ld", of % 3);
        return (socklen_t)(2 + strlen(un->sun_path) + 1);
    case 5:
        un->sun_family = AF_UNIX;
        return (socklen_t)(3 + snprintf(un->sun_path + 1, sizeof un->sun_path - 1, "fuzz %07d %ld", getpid(), of % 3));
    case 6:
        un->sun_family = AF_UNIX;
        return 2;
    case 7:
        return sizeof *in;
    case 8:
        in->sin_family = AF_INET;
        return 7;
    case 9:
        in->sin_family = 77;
        return sizeof *in;
    case 10:
        in->sin_family = AF_INET;
        return sizeof *in;
    }
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof *in;
}
OP(bind) {
    struct sockaddr_storage to;
    socklen_t length = address(&to, a[1], a[2]);
    result(bind(fd_at(a[0]), (void *)&to, length));
}
OP(connect) {
    struct sockaddr_storage to;
    socklen_t length = address(&to, a[1], a[2]);
    result(connect(fd_at(a[0]), (void *)&to, length));
}
/* a: slot, family, whose port, whether to any address: conflicts of the port that another socket has. */
OP(bind_port) {
    struct sockaddr_storage to = {0}, of;
    socklen_t length = sizeof of;
    in_port_t port = 0;
    if (getsockname(fd_at(a[2]), (void *)&of, &length) == 0)
        port = of.ss_family == AF_INET ? ((struct sockaddr_in *)&of)->sin_port : of.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&of)->sin6_port : 0;
    struct sockaddr_in *in = (void *)&to;
    struct sockaddr_in6 *in6 = (void *)&to;
    to.ss_family = (sa_family_t)a[1];
    if (a[1] == AF_INET) {
        in->sin_port = port;
        in->sin_addr.s_addr = htonl(a[3] ? INADDR_ANY : INADDR_LOOPBACK);
    } else {
        in6->sin6_port = port;
        in6->sin6_addr = a[3] ? in6addr_any : in6addr_loopback;
    }
    result(bind(fd_at(a[0]), (void *)&to, a[1] == AF_INET ? sizeof *in : sizeof *in6));
}
OP(listen) { result(listen(fd_at(a[0]), (int)a[1])); }
OP(accept) {
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    long got = result(accept4(fd_at(a[0]), a[3] ? NULL : (void *)&from, a[3] ? NULL : &length, (int)a[2]));
    if (got >= 0 && !a[3])
        say_address(&from, length);
    put(a[1], got);
}
OP(getsockname) {
    struct sockaddr_storage at;
    socklen_t length = sizeof at;
    if (result(getsockname(fd_at(a[0]), (void *)&at, &length)) == 0)
        say_address(&at, length);
}
OP(getpeername) {
    struct sockaddr_storage at;
    socklen_t length = sizeof at;
    if (result(getpeername(fd_at(a[0]), (void *)&at, &length)) == 0)
        say_address(&at, length);
}
OP(shutdown) { result(shutdown(fd_at(a[0]), (int)a[1])); }
OP(send) {
    struct sockaddr_storage to;
    socklen_t length = a[3] >= 0 ? address(&to, a[3], a[4]) : 0;
    result(sendto(fd_at(a[0]), fill(size_of(a[1])), size_of(a[1]), (int)a[2], length ? (void *)&to : NULL, length));
}
OP(recv) {
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    long got = result(recvfrom(fd_at(a[0]), buffer, size_of(a[1]), (int)a[2], a[3] ? (void *)&from : NULL, a[3] ? &length : NULL));
    if (got >= 0) {
        say_bytes(buffer, got < (long)size_of(a[1]) ? got : (long)size_of(a[1]));
        if (a[3])
            say_address(&from, length);
    }
}
/* What is sent along (1 a descriptor, 2 two, 3 credentials, 4 a bad descriptor, 5 of a wrong length, 6 credentials of nobody, 7 credentials
 * and a descriptor, 8 more descriptors than may be, 9 none at all). */
static size_t put_control(struct cmsghdr *header, long kind, const int *fds) {
    struct ucred credentials = {kind == 6 ? 999999 : getpid(), getuid(), getgid()};
    int claims = kind == 3 || kind == 6 || kind == 7;
    size_t length = claims ? sizeof credentials : kind == 2 ? 8 : kind == 8 ? 254 * 4 : kind == 9 ? 0 : 4;
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = claims ? SCM_CREDENTIALS : SCM_RIGHTS;
    header->cmsg_len = kind == 5 ? 500 : CMSG_LEN(length);
    for (size_t i = 0; i < length / 4 && !claims; i++)
        memcpy(CMSG_DATA(header) + 4 * i, &fds[i % 2], 4);
    if (claims)
        memcpy(CMSG_DATA(header), &credentials, length);
    if (kind == 7)
        return CMSG_SPACE(length) + put_control((struct cmsghdr *)((char *)header + CMSG_SPACE(length)), 1, fds);
    return CMSG_SPACE(length);
}
/* a: slot, length, flags, control (0: none), slot of the descriptor, address kind (-1: none), whose. */
OP(sendmsg) {
    struct sockaddr_storage to;
    union {
        struct cmsghdr header;
        char room[2048];
    } control = {0};
    struct iovec v = {fill(size_of(a[1])), size_of(a[1])};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (a[5] >= 0) {
        m.msg_namelen = address(&to, a[5], a[6]);
        m.msg_name = &to;
    }
    if (a[3]) {
        int fds[2] = {a[3] == 4 ? 999 : fd_at(a[4]), fd_at(a[0])};
        m.msg_control = &control;
        m.msg_controllen = put_control(&control.header, a[3], fds);
    }
    result(sendmsg(fd_at(a[0]), &m, (int)a[2]));
}
/* a: slot, length, flags, room for control, slot for a descriptor that comes. */
OP(recvmsg) {
    struct sockaddr_storage from;
    union {
        struct cmsghdr header;
        char room[128];
    } control;
    struct iovec v = {buffer, size_of(a[1])};
    struct msghdr m = {&from, sizeof from, &v, 1, &control, a[3] > 128 ? 128 : (size_t)a[3], 0};
    long got = result(recvmsg(fd_at(a[0]), &m, (int)a[2]));
    if (got < 0)
        return;
    say_bytes(buffer, got < (long)v.iov_len ? got : (long)v.iov_len);
    say(" flags %x control %zu", m.msg_flags, m.msg_controllen);
    say_address(&from, m.msg_namelen);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c != NULL; c = CMSG_NXTHDR(&m, c)) {
        say(" (%d %d %zu", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            for (size_t i = 0; CMSG_LEN((i + 1) * 4) <= c->cmsg_len; i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(c) + 4 * i, 4);
                say(" fd %d", fd);
                if (i == 0)
                    put(a[4], fd);
                else
                    close(fd);
            }
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
            struct ucred credentials;
            memcpy(&credentials, CMSG_DATA(c), sizeof credentials);
            say(" from %s uid %d", pid_name(credentials.pid), (int)credentials.uid);
        }
        say(")");
    }
}
OP(getsockopt) {
    int value[4] = {0};
    socklen_t length = (socklen_t)a[3];
    if (result(getsockopt(fd_at(a[0]), (int)a[1], (int)a[2], value, length > sizeof value ? NULL : &length)) == 0)
        say(" %u: %d %d", length, value[0], value[1]);
}
OP(setsockopt) {
    int value[4] = {(int)a[3], (int)a[5]};
    result(setsockopt(fd_at(a[0]), (int)a[1], (int)a[2], value, (socklen_t)a[4]));
}
/* a: slot, SO_RCVTIMEO or SO_SNDTIMEO, microseconds. */
OP(timeout) {
    struct timeval t = {a[2] / 1000000, a[2] % 1000000};
    result(setsockopt(fd_at(a[0]), SOL_SOCKET, (int)a[1], &t, sizeof t));
}
OP(linger) {
    struct linger l = {(int)a[1], (int)a[2]};
    result(setsockopt(fd_at(a[0]), SOL_SOCKET, SO_LINGER, &l, sizeof l));
}
OP(peercred) {
    struct ucred credentials = {0};
    socklen_t length = sizeof credentials;
    if (result(getsockopt(fd_at(a[0]), SOL_SOCKET, SO_PEERCRED, &credentials, &length)) == 0)
        say(" %s %d", pid_name(credentials.pid), (int)credentials.uid);
}
