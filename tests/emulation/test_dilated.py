"""`belljar emulate --tdf`: programs in dilated hosts cannot tell that their time is slow, and links are as slow as they are."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import test_emulate
from conftest import as_expected, measured, timely
from test_emulate import IS_ROOT, ROOT, as_nobody, can_make_namespaces, in_time, output, statistics, verdict  # noqa: F401

pytestmark = [pytest.mark.alone, pytest.mark.skipif(not (IS_ROOT or can_make_namespaces()),
                                reason="needs root, or user namespaces, which this machine does not allow")]
SOURCES = ROOT / "tests" / "dilated"
BELLJAR = None


@pytest.fixture(autouse=True, scope="module")
def program(belljar):
    global BELLJAR
    BELLJAR = test_emulate.BELLJAR = str(belljar)


def emulate(tmp_path, text, *options, name="emu", check=True, timeout=900):
    (tmp_path / "exp.yaml").write_text(text)
    done = subprocess.run([BELLJAR, "emulate", str(tmp_path / "exp.yaml"), "-o", str(tmp_path / name), "--until-done", *options],
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


@measured(4)
@pytest.mark.parametrize("linking", ["dynamic", pytest.param("static", marks=pytest.mark.slow)])
def test_a_program_cannot_tell(tmp_path, linking):
    program = compiled(tmp_path, *(["-static"] if linking == "static" else []))
    _, results = emulate(tmp_path, ONE.format(stop="60 s", path=program, args="[]"), "--tdf", "4")
    check(output(results, "a", "clocks"), slack=0.02 if in_time(results) else 5)
    timely(abs(rate(results) * 4 - 1) < 0.01 or not in_time(results), verdict(results))


BUSY_LOOPS = "".join(f"""
  {name}:
    network_node_id: 0
    processes: [{{path: sh, args: [-c, "timeout 4 sh -c 'while :; do :; done'"], expected_final_state: any}}]""" for name in "bcd")


@measured(4)
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("options, others", [
    pytest.param(["--tdf", "3.3"], "", id="fixed"),
    pytest.param(["--tdf", "2", "--quantum", "2ms"], BUSY_LOOPS, id="in turns"),
    *[pytest.param(["--tdf", factor], "", id=f"by {factor}", marks=pytest.mark.slow) for factor in ("1.001", "6", "7", "10", "20", "47.3")],
    *[pytest.param(options, "", id=name, marks=pytest.mark.slow) for name, options in (
        ("changing", ["--tdf", "2", "--tdf", "9@0.5s", "--tdf", "3@1.2s"]), ("of its own", ["--tdf", "2", "--tdf", "a=5"]))],
])
def test_timeouts_of_sockets_are_as_set(tmp_path, options, others):
    """What is set is read back, no wait ends early, and only a signal of the program's own interrupts one; natively as well."""
    program = tmp_path / "timeouts"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", program, SOURCES / "timeouts.c", "-lpthread"], check=True)
    natively = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    _, results = emulate(tmp_path, ONE.format(stop="60 s", path=program, args="[]") + others, *options)
    said = output(results, "a", "timeouts")
    results_of = lambda text: [line.split()[:3] for line in text.splitlines()]
    assert results_of(said) == results_of(natively)
    for name, _, _, took, least in map(str.split, said.splitlines()[:-1]):
        assert float(took) >= float(least), said
        timely(float(took) < float(least) + 0.03 or not in_time(results), said)


LONGER_LOOPS = BUSY_LOOPS.replace("timeout 4", "timeout 9")


