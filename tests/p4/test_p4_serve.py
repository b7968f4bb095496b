"""`belljar p4 serve` with controllers that were written for other switches: P4Runtime's Python client and its shell."""

import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import threading
import time
from queue import Empty, Queue

import pytest
from conftest import PATIENCE, ROOT, bind, until

grpc = pytest.importorskip("grpc", reason="no Python package grpcio: ./test installs it")
p4runtime = pytest.importorskip("p4.v1.p4runtime_pb2", reason="no Python package p4runtime: ./test installs it")
stubs = pytest.importorskip("p4.v1.p4runtime_pb2_grpc", reason="no Python package p4runtime: ./test installs it")
p4info_pb2 = pytest.importorskip("p4.config.v1.p4info_pb2", reason="no Python package p4runtime: ./test installs it")
from google.protobuf import text_format  # noqa: E402
from google.rpc import status_pb2  # noqa: E402
from p4.v1 import p4data_pb2  # noqa: E402

pytestmark = pytest.mark.waits

PROGRAM = ROOT / "tests" / "p4" / "learning.json"
P4INFO = PROGRAM.with_suffix("").with_suffix(".p4info.txtpb")
MAC, ACL, RECEIVED, LAST_SOURCE, POLICE, UNTRUSTED, DIGEST = (
    0x02000001, 0x02000002, 0x12000001, 0x16000001, 0x14000001, 0x03000001, 0x17000001)
DROP, FORWARD, FLOOD, TO_CONTROLLER, NO_ACTION = range(0x01000001, 0x01000006)
A, B = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


def frame(dst, src, kind=b"\x08\x00", payload=b"x" * 50):
    return dst + src + kind + payload


class Switch:
    """A switch whose ports 1 to 3 are sockets of the test's."""

    def __init__(self, belljar, folder, *arguments, ports=(1, 2, 3)):
        listeners = {}
        for port in ports:
            listeners[port] = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            bind(listeners[port], folder / f"port{port}")
            listeners[port].listen()
        attached = [word for port in ports for word in ("-i", f"{port}@unix:{folder / f'port{port}'}")]
        command = [belljar, "p4", "serve", *arguments, *attached, "--grpc", "127.0.0.1:0", "--device-id", "1", "--cpu-port", "510"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        told = re.match(r"P4Runtime: device 1 on (127\.0\.0\.1:\d+)$", line)
        assert told, line + self.process.stderr.read()
        self.address = told[1]
        self.ports = {port: listener.accept()[0] for port, listener in listeners.items()}
        for port in self.ports.values():
            port.settimeout(PATIENCE)
        for listener in listeners.values():
            listener.close()

    def send(self, port, data):
        self.ports[port].send(data)

    def receive(self, port):
        return self.ports[port].recv(2000)

    def nothing(self, *ports):
        """Nothing has left by these ports, a moment after what came before was handled."""
        ready, _, _ = select.select([self.ports[port] for port in ports], [], [], 0.2)
        return not ready

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=600)
        return self.process.returncode, out, err

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        for port in self.ports.values():
            port.close()


@pytest.fixture
def switch(belljar, tmp_path):
    switches = []

    def make(*arguments, **options):
        switches.append(Switch(belljar, tmp_path, *arguments, **options))
        return switches[-1]

    yield make
    for one in switches:
        one.close()


