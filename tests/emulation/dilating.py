"""What the tests of dilated emulations share: runs at a factor, their programs, and what `clocks` prints."""

import shutil
import subprocess

import pytest
import test_emulate
from conftest import timely
from test_emulate import IS_ROOT, ROOT, can_make_namespaces, in_time, output, statistics, verdict

SOURCES = ROOT / "tests" / "dilated"
#: Mark of tests that emulate.
emulates = pytest.mark.skipif(not (IS_ROOT or can_make_namespaces()), reason="needs root, or user namespaces, which this machine does not allow")


@pytest.fixture(autouse=True, scope="module")
def program(belljar):
    test_emulate.BELLJAR = str(belljar)


def emulate(tmp_path, text, *options, name="emu", check=True, timeout=900):
    (tmp_path / "exp.yaml").write_text(text)
    done = subprocess.run([test_emulate.BELLJAR, "emulate", str(tmp_path / "exp.yaml"), "-o", str(tmp_path / name), "--until-done", *options],
                          capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done, tmp_path / name


def rate(results):
    """Virtual seconds in a real one, by the machine's own clock."""
    return statistics(results)["simulated_seconds"] / verdict(results)["real_seconds"]


def compiled(tmp_path, *options):
    if not shutil.which("gcc"):
        pytest.skip("there is no C compiler")
    program = tmp_path / "clocks"
    subprocess.run(["gcc", "-O1", "-w", *options, "-o", str(program), str(SOURCES / "clocks.c"), "-lpthread", "-lrt"], check=True)
    return program


def check(said, slack):
    """What `clocks` printed. No wait is too short; `slack` is what a machine with other work may add, in virtual seconds."""
    kinds = {}
    for line in said.splitlines()[:-1]:
        kind, name, *values = line.split()
        kinds.setdefault(kind, []).append(name)
        a, b = float(values[0]), float(values[-1])
        if kind in ("wait", "child"):
            assert 0.1 <= a, line
            timely(a < 0.101 + slack, line)
        elif kind == "clock":
            timely(abs(a - b) < 0.01 * b + 0.002 + slack, line)
        elif kind == "tick":
            timely(abs(a - b) < 0.01 * b + 0.04 + slack, line)
        elif kind == "second":
            timely(abs(a - b) <= 1.0, line)
        elif kind == "used":
            assert 0 < a, line
            timely(a < b * 1.01 + 0.02, line)
        else:
            assert kind == "same", line
            timely(abs(a - b) <= 0.01 * b or name == "packet_stamp" and slack > 1, line)
    assert said.splitlines()[-1] == "done", said
    assert len(kinds["wait"]) >= 20 and len(kinds["clock"]) >= 6 and len(kinds["same"]) >= 4, kinds


ONE = """
general: {{stop_time: {stop}}}
network: {{graph: {{type: 1_gbit_switch}}}}
hosts:
  a:
    network_node_id: 0
    processes:
    - {{path: {path}, args: {args}}}
"""


PAIR = """
general: {{stop_time: 30 s}}
hosts:
  a: {{processes: [{{path: {path}, args: [-c, {command}], start_time: 500 ms}}]}}
  b: {{processes: {server}}}
links:
- {{between: [a, b], rate: {rate}, latency: {latency}}}
"""


def timeouts_as_set(tmp_path, options, others):
    """What is set is read back, no wait ends early, and only a signal of the program's own interrupts one; natively as well."""
    program = tmp_path / "timeouts"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", program, SOURCES / "timeouts.c", "-lpthread"], check=True)
    natively = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    _, results = emulate(tmp_path, ONE.format(stop="60 s", path=program, args="[]") + others, *options)
    said = output(results, "a", "timeouts")
    results_of = lambda text: [line.split()[:3] for line in text.splitlines()]
    # Where the machine is busy, what interrupts a wait may come after its end, natively too.
    timely(results_of(said) == results_of(natively), f"{said}natively:\n{natively}")
    for name, _, _, took, least in map(str.split, said.splitlines()[:-1]):
        assert float(took) >= float(least), said
        timely(float(took) < float(least) + 0.03 or not in_time(results), said)


def timers_on_time(tmp_path, options, others, scale):
    """No timer expires early, signals and overruns are Linux's, and settings are read as they were set; natively as well."""
    program = tmp_path / "timers"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", program, SOURCES / "timers.c", "-lpthread", "-lrt"], check=True)
    natively = subprocess.run([program, str(scale)], capture_output=True, text=True, check=True).stdout
    _, results = emulate(tmp_path, ONE.format(stop="60 s", path=program, args=f"['{scale}']") + others, *options)
    # A timer of processor time keeps the factor at which it was set, and that clock jumps when the factor changes.
    ignored = ("cputime", "itimer") if "auto,3" in options else ()
    said, natively = ([line for line in text.splitlines() if not line.startswith(ignored)] for text in (output(results, "a", "timers"), natively))
    results_of = lambda lines: [line.split()[:3] for line in lines]
    # Where the machine is busy, what interrupts a wait may come after its end, natively too.
    timely(results_of(said) == results_of(natively), f"{said}natively:\n{natively}")
    for _, _, _, took, least in map(str.split, said[:-1]):
        assert float(took) >= float(least), said
        timely(float(took) < float(least) + 0.03 or not in_time(results), said)
