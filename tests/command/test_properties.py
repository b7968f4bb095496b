"""Properties of an experiment: the verdicts in the summary, the statistics and `inspect`, for right and for wrong programs."""

import json
import re
import struct

import pytest
import yaml
from conftest import EXAMPLES, ROOT, execute, experiment, typed


def run(belljar, workdir, processes, properties, *arguments, events=(), **general):
    """A run of hosts with shell scripts: what the command says, and the verdicts by name."""
    hosts = {host: (0, [{"path": "sh", "args": ["-c", script], "expected_final_state": "any"} for script in scripts]) for host, scripts in processes.items()}
    made = experiment(hosts)
    made["general"].update(general)
    made |= {"properties": properties, **({"events": list(events)} if events else {})}
    (workdir / "exp.yaml").write_text(yaml.safe_dump(made, sort_keys=False))
    done = execute([belljar, "run", "exp.yaml", "-o", "data", "--no-progress", *arguments], cwd=workdir)
    if done.status == 2:
        return done, {}
    statistics = json.loads((workdir / "data/sim-stats.json").read_text())
    return done, {one["name"]: one for one in statistics.get("properties", [])}


def test_verdicts_name_host_file_line_and_time(belljar, workdir):
    done, found = run(
        belljar, workdir,
        {"a": ["echo ready; sleep 2; echo took 250 ms; echo took 50 ms"], "b": ["sleep 1; echo a panic >&2; exit 3"]},
        [{"name": "quick", "always": r"took (?<ms>\d+) ms", "lines": "took", "where": "ms < 100"},
         {"name": "calm", "never": "panic", "files": "stderr"},
         {"name": "ready", "sometimes": "^ready$"},
         {"name": "leader", "sometimes": "leader"}])
    assert done.status == 1, done
    assert "FAIL property always quick: 'ms < 100' is false: ms is 250; a: sh.1000.stdout:2 at 2.000000 s: took 250 ms\n" in done.out, done.out
    assert "FAIL property never calm: a line matches 'panic'; b: sh.1000.stderr:1 at 1.000000 s: a panic\n" in done.out, done.out
    assert "ok   property sometimes ready\n" in done.out and "FAIL property sometimes leader: no line of 4 matches 'leader'\n" in done.out, done.out
    assert "3 of 4 properties do not hold\n" in done.out, done.out
    assert found["calm"] == {"name": "calm", "kind": "never", "holds": False, "reason": "a line matches 'panic'", "host": "b", "file": "sh.1000.stderr",
                             "line": 1, "time": 1.0, "text": "a panic", "judged": 1}
    assert found["ready"]["holds"] and (found["ready"]["host"], found["ready"]["line"], found["ready"]["time"]) == ("a", 1, 0.0)
    shown = execute([belljar, "inspect", "data", "properties"], cwd=workdir).out
    assert "b: sh.1000.stderr:1 at 1.000000 s" in shown and shown.count("FAIL") == 3, shown


def test_a_line_appears_within_a_time_after_the_last_fault(belljar, workdir):
    script = "echo served; sleep 100; echo served"
    claim = {"name": "recovers", "eventually": {"matches": "served", "within": "5 s", "after": "faults"}, "hosts": "a"}
    # What was written before a crash keeps its time, even if the host loses its files.
    crash = [{"at": "10 s", "crash": "a", "files": "lost", "for": "2 s"}]
    done, found = run(belljar, workdir, {"a": [script]}, [claim, {"name": "early", "sometimes": "served"}], events=crash, stop_time="60 s")
    assert (found["early"]["time"], found["early"]["file"]) == (0.0, "sh.1000.stdout"), found
    # The host restarts at 12 s, and its process with it.
    assert done.status == 0 and found["recovers"]["time"] == 12.0 and found["recovers"]["file"] == "sh.1002.stdout", (done, found)
    late = {**claim, "eventually": {**claim["eventually"], "after": "13 s"}}
    done, found = run(belljar, workdir, {"a": [script]}, [late], "--force", events=crash, stop_time="60 s")
    assert done.status == 1 and found["recovers"]["reason"] == "no line matches 'served' from 13.000000 s to 18.000000 s", found
    # A window that is cut: refused where that is known, and a note where it depends on the faults.
    done, _ = run(belljar, workdir, {"a": [script]}, [late], "--force", events=crash, stop_time="15 s")
    assert done.status == 2 and "the window ends at 18 s or later, and the simulation stops at 15 s" in done.err, done
    done, found = run(belljar, workdir, {"a": [script]}, [claim], "--force", events=crash, stop_time="14 s")
    assert "note: property 'recovers': its window from 12 s to 17 s is cut, since the simulation stops at 14 s\n" in done.err, done
    assert done.status == 0 and found["recovers"]["time"] == 12.0, found


