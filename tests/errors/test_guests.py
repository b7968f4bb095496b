"""Guests that end badly or not at all: the run ends all the same, says who it was, and fails."""

import os
import re
import signal
import subprocess
import time

import pytest
from conftest import experiment, until
from errors.test_input import nothing_left  # noqa: F401  (a fixture)

SEGFAULT = "int main(void) { *(volatile int *)8 = 1; return 0; }"
# It waits for ever, as far as anyone can tell; it works in small steps; it computes; each for ever.
SPIN = "int main(void) { for (;;) __asm__ volatile(\"\"); }"
WORK = "#include <unistd.h>\nint main(void) { for (;;) usleep(1); }"
COMPUTE = "int main(void) { for (unsigned long n = 1;; n = n * 5 + 3) __asm__ volatile(\"\" : \"+r\"(n)); }"


def compiled(workdir, source, name):
    (workdir / f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-O1", workdir / f"{name}.c", "-o", workdir / name], check=True)
    return workdir / name


def one_guest(path, *args, stop="5 s", **more):
    return experiment({"alice": (0, [{"path": str(path), "args": list(args), **more}])}, stop=stop)


@pytest.mark.usefixtures("nothing_left")
class TestGuests:
    def test_segfault(self, run_experiment, workdir):
        program = compiled(workdir, SEGFAULT, "crasher")
        done = run_experiment(one_guest(program), status=None)
        said = done.out + done.err
        assert done.status not in (0, "killed") and "panicked" not in said
        assert re.search(r"crasher.*SIGSEGV|SIGSEGV.*crasher", said), said
        assert "alice" in said

    def test_expected_segfault(self, run_experiment, workdir):
        program = compiled(workdir, SEGFAULT, "crasher")
        run_experiment(one_guest(program, expected_final_state={"signaled": "SIGSEGV"}))

    def test_one_crash_harms_no_other(self, run_experiment, workdir):
        program = compiled(workdir, SEGFAULT, "crasher")
        hosts = {"alice": (0, [{"path": str(program), "expected_final_state": {"signaled": "SIGSEGV"}}]),
                 "bob": (0, [("/bin/sh", "-c", "echo still here")])}
        assert run_experiment(experiment(hosts)).text("bob") == "still here\n"

    def test_wrong_exit_status(self, run_experiment):
        done = run_experiment(one_guest("/bin/sh", "-c", "exit 3"), status=None)
        said = done.out + done.err
        assert done.status not in (0, "killed")
        assert "alice" in said and re.search(r"sh\b.*\b3\b", said), said

    def test_expected_exit_status(self, run_experiment):
        run_experiment(one_guest("/bin/sh", "-c", "exit 3", expected_final_state={"exited": 3}))

    def test_still_running(self, run_experiment):
        done = run_experiment(one_guest("/bin/sleep", "1000"), status=None)
        said = done.out + done.err
        assert done.status not in (0, "killed") and "running" in said and "alice" in said, said
        run_experiment(one_guest("/bin/sleep", "1000", expected_final_state="running"), name="again")

    def test_loop_without_a_call(self, run_experiment, workdir):
        """It is preempted, the stop time comes, and the summary names it: such a run is not deterministic."""
        program = compiled(workdir, COMPUTE, "computer")
        done = run_experiment(one_guest(program, stop="50 ms"), status=None)
        said = done.out + done.err
        assert done.status not in (0, "killed") and "computer" in said and re.search("(?i)preempt.*determinis", said), said

    def test_loop_that_waits(self, run_experiment, workdir):
        """Time passes it by, and that is deterministic."""
        program = compiled(workdir, SPIN, "spinner")
        done = run_experiment(one_guest(program, stop="1000 s", expected_final_state="running"))
        assert not re.search("(?i)preempt|determinis", done.out + done.err), done.out + done.err

    def test_looping_guest_lets_others_run(self, run_experiment, workdir):
        program = compiled(workdir, COMPUTE, "computer")
        hosts = {"alice": (0, [{"path": str(program), "expected_final_state": "running"}]),
                 "bob": (0, [("/bin/sh", "-c", "sleep 0.02; echo done")])}
        assert run_experiment(experiment(hosts, stop="50 ms")).text("bob") == "done\n"

    @pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
    def test_interrupted(self, belljar, workdir, sig):
        """The first signal ends the run in order: what there is so far is kept, nothing else."""
        program = compiled(workdir, WORK, "worker")
        (workdir / "long.yaml").write_text(
            "general: {stop_time: 1000000 s}\nnetwork: {graph: {type: 1_gbit_switch}}\n"
            f"hosts:\n  alice: {{network_node_id: 0, processes: [{{path: {program}}}]}}\n"
            "  bob: {network_node_id: 0, processes: [{path: /bin/echo, args: early}]}\n"
        )
        process = subprocess.Popen(
            [belljar, "run", workdir / "long.yaml", "-o", workdir / "data"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )
        try:
            until(lambda: any(file.read_text() for file in (workdir / "data").glob("hosts/bob/echo.*.stdout")) or process.poll() is not None)
            assert process.poll() is None, process.communicate()
            process.send_signal(sig)
            out, err = process.communicate(timeout=600)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        assert process.returncode != 0 and "panicked" not in err and "interrupted" in (out + err).lower(), out + err
        (written,) = (workdir / "data").glob("hosts/bob/echo.*.stdout")
        assert written.read_text() == "early\n"

    def test_killed_from_outside(self, belljar, workdir):
        """A killed simulator takes its guests with it: they have no one to live in."""
        process = subprocess.Popen([belljar, "exec", "--", compiled(workdir, COMPUTE, "computer")], start_new_session=True)
        try:
            time.sleep(2)
            assert process.poll() is None
        finally:
            process.kill()
            process.wait()
        members = ["ps", "-o", "pid=", "-s", str(process.pid)]
        until(lambda: not subprocess.run(members, capture_output=True, text=True).stdout.strip(), patience=60)
        # what a killed process cannot clean up is in the temporary directory of this test
        for left in (workdir / "tmp").iterdir():
            subprocess.run(["rm", "-rf", left], check=True)


def test_status_of_exec(exec_guest):
    assert exec_guest(["/bin/sh", "-c", "exit 7"]).status == 7
    assert exec_guest(["/bin/sh", "-c", "kill -TERM $$"]).status == 128 + signal.SIGTERM
    assert exec_guest(["/bin/true"]).status == 0
