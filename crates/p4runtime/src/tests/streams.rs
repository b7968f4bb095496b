//! Streams: arbitration, packets, digests and idle timeouts.

use super::World;
use super::builders::*;
use crate::pipeline::Gathering;
use crate::proto::entity::Entity as Kind;
use crate::proto::p4_data::Data;
use crate::proto::stream_message_request::Update as Say;
use crate::proto::stream_message_response::Update as Told;
use crate::proto::{
    Any, DigestConfig, DigestEntry, DigestListAck, MasterArbitrationUpdate, PacketIn, PacketMetadata,
    PacketOut, TableEntry, Uint128,
};

fn metadata(values: &[&[u8]]) -> Vec<PacketMetadata> {
    values
        .iter()
        .enumerate()
        .map(|(at, value)| PacketMetadata { metadata_id: at as u32 + 1, value: value.to_vec() })
        .collect()
}

/// Status code and election id of each arbitration update.
fn codes(told: &[Told]) -> Vec<(i32, u64)> {
    let one = |told: &Told| match told {
        Told::Arbitration(update) => {
            (update.status.as_ref().unwrap().code, update.election_id.map_or(0, |id| id.low))
        }
        other => panic!("{other:?}"),
    };
    told.iter().map(one).collect()
}

#[test]
fn a_second_controller_takes_over() {
    let mut world = World::new();
    assert_eq!(codes(&world.told(0, 0)), [(0, 1)]);
    world.controller();
    let stream = world.open(1);
    world.arbitrate(1, stream, 5);
    assert_eq!(codes(&world.told(0, 0)), [(6, 5)]);
    assert_eq!(codes(&world.told(1, stream)), [(0, 5)]);
    // Writes of the former primary are rejected from now on.
    let status = world.write_batch(vec![], crate::proto::Atomicity::ContinueOnError).unwrap_err();
    assert_eq!(status.code, 7);
    world.disconnect(1);
    assert_eq!(codes(&world.told(0, 0)), [(5, 5)]);
    world.arbitrate(0, 0, 6);
    assert_eq!(codes(&world.told(0, 0)), [(0, 6)]);
}

#[test]
fn a_stream_ends_with_an_error_of_arbitration() {
    let mut world = World::new();
    world.controller();
    let stream = world.open(1);
    world.arbitrate(1, stream, 1);
    let status = world.client(1).status(stream).unwrap().clone();
    assert_eq!((status.code, status.message.as_str()), (3, "another controller has this election id"));
    let stream = world.open(1);
    let update = MasterArbitrationUpdate {
        device_id: 9,
        election_id: Some(Uint128 { high: 1, low: 1 }),
        ..MasterArbitrationUpdate::default()
    };
    world.say(1, stream, Say::Arbitration(update));
    assert_eq!(world.client(1).status(stream).unwrap().code, 5);
    // A stream closed by its controller ends with OK, and its session ends.
    world.client(0).half_close(0);
    world.run();
    assert_eq!(world.client(0).status(0).unwrap().code, 0);
    assert_eq!(world.write_batch(vec![], crate::proto::Atomicity::ContinueOnError).unwrap_err().code, 7);
}