def test_times_are_those_of_the_last_byte_by_whatever_call(belljar, workdir):
    """Lines by pieces, in a renamed file, in one that was truncated, by pwrite and sendfile, and through a mapping, which has no time."""
    script = """
import mmap, os, time
def at(second): time.sleep(second - time.monotonic() + start)
start = time.monotonic()
log = open("log.new", "wb", buffering=0)
log.write(b"one li"); at(1); log.write(b"ne\\n"); at(2); os.rename("log.new", "log")
log.write(b"two\\n")
at(3); os.pwrite(log.fileno(), b"ONE", 0)
cut = open("cut", "wb", buffering=0); cut.write(b"old\\nold\\n"); at(4); cut.truncate(0); cut.seek(0); cut.write(b"new\\n")
at(5)
with open("cut", "rb") as source: os.sendfile(log.fileno(), source.fileno(), 0, 4)
with open("mapped", "wb+") as file:
    file.truncate(7)
    mmap.mmap(file.fileno(), 7)[:] = b"mapped\\n"
"""
    (workdir / "write.py").write_text(script)
    claims = [{"name": name, "sometimes": regex, "files": file} for name, regex, file in (
        ("pieces", "ONE line", "log"), ("whole", "two", "log"), ("sent", "new", "log"), ("cut", "new", "cut"), ("mapped", "mapped", "mapped"))]
    claims.append({"name": "soon", "eventually": {"matches": "mapped", "within": "9 s"}, "files": "mapped"})
    done, found = run(belljar, workdir, {"a": [f"exec python3 {workdir}/write.py"]}, claims, stop_time="60 s")
    assert {name: one["time"] for name, one in found.items()} == {"pieces": 3.0, "whole": 2.0, "sent": 5.0, "cut": 4.0, "mapped": None, "soon": None}, (done, found)
    assert found["mapped"]["holds"] and found["soon"]["reason"].endswith("no simulated time is known of mapped:1 at a"), found


def test_files_elsewhere_and_files_that_are_missing(belljar, workdir):
    script = "mkdir -p log /var/log/app; echo x1 > log/1.txt; echo x2 > /var/log/app/main.log; echo y > log/2.csv"
    done, found = run(belljar, workdir, {"a": [script], "b": ["true"]}, [
        {"name": "relative", "always": "x1", "files": "log/*.txt"},
        {"name": "absolute", "always": "x2", "files": "/var/log/app/*.log"},
        {"name": "each", "never": "z", "files": "log/*.txt", "hosts": ["a", "b"]},
        {"name": "none", "never": "z", "files": "log/*.log"},
        {"name": "silent", "always": "x", "files": "stderr"}])
    assert {name for name, one in found.items() if one["holds"]} == {"relative", "absolute"}, done
    assert found["relative"]["time"] is None and found["each"]["reason"] == "in doubt: host 'b' has no file 'log/*.txt'", found
    assert found["none"]["reason"] == "in doubt: no host has file 'log/*.log'" and found["silent"]["reason"] == "in doubt: there is no line to judge", found


def test_a_malformed_history_is_named_with_its_line(belljar, workdir):
    good = '{"process": 0, "type": "invoke", "f": "write", "value": 1}'
    done, found = run(belljar, workdir, {"a": [f"echo '{good}' > h.jsonl"], "b": [f"sleep 1; echo '{good}' > h.jsonl; echo '{{' >> h.jsonl"]},
                      [{"name": "r", "history": "h.jsonl", "model": "register"}])
    assert done.status == 1 and "FAIL property history r: not valid JSON: " in done.out and "; b: h.jsonl:2 at 1.000000 s" in done.out, done.out


@pytest.mark.parametrize("claim, message", [
    ({"never": "("}, "cannot be compiled"), ({"never": "x", "hosts": "c"}, "there is no host 'c'"), ({"never": "x", "process": "cat"}, "no host runs this process"),
    ({"history": "h", "model": "stack"}, "'stack' is not a value of 'model'"), ({"eventually": {"matches": "x", "within": "1 s", "after": "faults"}}, "there are no faults"),
])
def test_what_can_never_hold_is_refused_with_its_line(belljar, workdir, claim, message):
    done, _ = run(belljar, workdir, {"a": ["true"]}, [{"name": "p", **claim}])
    assert done.status == 2 and message in done.err and "--> exp.yaml:" in done.err and not (workdir / "data").exists(), done


