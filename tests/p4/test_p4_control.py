"""Controllers as guests: P4Runtime to a switch's management interface inside the simulation."""

import json
import shutil
import subprocess
import sys

import pytest
import yaml
from conftest import ROOT, contents_of, execute

P4 = ROOT / "tests" / "p4"
PROGRAM, P4INFO = P4 / "learning.json", P4 / "learning.p4info.txtpb"
needs_stubs = pytest.mark.skipif(
    execute([sys.executable, "-c", "import grpc, p4.v1.p4runtime_pb2_grpc"]).status != 0,
    reason="no Python packages grpcio and p4runtime: ./test installs them")


def python(script, *args, **more):
    return {"path": sys.executable, "args": [str(script), *map(str, args)], **more}


def experiment(placement="auto", **switch):
    management = {"device_id": 1, "port": [9559, 50051], **switch.pop("management", {})}
    station = [f"0200000000{n:02x}" for n in range(3)]
    hosts = {
        "a": {"interfaces": {"eth0": {"mac": "02:00:00:00:00:01"}},
              "processes": [python(P4 / "station.py", 14, f"3@{station[2]}", f"3.5@{station[2]}", f"4@{station[2]}")]},
        "b": {"interfaces": {"eth0": {"mac": "02:00:00:00:00:02"}}, "processes": [python(P4 / "station.py", 14, f"12@{station[1]}")]},
        "c": {"processes": [python(P4 / "controller.py", "s1:9559", 1, PROGRAM, P4INFO, "first", start_time="1 s", placement=placement)]},
        "d": {"processes": [python(P4 / "controller.py", "s1:50051", 2, PROGRAM, P4INFO, "second", start_time="10 s", placement=placement)]},
    }
    return {
        "general": {"stop_time": "15 s"},
        "switches": {"s1": {"cpu_port": 510, "management": management, **switch}, "m": {}},
        "hosts": hosts,
        "links": [{"between": ["a", "s1:p1"]}, {"between": ["b", "s1:p2"]}, {"between": ["s1:mgmt", "m"], "latency": "1 ms"},
                  {"between": ["c", "m"]}, {"between": ["d", "m"]}],
    }


def told(done, host):
    """What a controller has said, by its first word, with the time."""
    lines = [line.split(" ", 2) for line in done.text(host, "python3*").splitlines()]
    return [(float(time), " ".join(rest)) for time, *rest in lines]


def run(belljar, workdir, content, name, *more):
    file = workdir / f"{name}.yaml"
    file.write_text(yaml.safe_dump(content))
    data = workdir / f"{name}.data"
    done = execute([belljar, "run", file, "-o", data, *more])
    assert done.status == 0, done
    return data, done


def output(data, host):
    return next((data / "hosts" / host).glob("python*.stdout")).read_text().splitlines()


@needs_stubs
@pytest.mark.parametrize("placement", ["near", "far"])
def test_a_python_controller_programs_the_switch(belljar, workdir, placement):
    data, _ = run(belljar, workdir, experiment(placement), f"control-{placement}")
    first, second = output(data, "c"), output(data, "d")
    # A list that was acknowledged may be sent again by the next packet.
    first = [line for line in first if not line.endswith("digest again")]
    assert [line.split(" ", 1)[1] for line in first] == [
        "arbitration 0", "pipeline",
        "packet 020000000002020000000001 [(1, '01'), (2, '00')]", "digest [['020000000001', '01']]",
        "idle ['020000000002']", "counter 3 192", "register 020000000001", "arbitration 6", "refused PERMISSION_DENIED"]
    assert [line.split(" ", 1)[1] for line in second] == ["arbitration 0", "entries ['020000000002']", "written"]
    # The first frame goes the way over the controller: 2 ms there and back over the management link. The others go straight.
    at = [float(line.split()[0]) for line in output(data, "b")]
    assert len(at) == 3 and 3.002 < at[0] < 3.02 and 3.5 < at[1] < 3.5005 and 4 < at[2] < 4.0005, at
    # Last hit at 4 s, a timeout of 1.5 s, looked for each second.
    assert 6 < float(first[4].split()[0]) < 6.01
    # What the second has written is in force.
    assert [line.split()[1] for line in output(data, "a")] == ["020000000001020000000002"]
    said = json.loads((data / "sim-stats.json").read_text())["p4_switches"]["s1"]
    assert said["controllers"] == 2 and said["tables"]["MyIngress.mac"] == {"entries": 2, "hits": 3, "misses": 1}


@needs_stubs
def test_runs_are_alike(belljar, workdir):
    found = []
    for workers in ("1", "2"):
        data, _ = run(belljar, workdir, experiment(), f"alike-{workers}", "--pcap", "--parallelism", workers)
        contents = contents_of(data)
        contents.pop("processed-config.yaml")
        found.append(contents)
    assert found[0] == found[1] and any("mgmt.pcap" in str(name) for name in found[0])


