/* A delay line between two network namespaces: a TUN device in each, every packet handed over a fixed time after it
 * came, some lost at random. netem is missing from many kernels; rates are tbf's work at the devices.
 *
 *     line NAMESPACE-A NAMESPACE-B DEVICE LOSS SEED RATE QUEUE MICROSECONDS [ADDRESS=MICROSECONDS]...
 *
 * RATE, in bits per second, and QUEUE, in bytes, are those of a bottleneck before the line, the same for each direction: a
 * packet counts with an Ethernet header, one that finds no room in the queue is dropped, the one being sent is not in it.
 * RATE 0 leaves it out. Packets from or to an IPv4 ADDRESS have a delay of their own.
 *
 * Ends when its standard input does, with what it did: packets carried, lost at random, dropped by the queue, refused by a
 * device, and handed over more than a millisecond late, and the worst of that in microseconds. It must be scheduled at once to
 * be exact: run it with a real-time priority.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MTU = 9000, SLOTS = 1 << 14, DELAYS = 8, ETHERNET = 14, LATE = 1000000 };

/* Packets that wait for their time, in order of it. */
struct line {
	unsigned head, tail;
	struct {
		uint64_t due;
		int len;
		unsigned char bytes[MTU];
	} *slot;
};

struct way {
	int from, to;
	/* When the bottleneck has sent the last packet that it took. */
	uint64_t free_at;
	/* The bottleneck's queue: when each packet in it begins to be sent, and its bytes. */
	struct {
		uint64_t begins;
		int len;
	} waiting[SLOTS];
	unsigned first, last;
	uint64_t bytes;
	struct line lines[DELAYS];
};

static struct {
	in_addr_t address;
	uint64_t delay;
} delays[DELAYS];
static int kinds = 1;
static uint64_t rate, queue;
static unsigned long long carried, lost, dropped, refused, late, worst;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int tun(const char *namespace, const char *device)
{
	int ns = open(namespace, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET) < 0)
		err(1, "%s", namespace);
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
	if (fd < 0)
		err(1, "/dev/net/tun");
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	strncpy(request.ifr_name, device, IFNAMSIZ - 1);
	if (ioctl(fd, TUNSETIFF, &request) < 0)
		err(1, "TUNSETIFF");
	close(ns);
	return fd;
}

static uint64_t state;

/* splitmix64 */
static double chance(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return ((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* The kind of delay of an IP packet. */
static int kind(const unsigned char *packet, int len)
{
	if (len < 20 || packet[0] >> 4 != 4)
		return 0;
	in_addr_t ends[2];
	memcpy(ends, packet + 12, sizeof ends);
	for (int k = 1; k < kinds; k++)
		if (delays[k].address == ends[0] || delays[k].address == ends[1])
			return k;
	return 0;
}

/* When the bottleneck has sent a packet that comes now; 0 if it drops it. */
static uint64_t sent(struct way *w, uint64_t t, int len)
{
	if (!rate)
		return t;
	len += ETHERNET;
	for (; w->first != w->last && w->waiting[w->first % SLOTS].begins <= t; w->first++)
		w->bytes -= w->waiting[w->first % SLOTS].len;
	if (w->free_at > t) {
		if (w->bytes + len > queue || w->last - w->first == SLOTS)
			return 0;
		w->waiting[w->last % SLOTS].begins = w->free_at;
		w->waiting[w->last++ % SLOTS].len = len;
		w->bytes += len;
	} else {
		w->free_at = t;
	}
	return w->free_at += len * 8000000000ull / rate;
}

/* Takes what the device has. */
static void take(struct way *w, double loss)
{
	unsigned char packet[MTU];
	int len;
	while ((len = read(w->from, packet, MTU)) > 0) {
		if (loss > 0 && chance() < loss) {
			lost++;
			continue;
		}
		uint64_t leaves = sent(w, now(), len);
		if (!leaves) {
			dropped++;
			continue;
		}
		int k = kind(packet, len);
		struct line *line = &w->lines[k];
		if (line->tail - line->head == SLOTS) {
			refused++;
			continue;
		}
		line->slot[line->tail % SLOTS].due = leaves + delays[k].delay;
		line->slot[line->tail % SLOTS].len = len;
		memcpy(line->slot[line->tail++ % SLOTS].bytes, packet, len);
	}
}

/* Hands over what is due; gives when the next is. */
static uint64_t give(struct way *w)
{
	uint64_t next = UINT64_MAX, t = now();
	for (int k = 0; k < kinds; k++) {
		struct line *line = &w->lines[k];
		for (; line->head != line->tail && line->slot[line->head % SLOTS].due <= t; line->head++) {
			uint64_t behind = t - line->slot[line->head % SLOTS].due;
			late += behind > LATE;
			if (behind > worst)
				worst = behind;
			if (write(w->to, line->slot[line->head % SLOTS].bytes, line->slot[line->head % SLOTS].len) < 0)
				refused++;
			else
				carried++;
		}
		if (line->head != line->tail && line->slot[line->head % SLOTS].due < next)
			next = line->slot[line->head % SLOTS].due;
	}
	return next;
}

int main(int argc, char **argv)
{
	if (argc < 9 || argc - 9 >= DELAYS)
		errx(2, "usage: line NAMESPACE-A NAMESPACE-B DEVICE LOSS SEED RATE QUEUE MICROSECONDS [ADDRESS=MICROSECONDS]...");
	double loss = atof(argv[4]);
	state = strtoull(argv[5], 0, 10);
	rate = strtoull(argv[6], 0, 10);
	queue = strtoull(argv[7], 0, 10);
	delays[0].delay = strtoull(argv[8], 0, 10) * 1000;
	for (int i = 9; i < argc; i++, kinds++) {
		char *equals = strchr(argv[i], '=');
		if (!equals)
			errx(2, "%s is not ADDRESS=MICROSECONDS", argv[i]);
		*equals = 0;
		if (!inet_aton(argv[i], (struct in_addr *)&delays[kinds].address))
			errx(2, "%s is not an IPv4 address", argv[i]);
		delays[kinds].delay = strtoull(equals + 1, 0, 10) * 1000;
	}
	int a = tun(argv[1], argv[3]), b = tun(argv[2], argv[3]);
	static struct way ways[2];
	ways[0].from = ways[1].to = a;
	ways[0].to = ways[1].from = b;
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < kinds; k++)
			if (!(ways[i].lines[k].slot = calloc(SLOTS, sizeof *ways[i].lines[k].slot)))
				err(1, "memory");
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	struct pollfd polled[] = { { a, POLLIN, 0 }, { b, POLLIN, 0 }, { timer, POLLIN, 0 }, { 0, POLLIN, 0 } };
	puts("ready");
	fflush(stdout);
	for (;;) {
		uint64_t next = UINT64_MAX;
		for (int i = 0; i < 2; i++) {
			take(&ways[i], loss);
			uint64_t due = give(&ways[i]);
			if (due < next)
				next = due;
		}
		struct itimerspec at = { 0 };
		if (next != UINT64_MAX) {
			at.it_value.tv_sec = next / 1000000000;
			at.it_value.tv_nsec = next % 1000000000;
		}
		timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, 0);
		poll(polled, 4, -1);
		char end;
		uint64_t expirations;
		if (polled[2].revents && read(timer, &expirations, sizeof expirations) < 0)
			expirations = 0;
		if (polled[3].revents && read(0, &end, 1) <= 0)
			break;
	}
	printf("carried %llu lost %llu dropped %llu refused %llu late %llu worst %llu\n", carried, lost, dropped, refused, late, worst / 1000);
	return 0;
}
