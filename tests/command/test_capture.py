"""The captures of a run in one file, as Wireshark's own reader sees it."""

import re
import shutil
import subprocess

import pytest
import yaml
from conftest import EXAMPLES, execute, experiment, graph


@pytest.fixture
def ran(run_experiment):
    http = {"model": {"type": "http", "to": "web", "count": 2}}
    dns = {"model": {"type": "dns", "to": "ns", "names": ["web"]}}
    hosts = {"web": (0, [{"model": {"type": "http_server", "response_size": "300 B"}}]), "ns": (0, [{"model": {"type": "dns_server"}}]),
             "home": (1, [http, dns])}
    return run_experiment(experiment(hosts, graph((0, 1, "10 ms"))), pcap=True)


def shown(file, *fields):
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    command = ["tshark", "-r", str(file), "-T", "fields", *[part for field in fields for part in ("-e", field)]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_everything_in_the_order_of_time(belljar, ran):
    done = execute([belljar, "capture", ran.path])
    assert done.status == 0, done
    rows = shown(ran.path / "all.pcapng", "frame.time_epoch", "frame.interface_name", "ip.src", "ip.dst")
    assert f"{len(rows)} packets" in done.out
    times = [float(row[0]) for row in rows]
    assert times == sorted(times) and 946684800 <= times[0] < 946684801
    assert {row[1] for row in rows} == {"web eth0", "ns eth0", "home eth0"}
    # each packet as it left and as it came, 10 ms and its transmission later
    sent = [row for row in rows if row[1] == "home eth0" and row[3] == "11.0.0.3"]
    came = [row for row in rows if row[1] == "web eth0" and row[3] == "11.0.0.3"]
    assert len(sent) == len(came) > 5
    assert all(0.0099 < float(b[0]) - float(a[0]) < 0.011 for a, b in zip(sent, came))


def test_filters_and_hosts(belljar, ran, workdir):
    file = workdir / "some.pcapng"
    for arguments, expected in ((["--filter", "udp port 53"], {"ns eth0", "home eth0"}), (["--filter", "tcp and src host web"], {"web eth0", "home eth0"}),
                                (["--host", "web"], {"web eth0"}), (["--host", "web", "--filter", "not tcp"], set())):
        done = execute([belljar, "capture", ran.path, "-o", file, *arguments])
        assert done.status == 0, done
        rows = shown(file, "frame.interface_name", "udp.port")
        assert {row[0] for row in rows} == expected, arguments
        assert bool(rows and rows[0][1]) == ("udp port 53" in arguments)


def everything(done):
    """The rows of all captures: file, protocol and ports."""
    rows = []
    for file in sorted(done.path.rglob("*.pcap")):
        found = shown(file, "_ws.col.protocol", "ip.proto", "tcp.port", "udp.port")
        rows += [(str(file.relative_to(done.path)), *row) for row in found]
    return rows


def serving(host, *more):
    return {"processes": [{"model": {"type": "http_server"}}, {"model": {"type": "dns_server"}}], **host, **dict(more)}


def over_links(**host_options):
    client = [{"model": {"type": "http", "to": "web", "count": 2}}, {"model": {"type": "dns", "to": "web", "names": ["web"]}}]
    return {"general": {"stop_time": "5 s"}, "switches": ["lan"], "routers": ["r"],
            "hosts": {"home": {"processes": client}, "web": serving({})},
            "links": [{"between": ["home", "lan"]}, {"between": ["lan", "r"]}, {"between": ["r", "web"]}],
            "host_option_defaults": {"pcap_enabled": True, **host_options}}


def test_a_filter_while_running_is_that_of_the_whole_capture(belljar, run_experiment, workdir):
    """What is captured with a filter is what the same filter takes of everything: on hosts, switches and routers."""
    whole = run_experiment(over_links())
    assert {row[0] for row in everything(whole)} == {"hosts/home/eth0.pcap", "hosts/web/eth0.pcap", "switches/lan/p1.pcap", "switches/lan/p2.pcap",
                                                     "routers/r/eth0.pcap", "routers/r/eth1.pcap"}
    for number, (filter, protocols) in enumerate({"tcp port 80 and host web": {"6"}, "arp or udp": {"", "17"}, "not ip": {""}}.items()):
        ways = [run_experiment(over_links(pcap_filter=filter)),
                run_experiment({**over_links(), "host_option_defaults": {}}, args=["--pcap-filter", filter], name=f"option{number}")]
        merged = []
        for done in (*ways, whole):
            file = workdir / f"{done.path.name}-{number}.pcapng"
            arguments = ["--filter", filter] if done is whole else []
            ended = execute([belljar, "capture", done.path, "-o", file, *arguments])
            assert ended.status == 0, ended
            merged.append(shown(file, "frame.time_epoch", "frame.interface_name", "frame.len", "ip.proto"))
        assert merged[0] == merged[1] == merged[2] and len(merged[0]) > 4, filter
        assert {row[3] for row in merged[0]} == protocols, filter
        stats = [(done.path / "sim-stats.json").read_bytes() for done in (*ways, whole)]
        assert stats[0] == stats[1] == stats[2], "what is captured changes nothing"


def test_routers_have_addresses_as_while_running(belljar, run_experiment):
    whole = run_experiment(over_links())
    counts = []
    for filter in ("tcp", "tcp and not host r", "tcp and host r"):
        ended = execute([belljar, "capture", whole.path, "-o", "/dev/null", "--filter", filter])
        assert ended.status == 0, ended.err
        counts.append(int(re.search(r"(\d+) packets", ended.out)[1]))
    assert counts[0] == counts[1] > 4 and counts[2] == 0, "nothing is sent to the router itself"


def test_frames_in_python(run_experiment, belljar, monkeypatch):
    pytest.importorskip("pandas")
    import sys

    from conftest import ROOT
    monkeypatch.syspath_prepend(ROOT / "python")
    sys.modules.pop("belljar", None)
    from belljar import Results
    results = Results(run_experiment(over_links()).path)
    frame = results.packet_frame("lan", "p1")
    assert set(frame["protocol"]) == {"arp", "tcp", "udp"} and 80 in set(frame["destination_port"]) and set(frame["length"]) >= {42}
    assert set(results.packet_frame("home")["source"].dropna()) == {"10.0.0.1", "10.0.1.2"}


def test_a_divergence_at_a_router_is_named(belljar, run_experiment):
    one, other = over_links(pcap_filter="tcp"), over_links(pcap_filter="tcp")
    for exp in (one, other):
        for host in exp["hosts"].values():
            host["host_options"] = {"pcap_enabled": False}
        exp["switches"] = {"lan": {}}
    other["links"][2]["latency"] = "30 us"
    runs = [run_experiment(exp) for exp in (one, other)]
    said = execute([belljar, "diff", *[run.path for run in runs]]).out
    # It has to ask for the address first, over the slower link.
    assert re.search(r"first divergence at 0.0000\d+ s: router r, interface eth1, packet 1", said), said


def test_filters_by_host_and_interface(run_experiment):
    exp = over_links(pcap_filter={"p1": "tcp", "eth1": False})
    exp["hosts"]["home"]["host_options"] = {"pcap_filter": {"eth0": "udp", "lo": False}}
    exp["hosts"]["web"]["host_options"] = {"pcap_enabled": False}
    rows = everything(run_experiment(exp))
    kinds = {file: {row[2] for row in rows if row[0] == file} for file in {row[0] for row in rows}}
    assert kinds == {"hosts/home/eth0.pcap": {"17"}, "switches/lan/p1.pcap": {"6"}, "switches/lan/p2.pcap": {"", "6", "17"},
                     "routers/r/eth0.pcap": {"", "6", "17"}}, kinds


def pipe(belljar, workdir, *arguments, reader="cat > piped.pcap"):
    """A run of the example that writes packets to a reader, in a shell."""
    words = " ".join(map(str, (belljar, "run", EXAMPLES / "first.yaml", "-o data --force", *arguments)))
    return execute(["bash", "-c", f"set -o pipefail; {words} | {reader}"], cwd=workdir)


def test_packets_as_they_come(belljar, workdir):
    done = pipe(belljar, workdir, "--pcap --pcap-pipe berlin:eth0 -v")
    written = (workdir / "data/hosts/berlin/eth0.pcap").read_bytes()
    assert done.status == 0 and len(written) > 2000 and (workdir / "piped.pcap").read_bytes() == written, done
    # All else is on standard error.
    assert not done.out and "all 4 processes ended as expected" in done.err and "info: 4 hosts, 4 programs; seed 1, until 30 s" in done.err, done
    assert f"info: results in {workdir / 'data'}\n" in done.err and re.search(r"info: host 'berlin': curl\.1000 exited 0 at 2\.\d+ s", done.err), done
    # The filter applies, and without --pcap there are no files.
    done = pipe(belljar, workdir, "--pcap-pipe berlin:eth0 --set host_option_defaults.pcap_filter='src host server'")
    assert done.status == 0 and 100 < len((workdir / "piped.pcap").read_bytes()) < len(written) and not list(workdir.glob("data/hosts/*/*.pcap")), done
    # A reader may leave.
    done = pipe(belljar, workdir, "--pcap-pipe berlin:eth0", reader="head -c 24 > piped.pcap")
    assert done.status == 0 and "note: the reader of the packets left before the end of the run" in done.err, done


def test_packets_of_a_port(belljar, workdir):
    hosts = {name: {"processes": [{"path": "/bin/ping", "args": ["-c", "1", other]}] if name == "a" else []} for name, other in (("a", "b"), ("b", "a"))}
    file = {"general": {"stop_time": "3 s"}, "hosts": hosts, "switches": ["s"], "links": [{"between": ["a:eth0", "s:p1"]}, {"between": ["b:eth0", "s:p2"]}]}
    (workdir / "ports.yaml").write_text(yaml.safe_dump(file))
    run = lambda *arguments: subprocess.run([belljar, "run", "ports.yaml", *arguments], cwd=workdir, capture_output=True, timeout=600)
    done = run("--pcap-pipe", "s:p2", "-o", "piped")
    assert run("--pcap", "-o", "written").returncode == 0
    assert done.returncode == 0 and done.stdout == (workdir / "written/switches/s/p2.pcap").read_bytes() != b"", done


@pytest.mark.parametrize("arguments, message", [
    ("--pcap-pipe sever:eth0", "error: --pcap-pipe: there is no host or device 'sever': did you mean 'server'?"),
    ("--pcap-pipe server:eth7", "error: --pcap-pipe: 'server' has no interface 'eth7': did you mean 'eth0'?"),
    ("--pcap-pipe server", "write a host and an interface of it, as in alice:eth0"),
    ("--pcap-pipe server:eth0 --cells 2", "error: --pcap-pipe is for a run of one process: leave out --cells"),
    ("--pcap-pipe server:eth0 --set general.progress=true", "error: --pcap-pipe needs standard output for the packets: leave out general.progress"),
    ("--pcap-pipe server:eth0 --log", "cannot be used with"),
])
def test_packets_that_cannot_come(belljar, workdir, arguments, message):
    done = pipe(belljar, workdir, arguments)
    assert done.status == 2 and message in done.err and not (workdir / "piped.pcap").read_bytes(), done


def test_a_wrong_option(belljar, workdir):
    (workdir / "e.yaml").write_text("general: {stop_time: 1 s}\nnetwork: {graph: {type: 1_gbit_switch}}\nhosts: {a: {network_node_id: 0}}\n")
    done = execute([belljar, "run", workdir / "e.yaml", "-o", workdir / "data", "--pcap-filter", "host nobody"])
    assert done.status == 2 and "--pcap-filter 'host nobody': 'nobody' is neither a host" in done.err and not (workdir / "data").exists(), done


def test_mistakes(belljar, ran, run_experiment):
    for arguments, message in ((["--filter", "tcp prt 80"], "'prt' is not expected there"), (["--host", "nobody"], "there is no host 'nobody'"),
                               (["--filter", "host nobody"], "'nobody' is neither a host nor an IP address")):
        done = execute([belljar, "capture", ran.path, *arguments])
        assert done.status == 2 and done.err.startswith("error: ") and message in done.err, done
    without = run_experiment(experiment({"a": (0, [])}, stop="1 s"))
    done = execute([belljar, "capture", without.path])
    assert done.status != 0 and "run with --pcap" in done.err and not (without.path / "all.pcapng").exists()


SEND = """
import socket, sys, time
l = int(sys.argv[1])
s = socket.create_connection(("sink", 7))
s.sendall(b"x" * l)
"""
TAKE = """
import socket, sys, time
l = socket.create_server(("", 7))
c, _ = l.accept()
"""
READ = "while c.recv(65536): pass\n"
HANDSHAKE = {"Connection establish request (SYN)", "Connection establish acknowledge (SYN+ACK)", "Connection finish (FIN)",
             "This frame initiates the connection closing"}
WINDOW = {"TCP window specified by the receiver is now completely full", "TCP window update", "This frame undergoes the connection closing"}
LOSS = {"This frame is a (suspected) retransmission", "This frame is a (suspected) fast retransmission", "Duplicate ACK",
        "Previous segment(s) not captured (common at capture start)", "This frame is a (suspected) out-of-order segment",
        "This frame is a (suspected) spurious retransmission", "D-SACK Sequence"}
FLOWS = {
    # What each flow does, and what tshark remarks on in a capture of the same by Linux 6.18 over veth; with loss, what repairing it brings.
    "bulk": (SEND, TAKE + READ, 3_000_000, 0, HANDSHAKE | WINDOW),
    "loss": (SEND, TAKE + READ, 3_000_000, 0.02, HANDSHAKE | WINDOW | LOSS),
    "unread": (SEND, TAKE + "time.sleep(1); c.close()\n", 1000, 0, HANDSHAKE | {"Connection reset (RST)"}),
    # The window closes while its last segments are in flight: the tail probe comes before the delayed ACK of them, on Linux too.
    "zero window": (SEND, TAKE + "time.sleep(2)\n" + READ, 1_000_000, 0, HANDSHAKE | WINDOW | {
        "TCP Zero Window segment", "TCP keep-alive segment", "This frame is a (suspected) retransmission",
        "This frame is a (suspected) spurious retransmission", "D-SACK Sequence"}),
    "keepalive": (SEND.replace('s.sendall(b"x" * l)', "for n, v in ((4, 1), (5, 1)): s.setsockopt(6, n, v)\ns.setsockopt(1, 9, 1)\ntime.sleep(5)\n"),
                  TAKE + READ, 0, 0, HANDSHAKE | WINDOW | {"TCP keep-alive segment", "ACK to a TCP keep-alive segment"}),
    "fast open": (SEND.replace('s = socket.create_connection(("sink", 7))\ns.sendall', "for _ in range(2):\n    s = socket.socket()\n    s.sendto")
                  .replace("* l)", '* l, 0x20000000, ("sink", 7)); time.sleep(1); s.close()'),
                  TAKE.replace("c, _ =", "l.setsockopt(6, 23, 5)\nfor _ in range(2):\n    c, _ =") + "    while c.recv(65536): pass\n", 1000, 0,
                  HANDSHAKE | WINDOW | {"TCP SYN with TFO Cookie", "TCP SYN-ACK accepting TFO data"}),
}


@pytest.mark.needs("tshark")
@pytest.mark.parametrize("flow", FLOWS)
def test_tshark_remarks_on_nothing_that_linux_would_not_do(run_experiment, flow):
    send, take, length, loss, expected = FLOWS[flow]
    sysctls = {"host_options": {"sysctls": {"net.ipv4.tcp_fastopen": 3}}}
    hosts = {"source": (0, [{"path": "/usr/bin/python3", "args": ["-c", send, str(length)], "start_time": "1 s", "expected_final_state": "any"}]),
             "sink": (1, [{"path": "/usr/bin/python3", "args": ["-c", take], "expected_final_state": "any"}])}
    described = experiment(hosts, graph((0, 1, "10 ms", loss), bandwidth="100 Mbit"), stop="20 s")
    described["hosts"]["sink"].update(sysctls)
    done = run_experiment(described, pcap=True)
    remarks = set()
    for host in ("source", "sink"):
        for (texts,) in shown(done.pcap(host), "_ws.expert.message"):
            remarks |= {re.sub(r"( \(#\d+\)|: server port \d+|: \d.*)$", "", text) for text in texts.split(",") if text}
    assert remarks <= expected, remarks - expected
    needed = {"loss": "Duplicate ACK", "zero window": "TCP Zero Window segment", "unread": "Connection reset (RST)",
              "keepalive": "TCP keep-alive segment", "fast open": "TCP SYN-ACK accepting TFO data"}
    assert {needed.get(flow, "Connection finish (FIN)"), "Connection establish request (SYN)"} <= remarks, remarks
