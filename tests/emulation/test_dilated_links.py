"""`belljar emulate --tdf`: links, captures and events in dilated hosts, and what is refused."""

import json
import re
import subprocess

import pytest
import test_emulate
from conftest import as_expected, measured, timely
from dilating import ONE, PAIR, emulate, emulates, program, rate  # noqa: F401
from test_emulate import IS_ROOT, as_nobody, in_time, output, statistics, verdict  # noqa: F401

pytestmark = [pytest.mark.waits, emulates]


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
    inspected = subprocess.run([test_emulate.BELLJAR, "capture", str(results)], capture_output=True, text=True)
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
    subprocess.run([test_emulate.BELLJAR, "run", str(tmp_path / "exp.yaml"), "-o", str(tmp_path / "sim")], capture_output=True, check=True)
    done = subprocess.run([test_emulate.BELLJAR, "compare", *(str(tmp_path / name) for name in ("sim", "slow", "real"))], capture_output=True, text=True)
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