@measured(4)
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("options, others, scale", [
    pytest.param(["--tdf", "3.3"], "", 1, id="fixed"),
    pytest.param(["--tdf", "2", "--quantum", "2ms"], LONGER_LOOPS, 1, id="in turns"),
    *[pytest.param(["--tdf", factor], "", scale, id=f"by {factor}", marks=pytest.mark.slow)
      for factor, scale in (("1.001", 1), ("7", 1), ("20", 0.2), ("47.3", 0.2), ("1000", 0.01))],
    *[pytest.param(options, others, 1, id=name, marks=pytest.mark.slow) for name, options, others in (
        ("changing", ["--tdf", "2", "--tdf", "9@0.5s", "--tdf", "3@1.2s"], ""),
        ("following the machine", ["--tdf", "auto,3"], LONGER_LOOPS),
        ("of its own", ["--tdf", "2", "--tdf", "a=5"], LONGER_LOOPS))],
])
def test_timers_expire_on_time(tmp_path, options, others, scale):
    """No timer expires early, signals and overruns are Linux's, and settings are read as they were set; natively as well."""
    program = tmp_path / "timers"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", program, SOURCES / "timers.c", "-lpthread", "-lrt"], check=True)
    natively = subprocess.run([program, str(scale)], capture_output=True, text=True, check=True).stdout
    _, results = emulate(tmp_path, ONE.format(stop="60 s", path=program, args=f"['{scale}']") + others, *options)
    # A timer of processor time keeps the factor at which it was set, and that clock jumps when the factor changes.
    ignored = ("cputime", "itimer") if "auto,3" in options else ()
    said, natively = ([line for line in text.splitlines() if not line.startswith(ignored)] for text in (output(results, "a", "timers"), natively))
    results_of = lambda lines: [line.split()[:3] for line in lines]
    assert results_of(said) == results_of(natively)
    for _, _, _, took, least in map(str.split, said[:-1]):
        assert float(took) >= float(least), said
        timely(float(took) < float(least) + 0.03 or not in_time(results), said)


@measured(4)
def test_a_factor_of_one_is_the_machines_own_time(tmp_path):
    script = "import time; a=time.monotonic(); time.sleep(0.5); print(time.monotonic()-a)"
    _, results = emulate(tmp_path, ONE.format(stop="20 s", path="python3", args=f'[-c, "{script}"]'), "--tdf", "1")
    napped = float(output(results, "a", "python3"))
    assert 0.5 <= napped
    timely(napped < 0.7 or not in_time(results), napped)
    timely(abs(rate(results) - 1) < 0.01 or not in_time(results), verdict(results))


@measured(4)
@pytest.mark.slow
@pytest.mark.needs("bash", "bc")
def test_programs_agree_on_one_rate(tmp_path):
    """`date`, `sleep`, `time`, Python, and Go, node and Java where they are there; files, and children that are executed."""
    found = {name: shutil.which(name) for name in ("go", "node", "javac", "java")}
    steps = ["python3 -c 'import time; a=time.time(); time.sleep(0.5); print(\"python\", time.time()-a)'"]
    if found["node"]:
        steps.append("node -e 'let a=performance.now(); setTimeout(() => console.log(\"node\", (performance.now()-a)/1e3), 500)'")
    if found["java"] and found["javac"]:
        (tmp_path / "Nap.java").write_text(
            "class Nap { public static void main(String[] a) throws Exception { long t = System.nanoTime(); Thread.sleep(500);"
            ' System.out.println("java " + (System.nanoTime() - t) / 1e9); } }')
        subprocess.run(["javac", "-d", str(tmp_path), str(tmp_path / "Nap.java")], check=True)
        steps.append(f"java -Xshare:auto -cp {tmp_path} Nap")
    if found["go"]:
        (tmp_path / "nap.go").write_text(
            'package main\nimport ("fmt"; "os/exec"; "time")\nfunc main() { a := time.Now(); time.Sleep(500 * time.Millisecond)\n'
            ' fmt.Println("go", time.Since(a).Seconds()); b := time.Now(); exec.Command("sleep", "0.5").Run(); fmt.Println("go_child", time.Since(b).Seconds()) }\n')
        built = subprocess.run(["go", "build", "-o", str(tmp_path / "nap"), str(tmp_path / "nap.go")], capture_output=True, text=True,
                               env={**os.environ, "CGO_ENABLED": "0", "GOCACHE": str(tmp_path / "cache"), "GO111MODULE": "off"}, check=False)
        if built.returncode == 0:
            steps.append(str(tmp_path / "nap"))
    script = tmp_path / "steps.sh"
    script.write_text("#!/bin/bash\na=$(date +%s.%N); touch one; sleep 0.5; b=$(date +%s.%N); touch two\n"
                      "echo date $(echo \"$b - $a\" | bc)\necho mtime $(echo \"$(stat -c %.9Y two) - $(stat -c %.9Y one)\" | bc)\n"
                      "TIMEFORMAT='time %R'; { time sleep 0.5; } 2>&1\n" + "\n".join(steps) + "\n")
    script.chmod(0o755)
    _, results = emulate(tmp_path, ONE.format(stop="120 s", path=script, args="[]"), "--tdf", "5")
    said = dict(line.split() for line in output(results, "a", "steps.sh").splitlines())
    assert {"python", "time"} <= set(said), said
    # Starting a program takes the machine's time, of which a fifth passes.
    assert all(float(value) >= (0.499 if name == "mtime" else 0.5) for name, value in said.items()), said
    most = {"date": 0.65, "mtime": 0.65, "go_child": 0.65, "time": 0.65}
    timely(not in_time(results) or all(float(value) < most.get(name, 0.56) for name, value in said.items()), said)
    timely(abs(rate(results) * 5 - 1) < 0.01 or not in_time(results), verdict(results))


