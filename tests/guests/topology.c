/* Processors: the files of /sys and /proc that describe them agree with each other and with the calls. Runs on hosts with one processor and with several. */
#include "guest.h"
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

/* A file's first line, without its end; "" if there is none. */
static const char *line_of(const char *path) {
    static char text[4][4096];
    static int next;
    char *line = text[next++ % 4];
    line[0] = 0;
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return line;
    ssize_t n = read(fd, line, 4095);
    close(fd);
    line[n > 0 ? n : 0] = 0;
    line[strcspn(line, "\n")] = 0;
    return line;
}

static const char *of_cpu(int cpu, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, name);
    return line_of(path);
}

/* The set that a list such as 0-3,8 names. */
static cpu_set_t listed(const char *list) {
    cpu_set_t set;
    CPU_ZERO(&set);
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long n = first; n <= last; n++)
            CPU_SET(n, &set);
        list = *end == ',' ? end + 1 : end;
    }
    return set;
}

/* The set that a map such as 1,000000ff names. */
static cpu_set_t mapped(const char *map) {
    cpu_set_t set;
    CPU_ZERO(&set);
    int word = 0;
    for (const char *at = map; *at; at++)
        word += *at == ',';
    for (const char *at = map; *at; word--) {
        char *end;
        unsigned long bits = strtoul(at, &end, 16);
        for (int n = 0; n < 32; n++)
            if (bits >> n & 1)
                CPU_SET(32 * word + n, &set);
        at = *end == ',' ? end + 1 : end;
    }
    return set;
}

static cpu_set_t online(void) {
    return listed(line_of("/sys/devices/system/cpu/online"));
}

/* Lines of a file that begin with this. */
static int lines(const char *path, const char *begin) {
    FILE *file = fopen(path, "r");
    char line[4096];
    int count = 0;
    while (file && fgets(line, sizeof line, file))
        count += strncmp(line, begin, strlen(begin)) == 0;
    if (file)
        fclose(file);
    return count;
}

static void counts_agree(void) {
    cpu_set_t on = online(), present = listed(line_of("/sys/devices/system/cpu/present"));
    int count = CPU_COUNT(&on);
    CHECK(count >= 1);
    SAME(sysconf(_SC_NPROCESSORS_ONLN), count);
    CHECK(CPU_COUNT(&present) >= count);
    SAME(lines("/proc/cpuinfo", "processor\t"), count);
    SAME(lines("/proc/stat", "cpu"), count + 1);
    cpu_set_t of_node = mapped(line_of("/sys/devices/system/node/node0/cpumap"));
    cpu_set_t list = listed(line_of("/sys/devices/system/node/node0/cpulist"));
    CHECK(CPU_EQUAL(&of_node, &list));
    CHECK(strncmp(line_of("/sys/devices/system/node/node0/meminfo"), "Node 0 MemTotal:", 16) == 0);
    SAME(atoi(line_of("/sys/devices/system/node/has_memory")), 0);
}

static void each_processor_has_its_topology(void) {
    cpu_set_t on = online();
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &on))
            continue;
        static const char *const pairs[][2] = {
            {"topology/thread_siblings", "topology/thread_siblings_list"}, {"topology/core_siblings", "topology/core_siblings_list"},
            {"topology/core_cpus", "topology/core_cpus_list"}, {"topology/package_cpus", "topology/package_cpus_list"},
            {"topology/die_cpus", "topology/die_cpus_list"},
        };
        for (unsigned n = 0; n < sizeof pairs / sizeof *pairs; n++) {
            cpu_set_t map = mapped(of_cpu(cpu, pairs[n][0])), list = listed(of_cpu(cpu, pairs[n][1]));
            CHECK(CPU_EQUAL(&map, &list) && CPU_ISSET(cpu, &map));
        }
        CHECK(of_cpu(cpu, "topology/core_id")[0] && of_cpu(cpu, "topology/physical_package_id")[0]);
        char node[64], path[64];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/node0", cpu);
        SAME(readlink(path, node, sizeof node), (long)strlen("../../node/node0"));
        snprintf(path, sizeof path, "/sys/devices/system/node/node0/cpu%d/topology/core_id", cpu);
        CHECK(strcmp(line_of(path), of_cpu(cpu, "topology/core_id")) == 0);
    }
}

static void caches_lie_in_ways_and_sets(void) {
    int levels = 0;
    for (int index = 0; index < 4; index++) {
        char name[5][64];
        static const char *const files[] = {"size", "ways_of_associativity", "number_of_sets", "coherency_line_size", "shared_cpu_map"};
        for (int n = 0; n < 5; n++)
            snprintf(name[n], sizeof name[n], "cache/index%d/%s", index, files[n]);
        if (!of_cpu(0, name[0])[0])
            continue;
        levels++;
        SAME(atol(of_cpu(0, name[0])) * 1024, atol(of_cpu(0, name[1])) * atol(of_cpu(0, name[2])) * atol(of_cpu(0, name[3])));
        cpu_set_t shared = mapped(of_cpu(0, name[4]));
        CHECK(CPU_ISSET(0, &shared));
    }
    CHECK(levels >= 3);
}

static const char *allowed_list(void) {
    static char line[4096];
    FILE *file = fopen("/proc/thread-self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "Cpus_allowed_list:\t", 19) == 0) {
            line[strcspn(line, "\n")] = 0;
            fclose(file);
            return line + 19;
        }
    return "";
}

static void *where(void *at) {
    cpu_set_t own;
    *(int *)at = sched_getaffinity(0, sizeof own, &own) == 0 && CPU_COUNT(&own) == 1 ? sched_getcpu() : -1;
    return NULL;
}

static void affinity_says_where_threads_run(void) {
    cpu_set_t before, own;
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &before))
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
        CHECK(sched_getaffinity(0, sizeof own, &own) == 0 && CPU_EQUAL(&own, &one));
        SAME(sched_getcpu(), cpu);
        SAME(atoi(allowed_list()), cpu);
        /* Threads and children inherit it, and a thread changes its own alone. */
        int at = -1, status;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, where, &at) == 0 && pthread_join(thread, NULL) == 0);
        SAME(at, cpu);
        char number[16];
        snprintf(number, sizeof number, "%d", cpu);
        pid_t child;
        char *arguments[] = {"sh", "-c", "read -r _ list <<EOF\n$(grep Cpus_allowed_list /proc/self/status)\nEOF\n[ \"$list\" = \"$0\" ]", number, NULL};
        CHECK(posix_spawnp(&child, "sh", NULL, NULL, arguments, environ) == 0 && waitpid(child, &status, 0) == child);
        SAME(status, 0);
    }
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
}

static void masks_are_checked(void) {
    cpu_set_t none, before;
    CPU_ZERO(&none);
    unsigned char mask[512];
    FAILS(sched_setaffinity(0, sizeof none, &none), EINVAL);
    CPU_SET(CPU_SETSIZE - 1, &none);
    FAILS(sched_setaffinity(0, sizeof none, &none), EINVAL);
    FAILS(syscall(SYS_sched_getaffinity, 0, 4, mask), EINVAL);
    FAILS(syscall(SYS_sched_getaffinity, 0, 12, mask), EINVAL);
    FAILS(syscall(SYS_sched_getaffinity, 99999999, sizeof mask, mask), ESRCH);
    long len = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    CHECK(len >= 8 && len % 8 == 0);
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0 && sched_setaffinity(0, 8, &before) == 0);
}

GUEST(T(counts_agree), T(each_processor_has_its_topology), T(caches_lie_in_ways_and_sets), T(affinity_says_where_threads_run), T(masks_are_checked))
