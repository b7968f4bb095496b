"""`belljar emulate`: experiments on this machine's kernel, in real time, held against what the file says and against `belljar run`."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import accounts_balance, as_expected, measured, timely, until

ROOT = Path(__file__).resolve().parents[2]
IS_ROOT = os.geteuid() == 0


def can_make_namespaces():
    return subprocess.run(["unshare", "-Urn", "true"], capture_output=True).returncode == 0


pytestmark = [pytest.mark.alone, pytest.mark.skipif(not (IS_ROOT or can_make_namespaces()),
                                reason="needs root, or user namespaces, which this machine does not allow")]


BELLJAR = None


@pytest.fixture(autouse=True, scope="module")
def program(belljar):
    global BELLJAR
    BELLJAR = str(belljar)


def emulate(tmp_path, text, *options, name="emu", check=True, timeout=600, prefix=()):
    file = tmp_path / "exp.yaml"
    file.write_text(text)
    done = subprocess.run([*prefix, BELLJAR, "emulate", str(file), "-o", str(tmp_path / name), *options],
                          capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    accounts_balance(tmp_path / name)
    return done, tmp_path / name


@pytest.fixture
def as_nobody():
    """Runs `belljar emulate` as an ordinary user, in a folder of that user. Skipped for one: all other tests do it already."""
    if not IS_ROOT:
        pytest.skip("as an ordinary user all other tests run rootless already")
    if not can_make_namespaces():
        pytest.skip("user namespaces are not allowed here")
    where = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    binary = where / "belljar"
    binary.write_bytes(Path(BELLJAR).read_bytes())
    binary.chmod(0o755)
    where.chmod(0o755)

    def emulate_as_nobody(text, *options, name="emu", timeout=600):
        subprocess.run(["rm", "-rf", str(where / name)], check=True)
        (where / "exp.yaml").write_text(text)
        subprocess.run(["chown", "-R", "nobody", str(where)], check=True)
        done = subprocess.run(["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", str(binary), "emulate",
                               str(where / "exp.yaml"), "-o", str(where / name), *options],
                              capture_output=True, text=True, timeout=timeout, cwd=where)
        return done, where / name

    yield emulate_as_nobody
    subprocess.run(["rm", "-rf", str(where)], check=False)


def output(results, host, program, stream="stdout"):
    files = sorted((results / "hosts" / host).glob(f"{program}.*.{stream}"))
    assert files, list((results / "hosts" / host).iterdir())
    return "".join(file.read_text() for file in files)


def statistics(results):
    return json.loads((results / "sim-stats.json").read_text())


def verdict(results):
    return json.loads((results / "emulation.json").read_text())


def in_time(results):
    """True if the machine kept up: lower bounds of times always hold, upper ones only then."""
    return verdict(results)["verdict"] == "truthful"


def median(values):
    return sorted(values)[len(values) // 2]


def listening(host, port):
    """A shell's command that waits until somebody listens there."""
    return f"until bash -c ': < /dev/tcp/{host}/{port}' 2> /dev/null; do sleep 0.1; done"


GRAPH = """
network:
  graph:
    type: gml
    inline: |
      graph [
        directed 0
        node [ id 0 host_bandwidth_up "100 Mbit" host_bandwidth_down "100 Mbit" ]
        node [ id 1 host_bandwidth_up "20 Mbit" host_bandwidth_down "20 Mbit" ]
        edge [ source 0 target 0 latency "5 ms" ]
        edge [ source 0 target 1 latency "20 ms" ]
      ]
"""


