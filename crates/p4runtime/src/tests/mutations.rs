//! Mutation test: valid requests to the real switch are damaged field by field, so that they remain
//! well-formed messages, and interleaved with packets that use the written state. No request may panic or
//! hang the server, every call ends, and the server remains usable.

use super::World;
use super::noise::Draw;
use crate::proto::entity::Entity as Kind;
use crate::proto::stream_message_request::Update as Said;
use crate::proto::{
    Atomicity, CapabilitiesRequest, DigestConfig, DigestEntry, DigestListAck, DirectCounterEntry,
    DirectMeterEntry, Entity, GetForwardingPipelineConfigRequest, MasterArbitrationUpdate, PacketOut,
    PipelineAction, ReadRequest, SetForwardingPipelineConfigRequest, StreamMessageRequest, Update,
    UpdateType, WriteRequest,
};
use crate::{Server, pipeline_config};
use belljar_base::SimTime;
use belljar_p4::{SwitchConfig, SwitchDevice};
use belljar_p4c::ProgramFile;
use belljar_p4files as files;
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};
use std::path::Path;

pub(super) const ENTRIES: &str = "\
table_add MyIngress.exactly MyIngress.note 1 2 => 3
table_add MyIngress.exactly MyIngress.send 2 2 => 3
table_add MyIngress.longest MyIngress.send 10.0.0.0/8 => 2
table_add MyIngress.longest MyIngress.spread 10.1.0.0/16 => 1
table_add MyIngress.rules MyIngress.paced 1&&&3 0->100 0x0a000001&&&0xffffffff => 4 10
act_prof_create_member MyIngress.paths MyIngress.send 1
act_prof_create_member MyIngress.paths MyIngress.send 2
act_prof_create_group MyIngress.paths
act_prof_add_member_to_group MyIngress.paths 0 0
act_prof_add_member_to_group MyIngress.paths 1 0
table_indirect_add_with_group MyIngress.chosen 7 => 0
act_prof_create_member MyIngress.plain MyIngress.send 3
table_indirect_add MyIngress.given 9 => 0
mc_mgrp_create 1
mc_node_create 1 1 2
mc_node_associate 1 0
mirroring_add 5 510
meter_array_set_rates MyIngress.limit 0.001:1000 0.002:2000
register_write MyIngress.last 2 77
counter_write MyIngress.seen 3 10 1000
pvs_add Parse.known 8
";

/// Field of a message in wire format.
#[derive(Clone)]
enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

type Fields = Vec<(u32, Value)>;

/// Fields of a message; `None` if the bytes are not a message.
fn fields(mut bytes: &[u8]) -> Option<Fields> {
    let mut list = Vec::new();
    while !bytes.is_empty() {
        let (tag, kind) = decode_key(&mut bytes).ok()?;
        let value = match kind {
            WireType::Varint => Value::Number(decode_varint(&mut bytes).ok()?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut bytes).ok()?;
                let (value, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
                bytes = rest;
                Value::Bytes(value.to_vec())
            }
            _ => return None,
        };
        list.push((tag, value));
    }
    Some(list)
}

fn bytes(fields: &Fields) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, value) in fields {
        match value {
            Value::Number(number) => {
                encode_key(*tag, WireType::Varint, &mut out);
                encode_varint(*number, &mut out);
            }
            Value::Bytes(bytes) => {
                encode_key(*tag, WireType::LengthDelimited, &mut out);
                encode_varint(bytes.len() as u64, &mut out);
                out.extend_from_slice(bytes);
            }
        }
    }
    out
}

const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    31,
    127,
    255,
    65_535,
    1 << 24,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    i64::MAX as u64,
    u64::MAX,
];

/// Applies one random change to a message, possibly with fields taken from `other`.
fn damage(message: &[u8], other: &[u8], draw: &mut Draw) -> Vec<u8> {
    let Some(mut list) = fields(message).filter(|list| !list.is_empty()) else {
        let mut bytes = message.to_vec();
        match draw.next(5) {
            0 => bytes.clear(),
            1 => bytes.insert(0, draw.next(256) as u8),
            2 => bytes.resize(bytes.len() + draw.next(300), draw.next(256) as u8),
            3 => bytes.truncate(draw.next(bytes.len() + 1)),
            _ => {
                let at = draw.next(bytes.len().max(1));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << draw.next(8);
                }
            }
        }
        return bytes;
    };
    let at = draw.next(list.len());
    match draw.next(10) {
        0 => drop(list.remove(at)),
        1 => list.push(list[at].clone()),
        2 => list[at].0 = 1 + draw.next(13) as u32,
        3 => {
            let to = draw.next(list.len());
            list.swap(at, to);
        }
        4 => {
            let pieces = fields(other).unwrap_or_default();
            if !pieces.is_empty() {
                list[at] = pieces[draw.next(pieces.len())].clone();
            }
        }
        _ => match &mut list[at].1 {
            Value::Number(number) => *number = NUMBERS[draw.next(NUMBERS.len())],
            Value::Bytes(bytes) => *bytes = damage(bytes, other, draw),
        },
    }
    bytes(&list)
}

