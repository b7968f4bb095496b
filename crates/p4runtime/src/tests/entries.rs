//! Table entries.

use super::World;
use super::builders::*;
use crate::pipeline::{Key, Rates, Target};
use crate::proto::{
    CounterData, DirectCounterEntry, DirectMeterEntry, IdleTimeout, MeterConfig, TableEntry, entity,
};

#[test]
fn what_is_read_is_what_was_written() {
    let mut world = World::new();
    let entry = TableEntry { metadata: vec![1, 2], controller_metadata: 3, ..route(1, 5) };
    world.write(insert(table(entry.clone()))).unwrap();
    assert_eq!(world.read(all(ROUTE)).unwrap(), [table(entry.clone())]);
    let inserted = world.model().entries.values().find(|entry| entry.keys.len() == 2).unwrap().clone();
    assert_eq!(inserted.keys, [Key::Lpm { value: vec![10, 0, 1, 0], length: 24 }, Key::Exact(vec![1])]);
    let Target::Action(call) = &inserted.target else { panic!("{inserted:?}") };
    assert_eq!(
        (call.action.as_str(), &call.arguments[..]),
        ("c.forward", &[vec![5], vec![2, 0, 0, 0, 0, 5]][..])
    );

    // The same key with leading zeros and reordered fields.
    let same =
        TableEntry { r#match: vec![exact(2, &[0, 0, 1]), lpm(1, &[0, 10, 0, 1, 0], 24)], ..route(1, 6) };
    assert_eq!(world.write(insert(table(same.clone()))).unwrap_err().0, 6);
    world.write(modify(table(same))).unwrap();
    assert_eq!(world.read(all(ROUTE)).unwrap(), [table(route(1, 6))]);
    // A modification without an action keeps the action.
    let metadata = TableEntry { metadata: vec![9], action: None, ..route(1, 0) };
    world.write(modify(table(metadata))).unwrap();
    assert_eq!(world.read(all(ROUTE)).unwrap(), [table(TableEntry { metadata: vec![9], ..route(1, 6) })]);

    world.write(delete(table(TableEntry { action: None, ..route(1, 0) }))).unwrap();
    assert_eq!(world.write(delete(table(route(1, 0)))).unwrap_err().0, 5);
    assert_eq!(world.write(modify(table(route(1, 0)))).unwrap_err().0, 5);
    assert_eq!(world.read(all(ROUTE)).unwrap(), []);
}

#[test]
fn malformed_entries_are_refused() {
    let mut world = World::new();
    let acl = |matches: Vec<_>, priority| TableEntry { r#match: matches, priority, ..rule(0, 1) };
    let route_of = |matches: Vec<_>| TableEntry { r#match: matches, ..route(0, 1) };
    for (entry, code, message) in [
        (TableEntry { table_id: 5, ..route(0, 1) }, 5, "P4Info has no table 0x00000005"),
        (
            route_of(vec![lpm(1, &[10, 0, 0, 0], 24)]),
            3,
            "table 'c.route': field 'vrf' must be given: it is matched exactly",
        ),
        (
            route_of(vec![exact(2, &[0x10, 0])]),
            11,
            "table 'c.route': field 'vrf': the value needs 13 bits; there are 12",
        ),
        (route_of(vec![exact(2, &[])]), 11, "table 'c.route': field 'vrf': an empty string is no value"),
        (route_of(vec![exact(2, &[1]), exact(2, &[1])]), 3, "table 'c.route': field 'vrf' occurs twice"),
        (route_of(vec![exact(2, &[1]), exact(3, &[1])]), 3, "table 'c.route': the key has no field 3"),
        (
            route_of(vec![exact(2, &[1]), lpm(1, &[0], 0)]),
            3,
            "table 'c.route': field 'dst': the prefix is of 0 bits, not 1 to 32",
        ),
        (
            route_of(vec![exact(2, &[1]), lpm(1, &[1], 24)]),
            3,
            "table 'c.route': field 'dst': bits beyond the prefix must be 0",
        ),
        (
            route_of(vec![exact(1, &[1]), exact(2, &[1])]),
            3,
            "table 'c.route': field 'dst': the match is not of the kind that p4info has, lpm",
        ),
        (
            TableEntry { priority: 1, ..route(0, 1) },
            3,
            "entries of table 'c.route' have no priority: it must be 0",
        ),
        (acl(vec![], 0), 3, "entries of table 'c.acl' need a priority above 0"),
        (
            acl(vec![ternary(1, &[0], &[0])], 1),
            3,
            "table 'c.acl': field 'src': a mask of 0 matches anything: leave the field out",
        ),
        (
            acl(vec![ternary(1, &[3], &[1])], 1),
            3,
            "table 'c.acl': field 'src': bits that the mask leaves out must be 0",
        ),
        (
            acl(vec![range(2, &[2], &[1])], 1),
            3,
            "table 'c.acl': field 'port': the range begins after its end",
        ),
        (
            acl(vec![range(2, &[0], &[255, 255])], 1),
            3,
            "table 'c.acl': field 'port': the range holds every value: leave the field out",
        ),
        (TableEntry { action: None, ..route(0, 1) }, 3, "the entry has no action"),
        (
            TableEntry { action: direct(action(NO_ACTION, &[])), ..route(0, 1) },
            7,
            "the action is for the default entry of 'c.route' only",
        ),
        (
            TableEntry { action: direct(action(7, &[])), ..route(0, 1) },
            3,
            "table 'c.route' has no action 0x00000007",
        ),
        (
            TableEntry { action: direct(action(FORWARD, &[&[1]])), ..route(0, 1) },
            3,
            "action 'c.forward': parameter 'mac' must be given once",
        ),
        (
            TableEntry { action: direct(action(FORWARD, &[&[2, 0], &[1]])), ..route(0, 1) },
            3,
            "action 'c.forward': parameter 'port': the value needs 10 bits; there are 9",
        ),
        (
            TableEntry { counter_data: Some(CounterData::default()), ..route(0, 1) },
            3,
            "table 'c.route' has no direct counter",
        ),
        (
            TableEntry { idle_timeout_ns: 1, ..route(0, 1) },
            3,
            "idle_timeout_ns must be set to 0 for tables which do not support idle timeout",
        ),
        (
            TableEntry { time_since_last_hit: Some(IdleTimeout::default()), ..route(0, 1) },
            3,
            "has_time_since_last_hit must not be set in WriteRequest",
        ),
        (TableEntry { is_const: true, ..route(0, 1) }, 3, "'is_const' is not for controllers to set"),
        (
            TableEntry { table_id: KEYLESS, action: direct(action(DROP, &[])), ..TableEntry::default() },
            3,
            "table 'c.keyless' has no key, so it has no entries",
        ),
    ] {
        assert_eq!(world.write(insert(table(entry))).unwrap_err(), (code, message.to_string()));
    }
    assert_eq!(world.read(all(ROUTE)).unwrap(), []);
}

#[test]
fn entries_are_selected_by_the_fields_of_a_request() {
    let mut world = World::new();
    for (source, priority, metadata) in [(1, 5, 1), (2, 5, 0), (1, 6, 0)] {
        world
            .write(insert(table(TableEntry { metadata: vec![metadata], ..rule(source, priority) })))
            .unwrap();
    }
    world.write(insert(table(route(1, 1)))).unwrap();
    let everything = TableEntry { table_id: ACL, ..TableEntry::default() };
    for (request, count) in [
        (TableEntry::default(), 6),
        (everything.clone(), 3),
        (TableEntry { priority: 5, ..everything.clone() }, 2),
        (TableEntry { metadata: vec![0], ..everything.clone() }, 2),
        (TableEntry { r#match: rule(1, 0).r#match, ..everything.clone() }, 2),
        (TableEntry { r#match: rule(1, 0).r#match, priority: 6, ..everything.clone() }, 1),
        (TableEntry { r#match: rule(1, 0).r#match, priority: 7, ..everything.clone() }, 0),
        (TableEntry { action: direct(action(NO_ACTION, &[])), ..everything.clone() }, 0),
        (TableEntry { action: direct(action(FORWARD, &[])), ..everything.clone() }, 3),
        (TableEntry { is_default_action: true, ..TableEntry::default() }, 6),
    ] {
        assert_eq!(world.read(table(request.clone())).unwrap().len(), count, "{request:?}");
    }
    assert_eq!(world.read(all(77)), Err(5));
}

#[test]
fn direct_resources_belong_to_their_entries() {
    let mut world = World::new();
    let data = CounterData { byte_count: 100, packet_count: 2 };
    let config = MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4, eburst: 0 };
    let entry = TableEntry {
        counter_data: Some(data),
        meter_config: Some(config),
        idle_timeout_ns: 7_000,
        ..rule(1, 5)
    };
    world.write(insert(table(entry.clone()))).unwrap();
    assert_eq!(world.model().timeouts.values().copied().collect::<Vec<_>>(), [7_000]);
    let request = TableEntry {
        table_id: ACL,
        counter_data: Some(CounterData::default()),
        meter_config: Some(MeterConfig::default()),
        time_since_last_hit: Some(IdleTimeout::default()),
        ..TableEntry::default()
    };
    let read = TableEntry { time_since_last_hit: Some(IdleTimeout { elapsed_ns: 500 }), ..entry.clone() };
    assert_eq!(world.read(table(request.clone())).unwrap(), [table(read)]);
    // Resources that are not requested are not returned.
    let plain = TableEntry { counter_data: None, meter_config: None, ..entry.clone() };
    assert_eq!(world.read(all(ACL)).unwrap(), [table(plain.clone())]);

    let key = || Some(TableEntry { action: None, ..rule(1, 5) });
    let counter =
        |data| entity::Entity::DirectCounterEntry(Box::new(DirectCounterEntry { table_entry: key(), data }));
    let meter = |config| {
        entity::Entity::DirectMeterEntry(Box::new(DirectMeterEntry {
            table_entry: key(),
            config,
            counter_data: None,
        }))
    };
    assert_eq!(world.read(counter(None)).unwrap(), [counter(Some(data))]);
    assert_eq!(world.read(meter(None)).unwrap(), [meter(Some(config))]);
    let more = CounterData { byte_count: 1, packet_count: 1 };
    world.write(modify(counter(Some(more)))).unwrap();
    assert_eq!(world.read(counter(None)).unwrap(), [counter(Some(more))]);
    assert_eq!(world.write(insert(counter(Some(more)))).unwrap_err().0, 3);
    // A modification without a meter resets the meter, but not the counter.
    world.write(modify(table(plain))).unwrap();
    assert_eq!(world.read(meter(None)).unwrap(), [meter(None)]);
    assert_eq!(world.read(counter(None)).unwrap(), [counter(Some(more))]);
    world.write(modify(meter(Some(config)))).unwrap();
    assert_eq!(
        world.model().meters.values().copied().collect::<Vec<_>>(),
        [Rates { committed: 1, committed_burst: 2, peak: 3, peak_burst: 4 }]
    );
    let wrong = MeterConfig { cir: 4, ..config };
    assert_eq!(world.write(modify(meter(Some(wrong)))).unwrap_err().0, 3);

    let missing = TableEntry { priority: 99, ..rule(1, 1) };
    let missing = entity::Entity::DirectCounterEntry(Box::new(DirectCounterEntry {
        table_entry: Some(missing),
        data: None,
    }));
    assert_eq!(world.read(missing), Err(5));
}

#[test]
fn default_entries_are_modified_and_reset() {
    let mut world = World::new();
    let default =
        |table_id, action| TableEntry { table_id, action, is_default_action: true, ..TableEntry::default() };
    let request = table(default(ROUTE, None));
    assert_eq!(world.read(request.clone()).unwrap(), [table(default(ROUTE, direct(action(NO_ACTION, &[]))))]);
    let entry = TableEntry { metadata: vec![5], ..default(ROUTE, direct(forward(3))) };
    world.write(modify(table(entry.clone()))).unwrap();
    assert_eq!(world.read(request.clone()).unwrap(), [table(entry.clone())]);
    assert_eq!(world.model().defaults["c.route"].action, "c.forward");
    world.write(modify(request.clone())).unwrap();
    assert_eq!(world.read(request).unwrap(), [table(default(ROUTE, direct(action(NO_ACTION, &[]))))]);

    for (update, code) in [
        (insert(table(entry.clone())), 3),
        (delete(table(entry.clone())), 3),
        (modify(table(TableEntry { priority: 1, ..entry.clone() })), 3),
        (modify(table(default(ROUTE, direct(action(DROP, &[]))))), 7),
        (modify(table(default(ACL, direct(forward(1))))), 7),
        (modify(table(default(ECMP, direct(forward(1))))), 3),
    ] {
        assert_eq!(world.write(update.clone()).unwrap_err().0, code, "{update:?}");
    }
    let constant = world.read(table(default(ACL, None))).unwrap();
    assert_eq!(
        constant,
        [table(TableEntry { is_const: true, ..default(ACL, direct(action(NO_ACTION, &[]))) })]
    );
}

#[test]
fn entries_of_the_source_are_there_and_constant_ones_stay() {
    let mut world = World::new();
    let entry = |table_id, is_const| TableEntry {
        table_id,
        r#match: vec![exact(1, &[7])],
        action: direct(action(DROP, &[])),
        is_const,
        ..TableEntry::default()
    };
    assert_eq!(world.read(all(CONSTANT)).unwrap(), [table(entry(CONSTANT, true))]);
    assert_eq!(world.read(all(INITIAL)).unwrap(), [table(entry(INITIAL, false))]);
    for update in [
        insert(table(entry(CONSTANT, false))),
        modify(table(entry(CONSTANT, false))),
        delete(table(entry(CONSTANT, false))),
    ] {
        assert_eq!(world.write(update).unwrap_err().0, 7);
    }
    world.write(delete(table(entry(INITIAL, false)))).unwrap();
    world.write(insert(table(entry(INITIAL, false)))).unwrap();
}

#[test]
fn a_full_table_refuses_and_many_entries_are_read() {
    let mut world = World::new();
    for vrf in 0..1_000_u16 {
        let matches = vec![lpm(1, &[10, 0, 0, 0], 8), exact(2, &vrf.to_be_bytes())];
        world.write(insert(table(TableEntry { r#match: matches, ..route(0, 1) }))).unwrap();
    }
    let (code, message) = world.write(insert(table(route(1, 1)))).unwrap_err();
    assert_eq!((code, message.as_str()), (8, "the table is full"));
    assert_eq!(world.read(all(ROUTE)).unwrap().len(), 1_000);
}

#[test]
fn every_kind_of_match_is_kept() {
    let mut world = World::new();
    let matches = vec![ternary(1, &[1, 0], &[1, 0xff]), range(2, &[0], &[3, 0xff]), optional(3, &[7])];
    let entry = TableEntry { r#match: matches, ..rule(0, 9) };
    world.write(insert(table(entry.clone()))).unwrap();
    assert_eq!(world.read(all(ACL)).unwrap(), [table(entry)]);
    let keys = [
        Key::Ternary { value: vec![1, 0], mask: vec![1, 0xff] },
        Key::Range { low: vec![0], high: vec![3, 0xff] },
        Key::Optional(Some(vec![7])),
    ];
    assert!(world.model().entries.values().any(|entry| entry.keys == keys && entry.priority == 9));

    // Omitted fields match any value.
    world.write(insert(table(TableEntry { r#match: vec![], ..rule(0, 8) }))).unwrap();
    let any = [
        Key::Ternary { value: vec![0], mask: vec![0] },
        Key::Range { low: vec![0], high: vec![0xff, 0xff] },
        Key::Optional(None),
    ];
    assert!(world.model().entries.values().any(|entry| entry.keys == any));
}