@needs_stubs
def test_writes_take_the_time_that_they_are_given(belljar, workdir):
    slow = experiment(management={"control_latency": "200 ms"}, p4=str(PROGRAM), p4info=str(P4INFO))
    data, _ = run(belljar, workdir, slow, "slow")
    quick, _ = run(belljar, workdir, experiment(), "quick")
    pipeline = [float(next(line for line in output(folder, "c") if line.endswith("pipeline")).split()[0]) for folder in (quick, data)]
    # One for the pipeline, one for the digest's settings.
    assert 0.39 < pipeline[1] - pipeline[0] < 0.42, pipeline


@needs_stubs
def test_the_shell_as_a_guest(belljar, workdir):
    pytest.importorskip("p4runtime_sh.shell", reason="no Python package p4runtime-shell: ./test installs it")
    script = workdir / "shell.py"
    script.write_text(f"""
import p4runtime_sh.shell as shell
shell.setup(device_id=1, grpc_addr="s1:9559", election_id=(0, 1), verbose=False,
            config=shell.FwdPipeConfig({str(P4INFO)!r}, {str(PROGRAM)!r}))
entry = shell.TableEntry("mac")(action="MyIngress.forward")
entry.match["hdr.ethernet.dst"] = "02:00:00:00:00:02"
entry.action["port"] = "2"
entry.insert()
shell.TableEntry("mac").read(lambda e: print(e.match["hdr.ethernet.dst"].exact.value.hex(), e.action["port"].value.hex()))
shell.teardown()
""")
    content = experiment()
    content["hosts"]["c"]["processes"] = [python(script, start_time="1 s")]
    del content["hosts"]["d"], content["links"][-1]
    data, _ = run(belljar, workdir, content, "shell")
    assert output(data, "c") == ["020000000002 02"]
    assert len(output(data, "b")) == 3


GO = """
package main

import (
    "context"
    "fmt"
    "os"

    p4 "github.com/p4lang/p4runtime/go/p4/v1"
    config "github.com/p4lang/p4runtime/go/p4/config/v1"
    "google.golang.org/grpc"
    "google.golang.org/grpc/credentials/insecure"
    "google.golang.org/protobuf/encoding/prototext"
)

func check(err error) {
    if err != nil {
        panic(err)
    }
}

func main() {
    conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
    check(err)
    client, ctx, id := p4.NewP4RuntimeClient(conn), context.Background(), &p4.Uint128{Low: 1}
    stream, err := client.StreamChannel(ctx)
    check(err)
    check(stream.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{
        Arbitration: &p4.MasterArbitrationUpdate{DeviceId: 1, ElectionId: id}}}))
    answer, err := stream.Recv()
    check(err)
    fmt.Println("arbitration", answer.GetArbitration().Status.Code)
    program, err := os.ReadFile(os.Args[2])
    check(err)
    text, err := os.ReadFile(os.Args[3])
    check(err)
    info := &config.P4Info{}
    check(prototext.Unmarshal(text, info))
    _, err = client.SetForwardingPipelineConfig(ctx, &p4.SetForwardingPipelineConfigRequest{
        DeviceId: 1, ElectionId: id, Action: p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
        Config: &p4.ForwardingPipelineConfig{P4Info: info, P4DeviceConfig: program}})
    check(err)
    entry := &p4.TableEntry{TableId: 0x02000001,
        Match: []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: []byte{2, 0, 0, 0, 0, 2}}}}},
        Action: &p4.TableAction{Type: &p4.TableAction_Action{Action: &p4.Action{ActionId: 0x01000002,
            Params: []*p4.Action_Param{{ParamId: 1, Value: []byte{2}}}}}}}
    _, err = client.Write(ctx, &p4.WriteRequest{DeviceId: 1, ElectionId: id, Updates: []*p4.Update{
        {Type: p4.Update_INSERT, Entity: &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: entry}}}}})
    check(err)
    fmt.Println("written")
}
"""


@pytest.fixture(scope="session")
def go_controller(tmp_path_factory):
    """A controller over the public Go module of P4Runtime."""
    if not shutil.which("go"):
        pytest.skip("no Go compiler: apt-get install golang")
    folder = tmp_path_factory.mktemp("controller")
    (folder / "main.go").write_text(GO)
    for command in (["go", "mod", "init", "controller"], ["go", "get", "github.com/p4lang/p4runtime@v1.4.1", "google.golang.org/grpc"],
                    ["go", "build", "-o", "controller", "."]):
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{' '.join(command)} takes too long")
        if done.returncode:
            pytest.skip(f"the Go module of P4Runtime cannot be built here: {done.stderr.strip().splitlines()[-1:]}")
    return folder / "controller"


