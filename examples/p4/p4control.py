"""A small library for controllers over P4Runtime's own Python stubs (`pip install p4runtime`): it asks the switch for the P4Info of
its program, so tables, actions and fields are called by their names.

    s1 = Switch("s1:9559", 1)
    s1.insert("ingress.routes", {"ipv4.dst": ("10.0.0.0", 8)}, "ingress.forward", {"port": 2})
"""

import ipaddress
import queue
import threading

import grpc
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc as stubs


def to_bytes(value, bits):
    """A number, an address or bytes as a bit string."""
    if isinstance(value, str):
        number = int(value.replace(":", ""), 16) if ":" in value else int(ipaddress.ip_address(value))
    else:
        number = int.from_bytes(value, "big") if isinstance(value, bytes) else value
    return number.to_bytes(max(1, (bits + 7) // 8), "big")


class Switch:
    """A switch of which this controller is the primary one."""

    def __init__(self, address, device_id, election=1):
        self.device_id, self.election = device_id, p4.Uint128(low=election)
        self.stub = stubs.P4RuntimeStub(grpc.insecure_channel(address))
        self.outgoing, self.messages = queue.Queue(), queue.Queue()
        stream = self.stub.StreamChannel(iter(self.outgoing.get, None))
        threading.Thread(target=self._listen, args=(stream,), daemon=True).start()
        self.send(arbitration=p4.MasterArbitrationUpdate(device_id=device_id, election_id=self.election))
        answer = self.messages.get(timeout=10)
        if answer.arbitration.status.code:
            raise RuntimeError(f"{address} has another primary controller")
        request = p4.GetForwardingPipelineConfigRequest(device_id=device_id)
        self.info = self.stub.GetForwardingPipelineConfig(request).config.p4info

    def _listen(self, stream):
        try:
            for message in stream:
                self.messages.put(message)
        except grpc.RpcError:
            pass

    def send(self, **update):
        """Sends a message on the stream."""
        self.outgoing.put(p4.StreamMessageRequest(**update))

    def named(self, kind, name):
        """The entry of the P4Info with this name or alias."""
        for one in getattr(self.info, kind):
            if name in (one.preamble.name, one.preamble.alias):
                return one
        raise KeyError(f"no {kind} '{name}'")

    def action(self, name, arguments):
        action = self.named("actions", name)
        params = [p4.Action.Param(param_id=param.id, value=to_bytes(arguments[param.name], param.bitwidth)) for param in action.params]
        return p4.TableAction(action=p4.Action(action_id=action.preamble.id, params=params))

    def entry(self, table, match, action=None, arguments=None, **more):
        """An entry by names; a match is a value, or for lpm a value and a length."""
        info = self.named("tables", table)
        fields = []
        for field in info.match_fields:
            if field.name not in match:
                continue
            value = match[field.name]
            if isinstance(value, tuple):
                lpm = p4.FieldMatch.LPM(value=to_bytes(value[0], field.bitwidth), prefix_len=value[1])
                fields.append(p4.FieldMatch(field_id=field.id, lpm=lpm))
            else:
                exact = p4.FieldMatch.Exact(value=to_bytes(value, field.bitwidth))
                fields.append(p4.FieldMatch(field_id=field.id, exact=exact))
        done = self.action(action, arguments or {}) if action else None
        return p4.TableEntry(table_id=info.preamble.id, match=fields, action=done, **more)

    def write(self, kind, entity):
        update = p4.Update(type=kind, entity=entity)
        self.stub.Write(p4.WriteRequest(device_id=self.device_id, election_id=self.election, updates=[update]))

    def insert(self, table, match, action, arguments=None, **more):
        self.write("INSERT", p4.Entity(table_entry=self.entry(table, match, action, arguments, **more)))

    def modify(self, table, match, action, arguments=None, **more):
        self.write("MODIFY", p4.Entity(table_entry=self.entry(table, match, action, arguments, **more)))

    def delete(self, entry):
        self.write("DELETE", p4.Entity(table_entry=entry))

    def multicast_group(self, group, ports):
        replicas = [p4.Replica(egress_port=port, instance=1) for port in ports]
        entry = p4.MulticastGroupEntry(multicast_group_id=group, replicas=replicas)
        self.write("INSERT", p4.Entity(packet_replication_engine_entry=p4.PacketReplicationEngineEntry(multicast_group_entry=entry)))

    def digests(self, name):
        """Asks for digests, each as soon as there is one."""
        info = self.named("digests", name)
        config = p4.DigestEntry.Config(max_timeout_ns=0, max_list_size=1, ack_timeout_ns=10**9)
        self.write("INSERT", p4.Entity(digest_entry=p4.DigestEntry(digest_id=info.preamble.id, config=config)))

    def acknowledge(self, digest):
        self.send(digest_ack=p4.DigestListAck(digest_id=digest.digest_id, list_id=digest.list_id))

    def packet_out(self, payload, **metadata):
        info = self.named("controller_packet_metadata", "packet_out")
        fields = [p4.PacketMetadata(metadata_id=m.id, value=to_bytes(metadata.get(m.name, 0), m.bitwidth)) for m in info.metadata]
        self.send(packet=p4.PacketOut(payload=payload, metadata=fields))

    def metadata_of(self, packet):
        """The metadata of a packet-in by name."""
        info = self.named("controller_packet_metadata", "packet_in")
        names = {m.id: m.name for m in info.metadata}
        return {names[m.metadata_id]: int.from_bytes(m.value, "big") for m in packet.metadata}

    def counter(self, name, index):
        """Packets and bytes of an indirect counter."""
        entry = p4.CounterEntry(counter_id=self.named("counters", name).preamble.id, index=p4.Index(index=index))
        request = p4.ReadRequest(device_id=self.device_id, entities=[p4.Entity(counter_entry=entry)])
        data = [e.counter_entry.data for response in self.stub.Read(request) for e in response.entities][0]
        return data.packet_count, data.byte_count
