"""P4 switches in experiments, and `belljar p4`."""

import json
import shutil
import struct
import subprocess

import pytest
import yaml
from conftest import EXAMPLES, ROOT, contents_of, execute


def statistics(done):
    return json.loads((done.path / "sim-stats.json").read_text())


@pytest.mark.needs("curl")
def test_example(run_experiment):
    done = run_experiment(EXAMPLES / "p4-switch.yaml", pcap=True)
    for name in ("alice", "bob"):
        connect, total = map(float, done.text(name, "curl").split())
        # two links and back, and the switch, for ARP and for the handshake; 35 kB at 10 Mbit/s, shared
        assert 0.0004 < connect < 0.002 and 0.028 < total < 1, done.text(name, "curl")
    said = statistics(done)
    assert said["links"]["server:eth0-s1:p1"]["server to s1"]["bytes"] > 70_000
    # What was flooded does not go back to where it came from.
    assert said["p4_switches"]["s1"]["drops"]["egress"] > 0
    assert (done.path / "switches/s1/p3.pcap").stat().st_size > 35_000


@pytest.mark.needs("curl")
def test_runs_are_alike(belljar, workdir):
    contents = []
    for workers in ("1", "2"):
        data = workdir / f"p4-{workers}.data"
        command = [belljar, "run", EXAMPLES / "p4-switch.yaml", "-o", data, "--pcap", "--parallelism", workers]
        done = execute(command)
        assert done.status == 0, done
        found = contents_of(data)
        # It names the folder and the number of workers.
        found.pop("processed-config.yaml")
        contents.append(found)
    assert contents[0] == contents[1]


@pytest.mark.parametrize("settings, said", [
    ({"p4": "nowhere.json"}, "there is no file 'nowhere.json'"),
    ({"p4": str(EXAMPLES / "p4-bridge-runtime.json")}, "does not say which version of BMv2 JSON"),
    ({"p4": str(EXAMPLES / "p4-bridge.p4"), "ageing": "3 s"}, "'ageing' is not valid with 'p4'"),
    ({"queues": 3}, "'queues' is not valid without 'p4'"),
    ({"p4": str(EXAMPLES / "p4-router.json"), "runtime": str(EXAMPLES / "p4-bridge-runtime.json")}, "no table 'ingress.stations'"),
])
def test_mistakes_are_named(belljar, workdir, settings, said):
    experiment = {
        "general": {"stop_time": "1 s"}, "switches": {"s1": settings},
        "hosts": {name: {"processes": []} for name in ("a", "b")},
        "links": [{"between": ["a", "s1"]}, {"between": ["b", "s1"]}],
    }
    file = workdir / "wrong.yaml"
    file.write_text(yaml.safe_dump(experiment))
    done = execute([belljar, "validate", file])
    assert done.status == 2 and said in done.err, done


def test_mistakes_in_a_source_name_the_line(belljar, workdir):
    program = workdir / "broken.p4"
    program.write_text((EXAMPLES / "p4-bridge.p4").read_text().replace("mcast_grp", "mcast_gpr"))
    experiment = {
        "general": {"stop_time": "1 s"}, "switches": {"s1": {"p4": str(program)}},
        "hosts": {name: {"processes": []} for name in ("a", "b")},
        "links": [{"between": ["a", "s1"]}, {"between": ["b", "s1"]}],
    }
    file = workdir / "wrong.yaml"
    file.write_text(yaml.safe_dump(experiment))
    done = execute([belljar, "validate", file])
    assert done.status == 2 and "broken.p4: line 25, column " in done.err and "mcast_gpr" in done.err, done
    done = execute([belljar, "p4", "build", program, "-o", workdir / "broken.json"])
    assert done.status == 2 and "broken.p4:25:" in done.err and not (workdir / "broken.json").exists(), done


@pytest.mark.needs("curl")
def test_source_and_its_json_are_one_program(belljar, run_experiment, workdir):
    built = execute([belljar, "p4", "build", EXAMPLES / "p4-bridge.p4", "-o", workdir / "bridge.json",
                     "--p4info", workdir / "bridge.p4info.txtpb"])
    assert built.status == 0 and "ingress.stations" in (workdir / "bridge.p4info.txtpb").read_text(), built
    text = (EXAMPLES / "p4-switch.yaml").read_text().replace("runtime: ", f"runtime: {EXAMPLES}/")
    contents = []
    for program in (EXAMPLES / "p4-bridge.p4", workdir / "bridge.json"):
        done = run_experiment(text.replace("p4-bridge.p4", str(program)), pcap=True, name="same")
        contents.append({name: data for name, data in contents_of(done.path).items() if name.endswith((".pcap", "stdout"))})
        shutil.rmtree(done.path)
    assert contents[0] == contents[1]


