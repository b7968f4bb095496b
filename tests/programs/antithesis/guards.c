// What a program instrumented by clang's -fsanitize-coverage=trace-pc-guard is linked with where libvoidstar.so is not: its
// functions by dlopen(3). This file is not instrumented.
#include <dlfcn.h>
#include <stdint.h>

static void (*reach)(uint32_t *, uint64_t);

void __sanitizer_cov_trace_pc_guard_init(uint32_t *start, uint32_t *stop)
{
	void *library = dlopen("/usr/lib/libvoidstar.so", RTLD_NOW);
	void (*init)(uint32_t *, uint32_t *) = library ? dlsym(library, "__sanitizer_cov_trace_pc_guard_init") : 0;
	if (init) {
		reach = dlsym(library, "__sanitizer_cov_trace_pc_guard_internal");
		init(start, stop);
	}
}

void __sanitizer_cov_trace_pc_guard(uint32_t *guard)
{
	if (reach)
		reach(guard, (uint64_t)__builtin_return_address(0));
}