class Controller:
    """A controller over P4Runtime's own stubs."""

    def __init__(self, address, election=1):
        self.channel = grpc.insecure_channel(address)
        self.stub = stubs.P4RuntimeStub(self.channel)
        self.election = p4runtime.Uint128(low=election)
        self.requests, self.told, self.kept = Queue(), Queue(), []
        stream = self.stub.StreamChannel(iter(self.requests.get, None))
        threading.Thread(target=self.listen, args=(stream,), daemon=True).start()
        self.say(arbitration=p4runtime.MasterArbitrationUpdate(device_id=1, election_id=self.election))

    def listen(self, stream):
        try:
            for message in stream:
                self.told.put(message)
        except grpc.RpcError as error:
            self.told.put(error)

    def say(self, **update):
        self.requests.put(p4runtime.StreamMessageRequest(**update))

    def hear(self, kind, timeout=PATIENCE, besides=()):
        """The next message, which is of this kind. Those of the kinds `besides` come when their time has come: they are kept."""
        found = next((message for message in self.kept if message.WhichOneof("update") == kind), None)
        if found is not None:
            self.kept.remove(found)
            return getattr(found, kind)
        while True:
            message = self.told.get(timeout=timeout)
            assert not isinstance(message, grpc.RpcError), message
            if message.WhichOneof("update") not in besides:
                assert message.WhichOneof("update") == kind, message
                return getattr(message, kind)
            self.kept.append(message)

    def set_program(self, action="VERIFY_AND_COMMIT", config=None):
        config = config or p4runtime.ForwardingPipelineConfig(p4info=p4info(), p4_device_config=PROGRAM.read_bytes())
        self.stub.SetForwardingPipelineConfig(p4runtime.SetForwardingPipelineConfigRequest(
            device_id=1, election_id=self.election, action=action, config=config))

    def write(self, kind, *entities, atomicity="CONTINUE_ON_ERROR"):
        updates = [p4runtime.Update(type=kind, entity=entity) for entity in entities]
        self.stub.Write(p4runtime.WriteRequest(device_id=1, election_id=self.election, updates=updates, atomicity=atomicity))

    def read(self, *entities):
        responses = self.stub.Read(p4runtime.ReadRequest(device_id=1, entities=entities))
        return [entity for response in responses for entity in response.entities]

    def close(self):
        self.requests.put(None)
        self.channel.close()


@pytest.fixture
def controller():
    controllers = []

    def make(*arguments, **options):
        controllers.append(Controller(*arguments, **options))
        return controllers[-1]

    yield make
    for one in controllers:
        one.close()


def p4info():
    return text_format.Parse(P4INFO.read_text(), p4info_pb2.P4Info())


def action(action_id, *values):
    params = [p4runtime.Action.Param(param_id=n, value=value) for n, value in enumerate(values, 1)]
    return p4runtime.TableAction(action=p4runtime.Action(action_id=action_id, params=params))


def mac_entry(mac, what=None, **more):
    match = [p4runtime.FieldMatch(field_id=1, exact=p4runtime.FieldMatch.Exact(value=mac))]
    return p4runtime.Entity(table_entry=p4runtime.TableEntry(table_id=MAC, match=match, action=what, **more))


def codes(error):
    """The codes of a batch's elements."""
    status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    details = []
    for packed in status.details:
        detail = p4runtime.Error()
        assert packed.Unpack(detail)
        details.append(detail.canonical_code)
    assert status.code == error.code().value[0] and status.message == error.details()
    return details


def pipeline(switch, controller, *arguments):
    device = switch(*arguments)
    primary = controller(device.address)
    assert primary.hear("arbitration").status.code == 0
    primary.set_program()
    return device, primary