struct Switch {
    world: World<SwitchDevice>,
    stream: usize,
    config: crate::proto::ForwardingPipelineConfig,
}

/// Switch with a program and an object of each kind, and its primary controller.
fn switch(file: &ProgramFile) -> Switch {
    let config = SwitchConfig { ports: 511, cpu_port: Some(510), ..SwitchConfig::default() };
    let mut device = SwitchDevice::new(config);
    let mut server = Server::new(1);
    let p4info = file.p4info.as_deref().expect("source has P4Info");
    let config = pipeline_config(&file.json, p4info.as_bytes()).unwrap();
    server.install(&mut device, config.clone()).unwrap();
    files::commands::apply(device.switch().unwrap(), ENTRIES).unwrap_or_else(|error| panic!("{error}"));
    server.import(&mut device);
    let mut world = World { server, device, clients: Vec::new() };
    world.controller();
    let stream = world.open(0);
    world.arbitrate(0, stream, 1);
    Switch { world, stream, config }
}

/// Wildcard reads of all entities; requests and answers are the seeds of the mutations.
fn wildcards(file: &ProgramFile) -> Vec<Kind> {
    let info = belljar_p4info::proto::P4Info::from_text(file.p4info.as_deref().unwrap()).unwrap();
    let mut kinds = vec![
        Kind::TableEntry(Box::default()),
        Kind::ActionProfileMember(Default::default()),
        Kind::ActionProfileGroup(Default::default()),
        Kind::MeterEntry(Default::default()),
        Kind::CounterEntry(Default::default()),
        Kind::DirectCounterEntry(Box::new(DirectCounterEntry {
            table_entry: Some(Default::default()),
            data: None,
        })),
        Kind::DirectMeterEntry(Box::new(DirectMeterEntry {
            table_entry: Some(Default::default()),
            ..Default::default()
        })),
        Kind::RegisterEntry(Default::default()),
        Kind::ValueSetEntry(Default::default()),
    ];
    for kind in 1..=2u8 {
        // An empty group or session selects all.
        let engine = crate::proto::PacketReplicationEngineEntry::decode(&[kind << 3 | 2, 0][..]).unwrap();
        kinds.push(Kind::PacketReplicationEngineEntry(engine));
    }
    for digest in &info.digests {
        let digest_id = digest.preamble.as_ref().unwrap().id;
        let config = DigestConfig { max_timeout_ns: 1_000, max_list_size: 2, ack_timeout_ns: 1_000 };
        kinds.push(Kind::DigestEntry(DigestEntry { digest_id, config: Some(config) }));
    }
    kinds
}

fn damaged(message: &[u8], other: &[u8], draw: &mut Draw) -> Vec<u8> {
    let mut message = message.to_vec();
    for _ in 0..=draw.next(3) {
        message = damage(&message, other, draw);
    }
    message
}

