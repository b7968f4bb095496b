"""`belljar gdb` with the real gdb: breakpoints, steps, threads, signals and new images, near and far; and that a run
that is looked at gives what it gives without."""

import re
import signal
import subprocess

import pytest
from compiling import compile_newer, locked
from conftest import TARGET, execute, until

pytestmark = pytest.mark.needs("gdb", "gcc")

TWO_THREADS = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int counter;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) static void count(int by) {
    pthread_mutex_lock(&lock);
    counter += by;
    pthread_mutex_unlock(&lock);
}
static void *work(void *arg) {
    for (int i = 0; i < 5; i++) {
        count((int)(long)arg);
        usleep(1000);
    }
    return NULL;
}
static void on_usr1(int s) { (void)s; counter += 1000; }
int main(int argc, char **argv) {
    pthread_t t;
    signal(SIGUSR1, on_usr1);
    pthread_create(&t, NULL, work, (void *)10L);
    work((void *)1L);
    pthread_join(t, NULL);
    raise(SIGUSR1);
    printf("counter %d\n", counter);
    pid_t child = fork();
    if (child == 0) {
        count(5);
        _exit(counter & 127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    fflush(stdout);
    if (argc == 1)
        execl(argv[0], argv[0], "again", (char *)NULL);
    return 3;
}
"""


@pytest.fixture(scope="session")
def two_threads():
    source = TARGET / "test-work" / "gdb" / "two_threads.c"
    with locked(source.with_suffix(".written")):
        if not source.exists() or source.read_text() != TWO_THREADS:
            source.write_text(TWO_THREADS)
    compile_newer(source.with_suffix(""), ["gcc", "-g", "-O1", "-pthread"], source)
    return source.with_suffix("")


def experiment(path, program, *args, stop="60 s", status="{exited: 3}"):
    process = f"{{path: {program}, args: {list(args)!r}, expected_final_state: {status}}}"
    path.write_text(
        f"general: {{stop_time: {stop}}}\nnetwork: {{graph: {{type: 1_gbit_switch}}}}\n"
        f"hosts:\n  alice:\n    network_node_id: 0\n    processes:\n    - {process}\n"
        "  bob:\n    network_node_id: 0\n    processes:\n    - {path: /bin/sleep, args: ['1']}\n"
    )
    return path


class Running:
    """A run in the background, ended with the test whatever happens."""

    def __init__(self, belljar, folder, *args):
        self.belljar, self.folder = belljar, folder
        self.log = folder.with_suffix(".log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [belljar, "run", *map(str, args), "-o", str(folder)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def __enter__(self):
        def listed():
            assert self.process.poll() is None, self.log.read_text()
            said = subprocess.run([self.belljar, "gdb", "-o", self.folder], capture_output=True, text=True).stdout
            return re.search(r"^alice +1000 ", said, re.M)

        until(listed, self.log.read_text)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def gdb(self, *commands, who=("alice", "1000")):
        arguments = [word for command in commands for word in ("-ex", command)]
        return execute([self.belljar, "gdb", "-o", self.folder, *who, "--", "-batch", *arguments])


@pytest.mark.parametrize("placement", ["near", "far"])
def test_breakpoints_threads_signals_and_exec(belljar, workdir, two_threads, placement):
    file = experiment(workdir / "two.yaml", two_threads)
    plain = workdir / "plain"
    execute([belljar, "run", file, "-o", plain, "--placement", placement, "--strace"])
    looked_at = workdir / "looked-at"
    with Running(belljar, looked_at, file, "--placement", placement, "--strace", "--gdb", "alice:two_threads") as run:
        said = run.gdb(
            "break count if by == 10", "continue", "bt", "info threads", "print by", "print counter", "print (int)abs(-77)", "next", "next",
            "next", "print counter", "stepi", "info sharedlibrary", "info proc mappings",
            "thread apply all bt", "delete", "continue", "print counter", "bt", "continue", "break on_usr1",
            "continue", "bt", "print argc", "delete", "continue",
        )
        assert run.process.wait(600) == 0, f"{run.log.read_text()}\n{said}"
    text = said.out
    assert re.search(r"hit Breakpoint 1, count \(by=by@entry=10\) at .*two_threads.c:", text), str(said)
    # A stack goes through the C library to the start of the thread. What the library exports has a name, the rest only with its debugging symbols.
    assert re.search(r"#1 .* in work \(.*\n#2 .* in (start_thread|\?\?) \(.*\n#3 .* in (clone3|\?\?) \(", text), str(said)
    assert re.search(r"#\d .* in usleep \(.*\n#\d .* in work \(", text), str(said)
    assert "waits in clock_nanosleep" in text, str(said)
    assert "$1 = 10" in text and "$2 = 1\n" in text and "$3 = 77\n" in text and "$4 = 11\n" in text, str(said)
    assert "/lib/x86_64-linux-gnu/libc.so.6" in text and "[stack]" in text, str(said)
    assert re.search(r"#4 .* in main \(argc=1, ", text) and "<signal handler called>" in text, str(said)
    assert "received signal SIGUSR1" in text and "$5 = 55" in text, str(said)
    assert "is executing new program" in text and "exited with code 03" in text, str(said)
    # it was only looked at
    for kind in ("stdout", "strace"):
        for before, after in zip(*(sorted((f / "hosts").rglob(f"*.{kind}")) for f in (plain, looked_at))):
            assert before.read_bytes().replace(b"/plain", b"/looked-at") == after.read_bytes(), f"{before} {after}"
    assert (looked_at / "hosts/alice/two_threads.1000.stdout").read_text() == "counter 1055\nchild 36\n" * 2
    assert not (looked_at / "control.sock").exists()


def test_what_runs_is_attached_to_interrupted_changed_and_let_go(belljar, workdir, two_threads):
    source = workdir / "loop.c"
    source.write_text(
        "#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\nvolatile int go_on = 1;\nvolatile long rounds;\n"
        'int main(void) { int f = open("rounds", O_CREAT | O_RDWR, 0644);\n'
        'while (go_on) { usleep(100000); rounds++; pwrite(f, (long *)&rounds, 8, 0); } puts("let go"); return 7; }\n'
    )
    binary = source.with_suffix("")
    subprocess.run(["gcc", "-g", source, "-o", binary], check=True)
    file = experiment(workdir / "loop.yaml", binary, stop="5000 h", status="{exited: 7}")
    folder = workdir / "out"
    with Running(belljar, folder, file) as run:
        first = run.gdb("print rounds > 0", "info registers rip", "monitor time", "print $rax = 1", "detach")
        assert "$1 = 1" in first.out and "process 1000 of host alice, simulated time" in first.err, str(first)
        # somebody who waits in a call has no registers of his own to change
        assert "Could not write registers" in first.err, str(first)
        command = [belljar, "gdb", "-o", folder, "alice", "loop", "--"]
        command += ["-batch", "-ex", "echo it goes on\\n", "-ex", "continue", "-ex", "print go_on", "-ex", "set var go_on = 0", "-ex", "continue"]
        gdb = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        before = iter(gdb.stdout.readline, "")
        assert any("it goes on" in line for line in before), "gdb did not attach"
        # It stands still under gdb's eyes, until that has it go on.
        counted = (folder / "hosts/alice/rounds").read_bytes()
        until(lambda: (folder / "hosts/alice/rounds").read_bytes() != counted)
        gdb.send_signal(signal.SIGINT)
        said, _ = gdb.communicate(timeout=600)
        assert "received signal SIGINT" in said and "$1 = 1" in said, said
        assert "exited with code 07" in said, said
        assert run.process.wait(600) == 0, run.log.read_text()
    assert next(folder.glob("hosts/alice/loop.*.stdout")).read_text() == "let go\n"


def test_kill_and_mistakes(belljar, workdir):
    file = experiment(workdir / "sleep.yaml", "/bin/sleep", "infinity", stop="5000 h", status="{signaled: SIGKILL}")
    text = file.read_text().replace("args: ['1']", "args: ['infinity']")
    text += "    - {path: /bin/sh, args: ['-c', 'while :; do sleep 1; done']}\n"
    file.write_text(text)
    folder = workdir / "out"
    # Each host in a process of the simulator's of its own.
    with Running(belljar, folder, file, "--cells", "2") as run:
        listed = execute([belljar, "gdb"], cwd=workdir)
        assert re.search(r"^alice +1000 +/bin/sleep infinity$", listed.out, re.M), str(listed)
        host = run.gdb(who=("carol", "1000"))
        assert host.status == 2 and "there is no host carol; there are: alice, bob" in host.err, str(host)
        process = run.gdb(who=("alice", "4711"))
        assert process.status == 2 and "host alice has no process 4711; there are:\n" in process.err, str(process)
        assert "1000  /bin/sleep infinity" in process.err, str(process)
        killed = run.gdb("bt", "kill")
        assert "pause" in killed.out, str(killed)
        assert "killed" in killed.out, str(killed)
    assert "sleep.1000" in run.log.read_text()
    gone = execute([belljar, "gdb", "-o", folder, "alice", "1000"])
    assert gone.status == 2 and "no experiment that runs writes its results to" in gone.err, str(gone)
    nowhere = execute([belljar, "gdb", "alice", "1000"], cwd=workdir)
    assert nowhere.status == 2 and "no experiment runs with its results in the current directory" in nowhere.err
    for debuggee, said in (("carol:sleep", "there is no host carol"), ("alice:curl", "alice has no program curl; it has")):
        wrong = execute([belljar, "run", file, "-o", workdir / "wrong", "--gdb", debuggee])
        assert wrong.status == 2 and said in wrong.err, str(wrong)