def test_packets_follow_the_entries_that_a_controller_writes(switch, controller):
    device, primary = pipeline(switch, controller)
    # What the switch does not know goes to the controller, with the port by which it came.
    device.send(1, frame(B, A))
    packet = primary.hear("packet")
    assert packet.payload == frame(B, A)
    assert [(m.metadata_id, m.value) for m in packet.metadata] == [(1, b"\x01"), (2, b"\x00")]
    # The controller sends it on.
    out = [p4runtime.PacketMetadata(metadata_id=1, value=b"\x02"), p4runtime.PacketMetadata(metadata_id=2, value=b"\x00")]
    primary.say(packet=p4runtime.PacketOut(payload=packet.payload, metadata=out))
    assert device.receive(2) == frame(B, A)

    primary.write("INSERT", mac_entry(B, action(FORWARD, b"\x02")), mac_entry(b"\xff" * 6, action(FLOOD, b"\x07")))
    device.send(1, frame(B, A, payload=b"y" * 100))
    assert device.receive(2) == frame(B, A, payload=b"y" * 100)
    # The group does not exist yet.
    device.send(1, frame(b"\xff" * 6, A))
    received = p4runtime.Entity(counter_entry=p4runtime.CounterEntry(counter_id=RECEIVED, index=p4runtime.Index(index=1)))
    until(lambda: primary.read(received)[0].counter_entry.data.packet_count == 3)
    assert device.nothing(1, 2, 3)
    replicas = [p4runtime.Replica(egress_port=port, instance=1) for port in (2, 3)]
    group = p4runtime.MulticastGroupEntry(multicast_group_id=7, replicas=replicas)
    entry = p4runtime.Entity(packet_replication_engine_entry=p4runtime.PacketReplicationEngineEntry(multicast_group_entry=group))
    primary.write("INSERT", entry)
    assert primary.read(entry) == [entry]
    device.send(1, frame(b"\xff" * 6, A))
    assert device.receive(2) == device.receive(3) == frame(b"\xff" * 6, A)

    # Counters have counted: the direct one of the entry, and the array by port.
    entries = primary.read(p4runtime.Entity(table_entry=p4runtime.TableEntry(table_id=MAC, counter_data=p4runtime.CounterData())))
    counts = {e.table_entry.match[0].exact.value: e.table_entry.counter_data.packet_count for e in entries}
    assert counts == {B.lstrip(b"\0"): 1, b"\xff" * 6: 2}
    data = primary.read(received)[0].counter_entry.data
    assert (data.packet_count, data.byte_count) == (4, 64 + 114 + 64 + 64)

    # The register holds the last source; BMv2's server refuses registers.
    register = p4runtime.Entity(register_entry=p4runtime.RegisterEntry(register_id=LAST_SOURCE, index=p4runtime.Index(index=1)))
    assert primary.read(register)[0].register_entry.data.bitstring == A
    register.register_entry.data.bitstring = b"\x2a"
    primary.write("MODIFY", register)
    assert primary.read(register) == [register]
    everything = p4runtime.Entity(register_entry=p4runtime.RegisterEntry(register_id=LAST_SOURCE))
    assert len(primary.read(everything)) == 512

    # Entries with priorities: the greatest wins.
    def rule(kind, priority, low, high):
        match = [p4runtime.FieldMatch(field_id=1, ternary=p4runtime.FieldMatch.Ternary(value=A, mask=b"\xff" * 6)),
                 p4runtime.FieldMatch(field_id=2, range=p4runtime.FieldMatch.Range(low=low, high=high))]
        return p4runtime.Entity(table_entry=p4runtime.TableEntry(table_id=ACL, match=match, action=kind, priority=priority))
    primary.write("INSERT", rule(action(DROP), 10, b"\x08\x00", b"\x08\xff"))
    device.send(1, frame(B, A))
    assert device.nothing(2)
    device.send(1, frame(B, A, b"\x07\xff"))
    assert device.receive(2) == frame(B, A, b"\x07\xff")
    read = primary.read(p4runtime.Entity(table_entry=p4runtime.TableEntry(table_id=ACL)))
    assert read == [rule(action(DROP), 10, b"\x08\x00", b"\x08\xff")]

    # A value set of the parser; BMv2's server refuses those too.
    exact = p4runtime.FieldMatch(field_id=1, exact=p4runtime.FieldMatch.Exact(value=b"\x99\x99"))
    members = [p4runtime.ValueSetMember(match=[exact])]
    primary.write("MODIFY", p4runtime.Entity(value_set_entry=p4runtime.ValueSetEntry(value_set_id=UNTRUSTED, members=members)))
    device.send(3, frame(B, B, b"\x99\x99"))
    assert device.nothing(2)
    primary.write("MODIFY", p4runtime.Entity(value_set_entry=p4runtime.ValueSetEntry(value_set_id=UNTRUSTED)))
    device.send(3, frame(B, B, b"\x99\x99"))
    assert device.receive(2) == frame(B, B, b"\x99\x99")

    status, _, err = device.stop()
    assert status == 0 and re.search(r"port 1 \(.*\): 6 frames in, 0 out, 0 dropped", err), err