def test_hosts_have_names_files_and_processes_of_their_own(tmp_path):
    script = ("hostname; cat /etc/hostname; grep -c alice /etc/hosts; ls -A /var/tmp /run/lock | grep -v : | wc -w; echo $$; echo mine > /etc/mine; "
              "ls /proc | grep -c '^[0-9]'; pwd; id -u; echo $GREETING; echo $HOME")
    done, results = emulate(tmp_path, f"""
general: {{stop_time: 100 s}}
{GRAPH}
hosts:
  alice: &host
    network_node_id: 0
    processes:
    - {{path: sh, args: [-c, "{script}"], environment: {{GREETING: hello}}, start_time: 100 ms}}
  bob:
    network_node_id: 1
    processes:
    - {{path: sh, args: [-c, "sleep 0.5; ls /etc/mine; echo there > /etc/mine"], start_time: 100 ms, expected_final_state: {{exited: 0}}}}
""", "--until-done")
    lines = output(results, "alice", "sh").split("\n")
    assert lines[:4] == ["alice", "alice", "1", "0"] and lines[4] == "1000", lines
    assert int(lines[5]) <= 6, "another host's processes are seen"
    assert lines[6] == str(results / "hosts/alice") and lines[8:10] == ["hello", "/root"], lines
    assert "No such file" in output(results, "bob", "sh", "stderr"), "bob sees what alice wrote"
    assert (results / "hosts/alice/fs/etc/mine").read_text() == "mine\n"
    assert (results / "hosts/bob/fs/etc/mine").read_text() == "there\n"
    assert not Path("/etc/mine").exists() and not (results / ".emulation").exists()
    assert "all 2 processes ended as expected" in done.stdout and "verdict: " in done.stdout


@measured(4)
def test_the_graph_keeps_its_latency_and_rate(tmp_path):
    """20 ms there and back, and 1 MB through 20 Mbit/s."""
    get = "curl -sS -o page -w '%{size_download} %{time_connect} %{time_total}' http://server/page"
    done, results = emulate(tmp_path, f"""
general: {{stop_time: 60 s}}
{GRAPH}
hosts:
  server:
    network_node_id: 0
    processes:
    - {{path: python3, args: [-m, http.server, "80"], expected_final_state: running}}
    - {{path: sh, args: [-c, "head -c 1000000 /dev/zero > new; mv new page"]}}
  client:
    network_node_id: 1
    processes:
    - {{path: ping, args: [-c, "5", -i, "0.2", server], start_time: 1 s}}
    - {{path: bash, args: [-c, {json.dumps(f"until curl -sfI -o head http://server/page; do sleep 0.1; done; {get}")}], start_time: 3 s}}
""", "--until-done", "--pcap")
    times = [float(t) for t in re.findall(r"time=([\d.]+)", output(results, "client", "ping"))]
    assert all(time >= 40.0 for time in times), times
    timely(len(times) == 5 and (median(times) < 60.0 or not in_time(results)), times)
    size, connect, total = output(results, "client", "bash").split()
    # A megabyte with its headers takes 0.42 s of the link.
    assert size == "1000000" and 0.04 <= float(connect) and 0.45 < float(total), total
    timely(float(connect) < 0.06 and float(total) < 0.8 or not in_time(results), (connect, total))
    truth = verdict(results)
    assert truth["frames"] > 700 and truth["lateness"]["p99"] > 0 and (truth["missed"] == 0 or not in_time(results)), truth
    assert truth["verdict"] in ("truthful", "doubtful", "untruthful")
    inspected = subprocess.run([BELLJAR, "inspect", str(results)], capture_output=True, text=True, check=True).stdout
    assert "client" in inspected and "eth0" not in done.stderr
    captured = subprocess.run([BELLJAR, "capture", str(results)], capture_output=True, text=True)
    assert captured.returncode == 0, captured.stderr
    assert (results / "hosts/client/eth0.pcap").stat().st_size > 1_000_000


LINKS = """
general: {stop_time: 30 s}
routers: [r1, r2, r3]
switches: [office]
hosts:
  alice:
    processes:
    - {path: ping, args: [-n, -c, "25", -i, "0.2", -W, "1", bob], start_time: 500 ms}
    - {path: ping, args: [-n, -c, "1", -t, "1", bob], start_time: 1 s, expected_final_state: {exited: 1}}
    - {path: ping, args: [-n, -c, "3", -i, "0.1", carol], start_time: 600 ms}
  bob: {processes: []}
  carol: {processes: []}
links:
- {between: [alice, office]}
- {between: [carol, office]}
- {between: [office, r1]}
- {between: [r2, bob], latency: 1 ms}
- {name: direct, between: [r1, r2], latency: 5 ms}
- {between: [r1, r3], latency: 10 ms}
- {between: [r3, r2], latency: 10 ms}
events:
- {at: 2.5 s, link_down: direct, for: 2 s}
"""


