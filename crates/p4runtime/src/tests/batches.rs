//! Batches and the permission to write them.

use super::builders::*;
use super::{World, details};
use crate::proto::entity::Entity as Kind;
use crate::proto::{
    ActionProfileMember, Atomicity, CounterData, CounterEntry, Entity, TableEntry, Uint128, Update,
    WriteRequest, WriteResponse,
};

#[test]
fn the_rest_of_a_batch_goes_on_after_an_error() {
    let mut world = World::new();
    let updates = vec![
        insert(table(route(1, 1))),
        insert(table(route(1, 2))),
        insert(table(route(2, 2))),
        Update::default(),
    ];
    let status = world.write_batch(updates, Atomicity::ContinueOnError).unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (2, "2 of 4 updates failed"));
    let details = details(&status);
    assert_eq!(details.iter().map(|error| error.canonical_code).collect::<Vec<_>>(), [0, 6, 0, 3]);
    assert_eq!(details[1].message, "table 'c.route' has an entry with this key");
    assert_eq!(world.read(all(ROUTE)).unwrap().len(), 2);
}

#[test]
fn a_batch_that_fails_can_leave_no_trace() {
    let mut world = World::new();
    let config = |count| {
        Kind::CounterEntry(CounterEntry {
            counter_id: 0x1200_0001,
            index: None,
            data: Some(CounterData { byte_count: 0, packet_count: count }),
        })
    };
    let member = |port| {
        Kind::ActionProfileMember(ActionProfileMember {
            action_profile_id: SELECTOR,
            member_id: 1,
            action: Some(forward(port)),
        })
    };
    let default = |action| {
        table(TableEntry { table_id: ROUTE, action, is_default_action: true, ..TableEntry::default() })
    };
    let counted = |count| TableEntry {
        counter_data: Some(CounterData { byte_count: 1, packet_count: count }),
        ..rule(1, 5)
    };
    for update in
        [insert(table(route(1, 1))), insert(table(counted(7))), insert(member(1)), modify(config(3))]
    {
        world.write(update).unwrap();
    }
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let before = world.device.pipeline.clone().unwrap();
        let everything = everything(&mut world);
        let updates = vec![
            insert(table(route(2, 1))),
            modify(table(route(1, 9))),
            delete(table(rule(1, 5))),
            modify(member(8)),
            modify(config(5)),
            modify(default(direct(forward(4)))),
            insert(table(route(1, 1))),
            insert(table(route(3, 1))),
        ];
        let status = world.write_batch(updates.clone(), atomicity).unwrap_err();
        let codes: Vec<_> = details(&status).iter().map(|error| error.canonical_code).collect();
        assert_eq!(codes, [10, 10, 10, 10, 10, 10, 6, 10]);
        assert_eq!(self::everything(&mut world), everything);
        let after = world.model();
        assert_eq!(
            (after.entries.len(), &after.members, &after.defaults),
            (before.entries.len(), &before.members, &before.defaults)
        );
        // Without the failing update, all updates are executed.
        let good = [&updates[..6], &updates[7..]].concat();
        world.write_batch(good, atomicity).unwrap();
        assert_eq!(world.read(all(ROUTE)).unwrap().len(), 3);
        for update in [
            delete(table(route(2, 1))),
            delete(table(route(3, 1))),
            modify(table(route(1, 1))),
            insert(table(counted(7))),
            modify(member(1)),
            modify(config(3)),
            modify(default(None)),
        ] {
            world.write(update).unwrap();
        }
    }
}

/// All readable entities.
fn everything(world: &mut World) -> Vec<Kind> {
    let entries = TableEntry { counter_data: Some(CounterData::default()), ..TableEntry::default() };
    let requests = [
        table(entries),
        table(TableEntry { is_default_action: true, ..TableEntry::default() }),
        Kind::ActionProfileMember(ActionProfileMember::default()),
        Kind::CounterEntry(CounterEntry::default()),
    ];
    let (found, status) = world.read_batch(requests.map(|entity| Entity { entity: Some(entity) }).to_vec());
    assert_eq!(status.code, 0);
    found
}

#[test]
fn requests_that_fail_are_told_of_after_what_was_found() {
    let mut world = World::new();
    world.write(insert(table(route(1, 1)))).unwrap();
    let (found, status) = world.read_batch(vec![
        Entity { entity: Some(all(ROUTE)) },
        Entity { entity: Some(all(99)) },
        Entity::default(),
        Entity { entity: Some(all(ACL)) },
    ]);
    assert_eq!(found, [table(route(1, 1))]);
    assert_eq!((status.code, status.message.as_str()), (2, "2 of 4 requests failed"));
    assert_eq!(details(&status).iter().map(|error| error.canonical_code).collect::<Vec<_>>(), [0, 5, 3, 0]);
}

#[test]
fn only_the_primary_of_the_device_writes() {
    let mut world = World::new();
    let mut write = |device_id, role: &str, election_id: Option<u128>| {
        let updates = vec![insert(table(route(1, 1)))];
        let election_id = election_id.map(Uint128::from);
        let request = WriteRequest {
            device_id,
            role: role.to_string(),
            election_id,
            updates,
            ..WriteRequest::default()
        };
        world
            .call::<WriteResponse>(0, "Write", &request)
            .map_err(|status| (status.code, status.message, status.details.len()))
    };
    assert_eq!(write(2, "", Some(1)), Err((5, "there is no device 2; this is device 1".to_string(), 0)));
    assert_eq!(write(1, "x", Some(1)), Err((5, "no controller has this role".to_string(), 0)));
    for election in [None, Some(0), Some(2)] {
        assert_eq!(write(1, "", election), Err((7, "not the primary controller".to_string(), 0)));
    }
    assert!(write(1, "", Some(1)).is_ok());

    let mut world = World::empty();
    world.controller();
    let stream = world.open(0);
    world.arbitrate(0, stream, 1);
    let status = world.write_batch(vec![], Atomicity::ContinueOnError).unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (9, "no forwarding pipeline config has been set"));
    let (_, status) = world.read_batch(vec![]);
    assert_eq!(status.code, 9);
}
