//! Entities other than table entries.

use super::World;
use super::builders::*;
use crate::pipeline::{Copy, Key, Share};
use crate::proto::entity::Entity as Kind;
use crate::proto::packet_replication_engine_entry::Type;
use crate::proto::{
    ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember, CloneSessionEntry,
    CounterData, CounterEntry, DigestConfig, DigestEntry, GroupMember, Index, MeterConfig, MeterEntry,
    MulticastGroupEntry, P4Data, PacketReplicationEngineEntry, PortKind, RegisterEntry, Replica, TableAction,
    TableEntry, ValueSetEntry, ValueSetMember, WatchKind, table_action,
};

fn member(member_id: u32, port: u8) -> Kind {
    Kind::ActionProfileMember(ActionProfileMember {
        action_profile_id: SELECTOR,
        member_id,
        action: Some(forward(port)),
    })
}

fn group(group_id: u32, members: &[(u32, i32)]) -> Kind {
    let members = members.iter().map(|(member_id, weight)| GroupMember {
        member_id: *member_id,
        weight: *weight,
        watch_kind: (*member_id == 2).then(|| WatchKind::WatchPort(vec![9])),
    });
    Kind::ActionProfileGroup(ActionProfileGroup {
        action_profile_id: SELECTOR,
        group_id,
        members: members.collect(),
        max_size: 0,
    })
}

