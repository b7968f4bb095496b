//! Clones, multicast, resubmission, recirculation, digests, idle entries and queues.

mod common;

use belljar_base::{SimDuration, SimTime};
use belljar_p4::control::{ActionSpec, Entry, KeyMatch};
use belljar_p4::switch::{CloneSession, Drop, QueueLimits, Replica};
use belljar_p4::{Notification, SwitchConfig};
use common::*;
use serde_json::json;

fn config() -> SwitchConfig {
    SwitchConfig::default()
}

#[test]
fn a_group_makes_a_copy_for_each_port_with_its_rid() {
    let mut builder = Builder::new();
    builder.always(0, "cast", vec![assign("standard_metadata", "mcast_grp", hexstr(3))]);
    builder.always(
        1,
        "tell",
        vec![
            assign("ethernet", "src", field("standard_metadata", "egress_rid")),
            assign("ethernet", "dst", field("standard_metadata", "instance_type")),
        ],
    );
    let mut switch = builder.switch(config());
    switch.receive(ms(0), 0, packet([1, 1, 1, 1], 0));
    assert_eq!(ports(&mut switch, ms(0)), [0u16; 0]);
    assert_eq!(switch.dropped(Drop::NoGroup), 1);
    switch.create_multicast_group(3).unwrap();
    let node = switch.create_multicast_node(7, &[5, 2], &[1]);
    switch.set_lag(1, &[8, 9]);
    switch.associate_multicast_node(3, node).unwrap();
    assert!(switch.associate_multicast_node(3, node).is_err());
    switch.set_multicast_group(3, &[Replica { port: 1, instance: 4 }]).unwrap();
    switch.receive(ms(1), 0, packet([1, 1, 1, 1], 0));
    let left = leaving(&mut switch, ms(1));
    let seen: Vec<_> = left.iter().map(|(port, bytes)| (*port, bytes[5], bytes[11])).collect();
    assert_eq!(seen, [(1, 5, 4), (2, 5, 7), (5, 5, 7), (9, 5, 7)]);
}

#[test]
fn a_clone_from_ingress_is_the_packet_as_it_came() {
    let mut builder = Builder::new();
    builder.list("field_lists").push(json!({"id": 1, "name": "keep", "elements": [field("meta", "a")]}));
    builder.always(
        0,
        "clone",
        vec![
            assign("meta", "a", hexstr(0x1234)),
            assign("meta", "b", hexstr(0x5678)),
            call("clone_ingress_pkt_to_egress", json!([hexstr(5), hexstr(1)])),
            assign("ethernet", "dst", hexstr(1)),
            assign("standard_metadata", "egress_spec", hexstr(1)),
        ],
    );
    builder.always(
        1,
        "tell",
        vec![
            assign(
                "ethernet",
                "src",
                operation("+", operation("<<", field("meta", "a"), hexstr(32)), field("meta", "b")),
            ),
            assign("ethernet", "type", field("standard_metadata", "instance_type")),
        ],
    );
    let mut switch = builder.switch(config());
    let bytes = packet([1, 1, 1, 1], 30);
    switch.receive(ms(0), 0, bytes.clone());
    assert_eq!(ports(&mut switch, ms(0)), [1], "no session, no clone");
    let session =
        CloneSession { replicas: vec![Replica { port: 4, instance: 0 }], group: None, length: Some(20) };
    switch.set_clone_session(5, session).unwrap();
    switch.receive(ms(1), 0, bytes.clone());
    let left = leaving(&mut switch, ms(1));
    assert_eq!(left[0].0, 4);
    assert_eq!(left[0].1.len(), 20, "cut off");
    assert_eq!(left[0].1[..6], bytes[..6], "not what ingress made of it");
    assert_eq!(left[0].1[6..14], [0x12, 0x34, 0, 0, 0, 0, 0, 1], "only the list is kept");
    assert_eq!((left[1].0, left[1].1.len()), (1, bytes.len()));
    assert_eq!(left[1].1[..14], [0, 0, 0, 0, 0, 1, 0x12, 0x34, 0, 0, 0x56, 0x78, 0, 0]);
}

