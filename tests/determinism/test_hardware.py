"""Instructions that read the machine: the host answers those in programs and libraries, and the summary names the others."""

import json
import re
import shutil
import subprocess

import pytest
from conftest import experiment
from determinism.test_placement import contents, same

# Draws numbers of every size by both instructions, and the processor's number. The library has the same functions.
DRAW = r"""
#define DRAW(name, type, instruction) \
    type name(void) { type v; unsigned char ok; do __asm__ volatile(instruction " %0\n setb %1" : "=r"(v), "=q"(ok) :: "cc"); while (!ok); return v; }
DRAW(SUFFIX(rdrand16), unsigned short, "rdrand")
DRAW(SUFFIX(rdrand32), unsigned, "rdrand")
DRAW(SUFFIX(rdrand64), unsigned long, "rdrand")
DRAW(SUFFIX(rdseed16), unsigned short, "rdseed")
DRAW(SUFFIX(rdseed32), unsigned, "rdseed")
DRAW(SUFFIX(rdseed64), unsigned long, "rdseed")
unsigned long SUFFIX(rdpid)(void) { unsigned long v; __asm__ volatile("rdpid %0" : "=r"(v)); return v; }
"""
PROGRAM = r"""
#include <stdio.h>
#include <unistd.h>
#include <sys/wait.h>
#define SUFFIX(name) name ## _own
#include "draw.h"
unsigned short rdrand16(void), rdseed16(void);
unsigned rdrand32(void), rdseed32(void);
unsigned long rdrand64(void), rdseed64(void), rdpid(void);

static void say(const char *who) {
    for (int n = 0; n < 3; n++) {
        printf("%s own %hx %x %lx %hx %x %lx %lu\n", who, rdrand16_own(), rdrand32_own(), rdrand64_own(), rdseed16_own(), rdseed32_own(), rdseed64_own(), rdpid_own());
        printf("%s library %hx %x %lx %hx %x %lx %lu\n", who, rdrand16(), rdrand32(), rdrand64(), rdseed16(), rdseed32(), rdseed64(), rdpid());
    }
    fflush(stdout);
}

int main(void) {
    say("parent");
    if (fork() == 0) {
        say("child");
        _exit(0);
    }
    wait(NULL);
    say("parent");
    return 0;
}
"""
# Writes the function `rdrand %rax; jae back; ret` to memory that can be executed, and calls it.
WRITTEN = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static const unsigned char code[] = {0x48, 0x0f, 0xc7, 0xf0, 0x73, 0xfa, 0xc3};
int main(int count, char **arguments) {
    int later = count > 1 && strchr(arguments[1], 'l'), unmaps = count > 1 && strchr(arguments[1], 'u'), lasts = count > 1 && strchr(arguments[1], 'p');
    unsigned char *at = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE | (later ? 0 : PROT_EXEC), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at + 4096 + 64, code, sizeof code);
    if (later) mprotect(at, 1 << 16, PROT_READ | PROT_EXEC);
    if (__builtin_cpu_supports("rdrnd")) printf("%lx\n", ((unsigned long (*)(void))(at + 4096 + 64))());
    if (unmaps) munmap(at, 1 << 16);
    fflush(stdout);
    for (volatile int n = 0; lasts; n++) sleep(1000);
    return 0;
}
"""


@pytest.fixture
def draw(workdir):
    (workdir / "draw.h").write_text(DRAW)
    (workdir / "draw.c").write_text('#define SUFFIX(name) name\n#include "draw.h"\n')
    (workdir / "program.c").write_text(PROGRAM)
    gcc = ["gcc", "-O2", "-Wall", "-Wextra", "-I", workdir]
    subprocess.run([*gcc, "-shared", "-fPIC", "-o", workdir / "libdraw.so", workdir / "draw.c"], check=True)
    subprocess.run([*gcc, "-o", workdir / "program", workdir / "program.c", workdir / "libdraw.so", f"-Wl,-rpath,{workdir}"], check=True)
    return workdir / "program"


@pytest.fixture
def written(workdir):
    (workdir / "written.c").write_text("#include <unistd.h>\n" + WRITTEN)
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-o", workdir / "written", workdir / "written.c"], check=True)
    return workdir / "written"


def warnings(done):
    return [what for what in json.loads((done.path / "sim-stats.json").read_text())["warnings"] if re.search("RD|CPUID|XGETBV", what)]


def test_random_numbers_are_those_of_the_seed(run_experiment, draw):
    hosts = {"alice": (0, [{"path": str(draw)}]), "bob": (0, [{"path": str(draw)}])}
    runs = {}
    for seed in (1, 2):
        for placement in ("near", "far", "auto"):
            done = run_experiment(experiment(hosts, seed=seed), args=["--placement", placement, "--strace"], name="same")
            assert warnings(done) == [], done
            runs[seed, placement] = contents(done)
    said = {}
    for seed in (1, 2):
        files = same({placement: found for (of, placement), found in runs.items() if of == seed})
        said[seed] = [text.decode().splitlines() for file, text in sorted(files.items()) if file.endswith(".stdout")]
        for lines in said[seed]:
            assert len(lines) == 18 and all(line.endswith(" 0") for line in lines), lines
            assert len({line.split()[n] for line in lines for n in (4, 7)}) == 36, "drawn twice"
        assert not set(said[seed][0]) & set(said[seed][1]), "two hosts draw the same"
    assert not {line for lines in said[1] for line in lines} & {line for lines in said[2] for line in lines}


def test_many_guests_of_one_image_draw_numbers_of_the_seed(run_experiment, workdir, draw):
    """Text that many guests map and that makes system calls is shared, with its instructions replaced beforehand."""
    program = workdir / "whole"
    subprocess.run(["gcc", "-O2", "-static-pie", "-I", workdir, "-o", program, workdir / "program.c", workdir / "draw.c"], check=True)
    processes = [{"path": str(program), "start_time": f"{n} ms"} for n in range(40)]
    runs = {}
    for placement in ("near", "far"):
        done = run_experiment(experiment({"host": (0, processes)}), args=["--placement", placement], name="same")
        assert warnings(done) == [], done
        runs[placement] = contents(done)
    files = same(runs)
    said = [line for file, text in files.items() if file.endswith(".stdout") for line in text.decode().splitlines()]
    assert len({line.split()[4] for line in said}) == 18 * 40, "drawn twice"


@pytest.mark.parametrize("placement", ["near", "far"])
@pytest.mark.parametrize("how", ["now", "later", "unmapped", "stays"])
def test_code_that_a_program_writes_is_named(run_experiment, written, placement, how):
    argument = {"now": "-", "later": "l", "unmapped": "u", "stays": "p"}[how]
    processes = [{"path": str(written), "args": [argument], "expected_final_state": "running" if how == "stays" else {"exited": 0}}]
    texts = set()
    for _ in range(2):
        done = run_experiment(experiment({"host": (0, processes)}, stop="10 s"), args=["--placement", placement], name="same")
        (what,) = warnings(done)
        memory = "memory since unmapped" if how == "unmapped" else "memory without a file"
        assert re.fullmatch(rf"host host, {written}: what may be RDRAND in {memory} at 0x\w+040 gives real random bytes: .*not deterministic.*", what), what
        assert f"warning: {what} (1x)" in done.out, done.out
        texts.add(what)
        shutil.rmtree(done.path)
    assert len(texts) == 1, texts


# Reads the registers in use while vector registers are and are not, and the enabled ones.
IN_USE = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
__attribute__((noinline)) static unsigned long read_register(unsigned which) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(which));
    return (unsigned long)high << 32 | low;
}
static unsigned long in_use(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return (unsigned long)high << 32 | low;
}
int main(int count, char **arguments) {
    static const unsigned char code[] = {0xb9, 1, 0, 0, 0, 0x0f, 0x01, 0xd0, 0xc3};
    printf("%lx %lx\n", in_use(), read_register(1));
    for (volatile long n = 0; n < 300000000; n++);
    __asm__ volatile("vzeroall" ::: "memory");
    printf("%lx %lx\n", in_use(), read_register(1));
    printf("%d\n", (read_register(0) & 7) == 7);
    if (count > 1 && strcmp(arguments[1], "w") == 0) {
        unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(at + 64, code, sizeof code);
        fflush(stdout);
        ((void (*)(void))(at + 64))();
    }
    return 0;
}
"""