@pytest.mark.slow  # Go compiles gRPC for a minute; controllers in Python program the switch in the other tests
def test_a_go_controller_programs_the_switch(belljar, workdir, go_controller):
    content = experiment()
    content["hosts"]["c"]["processes"] = [{"path": str(go_controller), "args": ["s1:9559", str(PROGRAM), str(P4INFO)], "start_time": "1 s"}]
    del content["hosts"]["d"], content["links"][-1]
    data, _ = run(belljar, workdir, content, "go")
    said = next((data / "hosts" / "c").glob("controller*.stdout")).read_text().splitlines()
    assert said == ["arbitration 0", "written"]
    assert len(output(data, "b")) == 3


NOISE = """
import random, socket, struct
dice = random.Random(1)
preface = b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"
def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
for n in range(200):
    s = socket.create_connection(("s1", 9559), 5)
    s.settimeout(1)
    text = preface + frame(4, 0, 0, b"") if n % 4 else b""
    for _ in range(dice.randrange(20)):
        payload = dice.randbytes(dice.choice([0, 1, 4, 8, 5, 100, 3000]))
        text += dice.randbytes(dice.randrange(50)) if n % 4 == 0 else frame(dice.randrange(12), dice.randrange(256), dice.randrange(8), payload)
    try:
        s.sendall(text[:dice.randrange(len(text) + 1)])
        if n % 3:
            s.recv(1000)
    except OSError:
        pass
    s.close()
print("done")
"""


@needs_stubs
def test_noise_ends_its_own_connection_only(belljar, workdir):
    script = workdir / "noise.py"
    script.write_text(NOISE)
    content = experiment()
    content["hosts"]["d"]["processes"] = [python(script, expected_final_state="any")]
    # Nobody takes over.
    content["hosts"]["c"]["processes"][0]["expected_final_state"] = "any"
    data, done = run(belljar, workdir, content, "noise")
    said = [line.split(" ", 2)[1] for line in output(data, "c") if not line.endswith("digest again")]
    assert said[:6] == ["arbitration", "pipeline", "packet", "digest", "idle", "counter"]


def test_events_change_entries_and_results_show_them(belljar, workdir):
    later = workdir / "later.txt"
    later.write_text("table_add mac forward 02:00:00:00:00:02 => 2\n")
    content = experiment()
    del content["hosts"]["c"], content["hosts"]["d"], content["links"][2:], content["switches"]["m"]
    content["switches"]["s1"] = {"p4": str(PROGRAM), "cpu_port": 510, "queue_bytes": "30 KB", "trace": True}
    (workdir / "default.txt").write_text("table_set_default mac drop\n")
    content["events"] = [{"at": "3200 ms", "p4": "s1", "commands": str(later)}, {"at": "3.8 s", "p4": ["s*"], "commands": [str(workdir / "default.txt")]}]
    data, done = run(belljar, workdir, content, "events")
    # At 3 s it goes to a controller that is not there; from then on the entry is in force.
    assert [line.split()[0][:4] for line in output(data, "b")] == ["3.50", "4.00"]
    said = json.loads((data / "sim-stats.json").read_text())["p4_switches"]["s1"]
    assert said["tables"]["MyIngress.mac"] == {"entries": 1, "hits": 2, "misses": 2}
    assert said["ports"]["p1"]["packets_in"] == 3 and said["notifications"] > 0 and said["memory"] > 1_000
    tables = (data / "switches/s1/tables.csv").read_text().splitlines()
    assert tables[0] == "table,entry,match,priority,action,arguments,hits,packets,bytes"
    assert "MyIngress.mac,0,hdr.ethernet.dst=0x020000000002,,MyIngress.forward,port=0x0002,2,2,128" in tables
    assert "MyIngress.mac,,,,MyIngress.drop,,2,," in tables
    assert (data / "switches/s1/counters.csv").read_text().splitlines()[1:] == ["MyIngress.received,1,3,192", "MyIngress.received,2,1,64"]
    assert (data / "switches/s1/registers.csv").read_text().splitlines()[1] == "MyIngress.last_source,1,0x020000000001"
    shown = execute([belljar, "inspect", data, "p4-tables", "p4-ports"])
    assert shown.status == 0 and "MyIngress.mac" in shown.out and "most queued" in shown.out, shown
    # It runs again as it is resolved, to the same results, and a difference is named.
    again = workdir / "again.data"
    assert execute([belljar, "run", data / "processed-config.yaml", "-o", again]).status == 0
    assert (again / "switches/s1/tables.csv").read_text() == (data / "switches/s1/tables.csv").read_text()
    content["events"].pop(0)
    other, _ = run(belljar, workdir, content, "other")
    differs = execute([belljar, "diff", data, other])
    assert differs.status == 1 and "tables.csv" in differs.out, differs
    # The first decision that differs: of the second packet, 3.5 s.
    log = (data / "switches/s1/trace.log").read_text()
    assert "packet 2: ingress from port 1, 64 bytes" in log and "table MyIngress.mac" in log
    assert "switches/s1/trace.log" in differs.out and "packet 2, line " in differs.out, differs