def test_properties_that_nothing_can_violate_do_not_pass(belljar, workdir):
    """Each was reported as `ok` once: what cannot match is refused, and what has judged no line is in doubt."""
    ticks = {"a": ["echo tick 1; echo tick 4; echo tick x"]}
    for claim, message in (
            ({"never": "a^b"}, "the regular expression 'a^b' matches in no line"), ({"never": "$a"}, "the regular expression '$a' matches in no line"),
            ({"never": "tick (?<n>[0-9])", "where": ["n < 3", "n > 5"]}, "'n < 3' and 'n > 5' are never true together"),
            ({"never": "tick (?<n>[a-z]+)", "where": "n < 3"}, "'n < 3' is never true: the group 'n' captures no number"),
            ({"eventually": {"matches": "tick", "within": "0 s"}}, "'within' is a window without length")):
        done, _ = run(belljar, workdir, ticks, [{"name": "p", **claim}])
        assert done.status == 2 and f"error: {message}" in done.err and "--> exp.yaml:" in done.err and "help: " in done.err, done
    none = "in doubt: there is no line to judge: none matches 'zzz' of 'lines'"
    done, found = run(belljar, workdir, ticks, [{"name": "never", "never": "tick", "lines": "zzz"}, {"name": "always", "always": "tick", "lines": "zzz"},
                                                {"name": "number", "never": "tick (?<n>.)", "where": "n < 0"}])
    assert done.status == 1 and f"FAIL property never never: {none}\n" in done.out and f"FAIL property always always: {none}\n" in done.out, done
    assert found["number"]["reason"] == "in doubt: 'n < 0' compares 'x', which is no number" and found["number"]["line"] == 3, found


CONNECTS = """
import socket, time
time.sleep(1)
web = socket.create_connection(("b", 80)); web.sendall(b"hello"); web.recv(9); web.close()
try: socket.create_connection(("b", 81))
except OSError: print("refused", flush=True)
socket.create_connection(("localhost", 7)).close()
"""
ANSWERS = 'import socket; web = socket.create_server(("", 80)).accept()[0]; web.recv(9); web.sendall(b"world"); web.recv(9)'
LOCAL = 'import socket; socket.create_server(("", 7)).accept()'


def test_packets_are_judged(belljar, workdir):
    properties = [
        {"name": "reset", "never": "TCP .*RST", "packets": "eth0", "hosts": "a"},
        {"name": "web", "never": "RST", "packets": "eth0", "filter": "tcp port 80"},
        {"name": "telnet", "never": {"filter": "tcp port 23"}, "packets": "*"},
        {"name": "refused", "sometimes": {"filter": "src host b and port 81"}, "packets": ["eth0", "lo"]},
        {"name": "small", "always": r"len (?<len>\d+)$", "where": "len <= 5", "packets": "eth*", "filter": "tcp"},
        {"name": "smaller", "always": r"len (?<len>\d+)$", "where": "len < 5", "packets": "eth*", "filter": "tcp"},
        {"name": "local", "sometimes": "127.0.0.1:7 TCP", "packets": "lo", "hosts": "a"},
        {"name": "soon", "eventually": {"filter": "src host b and port 80", "within": "500 ms", "after": "1 s"}, "packets": "eth0", "hosts": "a"},
        {"name": "late", "eventually": {"matches": "SYN", "within": "400 ms", "after": "1500 ms"}, "packets": "eth0", "hosts": "a"},
        {"name": "empty", "never": "RST", "packets": "eth0", "filter": "udp port 9"},
        {"name": "absent", "never": "x", "packets": "wg*"},
        {"name": "idle", "always": "x", "packets": "eth0", "hosts": "c"},
    ]
    hosts = {"a": [("python3", CONNECTS), ("python3", LOCAL)], "b": [("python3", ANSWERS)]}
    hosts = {host: (0, [{"path": path, "args": ["-c", script]} for path, script in all]) for host, all in hosts.items()}
    made = experiment({**hosts, "c": (0, [])}, stop="9 s") | {"properties": properties}
    (workdir / "exp.yaml").write_text(yaml.safe_dump(made, sort_keys=False))
    done = execute([belljar, "run", "exp.yaml", "-o", "data", "--no-progress"], cwd=workdir)
    found = {one["name"]: one for one in json.loads((workdir / "data/sim-stats.json").read_text())["properties"]}
    wrong = {name: one["reason"] for name, one in found.items() if not one["holds"]}
    assert wrong == {
        "reset": "a packet matches 'TCP .*RST'",
        "smaller": wrong["smaller"], "late": "no packet matches 'SYN' from 1.500000 s to 1.900000 s",
        "empty": "in doubt: there is no packet to judge: none passes 'udp port 9' of 'filter'",
        "absent": "in doubt: no host has interface 'wg*'", "idle": "in doubt: there is no packet to judge"}, (wrong, done)
    assert wrong["smaller"].startswith("'len < 5' is false: len is 5 ("), wrong
    # The packet that a verdict names is that of the capture.
    reset = found["reset"]
    assert (reset["host"], reset["file"]) == ("a", "packets/a/eth0.pcap") and re.fullmatch(r"1\.\d{9} 11\.0\.0\.2:81 > 11\.0\.0\.1:\d+ TCP RST\+ACK seq 0 .* len 0", reset["text"]), reset
    assert f"; a: packets/a/eth0.pcap:{reset['line']} at {reset['time']:.6f} s: 1.0" in done.out, done.out
    capture = (workdir / "data/packets/a/eth0.pcap").read_bytes()
    at, number = 24, 0
    while at < len(capture):
        seconds, nanoseconds, kept, whole = struct.unpack_from("<4I", capture, at)
        number, packet, at = number + 1, capture[at + 16:at + 16 + kept], at + 16 + kept
        if number == reset["line"]:
            assert kept == whole == 40 and packet[33] & 4 and abs(seconds - 946_684_800 + nanoseconds / 1e9 - reset["time"]) < 1e-9, (reset, packet)
            break
    else:
        raise AssertionError(f"the capture has {number} packets")
    # Captures of the hosts are not made.
    assert not list((workdir / "data/hosts").rglob("*.pcap"))
    again = execute([belljar, "run", "data/processed-config.yaml", "-o", "again", "--no-progress"], cwd=workdir)
    assert json.loads((workdir / "again/sim-stats.json").read_text())["properties"] == list(found.values()), again


