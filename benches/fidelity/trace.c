/* One TCP flow that watches itself: writes for a time, and every INTERVAL looks at what the kernel knows of the connection.
 *
 *     trace ADDRESS PORT SECONDS CONGESTION INTERVAL-US WRITE-BYTES WORK-US
 *
 * WORK-US is how long it computes between two writes. Everything is kept in memory and printed at the end, times in
 * microseconds since the connection stands:
 *
 *     sample TIME CWND SSTHRESH UNACKED LOST RETRANSMITTED SRTT QUEUED BYTES-ACKED SNDBUF-LIMITED
 *     write BEGIN END QUEUED-BEFORE QUEUED-AFTER     (one that took more than a millisecond)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 1 << 18, WRITES = 1 << 16 };

static struct {
	uint64_t time, acked, limited;
	uint32_t cwnd, ssthresh, unacked, lost, retrans, srtt;
	int queued;
} samples[SAMPLES];
static struct {
	uint64_t begin, end;
	int before, after;
} writes[WRITES];
static int taken, kept, connection;
static uint64_t start, interval;
static atomic_int over;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ull + t.tv_nsec / 1000 - start;
}

static int queued(void)
{
	int n = 0;
	ioctl(connection, SIOCOUTQ, &n);
	return n;
}

static void *watch(void *unused)
{
	(void)unused;
	for (uint64_t due = 0; taken < SAMPLES && !over; due += interval) {
		uint64_t at = start + due;
		struct timespec when = { at / 1000000, at % 1000000 * 1000 };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, 0);
		struct tcp_info info;
		socklen_t length = sizeof info;
		memset(&info, 0, sizeof info);
		if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &length) < 0)
			err(1, "TCP_INFO");
		samples[taken].time = now();
		samples[taken].cwnd = info.tcpi_snd_cwnd;
		samples[taken].ssthresh = info.tcpi_snd_ssthresh;
		samples[taken].unacked = info.tcpi_unacked;
		samples[taken].lost = info.tcpi_lost;
		samples[taken].retrans = info.tcpi_total_retrans;
		samples[taken].srtt = info.tcpi_rtt;
		samples[taken].queued = queued();
		samples[taken].acked = info.tcpi_bytes_acked;
		samples[taken++].limited = info.tcpi_sndbuf_limited;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 8)
		errx(2, "usage: trace ADDRESS PORT SECONDS CONGESTION INTERVAL-US WRITE-BYTES WORK-US");
	uint64_t length = atof(argv[3]) * 1e6, work = strtoull(argv[7], 0, 10);
	size_t size = strtoull(argv[6], 0, 10);
	char *bytes = calloc(1, size);
	struct addrinfo hint = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	if (getaddrinfo(argv[1], argv[2], &hint, &found))
		errx(1, "%s is not known", argv[1]);
	connection = socket(AF_INET, SOCK_STREAM, 0);
	if (setsockopt(connection, IPPROTO_TCP, TCP_CONGESTION, argv[4], strlen(argv[4])) < 0)
		err(1, "%s", argv[4]);
	if (connect(connection, found->ai_addr, found->ai_addrlen) < 0)
		err(1, "%s", argv[1]);
	interval = strtoull(argv[5], 0, 10);
	start = now();
	pthread_t watcher;
	if (pthread_create(&watcher, 0, watch, 0))
		errx(1, "no thread");
	while (now() < length) {
		int before = queued();
		uint64_t begin = now();
		if (write(connection, bytes, size) < 0)
			err(1, "write");
		uint64_t end = now();
		if (end - begin > 1000 && kept < WRITES) {
			writes[kept].begin = begin;
			writes[kept].end = end;
			writes[kept].before = before;
			writes[kept++].after = queued();
		}
		while (work && now() < end + work)
			;
	}
	over = 1;
	pthread_join(watcher, 0);
	for (int i = 0; i < taken; i++)
		printf("sample %lu %u %u %u %u %u %u %d %lu %lu\n", samples[i].time, samples[i].cwnd, samples[i].ssthresh, samples[i].unacked,
		       samples[i].lost, samples[i].retrans, samples[i].srtt, samples[i].queued, samples[i].acked, samples[i].limited);
	for (int i = 0; i < kept; i++)
		printf("write %lu %lu %d %d\n", writes[i].begin, writes[i].end, writes[i].before, writes[i].after);
	return 0;
}