def test_digests_and_idle_timeouts_are_told(switch, controller):
    device, primary = pipeline(switch, controller)
    primary.write("INSERT", mac_entry(B, action(FORWARD, b"\x02"), idle_timeout_ns=1_500_000_000, metadata=b"mine"))

    def digests(kind, seconds):
        config = p4runtime.DigestEntry.Config(max_timeout_ns=seconds * 10**9, max_list_size=2, ack_timeout_ns=600 * 10**9)
        primary.write(kind, p4runtime.Entity(digest_entry=p4runtime.DigestEntry(digest_id=DIGEST, config=config)))

    # A list that is full does not wait, however long it takes until it is.
    digests("INSERT", 600)
    idle = ["idle_timeout_notification"]
    for source in (A, A, b"\x04" * 6):
        device.send(3, frame(B, source))
    digest = primary.hear("digest", besides=idle)
    learned = [[m.bitstring for m in data.struct.members] for data in digest.data]
    assert (digest.digest_id, learned) == (DIGEST, [[A, b"\x03"], [b"\x04" * 6, b"\x03"]])
    assert abs(digest.timestamp - time.time_ns()) < 600e9
    # One alone comes after its time, and one that was acknowledged comes again. Arbitration is answered once the acknowledgement was heard.
    digests("MODIFY", 1)
    primary.say(digest_ack=p4runtime.DigestListAck(digest_id=DIGEST, list_id=digest.list_id))
    primary.say(arbitration=p4runtime.MasterArbitrationUpdate(device_id=1, election_id=primary.election))
    primary.hear("arbitration", besides=idle)
    begin = time.monotonic()
    device.send(3, frame(B, A))
    digest = primary.hear("digest", besides=idle)
    assert len(digest.data) == 1 and 0.8 < time.monotonic() - begin

    told = primary.hear("idle_timeout_notification")
    assert [(e.table_id, e.match[0].exact.value, e.metadata) for e in told.table_entry] == [(MAC, B, b"mine")]
    request = mac_entry(B)
    request.table_entry.time_since_last_hit.SetInParent()
    assert primary.read(request)[0].table_entry.time_since_last_hit.elapsed_ns >= 1_000_000_000


def test_a_second_controller_takes_over(switch, controller):
    device, first = pipeline(switch, controller)
    second = controller(device.address, election=2)
    assert second.hear("arbitration").status.code == 0
    lost = first.hear("arbitration")
    assert (lost.status.code, lost.election_id.low) == (6, 2)
    with pytest.raises(grpc.RpcError) as refused:
        first.write("INSERT", mac_entry(A, action(DROP)))
    assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
    second.write("INSERT", mac_entry(A, action(DROP)))
    # Packets go to the one that is primary now.
    device.send(1, frame(B, A))
    assert second.hear("packet").payload == frame(B, A)
    # Whoever is not may read.
    assert len(first.read(p4runtime.Entity(table_entry=p4runtime.TableEntry(table_id=MAC)))) == 1
    first.say(packet=p4runtime.PacketOut(payload=b"x"))
    assert first.hear("error").canonical_code == 7
    second.close()
    assert first.hear("arbitration").status.code == 5
    first.say(arbitration=p4runtime.MasterArbitrationUpdate(device_id=1, election_id=p4runtime.Uint128(low=3)))
    assert first.hear("arbitration").status.code == 0
    # An id in use ends the stream.
    third = controller(device.address, election=3)
    error = third.told.get(timeout=PATIENCE)
    assert isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(Empty):
        first.hear("packet", timeout=0.2)


