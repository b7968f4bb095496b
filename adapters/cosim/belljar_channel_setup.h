/* Set-up of a channel: adapter URLs, the two intros, the shared memory. A part of belljar_channel_base.h, which includes it. */
#ifndef BELLJAR_CHANNEL_SETUP_H
#define BELLJAR_CHANNEL_SETUP_H

static inline int bjc_listen(struct bjc_channel *c, uint64_t slot_size, uint64_t slots) {
    uint64_t size = slot_size * slots;
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, c->path, sizeof c->path);
    c->memory = memfd_create("channel", MFD_CLOEXEC);
    if (c->memory < 0 || ftruncate(c->memory, (off_t)(2 * size)))
        return bjc_fail(c->sim, "shared memory: %s", strerror(errno));
    c->in.size = c->out.size = slot_size;
    c->in.count = c->out.count = slots;
    c->out.offset = size;
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->listener < 0 || bind(c->listener, (struct sockaddr *)&address, sizeof address) || listen(c->listener, 1)) {
        if (c->listener >= 0)
            close(c->listener);
        c->listener = -1;
        return bjc_fail(c->sim, "%s: %s", c->path, strerror(errno));
    }
    return 0;
}

/* Opens a channel of a layer by its adapter URL; a listener's slots take messages of up to slot_size - 64 bytes. */
static inline struct bjc_channel *bjc_open_layer(struct bjc_sim *sim, const char *url, const struct bjc_layer *layer, uint64_t slot_size,
                                                 uint64_t slots) {
    struct bjc_channel *c = (struct bjc_channel *)bjc_memory(sizeof *c), **end = &sim->channels;
    uint64_t latency = 500, interval = BJC_NEVER;
    const char *at = url ? url : "";
    size_t length;
    c->sim = sim;
    c->layer = layer;
    c->intro_length = 4;
    c->listener = c->socket = c->memory = -1;
    c->last_waiting = &c->waiting;
    c->listens = !strncmp(at, "listen:", 7);
    if (!c->listens && strncmp(at, "connect:", 8)) {
        bjc_fail(sim, "adapter URL `%s`: begin with connect: or listen:", at);
        goto failed;
    }
    at += c->listens ? 7 : 8;
    length = strcspn(at, ":");
    if (!length || length >= sizeof c->path) {
        bjc_fail(sim, "adapter URL `%s`: the path of the socket has 1 to %zu characters", url, sizeof c->path - 1);
        goto failed;
    }
    memcpy(c->path, at, length);
    at += length;
    if (c->listens) {
        length = *at ? strcspn(at + 1, ":") : 0;
        at += length ? 1 + length : 0;
    }
    if ((c->listens && !length) || (strncmp(at, ":sync=true", 10) && strncmp(at, ":sync=false", 11))) {
        bjc_fail(sim, "adapter URL `%s`: sync=true or sync=false comes after the path%s", url, c->listens ? "s of socket and memory" : "");
        goto failed;
    }
    c->wants_sync = at[6] == 't';
    at += c->wants_sync ? 10 : 11;
    while (*at) {
        char *rest = NULL;
        uint64_t *value = !strncmp(at, ":latency=", 9) ? &latency : !strncmp(at, ":sync_interval=", 15) ? &interval : NULL;
        if (value)
            *value = strtoull(strchr(at, '=') + 1, &rest, 10);
        if (!value || rest == strchr(at, '=') + 1 || (*rest && *rest != ':')) {
            bjc_fail(sim, "adapter URL `%s`: `%s` is neither latency=NS nor sync_interval=NS", url, at + 1);
            goto failed;
        }
        at = rest;
    }
    if (interval == BJC_NEVER)
        interval = latency;
    if (!latency || interval > latency) {
        bjc_fail(sim, "adapter URL `%s`: the latency is not 0, and the sync interval at most the latency", url);
        goto failed;
    }
    c->latency = latency * BJC_NS;
    c->interval = interval * BJC_NS;
    if (c->listens && bjc_listen(c, slot_size, slots))
        goto failed;
    while (*end)
        end = &(*end)->next;
    *end = c;
    c->number = sim->channel_count++;
    return c;
failed:
    free(c);
    return NULL;
}

static inline int bjc_send_intro(struct bjc_channel *c) {
    uint64_t words[10] = {1, (uint64_t)c->wants_sync};
    size_t count = 2;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    if (c->listens) {
        uint64_t queues[6] = {c->out.offset, c->out.size, c->out.count, c->in.offset, c->in.size, c->in.count};
        memcpy(words + 2, queues, sizeof queues);
        count = 8;
    }
    words[count] = c->layer->id;
    words[count + 1] = 8 * (count + 2);
    struct iovec parts[2] = {{words, 8 * (count + 2)}, {c->intro, c->intro_length}};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    if (c->listens) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &c->memory, sizeof(int));
    }
    if (sendmsg(c->socket, &message, MSG_NOSIGNAL) < 0 && errno != EPIPE)
        return bjc_fail(c->sim, "%s: sending the intro: %s", c->path, strerror(errno));
    return 0;
}