fn ecmp(dst: u8, kind: table_action::Type) -> Kind {
    table(TableEntry {
        table_id: ECMP,
        r#match: vec![exact(1, &[dst])],
        action: Some(TableAction { r#type: Some(kind) }),
        ..TableEntry::default()
    })
}

#[test]
fn members_and_groups_hold_each_other() {
    let mut world = World::new();
    for update in [insert(member(1, 1)), insert(member(2, 2)), insert(group(1, &[(1, 1), (2, 3)]))] {
        world.write(update).unwrap();
    }
    let by_group = |dst| ecmp(dst, table_action::Type::ActionProfileGroupId(1));
    let by_member = |dst| ecmp(dst, table_action::Type::ActionProfileMemberId(2));
    world.write(insert(by_group(1))).unwrap();
    world.write(insert(by_member(2))).unwrap();
    let shares: Vec<Share> = world.model().groups.values().flatten().cloned().collect();
    assert_eq!(
        shares.iter().map(|share| (share.weight, share.watch_port)).collect::<Vec<_>>(),
        [(1, None), (3, Some(9))]
    );
    let wildcard = |profile| {
        Kind::ActionProfileMember(ActionProfileMember {
            action_profile_id: profile,
            ..ActionProfileMember::default()
        })
    };
    assert_eq!(world.read(wildcard(0)).unwrap(), [member(1, 1), member(2, 2)]);
    assert_eq!(world.read(wildcard(SELECTOR)).unwrap().len(), 2);
    assert_eq!(
        world.read(Kind::ActionProfileGroup(ActionProfileGroup::default())).unwrap(),
        [group(1, &[(1, 1), (2, 3)])]
    );
    assert_eq!(world.read(all(ECMP)).unwrap(), [by_group(1), by_member(2)]);

    for (update, code) in [
        (insert(member(1, 1)), 6),
        (modify(member(3, 1)), 5),
        (delete(member(1, 1)), 9),
        (insert(member(0, 1)), 3),
        (
            insert(Kind::ActionProfileMember(ActionProfileMember {
                action_profile_id: SELECTOR,
                member_id: 5,
                action: Some(action(NO_ACTION, &[])),
            })),
            3,
        ),
        (delete(group(1, &[])), 9),
        (insert(group(1, &[])), 6),
        (insert(group(2, &[(7, 1)])), 5),
        (insert(group(2, &[(1, 0)])), 3),
        (insert(group(2, &[(1, 1), (1, 1)])), 3),
        (insert(group(2, &[(1, 9)])), 8),
        (insert(ecmp(3, table_action::Type::ActionProfileMemberId(7))), 5),
        (insert(ecmp(3, table_action::Type::Action(forward(1)))), 3),
        (insert(table(TableEntry { action: by_member_action(), ..route(1, 1) })), 3),
    ] {
        assert_eq!(world.write(update.clone()).unwrap_err().0, code, "{update:?}");
    }
    // References must be deleted first.
    world.write(modify(by_member(1))).unwrap();
    world.write(delete(group(1, &[]))).unwrap();
    world.write(delete(member(1, 1))).unwrap();
    assert_eq!(world.write(delete(member(2, 1))).unwrap_err().0, 9);
    world.write(delete(by_member(1))).unwrap();
    world.write(delete(by_member(2))).unwrap();
    world.write(delete(member(2, 1))).unwrap();
    assert!(world.model().members.is_empty() && world.model().groups.is_empty());
}

fn by_member_action() -> Option<TableAction> {
    Some(TableAction { r#type: Some(table_action::Type::ActionProfileMemberId(2)) })
}

#[test]
fn one_shot_sets_are_read_as_they_were_written() {
    let mut world = World::new();
    let set = |weights: &[i32], watch: Option<u8>| {
        let one = |weight: &i32| ActionProfileAction {
            action: Some(forward(*weight as u8)),
            weight: *weight,
            watch_kind: watch.map(|port| WatchKind::WatchPort(vec![1, port])),
        };
        let set = ActionProfileActionSet {
            action_profile_actions: weights.iter().map(one).collect(),
            ..ActionProfileActionSet::default()
        };
        ecmp(1, table_action::Type::ActionProfileActionSet(set))
    };
    world.write(insert(set(&[1, 2], None))).unwrap();
    assert_eq!(world.read(all(ECMP)).unwrap(), [set(&[1, 2], None)]);
    assert_eq!((world.model().members.len(), world.model().groups.len()), (2, 1));
    world.write(modify(set(&[3], Some(1)))).unwrap();
    assert_eq!((world.model().members.len(), world.model().groups.len()), (1, 1));
    // One-shot members and groups are not visible to controllers.
    assert_eq!(world.read(Kind::ActionProfileMember(ActionProfileMember::default())).unwrap(), []);
    // The switch rejects the group, and no part of it remains.
    assert_eq!(world.write(modify(set(&[1, 1, 1], Some(0xff)))).unwrap_err().0, 3);
    assert_eq!(world.write(modify(set(&[9], None))).unwrap_err().0, 3);
    assert_eq!((world.model().members.len(), world.model().groups.len()), (1, 1));
    assert_eq!(world.read(all(ECMP)).unwrap(), [set(&[3], Some(1))]);
    world.write(delete(set(&[], None))).unwrap();
    assert_eq!((world.model().members.len(), world.model().groups.len()), (0, 0));
}

fn at(index: i64) -> Option<Index> {
    Some(Index { index })
}

#[test]
fn counters_meters_and_registers_are_arrays() {
    let mut world = World::new();
    let counter = |index, count: Option<i64>| {
        let data = count.map(|count| CounterData { byte_count: 10 * count, packet_count: count });
        Kind::CounterEntry(CounterEntry { counter_id: 0x1200_0001, index, data })
    };
    world.write(modify(counter(at(1), Some(5)))).unwrap();
    let counts =
        [0, 5, 0, 0].into_iter().enumerate().map(|(index, count)| counter(at(index as i64), Some(count)));
    assert_eq!(world.read(counter(None, None)).unwrap(), counts.collect::<Vec<_>>());
    world.write(modify(counter(None, Some(2)))).unwrap();
    assert_eq!(world.read(counter(at(3), None)).unwrap(), [counter(at(3), Some(2))]);
    assert_eq!(world.read(Kind::CounterEntry(CounterEntry::default())).unwrap().len(), 4);
    for (update, code) in [
        (insert(counter(at(1), Some(1))), 3),
        (modify(counter(at(4), Some(1))), 11),
        (modify(counter(at(-1), Some(1))), 3),
        (modify(counter(at(1), Some(-1))), 3),
        (modify(Kind::CounterEntry(CounterEntry { counter_id: 1, ..CounterEntry::default() })), 5),
    ] {
        assert_eq!(world.write(update.clone()).unwrap_err().0, code, "{update:?}");
    }

    let meter = |index, cir: Option<i64>| {
        let config = cir.map(|cir| MeterConfig { cir, cburst: 2, pir: 30, pburst: 4, eburst: 0 });
        Kind::MeterEntry(MeterEntry { meter_id: 0x1400_0001, index, config, counter_data: None })
    };
    world.write(modify(meter(at(2), Some(20)))).unwrap();
    assert_eq!(
        world.read(meter(None, None)).unwrap(),
        [meter(at(0), None), meter(at(1), None), meter(at(2), Some(20))]
    );
    assert_eq!(world.write(modify(meter(at(2), Some(31)))).unwrap_err().0, 3);
    world.write(modify(meter(None, None))).unwrap();
    assert_eq!(world.read(meter(at(2), None)).unwrap(), [meter(at(2), None)]);

    let register = |register_id, index, value: Option<&[u8]>| {
        Kind::RegisterEntry(RegisterEntry {
            register_id,
            index,
            data: value.map(|value| P4Data::bitstring(value.to_vec())),
        })
    };
    let (state, balance) = (0x1600_0001, 0x1600_0002);
    world.write(modify(register(state, at(4), Some(&[0, 1, 2])))).unwrap();
    assert_eq!(world.read(register(state, at(4), None)).unwrap(), [register(state, at(4), Some(&[1, 2]))]);
    world.write(modify(register(balance, None, Some(&[0xff])))).unwrap();
    assert_eq!(world.model().registers[&("c.balance".to_string(), 1)], [0xf, 0xff]);
    assert_eq!(
        world.read(register(balance, at(0), None)).unwrap(),
        [register(balance, at(0), Some(&[0xff]))]
    );
    assert_eq!(world.read(register(0, None, None)).unwrap().len(), 7);
    for (update, code) in [
        (modify(register(state, at(5), Some(&[1]))), 11),
        (modify(register(state, at(0), Some(&[1, 0, 0]))), 11),
        (modify(register(state, at(0), None)), 3),
        (modify(register(balance, at(0), Some(&[0x0f, 0xff]))), 11),
        (insert(register(state, at(0), Some(&[1]))), 3),
    ] {
        assert_eq!(world.write(update.clone()).unwrap_err().0, code, "{update:?}");
    }
}

#[test]
fn multicast_groups_and_clone_sessions() {
    let mut world = World::new();
    let entry =
        |kind| Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(kind) });
    let replicas = |ports: &[u8]| -> Vec<Replica> {
        let one = |port: &u8| Replica {
            port_kind: Some(PortKind::Port(vec![*port])),
            instance: 1,
            ..Replica::default()
        };
        ports.iter().map(one).collect()
    };
    let multicast = |multicast_group_id, ports: &[u8]| {
        entry(Type::MulticastGroupEntry(MulticastGroupEntry {
            multicast_group_id,
            replicas: replicas(ports),
            metadata: vec![7],
        }))
    };
    let clone = |session_id, ports: &[u8]| {
        entry(Type::CloneSessionEntry(CloneSessionEntry {
            session_id,
            replicas: replicas(ports),
            class_of_service: 0,
            packet_length_bytes: 64,
        }))
    };
    for update in [
        insert(multicast(1, &[1, 2])),
        insert(multicast(2, &[])),
        insert(clone(5, &[3])),
        modify(multicast(1, &[4])),
    ] {
        world.write(update).unwrap();
    }
    assert_eq!(world.model().multicast_groups[&1], [Copy { port: 4, instance: 1 }]);
    assert_eq!(world.model().clone_sessions[&5], (vec![Copy { port: 3, instance: 1 }], 64));
    assert_eq!(
        world.read(entry(Type::MulticastGroupEntry(Default::default()))).unwrap(),
        [multicast(1, &[4]), multicast(2, &[])]
    );
    assert_eq!(world.read(clone(5, &[])).unwrap(), [clone(5, &[3])]);
    assert_eq!(world.read(clone(6, &[])), Err(5));
    for (update, code) in [
        (insert(multicast(1, &[])), 6),
        (insert(multicast(0, &[])), 3),
        (insert(multicast(3, &[1, 1])), 3),
        (modify(clone(6, &[])), 5),
    ] {
        assert_eq!(world.write(update.clone()).unwrap_err().0, code, "{update:?}");
    }
    world.write(delete(multicast(1, &[]))).unwrap();
    world.write(delete(clone(5, &[]))).unwrap();
    assert_eq!((world.model().multicast_groups.len(), world.model().clone_sessions.len()), (1, 0));
}

#[test]
fn value_sets_and_digest_settings() {
    let mut world = World::new();
    let set = |ports: &[u8]| {
        let members = ports.iter().map(|port| ValueSetMember { r#match: vec![exact(1, &[*port])] });
        Kind::ValueSetEntry(ValueSetEntry { value_set_id: 0x0300_0001, members: members.collect() })
    };
    assert_eq!(world.read(Kind::ValueSetEntry(ValueSetEntry::default())).unwrap(), [set(&[])]);
    world.write(modify(set(&[1, 2]))).unwrap();
    assert_eq!(world.read(set(&[])).unwrap(), [set(&[1, 2])]);
    assert_eq!(world.model().value_sets["p.ports"], [[Key::Exact(vec![1])], [Key::Exact(vec![2])]]);
    for (update, code) in [
        (modify(set(&[1, 2, 3])), 8),
        (modify(set(&[1, 1])), 6),
        (insert(set(&[1])), 3),
        (delete(set(&[1])), 3),
    ] {
        assert_eq!(world.write(update.clone()).unwrap_err().0, code, "{update:?}");
    }

    let digest = |max_list_size| {
        let config = DigestConfig { max_timeout_ns: 0, max_list_size, ack_timeout_ns: 0 };
        Kind::DigestEntry(DigestEntry { digest_id: 0x1700_0001, config: Some(config) })
    };
    assert_eq!(world.write(modify(digest(1))).unwrap_err().0, 5);
    world.write(insert(digest(1))).unwrap();
    assert_eq!(world.write(insert(digest(1))).unwrap_err().0, 6);
    world.write(modify(digest(2))).unwrap();
    assert_eq!(world.read(Kind::DigestEntry(DigestEntry::default())).unwrap(), [digest(2)]);
    world.write(delete(digest(0))).unwrap();
    assert_eq!(world.read(Kind::DigestEntry(DigestEntry::default())).unwrap(), []);
}