@measured(4)
def test_switches_routers_and_routes_that_change(tmp_path):
    _, results = emulate(tmp_path, LINKS, "--until-done")
    pings = sorted((results / "hosts/alice").glob("ping.*.stdout"))
    replies = [float(t) for file in pings for t in re.findall(r"icmp_seq=.*ttl=61.*time=([\d.]+)", file.read_text())]
    near = [float(t) for file in pings for t in re.findall(r"ttl=62.*time=([\d.]+)", file.read_text())]
    lan = [float(t) for file in pings for t in re.findall(r"ttl=64.*time=([\d.]+)", file.read_text())]
    assert all(time >= 12.0 for time in near) and all(time >= 42.0 for time in replies), (near, replies)
    timely(len(near) > 8 and len(replies) > 5 and len(lan) == 3, (near, replies, lan))
    timely(median(near) < 25.0 and median(replies) < 60.0 and median(lan) < 10.0 or not in_time(results), (near, replies, lan))
    timely(any("Time to live exceeded" in file.read_text() for file in pings))
    stats = statistics(results)
    assert stats["routers"]["r1"]["forwarded"] > 40 and stats["routers"]["r3"]["forwarded"] > 10
    assert stats["links"]["direct"]["r1 to r2"]["frames"] > 10
    assert verdict(results)["direct_links"] == 3 and verdict(results)["lines"] == 4


@measured(4)
def test_rates_of_direct_links_and_lines(tmp_path):
    """The same rate by the kernel's token bucket and, for its latency, by Belljar's line."""
    if not subprocess.run(["which", "iperf"], capture_output=True).stdout:
        pytest.skip("iperf is not installed")
    # One after the other, each as soon as its server listens.
    both = "; ".join(f"{listening(server, 5001)}; iperf -c {server} -t 4 -f m" for server in "bc")
    _, results = emulate(tmp_path, f"""
general: {{stop_time: 60 s}}
hosts:
  a: {{processes: [{{path: sh, args: [-c, "{both}"], start_time: 500 ms}}]}}
  b: {{processes: [{{path: iperf, args: [-s], expected_final_state: running}}]}}
  c: {{processes: [{{path: iperf, args: [-s], expected_final_state: running}}]}}
links:
- {{between: [a, b], rate: 50 Mbit}}
- {{between: [a, c], rate: 50 Mbit, latency: 2 ms}}
""", "--until-done")
    rates = [float(r) for r in re.findall(r"([\d.]+) Mbits/sec", output(results, "a", "sh"))]
    # 1448 of 1514 bytes are payload, and iperf counts what it has handed to the kernel.
    timely(len(rates) == 2 and max(rates) < 52.5 and (min(rates) > 45.0 or not in_time(results)), rates)


BLAST = """
import os, socket, sys, time
if sys.argv[1] == "take":
    listener = socket.create_server(("", 5000))
    takers = [listener.accept()[0] for _ in range(4)]
    taker = takers[2 * (os.fork() == 0) + (os.fork() == 0)]
    while taker.recv(1 << 20):
        pass
else:
    giver, end = socket.create_connection((sys.argv[1], 5000)), time.monotonic() + 5
    while time.monotonic() < end:
        giver.sendall(bytes(1 << 20))
"""