PAIR = """
general: {{stop_time: 30 s}}
hosts:
  a: {{processes: [{{path: {path}, args: [-c, {command}], start_time: 500 ms}}]}}
  b: {{processes: {server}}}
links:
- {{between: [a, b], rate: {rate}, latency: {latency}}}
"""


@measured(4)
@pytest.mark.needs("ping", "iperf")
def test_links_are_as_slow_as_time(tmp_path):
    """A round trip of 20 ms, the rate of 20 Mbit/s, and captures, by the hosts' clocks."""
    command = json.dumps("ping -n -c 5 -i 0.1 b && iperf -c b -t 2 -f m")
    server = "[{path: iperf, args: [-s], expected_final_state: running}]"
    _, results = emulate(tmp_path, PAIR.format(path="/bin/sh", command=command, server=server, rate="20 Mbit", latency="10 ms"),
                         "--tdf", "4", "--pcap")
    said = output(results, "a", "sh")
    times = [float(t) for t in re.findall(r"time=([\d.]+)", said)]
    assert all(time >= 20.0 for time in times), said
    timely(len(times) == 5 and (sorted(times)[2] < 25.0 or not in_time(results)), said)
    rates = [float(r) for r in re.findall(r"([\d.]+) Mbits/sec", said)]
    # It counts what it has handed to the kernel, whose buffers grow with the round trips.
    timely(len(rates) == 1 and rates[0] < 21.5 and (rates[0] > 15.0 or not in_time(results)), said)
    truth = verdict(results)
    assert truth["tdf"] == 4.0 and truth["direct_links"] == 0 and truth["lines"] == 1
    inspected = subprocess.run([BELLJAR, "capture", str(results)], capture_output=True, text=True)
    assert inspected.returncode == 0, inspected.stderr
    timely(abs(rate(results) * 4 - 1) < 0.01 or not in_time(results), verdict(results))


@measured(4)
@pytest.mark.needs("tcpdump", "ping")
@pytest.mark.skipif(not IS_ROOT, reason="tcpdump changes its user, which an ordinary user's namespace refuses")
def test_tcpdump_has_the_hosts_times(tmp_path):
    script = tmp_path / "dump.sh"
    script.write_text("date +%s.%N; (until grep -q listening said; do sleep 0.05; done; ping -n -c 5 -i 0.2 127.0.0.1 >/dev/null) &\n"
                      "tcpdump -tt -n -i lo -c 10 icmp 2>said; date +%s.%N\n")
    _, results = emulate(tmp_path, ONE.format(stop="100 s", path="sh", args=f"[{script}]"), "--tdf", "5")
    first, *packets, last = output(results, "a", "sh").splitlines()
    times = [float(line.split()[0]) for line in packets]
    assert len(times) == 10 and float(first) < times[0] and times[-1] < float(last), (first, packets, last)
    assert times == sorted(times), times
    timely(0.79 < times[-1] - times[0] < 0.9 or not in_time(results), times)


@measured(4)
@pytest.mark.slow
@pytest.mark.needs("curl")
def test_a_kernels_link_is_a_line(tmp_path):
    """Without a latency the kernel alone would be the link, in its own time."""
    server = "[{path: python3, args: [-m, http.server, '80'], expected_final_state: running}, {path: sh, args: [-c, 'head -c 500000 /dev/zero > new; mv new page']}]"
    command = json.dumps("until curl -sfI -o head http://b/page; do sleep 0.1; done; curl -sS -o page -w '%{time_total}' http://b/page")
    _, results = emulate(tmp_path, PAIR.format(path="/bin/sh", command=command, server=server, rate="10 Mbit", latency="0 ms"), "--tdf", "3")
    # Half a megabyte with its headers.
    took = float(output(results, "a", "sh"))
    assert 0.41 < took
    timely(took < 0.8 or not in_time(results), took)