#[test]
fn a_clone_from_egress_is_the_packet_as_egress_left_it() {
    let mut builder = Builder::new();
    builder.always(0, "out", vec![assign("standard_metadata", "egress_spec", hexstr(1))]);
    let clone = builder.action(
        "clone",
        &[],
        vec![
            assign("ethernet", "dst", hexstr(9)),
            call("clone_egress_pkt_to_egress", json!([hexstr(2), hexstr(0)])),
        ],
    );
    let nothing = builder.action("mark", &[], vec![assign("ethernet", "type", hexstr(0xcc))]);
    let entries = json!({"entries": [{
        "match_key": [{"match_type": "exact", "key": "0x00000000"}],
        "action_entry": {"action_id": clone, "action_data": []}, "priority": 1}]});
    builder.table(1, "again", &[("exact", "standard_metadata", "instance_type")], &[nothing, clone], entries);
    let mut switch = builder.switch(config());
    let session =
        CloneSession { replicas: vec![Replica { port: 6, instance: 3 }], ..CloneSession::default() };
    switch.set_clone_session(2, session).unwrap();
    switch.receive(ms(0), 0, packet([1, 1, 1, 1], 0));
    let left = leaving(&mut switch, ms(0));
    assert_eq!(
        left.iter().map(|(port, bytes)| (*port, bytes[5], bytes[13])).collect::<Vec<_>>(),
        [(1, 9, 0), (6, 9, 0xcc)]
    );
}

#[test]
fn packets_that_go_round_are_stopped() {
    for (pipeline, primitive) in [(0, "resubmit"), (1, "recirculate")] {
        let mut builder = Builder::new();
        builder.list("field_lists").push(json!({"id": 1, "name": "keep", "elements": [field("meta", "a")]}));
        builder.always(
            pipeline,
            "round",
            vec![
                assign("meta", "a", operation("+", field("meta", "a"), hexstr(1))),
                call(primitive, json!([hexstr(1)])),
            ],
        );
        let mut switch = builder.switch(config());
        switch.receive(ms(0), 0, packet([1, 1, 1, 1], 0));
        assert_eq!(ports(&mut switch, ms(0)), [0u16; 0]);
        assert_eq!(switch.dropped(Drop::TooManyPasses), 1, "{primitive}");
    }
    // Each clone creates ten further clones.
    let mut builder = Builder::new();
    builder.always(1, "more", vec![call("clone_egress_pkt_to_egress", json!([hexstr(1), hexstr(0)]))]);
    let mut switch = builder.switch(config());
    let replicas = (0..10).map(|port| Replica { port, instance: 0 }).collect();
    switch.set_clone_session(1, CloneSession { replicas, ..CloneSession::default() }).unwrap();
    switch.receive(ms(0), 0, packet([1, 1, 1, 1], 0));
    assert!(switch.dropped(Drop::QueueFull) > 0);
    assert!(!ports(&mut switch, ms(0)).is_empty());
}

#[test]
fn a_packet_is_recirculated_as_it_was_deparsed() {
    let mut builder = Builder::new();
    builder.list("field_lists").push(json!({"id": 1, "name": "keep", "elements": [field("meta", "a")]}));
    let round = builder.action(
        "round",
        &[],
        vec![
            assign("ethernet", "dst", operation("+", field("ethernet", "dst"), hexstr(1))),
            assign("meta", "a", hexstr(0x77)),
            call("recirculate", json!([hexstr(1)])),
        ],
    );
    let done = builder.action("done", &[], vec![assign("ethernet", "src", field("meta", "a"))]);
    let entries = json!({"entries": [{
        "match_key": [{"match_type": "exact", "key": "0x0000"}],
        "action_entry": {"action_id": round, "action_data": []}, "priority": 1}]});
    builder.table(1, "again", &[("exact", "meta", "a")], &[done, round], entries);
    let mut switch = builder.switch(config());
    switch.receive(ms(0), 0, packet([1, 1, 1, 1], 0));
    let left = leaving(&mut switch, ms(0));
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].1[..12], [2, 0, 0, 0, 0, 0xab, 0, 0, 0, 0, 0, 0x77]);
}