#[test]
fn packets_go_out_and_in_with_their_headers() {
    let mut world = World::new();
    world.told(0, 0);
    let packet = PacketOut { payload: vec![0xaa, 0xbb], metadata: metadata(&[&[1], &[0]]) };
    world.say(0, 0, Say::Packet(packet.clone()));
    assert_eq!(world.device.packets, [[0, 0x80, 0xaa, 0xbb]]);
    assert_eq!(world.told(0, 0), []);

    world.server.packet_in(&[0xff, 0x83, 1, 2, 3]);
    world.run();
    let packet_in = PacketIn { payload: vec![1, 2, 3], metadata: metadata(&[&[1, 0xff], &[3]]) };
    assert_eq!(world.told(0, 0), [Told::Packet(packet_in)]);
    world.server.packet_in(&[1]);
    world.run();
    assert_eq!(world.told(0, 0), []);

    // Errors contain the message that caused them.
    let wrong = PacketOut { metadata: metadata(&[&[1]]), ..packet.clone() };
    world.say(0, 0, Say::Packet(wrong.clone()));
    world.say(0, 0, Say::DigestAck(DigestListAck { digest_id: 3, list_id: 1 }));
    world.say(0, 0, Say::Other(Any::default()));
    world.controller();
    let backup = world.open(1);
    world.say(1, backup, Say::Packet(packet));
    let errors: Vec<_> = [world.told(0, 0), world.told(1, backup)].concat();
    let codes: Vec<_> = errors
        .iter()
        .map(|told| if let Told::Error(error) = told { error.canonical_code } else { panic!("{told:?}") })
        .collect();
    assert_eq!(codes, [3, 3, 12, 7]);
    let Told::Error(error) = &errors[0] else { panic!("{errors:?}") };
    assert_eq!(error.message, "field 'pad' of packet_out must be given once");
    let details = crate::proto::PacketOutError { packet_out: Some(wrong) };
    assert_eq!(error.details, Some(crate::proto::stream_error::Details::PacketOut(details)));
    assert_eq!(world.device.packets.len(), 1);
}

#[test]
fn digests_are_told_once_they_are_enabled() {
    let mut world = World::new();
    world.told(0, 0);
    let fields = |port: u8| vec![vec![2, 0, 0, 0, 0, port], vec![0, port], vec![1]];
    world.server.digest("learn", 1, vec![fields(1)], 1_000);
    world.run();
    assert_eq!(world.told(0, 0), [], "it is not enabled");
    let config = DigestConfig { max_timeout_ns: 1_000, max_list_size: 2, ack_timeout_ns: 10_000 };
    world
        .write(insert(Kind::DigestEntry(DigestEntry { digest_id: 0x1700_0001, config: Some(config) })))
        .unwrap();
    assert_eq!(world.model().digests["learn"], Gathering { size: 2, wait: 1_000, silence: 10_000 });
    world.server.digest("learn", 8, vec![fields(1), fields(2), fields(1)], 2_000);
    world.server.digest("unknown", 8, vec![fields(1)], 2_000);
    world.run();
    let told = world.told(0, 0);
    let [Told::Digest(list)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((list.digest_id, list.list_id, list.data.len(), list.timestamp), (0x1700_0001, 8, 2, 2_000));
    let Some(Data::Struct(members)) = &list.data[1].data else { panic!("{list:?}") };
    let values: Vec<_> = members.members.iter().map(|member| member.data.clone().unwrap()).collect();
    assert_eq!(values, [Data::Bitstring(vec![2, 0, 0, 0, 0, 2]), Data::Bitstring(vec![2]), Data::Bool(true)]);
    world.say(0, 0, Say::DigestAck(DigestListAck { digest_id: 0x1700_0001, list_id: 8 }));
    assert_eq!(world.model().acknowledged, [("learn".to_string(), 8)]);
}

#[test]
fn idle_entries_are_told_of() {
    let mut world = World::new();
    world.told(0, 0);
    let entry = TableEntry { idle_timeout_ns: 500, metadata: vec![1], ..rule(1, 5) };
    world.write(insert(table(entry.clone()))).unwrap();
    let handle = world.model().last_handle;
    world.server.idle_timeouts("c.acl", &[handle, 77], &mut world.device, 9_000);
    world.server.idle_timeouts("c.acl", &[77], &mut world.device, 9_000);
    world.run();
    let told = world.told(0, 0);
    let [Told::IdleTimeoutNotification(notification)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(notification.timestamp, 9_000);
    assert_eq!(notification.table_entry, [TableEntry { action: None, ..entry }]);
}

#[test]
fn a_controller_that_does_not_read_loses_packets_only() {
    let mut world = World::new();
    world.client(0).pause(0, true);
    for _ in 0..20_000 {
        world.server.packet_in(&[0; 1_500]);
        world.server.poll(&mut world.device);
    }
    world.write(insert(table(route(1, 1)))).unwrap();
    world.client(0).pause(0, false);
    world.run();
    let packets = world.told(0, 0).len();
    assert!((1_000..15_000).contains(&packets), "{packets}");
}