def test_errors_name_each_update_and_batches_can_be_all_or_nothing(switch, controller):
    device, primary = pipeline(switch, controller)
    good, wrong = mac_entry(A, action(DROP)), mac_entry(B, action(FORWARD, b"\x02\x00"))
    with pytest.raises(grpc.RpcError) as failed:
        primary.write("INSERT", good, wrong, good)
    assert failed.value.code() == grpc.StatusCode.UNKNOWN and codes(failed.value) == [0, 3, 6]
    with pytest.raises(grpc.RpcError) as failed:
        primary.write("INSERT", mac_entry(B, action(DROP)), good, atomicity="DATAPLANE_ATOMIC")
    assert codes(failed.value) == [10, 6]
    read = primary.read(p4runtime.Entity(table_entry=p4runtime.TableEntry()))
    assert [entity.table_entry.match for entity in read] == [good.table_entry.match]
    with pytest.raises(grpc.RpcError) as failed:
        primary.read(p4runtime.Entity(table_entry=p4runtime.TableEntry(table_id=1)), p4runtime.Entity(table_entry=p4runtime.TableEntry()))
    assert codes(failed.value) == [5, 0]
    # Thousands of entries in one batch, and back in one read.
    many = [mac_entry(n.to_bytes(6, "big"), action(FORWARD, b"\x01")) for n in range(1, 1024)]
    primary.write("INSERT", *many)
    assert len(primary.read(p4runtime.Entity(table_entry=p4runtime.TableEntry(table_id=MAC)))) == 1024
    with pytest.raises(grpc.RpcError) as failed:
        primary.write("INSERT", mac_entry(b"\x7f" * 6, action(DROP)))
    assert codes(failed.value) == [8]


def test_a_program_is_saved_committed_and_reconciled(switch, controller):
    device = switch()
    primary = controller(device.address)
    assert primary.hear("arbitration").status.code == 0
    get = lambda: primary.stub.GetForwardingPipelineConfig(p4runtime.GetForwardingPipelineConfigRequest(device_id=1))  # noqa: E731
    assert not get().HasField("config")
    with pytest.raises(grpc.RpcError) as failed:
        primary.write("INSERT", mac_entry(A, action(DROP)))
    assert failed.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    for wrong in (b"{}", b"nonsense", PROGRAM.read_bytes()[:-100]):
        with pytest.raises(grpc.RpcError) as failed:
            primary.set_program("VERIFY", p4runtime.ForwardingPipelineConfig(p4info=p4info(), p4_device_config=wrong))
        assert failed.value.code() == grpc.StatusCode.INVALID_ARGUMENT, failed.value.details()
    primary.set_program("VERIFY")
    assert not get().HasField("config")
    primary.set_program("VERIFY_AND_SAVE")
    primary.write("INSERT", mac_entry(B, action(FORWARD, b"\x02")))
    device.send(1, frame(B, A))
    assert device.nothing(2)
    primary.stub.SetForwardingPipelineConfig(p4runtime.SetForwardingPipelineConfigRequest(
        device_id=1, election_id=primary.election, action="COMMIT"))
    device.send(1, frame(B, A))
    assert device.receive(2) == frame(B, A)
    config = get().config
    assert config.p4info == p4info() and config.p4_device_config == PROGRAM.read_bytes()
    # Once more, the state kept: a config of several MB.
    config.p4_device_config += b" " * (5 << 20)
    config.cookie.cookie = 77
    primary.set_program("RECONCILE_AND_COMMIT", config)
    device.send(1, frame(B, A))
    assert device.receive(2) == frame(B, A)
    primary.set_program()
    assert primary.read(p4runtime.Entity(table_entry=p4runtime.TableEntry(table_id=MAC))) == []
    assert primary.stub.Capabilities(p4runtime.CapabilitiesRequest()).p4runtime_api_version == "1.3.0"


def test_a_switch_is_set_up_by_files(switch, controller, tmp_path):
    commands = tmp_path / "commands.txt"
    commands.write_text("table_add MyIngress.mac MyIngress.forward 02:00:00:00:00:02 => 2\nmc_mgrp_create 5\nmc_node_create 1 2 3\nmc_node_associate 5 0\n")
    runtime = tmp_path / "s1-runtime.json"
    runtime.write_text(json.dumps({
        "target": "bmv2", "p4info": "x", "bmv2_json": "x",
        "table_entries": [{"table": "MyIngress.mac", "match": {"hdr.ethernet.dst": "02:00:00:00:00:03"},
                           "action_name": "MyIngress.flood", "action_params": {"group": 5}}]}))
    device = switch(PROGRAM, "--p4info", P4INFO, "--commands", commands, "--runtime", runtime)
    device.send(1, frame(B, A))
    assert device.receive(2) == frame(B, A)
    device.send(1, frame(B[:-1] + b"\x03", A))
    assert device.receive(2) == device.receive(3) == frame(B[:-1] + b"\x03", A)
    # A controller finds what the files have set up.
    reader = controller(device.address)
    reader.hear("arbitration")
    entries = reader.read(p4runtime.Entity(table_entry=p4runtime.TableEntry(table_id=MAC)))
    assert sorted(e.table_entry.action.action.action_id for e in entries) == [FORWARD, FLOOD]
    reader.write("DELETE", mac_entry(B))
    device.send(1, frame(B, A))
    assert reader.hear("packet").payload == frame(B, A)