#[test]
fn digests_and_logs_are_told() {
    let mut builder = Builder::new();
    builder.list("learn_lists").push(json!({"id": 3, "name": "learn", "elements":
        [field("ethernet", "src"), field("standard_metadata", "ingress_port")]}));
    builder.always(0, "tell", vec![
        call("generate_digest", json!([hexstr(1), hexstr(3)])),
        call("log_msg", json!([{"type": "string", "value": "port {} of {}"},
            {"type": "parameters_vector", "value": [field("standard_metadata", "ingress_port"), hexstr(512)]}])),
    ]);
    let mut switch = builder.switch(config());
    switch.receive(ms(0), 5, packet([1, 1, 1, 1], 0));
    assert_eq!(switch.notification(), Some(Notification::Log("port 5 of 512".to_owned())));
    let samples = vec![vec![vec![2, 0, 0, 0, 0, 0xbb], vec![0, 5]]];
    assert_eq!(
        switch.notification(),
        Some(Notification::Digest { name: "learn".to_owned(), list: 0, samples })
    );
    assert_eq!(switch.notification(), None);
}

#[test]
fn an_assertion_that_fails_drops_one_packet() {
    let mut builder = Builder::new();
    let is = operation("==", field("ethernet", "type"), hexstr(0x800));
    builder.always(0, "check", vec![call("assert", json!([is]))]);
    let mut switch = builder.switch(config());
    let mut other = packet([1, 1, 1, 1], 0);
    other[12] = 9;
    switch.receive(ms(0), 0, other);
    assert_eq!(ports(&mut switch, ms(0)), [0u16; 0]);
    assert_eq!(switch.dropped(Drop::Assertion), 1);
    assert_eq!(switch.notification(), Some(Notification::Log("assert failed".to_owned())));
    switch.receive(ms(1), 0, packet([1, 1, 1, 1], 0));
    assert_eq!(ports(&mut switch, ms(1)), [0]);
}

#[test]
fn idle_entries_are_told_once_until_they_are_hit() {
    let mut builder = forward();
    builder.root["pipelines"][0]["tables"][0]["support_timeout"] = json!(true);
    let mut switch = builder.switch(config());
    let program = switch.program().clone();
    let entry =
        Entry { idle_timeout: Some(SimDuration::from_millis(2_500)), ..route(&program, [10, 0, 0, 0], 8, 1) };
    let handle = switch.add_entry(0, &entry).unwrap();
    let told = Some(Notification::IdleTimeout { table: 0, entries: vec![handle] });
    assert_eq!(switch.next_event(), Some(SimTime::from_secs(1)));
    switch.receive(ms(1_000), 0, packet([10, 1, 1, 1], 0));
    assert_eq!(ports(&mut switch, ms(3_499)), [1]);
    assert_eq!(switch.notification(), None);
    ports(&mut switch, ms(4_000));
    assert_eq!(switch.notification(), told);
    ports(&mut switch, ms(9_000));
    assert_eq!(switch.notification(), None);
    switch.receive(ms(9_500), 0, packet([10, 1, 1, 1], 0));
    ports(&mut switch, ms(12_000));
    assert_eq!(switch.notification(), told);
    switch.delete_entry(0, handle).unwrap();
    ports(&mut switch, ms(13_000));
    assert_eq!((switch.notification(), switch.next_event()), (None, None));
}

/// Program that sends all packets to port 1 with the queueing metadata in their Ethernet header.
fn queueing() -> Builder {
    let mut builder = Builder::new();
    builder.always(
        0,
        "out",
        vec![
            assign("standard_metadata", "egress_spec", hexstr(1)),
            assign("standard_metadata", "priority", field("ipv4", "diffserv")),
        ],
    );
    builder.always(
        1,
        "tell",
        vec![
            assign("ethernet", "dst", field("standard_metadata", "deq_timedelta")),
            assign(
                "ethernet",
                "src",
                operation(
                    "+",
                    operation("<<", field("standard_metadata", "enq_qdepth"), hexstr(16)),
                    field("standard_metadata", "deq_qdepth"),
                ),
            ),
        ],
    );
    builder
}

