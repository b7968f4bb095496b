/* A delay line between two network namespaces: a TUN device in each, every packet handed over a fixed time after it
 * came, some lost at random. netem is missing from many kernels; rates are tbf's work at the devices.
 *
 *     line NAMESPACE-A NAMESPACE-B DEVICE MICROSECONDS LOSS SEED
 *
 * Ends when its standard input does. It must be scheduled at once to be exact: run it with a real-time priority.
 */
#define _GNU_SOURCE
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

enum { MTU = 9000, SLOTS = 1 << 14 };

struct way {
	int from, to;
	unsigned head, tail;
	struct {
		uint64_t due;
		int len;
		unsigned char bytes[MTU];
	} *slot;
};

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

int main(int argc, char **argv)
{
	if (argc != 7)
		errx(2, "usage: line NAMESPACE-A NAMESPACE-B DEVICE MICROSECONDS LOSS SEED");
	uint64_t delay = strtoull(argv[4], 0, 10) * 1000;
	double loss = atof(argv[5]);
	state = strtoull(argv[6], 0, 10);
	int a = tun(argv[1], argv[3]), b = tun(argv[2], argv[3]);
	struct way ways[2] = { { .from = a, .to = b }, { .from = b, .to = a } };
	for (int i = 0; i < 2; i++)
		if (!(ways[i].slot = calloc(SLOTS, sizeof *ways[i].slot)))
			err(1, "memory");
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	struct pollfd polled[] = { { a, POLLIN, 0 }, { b, POLLIN, 0 }, { timer, POLLIN, 0 }, { 0, POLLIN, 0 } };
	unsigned long long carried = 0, full = 0, lost = 0, late = 0;
	puts("ready");
	fflush(stdout);
	for (;;) {
		uint64_t next = UINT64_MAX, t;
		for (int i = 0; i < 2; i++) {
			struct way *w = &ways[i];
			for (;;) {
				unsigned char spare[MTU];
				int room = w->tail - w->head < SLOTS;
				int len = read(w->from, room ? w->slot[w->tail % SLOTS].bytes : spare, MTU);
				if (len <= 0)
					break;
				if (!room) {
					full++;
				} else if (loss > 0 && chance() < loss) {
					lost++;
				} else {
					w->slot[w->tail % SLOTS].len = len;
					w->slot[w->tail++ % SLOTS].due = now() + delay;
				}
			}
			t = now();
			while (w->head != w->tail && w->slot[w->head % SLOTS].due <= t) {
				if (t - w->slot[w->head % SLOTS].due > 1000000)
					late++;
				if (write(w->to, w->slot[w->head % SLOTS].bytes, w->slot[w->head % SLOTS].len) < 0)
					full++;
				carried++;
				w->head++;
			}
			if (w->head != w->tail && w->slot[w->head % SLOTS].due < next)
				next = w->slot[w->head % SLOTS].due;
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
	printf("carried %llu lost %llu full %llu late %llu\n", carried, lost, full, late);
	return 0;
}