def test_processors_that_set_the_rate_are_named_and_every_packet_is_accounted_for(tmp_path):
    """Four flows as fast as the machine over 40 Gbit/s, which keep both of two processors busy, beside packets that a lossy link and the graph drop."""
    (tmp_path / "blast.py").write_text(BLAST)
    blast = str(tmp_path / "blast.py")
    done, results = emulate(tmp_path, f"""
general: {{stop_time: 9 s}}
{GRAPH}
hosts:
  fast:
    processes: [{", ".join([f"{{path: python3, args: [{blast}, 10.0.0.2], start_time: 2 s}}"] * 4)}]
    interfaces: {{eth0: 10.0.0.1/24}}
  taker:
    processes: [{{path: python3, args: [{blast}, take], start_time: 1 s}}]
    interfaces: {{eth0: 10.0.0.2/24}}
  alice:
    interfaces: {{eth0: 10.0.1.1/24}}
    processes: [{{path: ping, args: [-n, -q, -c, "200", -i, "0.01", -W, "1", 10.0.1.2], expected_final_state: any}}]
  bob: {{interfaces: {{eth0: 10.0.1.2/24}}, processes: []}}
  near: {{network_node_id: 0, processes: [{{path: ping, args: [-n, -q, -c, "5", -i, "0.2", far], start_time: 1 s}}]}}
  far: {{network_node_id: 1, processes: []}}
links:
- {{name: wide, between: [fast, taker], rate: 40 Gbit}}
- {{name: lossy, between: [alice, bob], rate: 10 Mbit, latency: 1 ms, packet_loss: 0.2, duplication: 0.1}}
""")
    truth, counted = verdict(results), statistics(results)
    assert truth["verdict"] == "untruthful" and truth["load"]["direct_rates"]["wide, fast to taker"] > 1e8, truth
    assert any("processors, not links, set the rates" in reason and "--tdf" in reason for reason in truth["reasons"]), truth["reasons"]
    assert truth["tdf_needed"] >= 2 and "would do" in done.stdout
    unbalanced = [text for text in counted["warnings"] if "does not balance" in text]
    assert not unbalanced, unbalanced
    for link, directions in counted["links"].items():
        for direction, own in directions.items():
            assert own["drops"] == counted["packets"].get(f"{link}: {direction}", {}).get("drops", {}), (link, direction, own)
    lost = counted["links"]["lossy"]["alice to bob"]["drops"]["packet_loss"]
    assert lost > 0 and counted["hosts"]["alice"]["drops"]["packet_loss"] == lost, "drops on the link count for its host"
    assert {"host alice", "host far"} <= set(truth["unaccounted"])


@measured(4)
def test_events_reach_hosts(tmp_path):
    done, results = emulate(tmp_path, f"""
general: {{stop_time: 9 s}}
{GRAPH}
hosts:
  a:
    network_node_id: 0
    processes:
    - {{path: sh, args: [-c, "trap 'echo usr1' USR1; echo start; while :; do sleep 0.1; done"], expected_final_state: running}}
    - {{path: echo, args: [late], start_time: 3 s}}
  b:
    network_node_id: 1
    processes:
    - {{path: sleep, args: ["100"], shutdown_time: 2 s, shutdown_signal: SIGINT, expected_final_state: {{signaled: SIGINT}}}}
    - {{path: ping, args: [-n, -c, "30", -i, "0.2", -W, "1", a], start_time: 500 ms}}
events:
- {{at: 1.5 s, signal: SIGUSR1, hosts: a, process: sh}}
- {{at: 2 s, partition: [[a], [b]], for: 1 s}}
- {{at: 4 s, crash: a, for: 1 s}}
- {{at: 5.5 s, link_change: [a, b], latency: 60 ms}}
""", check=False)
    as_expected(done)
    timely(output(results, "a", "sh").split() == ["start", "usr1", "start"], "once before the crash and once after")
    times = [float(t) for t in re.findall(r"time=([\d.]+)", output(results, "b", "ping"))]
    timely(10 < len(times) <= 22, "neither through the partition nor to a crashed host")
    timely(any(t >= 120.0 for t in times) and any(t < 60.0 for t in times), times)
    states = {host: [p["state"] for p in s["processes"]] for host, s in statistics(results)["hosts"].items()}
    assert states == {"a": ["running", "exited 0"], "b": ["signaled SIGINT", "exited 0"]}, states


def test_the_name_server_answers(tmp_path):
    script = ("import socket,struct; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.settimeout(60); "
              "q=struct.pack('>6H',7,256,1,0,0,0)+b'\\\\3www\\\\7example\\\\3org\\\\0'+struct.pack('>2H',1,1); "
              "s.sendto(q,('192.0.2.53',53)); r=s.recv(512); print(struct.unpack('>6H',r[:12])[3]); print(socket.gethostbyname('www.example.org'))")
    _, results = emulate(tmp_path, f"""
general: {{stop_time: 100 s}}
{GRAPH}
belljar: {{dns: {{records: ["www.example.org. 60 CNAME web"]}}}}
hosts:
  web: {{network_node_id: 0, processes: []}}
  client:
    network_node_id: 0
    processes: [{{path: python3, args: [-c, "{script}"]}}]
""", "--until-done")
    answers, address = output(results, "client", "python3").split()
    assert int(answers) >= 1 and address == statistics(results)["hosts"]["web"]["address"]