def test_the_registers_in_use_are_the_same_in_each_run(run_experiment, workdir):
    """XGETBV with ECX = 1 otherwise depends on interruptions."""
    (workdir / "in_use.c").write_text(IN_USE)
    program = workdir / "in_use"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-o", program, workdir / "in_use.c"], check=True)
    runs = {}
    for placement in ("near", "far"):
        done = run_experiment(experiment({"host": (0, [{"path": str(program)}])}), args=["--placement", placement], name="same")
        assert warnings(done) == [], done
        runs[placement] = contents(done)
    files = same(runs)
    (said,) = [text.decode() for file, text in files.items() if file.endswith(".stdout")]
    assert said == "7 7\n7 7\n1\n", said
    done = run_experiment(experiment({"host": (0, [{"path": str(program), "args": ["w"]}])}))
    (what,) = warnings(done)
    assert "XGETBV of the registers in use in memory without a file" in what and "not deterministic" in what, what


def test_instructions_are_replaced_again_after_their_page_was_discarded(run_experiment, workdir, draw):
    """`madvise` with MADV_DONTNEED gives text its content from the file again."""
    source = workdir / "discard.c"
    source.write_text(r"""
        #include <stdio.h>
        #include <stdint.h>
        #include <sys/mman.h>
        unsigned long rdrand64(void);
        int main(void) {
            printf("%lx\n", rdrand64());
            if (madvise((void *)((uintptr_t)rdrand64 & ~4095ul), 4096, MADV_DONTNEED) != 0) return 1;
            printf("%lx\n", rdrand64());
            return 0;
        }
    """)
    program = workdir / "discard"
    subprocess.run(["gcc", "-O1", "-o", program, source, workdir / "libdraw.so", f"-Wl,-rpath,{workdir}"], check=True)
    runs = {}
    for placement in ("near", "far"):
        done = run_experiment(experiment({"host": (0, [{"path": str(program)}])}), args=["--placement", placement], name="same")
        runs[placement] = contents(done)
    same(runs)
