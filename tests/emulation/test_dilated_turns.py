"""`belljar emulate --quantum`, and factors that follow the machine: hosts that compute share its processors. Other work would show."""

import json
import os
import re

import pytest
from conftest import measured, timely
from dilating import compiled, emulate, emulates, program, rate, timeouts_as_set, timers_on_time  # noqa: F401
from test_emulate import IS_ROOT, as_nobody, in_time, output, statistics, verdict  # noqa: F401

pytestmark = [pytest.mark.alone, emulates]


BUSY_LOOPS = "".join(f"""
  {name}:
    network_node_id: 0
    processes: [{{path: sh, args: [-c, "timeout 4 sh -c 'while :; do :; done'"], expected_final_state: any}}]""" for name in "bcd")


@measured(4)
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("options, others", [
    pytest.param(["--tdf", "2", "--quantum", "2ms"], BUSY_LOOPS, id="in turns"),
    pytest.param(["--tdf", "2", "--tdf", "a=5"], "", id="of its own", marks=pytest.mark.slow),
])
def test_timeouts_of_sockets_are_as_set(tmp_path, options, others):
    timeouts_as_set(tmp_path, options, others)


@measured(4)
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("options", [
    pytest.param(["--tdf", "2", "--quantum", "2ms"], id="in turns"),
    *[pytest.param(options, id=name, marks=pytest.mark.slow) for name, options in (
        ("following the machine", ["--tdf", "auto,3"]), ("of its own", ["--tdf", "2", "--tdf", "a=5"]))],
])
def test_timers_expire_on_time(tmp_path, options):
    timers_on_time(tmp_path, options, BUSY_LOOPS, scale=0.4)


BUSY = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
rounds = 0
while time.monotonic() < end:
    sum(range(20000))
    rounds += 1
print(rounds)
"""


def turns(tmp_path, *, hosts, seconds, program=BUSY):
    """Hosts that need a processor each, and one that pings another all the while."""
    (tmp_path / "busy.py").write_text(program)
    names = [f"h{n}" for n in range(hosts)]
    busy = "\n".join(f"  {name}: {{processes: [{{path: python3, args: [{tmp_path}/busy.py, '{seconds}'], start_time: 500 ms}}]}}" for name in names)
    links = "\n".join(f"- {{between: [{name}, s], rate: 100 Mbit, latency: 2 ms}}" for name in [*names, "ping", "pong"])
    return f"""
general: {{stop_time: 20 s}}
switches: [s]
hosts:
{busy}
  ping: {{processes: [{{path: ping, args: [-n, -i, '0.05', -c, '{int(seconds * 20)}', -q, pong], start_time: 500 ms}}]}}
  pong: {{processes: []}}
links:
{links}
""", names


def round_trips(results):
    return [float(value) for value in re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)", output(results, "ping", "ping")).groups()]


@measured(4)
@pytest.mark.needs("ping")
def test_hosts_run_in_turns(tmp_path):
    """Five hosts want a processor each: in turns all clocks agree at each barrier, each has had one, and a round trip is what it is."""
    text, names = turns(tmp_path, hosts=5, seconds=1)
    done, results = emulate(tmp_path, text, "--quantum", "1 ms")
    truth = verdict(results)
    quanta = truth["quanta"]
    assert quanta["barriers"] > 100 and quanta["most_turns"] >= 2 and quanta["quantum_us"] == 1000.0, truth
    assert quanta["frozen_by"] == "control groups" or not IS_ROOT
    assert "quanta: " in done.stdout
    # Five hosts' seconds of two processors; nobody's clock shows them.
    assert truth["real_seconds"] > 1.3 * statistics(results)["simulated_seconds"] or os.cpu_count() > 5, truth
    least, mean, _ = round_trips(results)
    # Where processors fail to come for long (the verdict says so), a clock is read a moment before its host is stopped.
    timely((least >= 8.0 and mean < 9.5) or not in_time(results), (least, mean))
    rounds = [int(output(results, name, "python3")) for name in names]
    timely(min(rounds) > 0.5 * max(rounds) or not in_time(results), rounds)


@pytest.mark.slow
@pytest.mark.needs("ping")
def test_hosts_are_stopped_by_signals_where_there_are_no_control_groups(as_nobody, tmp_path):  # noqa: F811
    """An ordinary user has none; the shell that waits for its child sees nothing of it."""
    program = BUSY + "import subprocess, signal\nseen = []\nsignal.signal(signal.SIGCHLD, lambda *_: seen.append(1))\n" \
        "import os\nchild = subprocess.Popen(['sleep', '0.5'])\nwhile os.waitpid(child.pid, os.WUNTRACED | os.WNOHANG) == (0, 0): sum(range(20000))\nprint(len(seen))\n"
    text, names = turns(tmp_path, hosts=4, seconds=1, program=program)
    text = text.replace(f"[{tmp_path}/busy.py, '1']", f"[-c, {json.dumps(program)}, '1']")
    done, results = as_nobody(text, "--until-done", "--quantum", "1 ms")
    assert done.returncode == 0, done.stdout + done.stderr
    quanta = verdict(results)["quanta"]
    assert quanta["frozen_by"] == "signals" and quanta["barriers"] > 50, quanta
    assert [output(results, name, "python3").split()[1] for name in names] == ["1"] * 4
    assert round_trips(results)[0] >= 8.0


@measured(4)
def test_a_host_has_a_factor_of_its_own(tmp_path):
    """With twice the factor a host has twice the processor time, and its clock is that of the others."""
    text, names = turns(tmp_path, hosts=3, seconds=1)
    _, results = emulate(tmp_path, text, "--tdf", "2", "--tdf", "h0=6", "--tdf", "3@8s", "--quantum", "2 ms")
    truth = verdict(results)
    assert truth["tdf_changes"][0] == {"at": truth["tdf_changes"][0]["at"], "node": "h0", "tdf": 6.0}, truth["tdf_changes"]
    rounds = [int(output(results, name, "python3")) for name in names]
    timely(rounds[0] > 1.5 * max(rounds[1:]) or not in_time(results), rounds)
    process = statistics(results)["hosts"]["h0"]["processes"][0]
    timely(0.99 < process["ended"] - process["started"] < 2.5, process)
    done, _ = emulate(tmp_path, text, "--tdf", "nobody=4", name="wrong", check=False)
    assert done.returncode == 2 and "'nobody' is no host and no P4 switch" in done.stderr


@pytest.mark.needs("gcc")
def test_waits_of_a_host_that_is_frozen_end_at_their_deadlines(tmp_path):
    """`clocks` beside four busy hosts: no wait is too short, and no timer expires early."""
    program = compiled(tmp_path)
    text, _ = turns(tmp_path, hosts=4, seconds=3)
    text = text.replace("pong: {processes: []}", f"pong: {{processes: [{{path: {program}, start_time: 1 s}}]}}").replace("20 s}", "40 s}")
    _, results = emulate(tmp_path, text, "--quantum", "1 ms")
    said = output(results, "pong", "clocks")
    waits = [line.split() for line in said.splitlines() if line.startswith(("wait", "child"))]
    for _, name, *values in waits:
        assert 0.1 <= float(values[0]), (name, values)
    assert len(waits) >= 20 and verdict(results)["quanta"]["barriers"] > 50


@measured(4)
@pytest.mark.needs("iperf")
def test_a_flow_goes_on_when_time_becomes_slower(tmp_path):
    """Large segments that wait in a host for its rate pass at a slower one as well, though that has a smaller bucket of its own."""
    _, results = emulate(tmp_path, """