def test_lines_without_a_command_are_skipped_and_named(belljar, workdir):
    (workdir / "s1.txt").write_text("// ports\nset_queue_depht 10\nset_queue_depth 10\n")
    experiment = {
        "general": {"stop_time": "1 s"}, "switches": {"s1": {"p4": str(EXAMPLES / "p4-bridge.p4"), "commands": "s1.txt"}},
        "hosts": {name: {"processes": []} for name in ("a", "b")},
        "links": [{"between": ["a", "s1"]}, {"between": ["b", "s1"]}],
        "events": [{"at": "500 ms", "p4": "s1", "commands": "set_queue_depth 20\n# a comment\n// none\n"}],
    }
    file = workdir / "skipped.yaml"
    file.write_text(yaml.safe_dump(experiment))
    done = execute([belljar, "run", file, "-o", workdir / "skipped.data"])
    assert done.status == 0, done
    for said in ("switch 's1': ", "s1.txt: line 1 is skipped: comments begin with '#'",
                 "line 2 is skipped: the command 'set_queue_depht' does not exist; did you mean 'set_queue_depth'?",
                 "event 'p4': 'commands': line 3 is skipped"):
        assert said in done.out + done.err, done


def test_explain_shows_branches(belljar, workdir):
    program = ROOT / "crates/p4c/tests/constructs/traced.p4"
    done = execute([belljar, "p4", "build", program, "--explain", "-o", workdir / "traced.json"])
    # An action's, the parser's, the deparser's.
    for condition in ("hdr.h.b == 7", "hdr.h.a > 3", "hdr.h.r != 0"):
        line = next(n for n, text in enumerate(program.read_text().splitlines(), 1) if condition in text)
        assert f"    if ({condition}) (traced.p4:{line})\n" in done.out, done


def test_packets_of_a_script(belljar, workdir):
    script = workdir / "bridge.stf"
    script.write_text(
        "add stations ethernet.dst:0x020000000001 forward(port:1)\n"
        "packet 2 020000000001 020000000002 9999\nexpect 1 020000000001 02000000000* 9999 $\n")
    done = execute([belljar, "p4", "test", EXAMPLES / "p4-bridge.p4", script, "--junit", workdir / "report.xml"])
    assert done.status == 0 and "1 passed, 0 failed, 0 errors" in done.out, done
    assert 'failures="0"' in (workdir / "report.xml").read_text()
    script.write_text("packet 2 020000000001 020000000002 9999\nexpect 1\n")
    done = execute([belljar, "p4", "test", EXAMPLES / "p4-bridge.p4", script])
    assert done.status == 1 and "line 2: the packet on port 1 did not come" in done.out, done
    script.write_text("sned 1\n")
    done = execute([belljar, "p4", "test", EXAMPLES / "p4-bridge.p4", script])
    assert done.status == 4 and "the command 'sned' does not exist" in done.out, done
    assert execute([belljar, "p4", "test", workdir / "empty.json"]).status == 5


@pytest.mark.needs("curl")
def test_captures_go_through_a_program(belljar, run_experiment, workdir):
    done = run_experiment(EXAMPLES / "p4-switch.yaml", pcap=True, name="captured")
    capture = done.path / "hosts/alice/eth0.pcap"
    out = workdir / "out"
    command = [belljar, "p4", "run", EXAMPLES / "p4-bridge.p4", "--pcap", f"2={capture}", "-o", out,
               "--runtime", EXAMPLES / "p4-bridge-runtime.json", "--trace"]
    runs = [execute(command) for _ in range(2)]
    assert runs[0].status == 0 and runs[0].out == runs[1].out, runs[0]
    assert "table ingress.stations (p4-bridge.p4:27) hdr.ethernet.dst=0x020000000001: hit entry 0 -> ingress.forward(port=0x0001)" in runs[0].out
    assert (out / "port1.pcap").stat().st_size > 1_000


ROUTER_PACKET = ["020000000001", "020000000002", "9999", "00" * 50]


def test_packets_are_stepped_through(belljar, workdir):
    frame = bytes.fromhex("".join(ROUTER_PACKET))
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    capture = workdir / "in.pcap"
    packet = lambda second: struct.pack("<IIII", second, 0, len(frame), len(frame)) + frame  # noqa: E731
    capture.write_bytes(header + packet(1) + packet(2))
    command = [belljar, "p4", "run", EXAMPLES / "p4-bridge.p4", "--runtime", EXAMPLES / "p4-bridge-runtime.json", "--pcap", f"2={capture}", "--step"]

    def step(commands):
        done = subprocess.run([str(c) for c in command], input="\n".join(commands) + "\n", capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done
        return done.stdout
    said = step(["b ingress.stations", "c", "p egress_spec", "back", "s", "n", "s", "s", "p ethernet.dst", "q"])
    table = said.index("table ingress.stations (p4-bridge.p4:27)")
    # The table's action has set the port, and says so below the line; the packet goes there.
    assert "standard_metadata.egress_spec: 0x0000 -> 0x0001" in said[table:], said
    assert said.count("table ingress.stations") == 2 and "standard_metadata.egress_spec = 0x0001" in said, said
    assert "packet 2: ingress" in said and "ethernet.dst = 0x020000000001" in said, said
    # Without commands it goes to the end, and so does one that is none.
    whole = step([])
    assert whole.count("packet ") >= 2 and "2 packets in, 2 out" in whole and whole.count("(p4) ") == 2, whole
    assert "'fly' is no command; help lists them" in step(["fly", "help", "q"])