#[test]
fn damaged_requests_are_carried_out_or_refused_and_packets_pass_in_between() {
    let source = include_str!("everything.p4").to_owned();
    let file =
        ProgramFile::of_text(Path::new("everything.p4"), source).unwrap_or_else(|error| panic!("{error}"));
    let wildcards = wildcards(&file);
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    let (mut carried_out, mut refused, mut left) = (0, 0, 0);
    // 80 requests each.
    let switches = std::env::var("BELLJAR_FUZZ_ROUNDS")
        .map_or(30, |rounds| rounds.parse::<usize>().expect("a number").div_ceil(80));
    for _ in 0..switches {
        let mut switch = switch(&file);
        let mut entities = wildcards.clone();
        for kind in &wildcards {
            let (found, status) = switch.world.read_batch(vec![Entity { entity: Some(kind.clone()) }]);
            // Direct resources are read per table.
            let direct = matches!(kind, Kind::DirectCounterEntry(_) | Kind::DirectMeterEntry(_));
            assert!(status.code == 0 || direct, "{kind:?}: {status:?}");
            entities.extend(found);
        }
        assert!(entities.len() > 40, "{} entities", entities.len());
        for round in 0..80 {
            let entity =
                |draw: &mut Draw| Entity { entity: Some(entities[draw.next(entities.len())].clone()) };
            let update = |draw: &mut Draw| Update {
                r#type: [UpdateType::Insert, UpdateType::Modify, UpdateType::Delete][draw.next(3)] as i32,
                entity: Some(entity(draw)),
            };
            let write = WriteRequest {
                device_id: 1,
                election_id: Some(1.into()),
                updates: (0..=draw.next(3)).map(|_| update(&mut draw)).collect(),
                atomicity: [
                    Atomicity::ContinueOnError,
                    Atomicity::RollbackOnError,
                    Atomicity::DataplaneAtomic,
                ][draw.next(3)] as i32,
                ..WriteRequest::default()
            };
            let other = write.encode_to_vec();
            let (method, message) = match draw.next(16) {
                0 => ("Capabilities", CapabilitiesRequest::default().encode_to_vec()),
                1 => {
                    let get = GetForwardingPipelineConfigRequest { device_id: 1, ..Default::default() };
                    ("GetForwardingPipelineConfig", get.encode_to_vec())
                }
                // Loading a program is slow.
                2 if round % 8 == 0 => {
                    let set = SetForwardingPipelineConfigRequest {
                        device_id: 1,
                        election_id: Some(1.into()),
                        action: PipelineAction::VerifyAndCommit as i32,
                        config: Some(switch.config.clone()),
                        ..Default::default()
                    };
                    ("SetForwardingPipelineConfig", set.encode_to_vec())
                }
                2..5 => {
                    let read =
                        ReadRequest { device_id: 1, entities: vec![entity(&mut draw)], ..Default::default() };
                    ("Read", read.encode_to_vec())
                }
                5..8 => {
                    let said = match draw.next(3) {
                        0 => Said::Arbitration(MasterArbitrationUpdate {
                            device_id: 1,
                            election_id: Some(1.into()),
                            ..Default::default()
                        }),
                        1 => Said::Packet(PacketOut { payload: vec![1; 14], metadata: Vec::new() }),
                        _ => Said::DigestAck(DigestListAck::default()),
                    };
                    ("StreamChannel", StreamMessageRequest { update: Some(said) }.encode_to_vec())
                }
                _ => ("Write", other.clone()),
            };
            let message = damaged(&message, &other, &mut draw);
            let framed = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
            let world = &mut switch.world;
            // Separate streams, so that the primary's stays open.
            let client = world.client(0);
            let call = client.call(method);
            client.send_raw(call, &framed);
            client.half_close(call);
            world.run();
            let status =
                world.client(0).status(call).unwrap_or_else(|| panic!("{method} {message:?} has no end"));
            match status.code {
                0 => carried_out += 1,
                _ => refused += 1,
            }
            let now = SimTime::from_nanos(round as u64 * 1_000);
            let packet = [
                draw.next(4) as u8,
                0,
                draw.next(10) as u8,
                10,
                draw.next(2) as u8,
                0,
                1,
                0,
                0,
                0,
                0,
                0,
                2,
                9,
                0,
                0,
            ];
            world.device.receive(now, [0, 1, 510][draw.next(3)], packet.to_vec());
            left += std::iter::from_fn(|| world.device.poll(now)).count();
            world.server.tell_notifications(&mut world.device, round as u64);
            world.run();
        }
        // The server remains usable: the program, an entry, and reading it back.
        let set = SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(u128::MAX.into()),
            action: PipelineAction::VerifyAndCommit as i32,
            config: Some(switch.config.clone()),
            ..Default::default()
        };
        let world = &mut switch.world;
        world.arbitrate(0, switch.stream, u128::MAX);
        world
            .call::<crate::proto::SetForwardingPipelineConfigResponse>(0, "SetForwardingPipelineConfig", &set)
            .unwrap();
        let entry = entities.iter().find(|kind| matches!(kind, Kind::TableEntry(entry) if entry.table_id != 0 && !entry.r#match.is_empty() && !entry.is_const));
        let update =
            Update { r#type: UpdateType::Insert as i32, entity: Some(Entity { entity: entry.cloned() }) };
        let write = WriteRequest {
            device_id: 1,
            election_id: Some(u128::MAX.into()),
            updates: vec![update],
            ..Default::default()
        };
        world
            .call::<crate::proto::WriteResponse>(0, "Write", &write)
            .unwrap_or_else(|status| panic!("{status:?}"));
    }
    assert!(
        carried_out > 300 && refused > 300 && left > 100,
        "{carried_out} carried out, {refused} refused, {left} packets"
    );
}
