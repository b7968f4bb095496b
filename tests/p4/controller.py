"""A controller over P4Runtime's own Python stubs, as people write them: it learns a station from a packet-in and a digest,
reads counters and registers, and hears of an idle entry; one with a greater election id takes over.

    controller.py ADDRESS ELECTION_ID PROGRAM.json P4INFO.txtpb first|second
"""

import sys
import threading
import time
from queue import Queue

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4runtime
from p4.v1 import p4runtime_pb2_grpc as stubs

MAC, RECEIVED, LAST_SOURCE, DIGEST, FORWARD = 0x02000001, 0x12000001, 0x16000001, 0x17000001, 0x01000002
A, B = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


def say(*words):
    print(f"{time.time() - 946684800:.6f}", *words, flush=True)


class Controller:
    def __init__(self, address, election):
        self.stub = stubs.P4RuntimeStub(grpc.insecure_channel(address))
        self.election = p4runtime.Uint128(low=election)
        self.requests, self.told = Queue(), Queue()
        stream = self.stub.StreamChannel(iter(self.requests.get, None))
        threading.Thread(target=lambda: [self.told.put(message) for message in stream], daemon=True).start()
        self.send(arbitration=p4runtime.MasterArbitrationUpdate(device_id=1, election_id=self.election))

    def send(self, **update):
        self.requests.put(p4runtime.StreamMessageRequest(**update))

    def hear(self, kind):
        message = self.told.get(timeout=20)
        assert message.WhichOneof("update") == kind, message
        return getattr(message, kind)

    def write(self, *entities, kind="INSERT"):
        updates = [p4runtime.Update(type=kind, entity=entity) for entity in entities]
        self.stub.Write(p4runtime.WriteRequest(device_id=1, election_id=self.election, updates=updates))

    def read(self, *entities):
        responses = self.stub.Read(p4runtime.ReadRequest(device_id=1, entities=entities))
        return [entity for response in responses for entity in response.entities]


def station(mac, port, **more):
    match = [p4runtime.FieldMatch(field_id=1, exact=p4runtime.FieldMatch.Exact(value=mac))]
    action = p4runtime.Action(action_id=FORWARD, params=[p4runtime.Action.Param(param_id=1, value=bytes([port]))])
    return p4runtime.Entity(table_entry=p4runtime.TableEntry(
        table_id=MAC, match=match, action=p4runtime.TableAction(action=action), **more))


def first(controller, program, p4info):
    say("arbitration", controller.hear("arbitration").status.code)
    config = p4runtime.ForwardingPipelineConfig(
        p4info=text_format.Parse(open(p4info).read(), p4info_pb2.P4Info()), p4_device_config=open(program, "rb").read())
    controller.stub.SetForwardingPipelineConfig(p4runtime.SetForwardingPipelineConfigRequest(
        device_id=1, election_id=controller.election, action="VERIFY_AND_COMMIT", config=config))
    digest = p4runtime.DigestEntry.Config(max_timeout_ns=10**8, max_list_size=10, ack_timeout_ns=10**9)
    controller.write(p4runtime.Entity(digest_entry=p4runtime.DigestEntry(digest_id=DIGEST, config=digest)))
    say("pipeline")
    packet = controller.hear("packet")
    say("packet", packet.payload[:12].hex(), [(m.metadata_id, m.value.hex()) for m in packet.metadata])
    controller.write(station(B, 2, idle_timeout_ns=1_500_000_000))
    metadata = [p4runtime.PacketMetadata(metadata_id=n, value=value) for n, value in ((1, b"\x02"), (2, b"\x00"))]
    controller.send(packet=p4runtime.PacketOut(payload=packet.payload, metadata=metadata))
    digest = controller.hear("digest")
    say("digest", [[member.bitstring.hex() for member in data.struct.members] for data in digest.data])
    controller.send(digest_ack=p4runtime.DigestListAck(digest_id=DIGEST, list_id=digest.list_id))
    while (message := controller.told.get(timeout=20)).WhichOneof("update") == "digest":
        say("digest again")
    say("idle", [entry.match[0].exact.value.hex() for entry in message.idle_timeout_notification.table_entry])
    counter = p4runtime.CounterEntry(counter_id=RECEIVED, index=p4runtime.Index(index=1))
    data = controller.read(p4runtime.Entity(counter_entry=counter))[0].counter_entry.data
    say("counter", data.packet_count, data.byte_count)
    register = p4runtime.RegisterEntry(register_id=LAST_SOURCE, index=p4runtime.Index(index=1))
    say("register", controller.read(p4runtime.Entity(register_entry=register))[0].register_entry.data.bitstring.hex())
    say("arbitration", controller.hear("arbitration").status.code)
    try:
        controller.write(station(A, 1))
    except grpc.RpcError as error:
        say("refused", error.code().name)


def second(controller, *_):
    say("arbitration", controller.hear("arbitration").status.code)
    entries = controller.read(p4runtime.Entity(table_entry=p4runtime.TableEntry(table_id=MAC)))
    say("entries", [entry.table_entry.match[0].exact.value.hex() for entry in entries])
    controller.write(station(A, 1))
    say("written")


if __name__ == "__main__":
    address, election, program, p4info, role = sys.argv[1:]
    {"first": first, "second": second}[role](Controller(address, int(election)), program, p4info)