general: {stop_time: 4 s}
hosts:
  a: {processes: [{path: iperf, args: [-c, b, -t, '2'], start_time: 500 ms}]}
  b: {processes: [{path: iperf, args: [-s, -f, k, -i, '0.5'], expected_final_state: running}]}
links: [{between: [a, b], rate: 1200 Mbit, latency: 1 ms}]
""", "--tdf", "2", "--tdf", "16@1.5s", check=False)
    rows = re.findall(r"([\d.]+)- *([\d.]+) sec +[\d.]+ [KMG]?Bytes +([\d.]+) Kbits/sec", output(results, "b", "iperf"))
    rates = [float(rate) for begin, end, rate in rows if float(end) - float(begin) < 0.6]
    assert len(rates) >= 4 and min(rates[:4]) > 0, rows
    timely(rates[3] > 600_000 or not in_time(results), rows)


@measured(4)
@pytest.mark.slow
@pytest.mark.needs("ping")
def test_a_factor_that_follows_the_machine(tmp_path):
    """Programs that take all processors make the factor rise; when they have ended it comes down. Waits are as long as ever meanwhile."""
    waits = ("import time, select\nfor n in range(30):\n a=time.monotonic(); [time.sleep, lambda s: select.select([], [], [], s)][n % 2](0.4); "
             "print(time.monotonic()-a)")
    (tmp_path / "waits.py").write_text(waits)
    links = "\n".join(f"- {{between: [h{n}, s], rate: 10 Mbit, latency: 5 ms}}" for n in range(6))
    hosts = "\n".join(f"  h{n}: {{processes: [{{path: sh, args: [-c, 'timeout 3 sh -c \"while :; do :; done\"'], start_time: 1 s, expected_final_state: any}}]}}"
                      for n in range(5))
    _, results = emulate(tmp_path, f"""
general: {{stop_time: 30 s}}
switches: [s]
hosts:
{hosts}
  h5: {{processes: [{{path: python3, args: [{tmp_path}/waits.py]}}]}}
links:
{links}
""", "--tdf", "auto", timeout=600)
    truth = verdict(results)
    factors = [change["tdf"] for change in truth["tdf_changes"]]
    assert truth["tdf_auto"], truth
    timely(max(factors, default=0) > 1.2 and factors[-1] < max(factors), truth)
    assert all(0 <= change["at"] <= 30 for change in truth["tdf_changes"])
    # A change takes hold of a wait within 20 ms of the machine's time.
    times = [float(line) for line in output(results, "h5", "python3").split()]
    assert len(times) == 30 and min(times) >= 0.4, times
    timely(sorted(times)[15] < 0.45, times)
    timely(abs(rate(results) * truth["tdf"] - 1) < 0.01, truth)