#[test]
fn a_port_sends_at_its_rate_and_tells_the_truth_of_its_queue() {
    // 100 bytes take 1 ms.
    let limits = QueueLimits { packets: 3, bytes: None, packets_per_second: None };
    let mut switch = queueing().switch(SwitchConfig { rate: Some(800_000), limits, ..config() });
    for _ in 0..6 {
        switch.receive(ms(10), 0, packet([1, 1, 1, 1], 66));
    }
    let left: Vec<_> = std::iter::from_fn(|| switch.poll(ms(100))).collect();
    let times: Vec<_> = left.iter().map(|one| (one.at, one.departs)).collect();
    assert_eq!(times, [(ms(10), ms(11)), (ms(11), ms(12)), (ms(12), ms(13)), (ms(13), ms(14))]);
    let queue: Vec<_> = left
        .iter()
        .map(|one| (u16::from_be_bytes([one.packet[4], one.packet[5]]), one.packet[9], one.packet[11]))
        .collect();
    assert_eq!(
        queue,
        [(0, 0, 0), (1_000, 0, 2), (2_000, 1, 1), (3_000, 2, 0)],
        "microseconds, depths at both ends"
    );
    assert_eq!(switch.dropped(Drop::QueueFull), 2);
    assert_eq!(switch.port_counters(1).unwrap().queue_full, 2);
    assert_eq!(switch.next_event(), None);
}

#[test]
fn priorities_are_strict() {
    let mut switch = queueing().switch(SwitchConfig { rate: Some(800_000), ..config() });
    for priority in [0, 1, 7, 3, 7] {
        let mut bytes = packet([1, 1, 1, 1], 66);
        bytes[15] = priority;
        switch.receive(ms(0), 0, bytes);
    }
    let order: Vec<u8> = leaving(&mut switch, ms(100)).iter().map(|(_, bytes)| bytes[15]).collect();
    assert_eq!(order, [0, 7, 7, 3, 1], "the first was on its way");
    let mut switch = queueing().switch(SwitchConfig { queues: 4, ..config() });
    let mut bytes = packet([1, 1, 1, 1], 66);
    bytes[15] = 4;
    switch.receive(ms(0), 0, bytes);
    assert_eq!(switch.dropped(Drop::NoQueue), 1);
}

#[test]
fn a_switch_has_a_latency_and_a_rate() {
    let limited = SwitchConfig {
        latency: SimDuration::from_millis(5),
        packets_per_second: Some(1_000),
        input_packets: 2,
        ..config()
    };
    let mut switch = queueing().switch(limited);
    for _ in 0..4 {
        switch.receive(ms(0), 0, packet([1, 1, 1, 1], 0));
    }
    assert_eq!(switch.dropped(Drop::InputFull), 1);
    assert_eq!(switch.next_event(), Some(ms(1)), "the second goes in");
    let times: Vec<_> = std::iter::from_fn(|| switch.poll(ms(100))).map(|one| one.at).collect();
    assert_eq!(times, [ms(5), ms(6), ms(7)]);
}

#[test]
fn queues_can_be_changed_and_links_go() {
    let mut switch = queueing().switch(SwitchConfig { rate: Some(800_000), ..config() });
    switch.change_queues(Some(1), None, |limits| limits.packets_per_second = Some(100)).unwrap();
    assert!(switch.change_queues(Some(99), None, |_| {}).is_err());
    for _ in 0..3 {
        switch.receive(ms(0), 0, packet([1, 1, 1, 1], 66));
    }
    let times: Vec<_> = std::iter::from_fn(|| switch.poll(ms(15))).map(|one| one.at).collect();
    assert_eq!(times, [ms(0), ms(10)]);
    switch.set_carrier(ms(15), 1, false);
    assert_eq!(ports(&mut switch, ms(100)), [0u16; 0]);
    switch.receive(ms(100), 0, packet([1, 1, 1, 1], 66));
    assert_eq!(switch.dropped(Drop::LinkDown), 2);
    switch.set_carrier(ms(101), 1, true);
    switch.receive(ms(101), 0, packet([1, 1, 1, 1], 66));
    assert_eq!(ports(&mut switch, ms(101)), [1]);
}

#[test]
fn the_port_of_the_control_plane_tells() {
    let mut builder = Builder::new();
    builder.always(0, "up", vec![assign("standard_metadata", "egress_spec", hexstr(500))]);
    let mut switch = builder.switch(SwitchConfig { cpu_port: Some(500), ..config() });
    let bytes = packet([1, 1, 1, 1], 1);
    switch.receive(ms(0), 0, bytes.clone());
    assert_eq!(switch.notification(), Some(Notification::PacketIn(bytes)));
    let key = vec![KeyMatch::Any];
    let error =
        switch.add_entry(0, &Entry { key, priority: 0, action: ActionSpec::Member(0), idle_timeout: None });
    assert!(error.unwrap_err().message.contains("has no key"));
}
