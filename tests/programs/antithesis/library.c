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
