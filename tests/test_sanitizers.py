"""Programs built with sanitizers, whose shadow memory and heaps lie at addresses of their own: natively and under Belljar, where
they go on far as soon as they ask for them."""

import re
import subprocess

import pytest
from conftest import execute

SOURCE = r"""#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char *text = malloc(10), *volatile lost = malloc(20);
    int shift = argc + 40;
    strcpy(text, "hello");
    fflush(stdout);
    if (fork() == 0) { printf("child says %s\n", text); fflush(stdout); _exit(0); }
    wait(NULL);
    printf("parent says %s\n", text);
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "overflow")) text[10] = 1;
    if (argc > 1 && !strcmp(argv[1], "shift")) printf("%d\n", 1 << shift);
    free(text);
    if (argc < 2 || strcmp(argv[1], "leak")) free(lost);
    lost = NULL;
    return 0;
}
"""


def built(workdir, sanitizer):
    (workdir / "program.c").write_text(SOURCE)
    command = ["gcc", "-g", "-O1", f"-fsanitize={sanitizer}", "-o", workdir / sanitizer, workdir / "program.c"]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip(f"gcc has no -fsanitize={sanitizer} here")
    return workdir / sanitizer


@pytest.mark.parametrize("sanitizer, mistake, says", [
    ("address", None, None),
    ("address", "leak", r"LeakSanitizer: detected memory leaks\n(.*\n)+Direct leak of 20 byte"),
    ("address", "overflow", r"AddressSanitizer: heap-buffer-overflow.*\n(.*\n)+.*program\.c:\d+"),
    ("undefined", "shift", r"program\.c:\d+:\d+: runtime error: shift exponent 42"),
], ids=["address", "leak", "overflow", "shift"])
def test_sanitizer(exec_guest, workdir, sanitizer, mistake, says):
    command = [built(workdir, sanitizer), *([mistake] if mistake else [])]
    native, simulated = execute(command, 60), exec_guest(command)
    for run in (native, simulated):
        assert run.out.startswith("child says hello\nparent says hello\n"), str(run)
        assert says is None or re.search(says, run.err), str(run)
    assert simulated.status == native.status, str(simulated)