def test_the_shell_of_p4runtime(switch, monkeypatch):
    shell = pytest.importorskip("p4runtime_sh.shell", reason="no Python package p4runtime-shell: ./test installs it")
    device = switch()
    # It waits for two seconds for the first answer.
    client = shell.P4RuntimeClient
    get = client.get_stream_packet
    monkeypatch.setattr(client, "get_stream_packet", lambda self, kind, timeout=1: get(self, kind, timeout=timeout and PATIENCE))
    shell.setup(device_id=1, grpc_addr=device.address, election_id=(0, 1), verbose=False,
                config=shell.FwdPipeConfig(str(P4INFO), str(PROGRAM)))
    try:
        entry = shell.TableEntry("mac")(action="MyIngress.forward")
        entry.match["hdr.ethernet.dst"] = "02:00:00:00:00:02"
        entry.action["port"] = "2"
        entry.insert()
        device.send(1, frame(B, A))
        assert device.receive(2) == frame(B, A)
        seen = []
        shell.TableEntry("mac").read(lambda e: seen.append((e.match["hdr.ethernet.dst"].exact.value, e.action["port"].value)))
        assert seen == [(B, b"\x02")]
        counter = shell.DirectCounterEntry("MyIngress.forwarded")
        counter.table_entry.match["hdr.ethernet.dst"] = "02:00:00:00:00:02"
        counts = []
        counter.read(lambda c: counts.append((c.packet_count, c.byte_count)))
        assert counts == [(1, 64)]
        meter = shell.MeterEntry("MyIngress.police")
        meter.index, meter.cir, meter.cburst, meter.pir, meter.pburst = 3, 10, 2, 20, 4
        meter.modify()
        rates = []
        meter.read(lambda m: rates.append((m.index, m.cir, m.cburst, m.pir, m.pburst)))
        assert rates == [(3, 10, 2, 20, 4)]
        clone = shell.CloneSessionEntry(5)
        clone.add(1, 1)
        clone.insert()
        packet = shell.PacketOut(payload=frame(A, B), egress_port="3", pad="0")
        packet.send()
        assert device.receive(3) == frame(A, B)
        received = []
        device.send(3, frame(A, B))
        heard = shell.PacketIn()
        until(lambda: heard.sniff(lambda p: received.append(p.packet.payload), timeout=1) or received)
        assert received == [frame(A, B)]
        with pytest.raises(Exception, match="ALREADY_EXISTS"):
            entry.insert()
        entry.delete()
    finally:
        shell.teardown()


@pytest.mark.parametrize("arguments, status, message", [
    (["missing.json"], 2, r"missing\.json: cannot be read"),
    ([PROGRAM, "--p4info", PROGRAM], 2, r"learning\.json: line 1: expected the name of a field"),
    ([PROGRAM, "-i", "700@eth0"], 2, r"'700' is no port: ports are 0 to 510"),
    ([PROGRAM, "-i", "eth0"], 2, r"write PORT@INTERFACE, such as 1@eth0"),
    ([PROGRAM, "-i", "1@no-such-one"], 1, r"no-such-one"),
    (["--p4info", P4INFO], 2, r"<PROGRAM>"),
    ([PROGRAM, "--grpc", "192.0.2.1:1"], 1, r"listening on 192\.0\.2\.1:1 for controllers"),
])
def test_what_cannot_be_served_is_said(belljar, tmp_path, arguments, status, message):
    run = subprocess.run([belljar, "p4", "serve", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert run.returncode == status and re.search(message, run.stderr), run.stderr