def test_an_event_that_a_switch_refuses_is_a_warning(belljar, workdir):
    content = experiment()
    del content["hosts"]["c"], content["hosts"]["d"], content["links"][3:]
    content["events"] = [{"at": "2 s", "p4": "s1", "commands": str(workdir / "wrong.txt")}]
    (workdir / "wrong.txt").write_text("table_clear mac\n")
    _, done = run(belljar, workdir, content, "warned")
    assert "warning: switch 's1' at 2.000000 s: there is no program yet (1x)" in done.out, done


def test_a_queue_is_as_deep_and_as_slow_as_its_link_says(belljar, workdir):
    """A burst of 20 frames of 1014 bytes into a port of 1 Mbit/s: each takes 8.112 ms; the queue of the link holds ten."""
    program = workdir / "stamp.p4"
    program.write_text("""
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header stamp_t { bit<32> depth; bit<32> waited; bit<48> arrived; bit<48> left; }
struct headers_t { ethernet_t ethernet; stamp_t stamp; }
struct metadata_t { }
parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.ethernet); packet.extract(hdr.stamp); transition accept; }
}
control check(inout headers_t hdr, inout metadata_t meta) { apply { } }
control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { sm.egress_spec = PORT; sm.priority = hdr.stamp.depth[2:0]; }
}
control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.stamp.depth = (bit<32>)sm.enq_qdepth;
        hdr.stamp.waited = (bit<32>)sm.deq_timedelta;
        hdr.stamp.arrived = sm.ingress_global_timestamp;
        hdr.stamp.left = sm.egress_global_timestamp;
    }
}
control update(inout headers_t hdr, inout metadata_t meta) { apply { } }
control deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(parse(), check(), ingress(), egress(), update(), deparse()) main;
""")
    sender, receiver = workdir / "sender.py", workdir / "receiver.py"
    sender.write_text("""
import socket, time
time.sleep(1)
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
for n in range(20):
    # The last two go before all that wait.
    s.send(b"\\2\\0\\0\\0\\0\\2\\2\\0\\0\\0\\0\\1\\x88\\xb5" + (7 if n >= 18 else 0).to_bytes(4, "big") + bytes(980) + n.to_bytes(4, "big") + bytes(12))
""")
    receiver.write_text("""
import socket, struct, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(("eth0", 0))
s.settimeout(3)
try:
    while True:
        frame = s.recv(2000)
        depth, waited, arrived, left = struct.unpack(">II6s6s", frame[14:34])
        number = int.from_bytes(frame[998:1002], "big")
        print(number, depth, waited, int.from_bytes(left, "big") - int.from_bytes(arrived, "big"), f"{time.time() % 1:.6f}", flush=True)
except TimeoutError:
    pass
""")
    content = {
        "general": {"stop_time": "6 s"},
        "switches": {"s1": {"p4": str(program), "define": {"PORT": 2}}},
        "hosts": {"a": {"processes": [python(sender)]}, "b": {"processes": [python(receiver)]}},
        "links": [{"between": ["a", "s1:p1"], "rate": "unlimited"},
                  {"between": ["s1:p2", "b"], "rate": "1 Mbit", "latency": "1 ms", "queue": {"packets": 10}, "reverse": {"queue": {"packets": 1000}}}],
    }
    data, _ = run(belljar, workdir, content, "queue")
    rows = [line.split() for line in output(data, "b")]
    # One is being sent, ten wait, seven are dropped; the two of priority 7 have a queue of their own and go next.
    assert [int(row[0]) for row in rows] == [0, 18, 19, *range(1, 11)]
    assert [int(row[1]) for row in rows] == [0, 0, 1, *range(10)]
    assert [int(row[2]) for row in rows] == [8112 * n for n in range(13)]
    assert all(row[2] == row[3] for row in rows)
    at = [round(float(row[4]) * 1e6) for row in rows]
    assert [b - a for a, b in zip(at, at[1:])] == [8112] * 12
    said = json.loads((data / "sim-stats.json").read_text())
    assert said["p4_switches"]["s1"]["drops"] == {"queue_full": 7}
    assert said["p4_switches"]["s1"]["ports"]["p2"] == {"packets_in": 0, "packets_out": 13, "queue_full": 7, "most_queued": 12, "queued": 0}
    assert said["links"]["s1:p2-b:eth0"]["s1 to b"]["drops"] == {"egress_full": 7}