static inline int bjc_map(struct bjc_channel *c) {
    struct stat file;
    struct bjc_queue *queues[2] = {&c->in, &c->out};
    if (c->memory < 0)
        return bjc_fail(c->sim, "%s: the peer's intro came without its shared memory", c->path);
    if (fstat(c->memory, &file))
        return bjc_fail(c->sim, "%s: its shared memory: %s", c->path, strerror(errno));
    uint64_t length = (uint64_t)file.st_size;
    for (int n = 0; n < 2; n++) {
        struct bjc_queue *queue = queues[n];
        if (queue->size < 64 || queue->size > 1 << 17 || !queue->count || queue->offset > length ||
            queue->count > (length - queue->offset) / queue->size)
            return bjc_fail(c->sim, "%s: the peer's queues do not lie within its shared memory", c->path);
    }
    uint8_t *memory = (uint8_t *)mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, c->memory, 0);
    if ((void *)memory == MAP_FAILED)
        return bjc_fail(c->sim, "%s: its shared memory: %s", c->path, strerror(errno));
    close(c->memory);
    c->memory = -1;
    c->in.slots = memory + c->in.offset;
    c->out.slots = memory + c->out.offset;
    c->horizon = c->synchronised ? 0 : BJC_NEVER;
    c->ready = 1;
    return 1;
}

static inline int bjc_receive_intro(struct bjc_channel *c) {
    uint64_t words[256] = {0};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = {words, sizeof words};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    ssize_t length = recvmsg(c->socket, &message, MSG_CMSG_CLOEXEC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (length <= 0)
        return bjc_fail(c->sim, "%s: the peer closed the connection instead of sending its intro", c->path);
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h && !c->listens; h = CMSG_NXTHDR(&message, h))
        if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && h->cmsg_len >= CMSG_LEN(sizeof(int)))
            memcpy(&c->memory, CMSG_DATA(h), sizeof(int));
    uint64_t layer = words[c->listens ? 2 : 8], begin = words[c->listens ? 3 : 9];
    if ((size_t)length < (c->listens ? 32 : 80))
        return bjc_fail(c->sim, "%s: the peer's intro has %zd bytes only", c->path, length);
    if (words[0] != 1)
        return bjc_fail(c->sim, "%s: the peer speaks version %llu of the channel protocol, not 1", c->path, (unsigned long long)words[0]);
    if (layer != c->layer->id)
        return bjc_fail(c->sim, "%s: the peer speaks protocol %llu where %s (%llu) is expected", c->path, (unsigned long long)layer,
                        c->layer->name, (unsigned long long)c->layer->id);
    if (begin > (uint64_t)length || (uint64_t)length - begin < c->layer->peer_intro_length)
        return bjc_fail(c->sim, "%s: the peer's intro does not hold its %s part", c->path, c->layer->name);
    if (c->layer->take_intro && c->layer->take_intro(c, (const uint8_t *)words + begin))
        return -1;
    if ((words[1] & 2) && !c->wants_sync)
        return bjc_fail(c->sim, "%s: the peer requires synchronisation: set sync=true", c->path);
    c->synchronised = c->wants_sync && (words[1] & 3);
    if (!c->listens) {
        memcpy(&c->in.offset, words + 2, 3 * sizeof(uint64_t));
        memcpy(&c->out.offset, words + 5, 3 * sizeof(uint64_t));
    }
    return bjc_map(c);
}

/* Goes as far with the set-up as the peer allows: 1 once the channel is there, 0 if not yet, -1 if it will never be. */
static inline int bjc_establish(struct bjc_channel *c) {
    if (c->ready)
        return 1;
    if (c->socket < 0 && c->listens) {
        c->socket = accept4(c->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (c->socket < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : bjc_fail(c->sim, "%s: %s", c->path, strerror(errno));
        close(c->listener);
        c->listener = -1;
        unlink(c->path);
        if (bjc_send_intro(c))
            return -1;
    } else if (c->socket < 0) {
        struct sockaddr_un address;
        memset(&address, 0, sizeof address);
        address.sun_family = AF_UNIX;
        memcpy(address.sun_path, c->path, sizeof c->path);
        c->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (c->socket < 0)
            return bjc_fail(c->sim, "socket: %s", strerror(errno));
        if (connect(c->socket, (struct sockaddr *)&address, sizeof address)) {
            int reason = errno;
            close(c->socket);
            c->socket = -1;
            return reason == ENOENT || reason == ECONNREFUSED || reason == EAGAIN ? 0
                                                                                  : bjc_fail(c->sim, "%s: %s", c->path, strerror(reason));
        }
        if (bjc_send_intro(c))
            return -1;
    }
    return bjc_receive_intro(c);
}

#endif
