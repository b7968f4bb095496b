"""`belljar emulate --tdf`: programs in dilated hosts cannot tell that their time is slow, and links are as slow as they are."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import test_emulate
from test_emulate import IS_ROOT, ROOT, as_nobody, can_make_namespaces, in_time, output, statistics, verdict  # noqa: F401

pytestmark = pytest.mark.skipif(not (IS_ROOT or can_make_namespaces()),
                                reason="needs root, or user namespaces, which this machine does not allow")
SOURCES = ROOT / "tests" / "dilated"
BELLJAR = None


@pytest.fixture(autouse=True, scope="module")
def program(belljar):
    global BELLJAR
    BELLJAR = test_emulate.BELLJAR = str(belljar)


def emulate(tmp_path, text, *options, name="emu", check=True, timeout=180):
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
            assert 0.1 <= a < 0.101 + slack, line
        elif kind == "clock":
            assert abs(a - b) < 0.01 * b + 0.002 + slack, line
        elif kind == "tick":
            assert abs(a - b) < 0.01 * b + 0.04 + slack, line
        elif kind == "second":
            assert abs(a - b) <= 1.0, line
        elif kind == "used":
            assert 0 < a < b * 1.01 + 0.02, line
        else:
            assert kind == "same" and abs(a - b) <= 0.01 * b or name == "packet_stamp" and slack > 1, line
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


@pytest.mark.parametrize("linking", ["dynamic", pytest.param("static", marks=pytest.mark.slow)])
def test_a_program_cannot_tell(tmp_path, linking):
    program = compiled(tmp_path, *(["-static"] if linking == "static" else []))
    _, results = emulate(tmp_path, ONE.format(stop="60 s", path=program, args="[]"), "--tdf", "4")
    check(output(results, "a", "clocks"), slack=0.02 if in_time(results) else 5)
    assert abs(rate(results) * 4 - 1) < 0.01 or not in_time(results), verdict(results)


def test_a_factor_of_one_is_the_machines_own_time(tmp_path):
    script = "import time; a=time.monotonic(); time.sleep(0.5); print(time.monotonic()-a)"
    _, results = emulate(tmp_path, ONE.format(stop="20 s", path="python3", args=f'[-c, "{script}"]'), "--tdf", "1")
    napped = float(output(results, "a", "python3"))
    assert 0.5 <= napped and (napped < 0.7 or not in_time(results))
    assert abs(rate(results) - 1) < 0.01 or not in_time(results)


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
    assert not in_time(results) or all(float(value) < most.get(name, 0.56) for name, value in said.items()), said
    assert abs(rate(results) * 5 - 1) < 0.01 or not in_time(results)


PAIR = """
general: {{stop_time: 30 s}}
hosts:
  a: {{processes: [{{path: {path}, args: [-c, {command}], start_time: 500 ms}}]}}
  b: {{processes: {server}}}
links:
- {{between: [a, b], rate: {rate}, latency: {latency}}}
"""


@pytest.mark.needs("ping", "iperf")
def test_links_are_as_slow_as_time(tmp_path):
    """A round trip of 20 ms, the rate of 20 Mbit/s, and captures, by the hosts' clocks."""
    command = json.dumps("ping -n -c 5 -i 0.1 b && iperf -c b -t 2 -f m")
    server = "[{path: iperf, args: [-s], expected_final_state: running}]"
    _, results = emulate(tmp_path, PAIR.format(path="/bin/sh", command=command, server=server, rate="20 Mbit", latency="10 ms"),
                         "--tdf", "4", "--pcap")
    said = output(results, "a", "sh")
    times = [float(t) for t in re.findall(r"time=([\d.]+)", said)]
    assert len(times) == 5 and min(times) >= 20.0 and (sorted(times)[2] < 25.0 or not in_time(results)), said
    rates = [float(r) for r in re.findall(r"([\d.]+) Mbits/sec", said)]
    assert len(rates) == 1 and rates[0] < 21.5 and (rates[0] > 15.0 or not in_time(results)), said
    truth = verdict(results)
    assert truth["tdf"] == 4.0 and truth["direct_links"] == 0 and truth["lines"] == 1
    inspected = subprocess.run([BELLJAR, "capture", str(results)], capture_output=True, text=True)
    assert inspected.returncode == 0, inspected.stderr
    assert abs(rate(results) * 4 - 1) < 0.01 or not in_time(results)


@pytest.mark.needs("tcpdump", "ping")
@pytest.mark.skipif(not IS_ROOT, reason="tcpdump changes its user, which an ordinary user's namespace refuses")
def test_tcpdump_has_the_hosts_times(tmp_path):
    script = tmp_path / "dump.sh"
    script.write_text("date +%s.%N; (sleep 0.3; ping -n -c 5 -i 0.2 127.0.0.1 >/dev/null) &\n"
                      "tcpdump -tt -n -i lo -c 10 icmp 2>/dev/null; date +%s.%N\n")
    _, results = emulate(tmp_path, ONE.format(stop="30 s", path="sh", args=f"[{script}]"), "--tdf", "5")
    first, *packets, last = output(results, "a", "sh").splitlines()
    times = [float(line.split()[0]) for line in packets]
    assert len(times) == 10 and float(first) < times[0] and times[-1] < float(last), (first, packets, last)
    assert 0.79 < times[-1] - times[0] and (times[-1] - times[0] < 0.9 or not in_time(results)) and times == sorted(times), times


@pytest.mark.slow
@pytest.mark.needs("curl")
def test_a_kernels_link_is_a_line(tmp_path):
    """Without a latency the kernel alone would be the link, in its own time."""
    server = "[{path: python3, args: [-m, http.server, '80'], expected_final_state: running}, {path: sh, args: [-c, 'head -c 500000 /dev/zero > page']}]"
    command = json.dumps("curl -sS -o page -w '%{time_total}' http://b/page")
    _, results = emulate(tmp_path, PAIR.format(path="/bin/sh", command=command, server=server, rate="10 Mbit", latency="0 ms"), "--tdf", "3")
    # Half a megabyte with its headers.
    assert 0.41 < float(output(results, "a", "sh")) and (float(output(results, "a", "sh")) < 0.8 or not in_time(results))


def test_events_are_at_virtual_times(tmp_path):
    _, results = emulate(tmp_path, """
general: {stop_time: 6 s}
network: {graph: {type: 1_gbit_switch}}
hosts:
  a:
    network_node_id: 0
    processes:
    - {path: sh, args: [-c, "date +%s.%N; trap 'date +%s.%N; exit 0' USR1; while :; do sleep 0.05; done"], start_time: 1 s}
events:
- {at: 3 s, signal: SIGUSR1, hosts: a, process: sh}
""", "--tdf", "3")
    first, second = map(float, output(results, "a", "sh").split())
    assert 1.5 < second - first and (1.9 < second - first < 2.2 or not in_time(results))
    process = statistics(results)["hosts"]["a"]["processes"][0]
    assert 1.9 < process["ended"] - process["started"] and process["state"] == "exited 0"


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


@pytest.mark.slow
def test_an_ordinary_user_dilates_too(as_nobody):  # noqa: F811
    script = "import time; a=time.monotonic(); time.sleep(0.5); print(time.monotonic()-a)"
    done, results = as_nobody(ONE.format(stop="20 s", path="python3", args=f'[-c, "{script}"]'), "--until-done", "--tdf", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert 0.5 <= float(output(results, "a", "python3")) and output(results, "a", "python3").startswith("0.5") or not in_time(results)
    assert abs(rate(results) * 4 - 1) < 0.01 or not in_time(results)
