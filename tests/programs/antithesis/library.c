// Uses the functions of libvoidstar.so as Antithesis' SDKs do: by dlopen(3). The first argument says which.
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *library;

static void *function(const char *name)
{
	void *found = dlsym(library, name);
	if (!found) {
		puts(dlerror());
		exit(4);
	}
	return found;
}

static void report(const char *kind, const char *must_hit, const char *message)
{
	void (*json)(const char *, size_t) = function("fuzz_json_data");
	void (*flush)(void) = function("fuzz_flush");
	char line[500];
	// JSON over two lines is one line in the file.
	int length = snprintf(line, sizeof line,
			      "{\"antithesis_assert\": {\"hit\": true, \"must_hit\": %s, \"assert_type\": \"%s\",\n \"message\": \"%s\", \"id\": \"%s\", \"condition\": true}}\n",
			      must_hit, kind, message, message);
	json(line, length);
	flush();
}

// A choice with which only one value in 2^64 leads to the second assertion.
static int draws(int count)
{
	uint64_t (*draw)(void) = function("fuzz_get_random");
	for (int n = 0; n < count; n++) {
		uint64_t value = draw();
		printf("%llu\n", (unsigned long long)value);
		if (value == 4242)
			report("reachability", "false", "the rare branch");
	}
	report("always", "true", "the end");
	return 0;
}

// Two modules; a child that is killed, and one that goes on in another program, count as well.
static int edges(const char *self)
{
	size_t (*module)(size_t, const char *) = function("init_coverage_module");
	bool (*notify)(size_t) = function("notify_coverage");
	size_t first = module(5, "first.sym.tsv"), second = module(1000, "second.sym.tsv");
	report("always", "true", "edges");
	for (int n = 0; n < 3; n++)
		if (!notify(first + 1))
			return 5;
	notify(second + 1000);
	if (notify(second + 5000))
		return 6;
	pid_t child = fork();
	if (child == 0) {
		notify(first + 4);
		kill(getpid(), SIGKILL);
	}
	waitpid(child, NULL, 0);
	if (fork() == 0) {
		execl(self, self, "edge", NULL);
		_exit(7);
	}
	int status;
	wait(&status);
	return status != 0;
}

// An SDK that counts hits itself while its lease of the edge lasts. The child's hits are counted although it is killed.
static int leases(void)
{
	uint64_t (*ask)(uint64_t) = function("instrumentation_request_abi_version");
	uint64_t (*latest)(void) = function("instrumentation_max_abi_version");
	const volatile uint64_t *(*generation)(void) = function("coverage_lease_generation_addr");
	uint64_t (*notify)(size_t, uint64_t) = function("notify_coverage_v2");
	size_t (*module)(size_t, const char *) = function("init_coverage_module");
	if (latest() != 2 || ask(0) != 1 || ask(1) != 1 || ask(2) != 2 || ask(9) != 2)
		return 5;
	size_t first = module(5, "leases.sym.tsv");
	const uint64_t field = (1 << 20) - 1;
	uint64_t lease[7] = {0};
	report("always", "true", "leases");
	pid_t child = fork();
	for (int n = 0; n < 1000; n++)
		for (int edge = 1; edge <= 6; edge += 5) {
			if (lease[edge] & field && lease[edge] >> 40 == (*generation() & 0xffffff)) {
				lease[edge]--;
				continue;
			}
			uint64_t left = lease[edge] & field, granted = lease[edge] >> 20 & field;
			lease[edge] = notify(first + edge, granted - left);
		}
	if (child == 0)
		kill(getpid(), SIGKILL);
	waitpid(child, NULL, 0);
	// Edge 6 is none of the module: the SDK is not to call for each of its hits.
	notify(first + 2, 41);
	return (lease[6] & field) < 1000;
}

static int guards(void)
{
	static uint32_t all[3];
	void (*init)(uint32_t *, uint32_t *) = function("__sanitizer_cov_trace_pc_guard_init");
	void (*reach)(uint32_t *, uint64_t) = function("__sanitizer_cov_trace_pc_guard_internal");
	init(all, all + 3);
	init(all, all + 3);
	report("always", "true", "guards");
	reach(all + 2, 0);
	reach(all + 2, 0);
	return all[2] != all[0] + 2;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	library = dlopen("/usr/lib/libvoidstar.so", RTLD_NOW);
	if (!library) {
		puts(dlerror());
		return 3;
	}
	if (!strcmp(what, "draws"))
		return draws(atoi(argv[2]));
	if (!strcmp(what, "edges"))
		return edges(argv[0]);
	if (!strcmp(what, "leases"))
		return leases();
	if (!strcmp(what, "guards"))
		return guards();
	if (!strcmp(what, "edge")) {
		size_t (*module)(size_t, const char *) = function("init_coverage_module");
		bool (*notify)(size_t) = function("notify_coverage");
		return !notify(module(5, "first.sym.tsv") + 4);
	}
	if (!strcmp(what, "late")) {
		sleep(atoi(argv[2]));
		return guards();
	}
	return 2;
}