def test_properties_are_judged_and_those_that_need_times_refused(tmp_path):
    claims = [{"name": "calm", "never": "panic", "files": "stderr"}, {"name": "saved", "always": "^x$", "files": ["/etc/mine", "log"]},
              {"name": "register", "history": "h.jsonl", "model": "register", "hosts": "alice"}]
    event = '{"process": 0, "type": "%s", "f": "write", "value": 1}'
    script = f"echo x > /etc/mine; echo x > log; printf '%s\\n' '{event % 'invoke'}' '{event % 'ok'}' > h.jsonl; echo a panic >&2"
    world = {"general": {"stop_time": "100 s"}, "network": {"graph": {"type": "1_gbit_switch"}},
             "hosts": {"alice": {"network_node_id": 0, "processes": [{"path": "sh", "args": ["-c", script]}]},
                       "bob": {"network_node_id": 0, "processes": [{"path": "true"}]}}}
    done, results = emulate(tmp_path, json.dumps({**world, "properties": claims}), "--until-done", check=False)
    assert done.returncode == 1 and re.search(r"FAIL property never calm: a line matches 'panic'; alice: sh\.\d+\.stderr:1: a panic\n", done.stdout), done.stdout
    found = {one["name"]: one for one in statistics(results)["properties"]}
    assert [found[name]["holds"] for name in ("calm", "saved", "register")] == [False, True, True] and found["register"]["judged"] == 1, found
    claims = [{"name": "soon", "eventually": {"matches": "x", "within": "1 s"}}, {"name": "sent", "eventually": {"filter": "udp", "within": "1 s"}, "packets": "eth0"},
              {"name": "both", "history": "h.jsonl", "model": "register"}]
    refused, results = emulate(tmp_path, json.dumps({**world, "properties": claims}, indent=1), check=False, name="refused")
    assert refused.returncode == 2 and not results.exists(), refused
    assert re.findall(r"^error: property '(\w+)': the (times|order) of lines", refused.stderr, re.M) == [("soon", "times"), ("both", "order")], refused.stderr