@measured(4)
def test_events_are_at_virtual_times(tmp_path):
    done, results = emulate(tmp_path, """
general: {stop_time: 6 s}
network: {graph: {type: 1_gbit_switch}}
hosts:
  a:
    network_node_id: 0
    processes:
    - {path: sh, args: [-c, "trap 'date +%s.%N; exit 0' USR1; date +%s.%N; while :; do sleep 0.05; done"], start_time: 1 s}
events:
- {at: 3 s, signal: SIGUSR1, hosts: a, process: sh}
""", "--tdf", "3", check=False)
    said = output(results, "a", "sh").split()
    as_expected(done)
    timely(len(said) == 2, said)
    first, second = map(float, said)
    process = statistics(results)["hosts"]["a"]["processes"][0]
    assert 2.99 <= process["ended"] and process["state"] == "exited 0"
    timely(1.9 < second - first < 2.2 and 1.9 < process["ended"] - process["started"] or not in_time(results), (said, process))


def test_scripts_users_and_errors(tmp_path):
    """The shim executes what the kernel would: scripts of scripts, long argument lists, and it says why it cannot."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in [("inner", "#!/bin/sh -u\necho \"$0\" \"$@\"\n"), ("outer", f"#!{folder}/inner one two\n"), ("plain", "echo plain\n")]:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "broken").write_bytes(b"\x7fELF" + bytes(60))
    (folder / "broken").chmod(0o755)
    script = tmp_path / "all.sh"
    script.write_text(f"{folder}/outer three; {folder}/plain; {folder}/broken; echo $?; {folder}/none; echo $?; readlink /proc/self/exe; "
                      "cat /proc/self/comm; seq 3000 | xargs sh -c 'echo $#'; exec python3 -c 'import os,sys; print(os.path.basename(os.readlink(\"/proc/self/exe\"))[:6])'\n")
    _, results = emulate(tmp_path, ONE.format(stop="30 s", path="sh", args=f"[{script}]"), "--tdf", "2")
    said = output(results, "a", "sh").splitlines()
    assert said[0] == f"{folder}/inner one two {folder}/outer three", said
    assert said[1:4] == ["plain", "126", "127"] and said[4].endswith(("readlink", "coreutils", "busybox")) and said[5] == "cat", said
    assert said[6] == "2999" and said[7] == "python", said


def test_a_program_that_is_not_there_is_a_failure(tmp_path):
    done, results = emulate(tmp_path, ONE.format(stop="3 s", path="/bin/false", args="[]").replace("/bin/false", str(tmp_path / "gone"))
                            .replace("args: []", "args: [], expected_final_state: any"), "--tdf", "2", check=False)
    assert "panicked" not in done.stderr and done.returncode in (1, 2), done.stderr


def test_worlds_are_compared_with_the_simulation(tmp_path):
    text = ONE.format(stop="10 s", path="sleep", args="['0.5']")
    for name, options in [("real", []), ("slow", ["--tdf", "2"])]:
        emulate(tmp_path, text, *options, name=name)
    subprocess.run([BELLJAR, "run", str(tmp_path / "exp.yaml"), "-o", str(tmp_path / "sim")], capture_output=True, check=True)
    done = subprocess.run([BELLJAR, "compare", *(str(tmp_path / name) for name in ("sim", "slow", "real"))], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert any(line.startswith("  a: sleep (1) [real time]") for line in lines), done.stdout + done.stderr
    assert any(line.startswith("  a: sleep (1) [time dilated by 2]") for line in lines), done.stdout
    assert any(line.startswith("real time: ") for line in lines) and any(line.startswith("time dilated by 2: ") for line in lines), done.stdout


def test_factors_are_checked(tmp_path):
    for text in ("0.5", "fast", "2000", "nan"):
        done, results = emulate(tmp_path, ONE.format(stop="3 s", path="/bin/true", args="[]"), "--tdf", text, check=False)
        assert done.returncode == 2 and f"'{text}' is no factor from 1 to 1000" in done.stderr and not results.exists(), done.stderr


@measured(4)
@pytest.mark.slow
def test_an_ordinary_user_dilates_too(as_nobody, tmp_path):  # noqa: F811
    script = "import time; a=time.monotonic(); time.sleep(0.5); print(time.monotonic()-a)"
    done, results = as_nobody(ONE.format(stop="20 s", path="python3", args=f'[-c, "{script}"]'), "--until-done", "--tdf", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    napped = output(results, "a", "python3")
    assert 0.5 <= float(napped)
    timely(napped.startswith("0.5") or not in_time(results), napped)
    timely(abs(rate(results) * 4 - 1) < 0.01 or not in_time(results), verdict(results))


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