@pytest.mark.parametrize("claim, message", [
    ({"never": "x", "packets": "eth1"}, "no host has an interface 'eth1'"), ({"never": "x", "packets": ["lo", "eth0"], "filter": "prt 80"}, "this filter cannot be read"),
    ({"never": {"filter": "host nobody"}, "packets": "eth0"}, "this filter cannot be read"), ({"never": {"filter": "tcp"}}, "a filter is for packets, and there is no 'packets'"),
    ({"never": "x", "filter": "tcp"}, "'filter' selects packets, and there is no 'packets'"), ({"never": "x", "packets": "eth0", "files": "stdout"}, "'files' is not valid with 'packets'"),
])
def test_packets_that_cannot_be_judged_are_refused(belljar, workdir, claim, message):
    done, _ = run(belljar, workdir, {"a": ["true"]}, [{"name": "p", **claim}])
    assert done.status == 2 and message in done.err and "--> exp.yaml:" in done.err and "help: " in done.err, done


@pytest.mark.parametrize("arguments", ["client", "client --direct"])
def test_the_example_of_packets_tells_the_two_versions_apart(belljar, workdir, arguments):
    """And says what the guide shows."""
    done = execute([belljar, "run", EXAMPLES / "packets.yaml", "-o", "data", "--no-progress", "--set", f"hosts.client.processes.0.args={arguments}"], cwd=workdir)
    (shown,) = re.findall(r"^```text\n(\$ ./belljar run examples/packets.*?)^```", (ROOT / "docs/guide/properties.md").read_text(), re.M | re.S)
    _, right, wrong = re.split(r"^\$ .*\n", shown, flags=re.M)
    assert done.status == (1 if "--direct" in arguments else 0), done
    for line in (wrong if "--direct" in arguments else right).splitlines():
        assert line in done.out, (line, done.out)


def test_a_run_without_properties_leaves_no_times(belljar, workdir):
    done, found = run(belljar, workdir, {"a": ["echo x"]}, [])
    assert done.status == 0 and found == {} and "propert" not in done.out, done
    assert not (workdir / "data/times").exists() and "properties" not in json.loads((workdir / "data/sim-stats.json").read_text())


@pytest.mark.parametrize("version", ["serve", "serve --forgetful"])
def test_the_example_tells_the_two_versions_apart(belljar, workdir, version):
    done = execute([belljar, "run", EXAMPLES / "properties.yaml", "-o", "data", "--no-progress", "--set", f"hosts.server.processes.0.args={version}"], cwd=workdir)
    found = {one["name"]: one for one in json.loads((workdir / "data/sim-stats.json").read_text())["properties"]}
    wrong = [name for name, one in found.items() if not one["holds"]]
    if version == "serve":
        assert (done.status, wrong) == (0, []) and "all 6 properties hold" in done.out, done
    else:
        assert (done.status, wrong) == (1, ["register"]) and "1 of 6 properties do not hold" in done.out, done
        register = found["register"]
        assert register["reason"] == "register: not linearizable" and register["host"].startswith("client") and 5.7 < register["time"] < 8, register
        assert "no order continues" in (workdir / "data/properties/register.txt").read_text()
        merged = execute([belljar, "check", "data/properties/register.jsonl", "--model", "register"], cwd=workdir)
        assert merged.status == 1 and merged.out == (workdir / "data/properties/register.txt").read_text(), merged


def test_the_guide_shows_what_its_commands_say(belljar, workdir):
    for command, done, shown in typed(belljar, workdir, "properties.md"):
        assert done.status == (1 if "forgetful" in command else 0), done
        for line in shown:
            # Parts of a long line are left out.
            assert line == "..." or all(part in done.out for part in line.split(" ... ")), (line, done.out)