def test_packets_are_judged(tmp_path):
    hosts = {"alice": {"network_node_id": 0, "processes": [{"path": "bash", "args": ["-c", "echo hello > /dev/udp/bob/9; sleep 1"], "start_time": "1 s"}]},
             "bob": {"network_node_id": 0, "processes": []}}
    claims = [{"name": "sent", "sometimes": r"UDP len 6$", "packets": "eth0", "hosts": "bob"}, {"name": "quiet", "never": {"filter": "udp port 9"}, "packets": "*"},
              {"name": "local", "never": "x", "packets": "lo"}, {"name": "in-time", "eventually": {"filter": "udp", "within": "60 s", "after": "500 ms"}, "packets": "eth0"}]
    world = {"general": {"stop_time": "100 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": hosts, "properties": claims}
    done, results = emulate(tmp_path, json.dumps(world), "--until-done", check=False)
    found = {one["name"]: one for one in statistics(results)["properties"]}
    assert done.returncode == 1 and [name for name, one in found.items() if not one["holds"]] == ["quiet"], (done, found)
    assert found["sent"]["file"] == "packets/bob/eth0.pcap" and found["quiet"]["reason"] == "a packet passes 'udp port 9' (2 such packets)", found


def test_all_that_cannot_be_emulated_is_refused_at_once_with_its_lines(tmp_path):
    done, results = emulate(tmp_path, """
general: {stop_time: 5 s}
network: {graph: {type: 1_gbit_switch}}
hosts:
  a:
    network_node_id: 0
    processes: [{model: {type: sink, port: 5001}}]
  b: {network_node_id: 0, processes: [{path: echo}]}
events:
- {at: 1 s, crash: b, files: lost}
""", check=False)
    assert done.returncode == 2 and not results.exists()
    assert re.findall(r"^error: (.{20}).*\n +--> .*?:(\d+:\d+)$", done.stderr, re.M) == [("host 'a': traffic mo", "7:18"), ("the crash is to lose", "10:23")]
    assert done.stdout == ""


def test_clocks_are_said_to_be_the_machines(tmp_path):
    done, results = emulate(tmp_path, """
general: {stop_time: 100 s}
network: {graph: {type: 1_gbit_switch}}
hosts:
  a: {network_node_id: 0, clock: {offset: 3 s}, processes: [{path: date, args: [+%Y]}]}
""", "--until-done")
    assert "offsets, drifts, steps and 'reading' of hosts' clocks have no effect" in done.stderr
    assert output(results, "a", "date").strip() == time.strftime("%Y")
    assert "offsets, drifts, steps and 'reading' of hosts' clocks have no effect" in verdict(results)["differences"]


# By these the processes of these tests are told from those of others.
SLEEP = f"4321.{os.getpid()}"
os.environ["EMULATE_TEST"] = str(os.getpid())
LONG = """
general: {stop_time: 100 s}
network: {graph: {type: 1_gbit_switch}}
hosts:
  a: {network_node_id: 0, processes: [{path: sh, args: [-c, "sleep 4321.5 & sleep 4321.5"], expected_final_state: running}]}
  b: {network_node_id: 0, processes: [{path: sleep, args: ["4321.5"], expected_final_state: running}]}
""".replace("4321.5", SLEEP)


def sleepers():
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
            own = f"EMULATE_TEST={os.getpid()}\0".encode()
            if SLEEP.encode() in line or b"emulate-" in line and own in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            pass
    return found


def asleep():
    """The number of sleeping programs of these tests' hosts."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += (process / "cmdline").read_bytes() == f"sleep\0{SLEEP}\0".encode()
        except OSError:
            pass
    return found


def interfaces():
    return {line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]}


def started(tmp_path, condition):
    (tmp_path / "exp.yaml").write_text(LONG)
    command = subprocess.Popen([BELLJAR, "emulate", str(tmp_path / "exp.yaml"), "-o", str(tmp_path / "emu")],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: condition() or command.poll() is not None, pause=0.01)
    return command


def gone():
    until(lambda: not sleepers(), sleepers, patience=120)


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2, 1.0])
def test_a_killed_command_leaves_nothing(tmp_path, delay):
    before = interfaces()
    command = started(tmp_path, lambda: (tmp_path / "emu").exists())
    assert command.poll() is None, command.communicate()
    time.sleep(delay)
    command.send_signal(signal.SIGKILL)
    command.communicate()
    gone()
    # The kernel takes namespaces down by and by, and what is in them.
    until(lambda: not {name for name in interfaces() - before if re.fullmatch(r"g\d+|l\d+-[01]|bj-bridge", name)}, interfaces, patience=120)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    cleaned = subprocess.run([BELLJAR, "emulate", "--clean", str(tmp_path / "emu")], capture_output=True, text=True)
    assert cleaned.returncode == 0, cleaned.stderr
    assert not (tmp_path / "emu/.emulation").exists()


def test_an_interrupt_ends_in_order(tmp_path):
    command = started(tmp_path, lambda: asleep() == 3)
    command.send_signal(signal.SIGINT)
    out, err = command.communicate(timeout=600)
    assert command.returncode == 130 and "stopped early: interrupted" in out and "verdict" in out, out + err
    assert [p["state"] for p in statistics(tmp_path / "emu")["hosts"]["a"]["processes"]] == ["running"]


@pytest.mark.skipif(not IS_ROOT, reason="mounting a small disk needs root")
def test_a_full_disk_is_one_message(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "exp.yaml").write_text(LONG.replace("100 s", "2 s"))
    script = f"mount -t tmpfs -o size=64k tmpfs {disk}; head -c 60000 /dev/zero > {disk}/full 2>&1; {BELLJAR} emulate {tmp_path}/exp.yaml -o {disk}/emu"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=600)
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert len(errors) == 1 and "panicked" not in done.stderr, done.stderr
    gone()


def test_a_missing_capability_is_one_message(tmp_path):
    """No namespaces at all: none may be made by a filter of the kernel's limits."""
    if not IS_ROOT:
        pytest.skip("limits of namespaces are lowered in a user namespace, which needs root here")
    (tmp_path / "exp.yaml").write_text(LONG)
    script = f"echo 0 > /proc/sys/user/max_net_namespaces; exec {BELLJAR} emulate {tmp_path}/exp.yaml -o {tmp_path}/emu"
    done = subprocess.run(["unshare", "-Ur", "sh", "-c", script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stdout + done.stderr
    errors = [line for line in done.stderr.splitlines() if not line.startswith("note")]
    assert len(errors) == 1 and "namespaces cannot be made" in errors[0], done.stderr


@measured(4)
def test_an_ordinary_user_emulates_too(as_nobody, tmp_path):
    done, results = as_nobody(f"""
general: {{stop_time: 60 s}}
{GRAPH}
hosts:
  a: {{network_node_id: 0, processes: []}}
  b:
    network_node_id: 1
    processes:
    - {{path: sh, args: [-c, "ping -c 3 -i 0.2 a && id -u && echo x > /etc/mine"], start_time: 500 ms}}
""", "--until-done")
    assert done.returncode == 0, done.stdout + done.stderr
    said = output(results, "b", "sh")
    times = [float(t) for t in re.findall(r"time=([\d.]+)", said)]
    assert all(time >= 40.0 for time in times) and said.endswith("\n0\n"), said
    timely(len(times) == 3 and (median(times) < 60.0 or not in_time(results)), said)
    assert (results / "hosts/b/fs/etc/mine").read_text() == "x\n"
    done, _ = as_nobody("""
general: {stop_time: 1 s}
network: {graph: {type: 1_gbit_switch}}
hosts: {a: {network_node_id: 0, processes: [{path: id, user: daemon}]}}
""", name="two")
    assert done.returncode == 2 and "'id' is to run as user 'daemon', and without root there is one user" in done.stderr


@measured(4)
def test_a_p4_switch_passes_packets(tmp_path):
    example = ROOT / "examples" / "p4-switch.yaml"
    # The switch has the program that the experiment compiled, with its macros.
    options = ["--set", "switches.s1.define={UNUSED: 1}", "--set", "switches.s1.timestamps=ns"]
    done = subprocess.run([BELLJAR, "emulate", str(example), "-o", str(tmp_path / "emu"), "--until-done", *options],
                          capture_output=True, text=True, timeout=600)
    as_expected(done)
    assert (tmp_path / "emu/hosts/alice/GPL-3").read_bytes() == Path("/usr/share/common-licenses/GPL-3").read_bytes()


@measured(4)
def test_compare_says_what_differs(tmp_path):
    text = f"""
general: {{stop_time: 20 s}}
{GRAPH}
hosts:
  server:
    network_node_id: 0
    processes:
    - {{path: python3, args: [-m, http.server, "80"], expected_final_state: running}}
    - {{path: sh, args: [-c, "head -c 3000000 /dev/zero > page"]}}
  client:
    network_node_id: 1
    processes:
    - {{path: curl, args: [-sS, -o, page, -w, "%{{time_total}} s\\n", "http://server/page"], start_time: 2 s}}
"""
    done, emulated = emulate(tmp_path, text, "--until-done", "--pcap", check=False)
    as_expected(done)
    for name, options in [("sim", []), ("slow", ["--set", "hosts.client.bandwidth_down=5 Mbit"])]:
        subprocess.run([BELLJAR, "run", str(tmp_path / "exp.yaml"), "-o", str(tmp_path / name), "--pcap", *options],
                       capture_output=True, check=True, timeout=600)
    page = tmp_path / "page.html"
    done = subprocess.run([BELLJAR, "compare", str(tmp_path / "sim"), str(emulated), "--html", str(page), "--tolerance", "40"],
                          capture_output=True, text=True)
    # What is dropped at the queue depends on the kernel's TCP; times and rates follow from the link.
    rows = [line for line in done.stdout.split("\n") if line.startswith(("  client: curl (1)", "  client received"))]
    timely(len(rows) >= 2 and all(row.rstrip().endswith("same") for row in rows), done.stdout + done.stderr)
    assert "client: curl (1)" in done.stdout and "round trip of TCP handshakes" in done.stdout and "verdict:" in done.stdout
    assert page.read_text().count("<svg") > 4
    done = subprocess.run([BELLJAR, "compare", str(tmp_path / "slow"), str(emulated)], capture_output=True, text=True)
    assert done.returncode == 1 and "DIFFERS" in done.stdout
    done = subprocess.run([BELLJAR, "compare", str(tmp_path), str(emulated)], capture_output=True, text=True)
    assert done.returncode == 2 and "no sim-stats.json" in done.stderr
