//! Meters, counters, registers, action profiles, value sets and arithmetic of any width.

mod common;

use belljar_p4::control::{ActionSpec, CounterData, Entry, ErrorKind, KeyMatch, MeterRates};
use belljar_p4::{CrcParameters, SwitchConfig};
use belljar_p4files::commands;
use common::*;
use serde_json::json;

#[test]
fn meters_colour_packets_in_simulated_time() {
    let mut builder = Builder::new();
    builder.list("meter_arrays").push(
        json!({"name": "m", "id": 0, "type": "packets", "rate_count": 2, "size": 4, "is_direct": false}),
    );
    builder.always(
        0,
        "meter",
        vec![
            call(
                "execute_meter",
                json!([{"type": "meter_array", "value": "m"}, hexstr(2), field("meta", "colour")]),
            ),
            assign("standard_metadata", "egress_spec", field("meta", "colour")),
        ],
    );
    let mut switch = builder.switch(SwitchConfig::default());
    // Committed rate of one packet per millisecond, peak rate of two.
    commands::apply(&mut switch, "meter_set_rates m 2 0.001:1 0.002:2").unwrap();
    assert_eq!(
        switch.meter(0, 2).unwrap(),
        Some(MeterRates { committed: 1_000, committed_burst: 1, peak: 2_000, peak_burst: 2 })
    );
    let mut colour = |at| {
        switch.receive(ms(at), 0, packet([1, 1, 1, 1], 0));
        ports(&mut switch, ms(at))[0]
    };
    assert_eq!([colour(1), colour(1), colour(1)], [0, 1, 2]);
    assert_eq!([colour(2), colour(2), colour(2)], [0, 1, 2]);
    assert_eq!([colour(100), colour(100), colour(100)], [0, 1, 2]);
    assert_eq!(switch.set_meter(0, 4, None).unwrap_err().kind, ErrorKind::OutOfRange);
}

#[test]
fn entries_have_counters_and_meters() {
    let mut builder = forward();
    builder
        .list("counter_arrays")
        .push(json!({"name": "hits", "id": 0, "is_direct": true, "binding": "ingress.routes"}));
    builder
        .list("meter_arrays")
        .push(json!({"name": "limit", "id": 0, "type": "bytes", "rate_count": 2, "is_direct": true,
        "binding": "ingress.routes", "result_target": ["meta", "colour"]}));
    builder.root["pipelines"][0]["tables"][0]["with_counters"] = json!(true);
    builder.root["pipelines"][0]["tables"][0]["direct_meters"] = json!("limit");
    builder.always(1, "tell", vec![assign("ethernet", "src", field("meta", "colour"))]);
    let mut switch = builder.switch(SwitchConfig::default());
    let program = switch.program().clone();
    let one = switch.add_entry(0, &route(&program, [10, 0, 0, 0], 8, 1)).unwrap();
    let two = switch.add_entry(0, &route(&program, [11, 0, 0, 0], 8, 1)).unwrap();
    switch
        .set_entry_meter(
            0,
            one,
            Some(MeterRates { committed: 1, committed_burst: 40, peak: 1, peak_burst: 200 }),
        )
        .unwrap();
    for dst in [10, 10, 11] {
        switch.receive(ms(0), 0, packet([dst, 0, 0, 1], 0));
    }
    let colours: Vec<u8> = leaving(&mut switch, ms(0)).iter().map(|(_, bytes)| bytes[11]).collect();
    assert_eq!(colours, [0, 1, 0]);
    assert_eq!(switch.entry_counter(0, one).unwrap(), CounterData { packets: 2, bytes: 68 });
    assert_eq!(switch.entry_counter(0, two).unwrap(), CounterData { packets: 1, bytes: 34 });
    assert_eq!(
        commands::apply(&mut switch, "counter_read hits 0").unwrap(),
        "hits[0] = 2 packets, 68 bytes\n"
    );
    assert_eq!(switch.counter(0, 0).unwrap_err().kind, ErrorKind::InvalidArgument, "it is direct");
    switch.reset_counters(0).unwrap();
    assert_eq!(switch.entry_counter(0, one).unwrap(), CounterData::default());
}

#[test]
fn registers_and_counters_keep_what_packets_write() {
    let mut builder = Builder::new();
    builder.list("register_arrays").push(json!({"name": "r", "id": 0, "size": 8, "bitwidth": 48}));
    builder.list("register_arrays").push(json!({"name": "w", "id": 1, "size": 2, "bitwidth": 200}));
    builder.list("counter_arrays").push(json!({"name": "c", "id": 0, "size": 3, "is_direct": false}));
    let register = |name: &str| json!({"type": "register_array", "value": name});
    builder.always(
        0,
        "count",
        vec![
            call("register_read", json!([field("ethernet", "dst"), register("r"), hexstr(3)])),
            call(
                "register_write",
                json!([register("r"), hexstr(3), operation("+", field("ethernet", "dst"), hexstr(1))]),
            ),
            call("register_write", json!([register("r"), hexstr(8), hexstr(1)])),
            call("register_read", json!([field("meta", "wide"), register("w"), hexstr(1)])),
            call(
                "register_write",
                json!([register("w"), hexstr(1), operation("~", json!(null), field("meta", "wide"))]),
            ),
            call("count", json!([{"type": "counter_array", "value": "c"}, hexstr(2)])),
            call("count", json!([{"type": "counter_array", "value": "c"}, hexstr(3)])),
        ],
    );
    let mut switch = builder.switch(SwitchConfig::default());
    commands::apply(&mut switch, "register_write r 3 0xfffffffffffe").unwrap();
    for n in 0..3u64 {
        switch.receive(ms(n), 0, packet([1, 1, 1, 1], 0));
    }
    let seen: Vec<Vec<u8>> =
        leaving(&mut switch, ms(9)).iter().map(|(_, bytes)| bytes[..6].to_vec()).collect();
    assert_eq!(seen, [[0xff, 0xff, 0xff, 0xff, 0xff, 0xfe], [0xff; 6], [0; 6]]);
    assert_eq!(switch.register(0, 3).unwrap(), [0, 0, 0, 0, 0, 1]);
    assert_eq!(switch.register(1, 1).unwrap(), [0xff; 25]);
    assert_eq!(switch.counter(0, 2).unwrap(), CounterData { packets: 3, bytes: 102 });
    assert_eq!(commands::apply(&mut switch, "register_read r 3").unwrap(), "r[3] = 1\n");
    assert_eq!(switch.set_register(0, 3, &[1; 7]).unwrap_err().kind, ErrorKind::InvalidArgument);
    assert_eq!(switch.register(0, 8).unwrap_err().kind, ErrorKind::OutOfRange);
}

#[test]
fn a_selector_spreads_flows_over_the_members_of_a_group() {
    let mut builder = forward();
    builder.root["pipelines"][0]["action_profiles"] = json!([{"name": "ecmp", "id": 0, "max_size": 8, "selector":
        {"algo": "crc16", "input": [field("ipv4", "srcAddr"), field("ipv4", "dstAddr")]}}]);
    let table = &mut builder.root["pipelines"][0]["tables"][0];
    table["type"] = json!("indirect_ws");
    table["action_profile"] = json!("ecmp");
    table.as_object_mut().unwrap().remove("default_entry");
    let mut switch = builder.switch(SwitchConfig::default());
    let text = "act_prof_create_member ecmp forward 1 1\nact_prof_create_member ecmp forward 2 2\n\
        act_prof_create_member ecmp forward 3 3\nact_prof_create_group ecmp\n\
        act_prof_add_member_to_group ecmp 0 0\nact_prof_add_member_to_group ecmp 1 0\n\
        table_indirect_add_with_group routes 10.0.0.0/8 => 0\ntable_indirect_add routes 11.0.0.0/8 => 2\n";
    commands::apply(&mut switch, text).unwrap();
    let mut counts = [0; 4];
    for n in 0..=255 {
        for _ in 0..2 {
            switch.receive(ms(n), 0, packet([10, 0, 7, n as u8], 0));
        }
        let left = ports(&mut switch, ms(n));
        assert_eq!(left[0], left[1], "one flow, one way");
        counts[usize::from(left[0])] += 1;
    }
    assert!(counts[1] > 90 && counts[2] > 90 && counts[1] + counts[2] == 256, "{counts:?}");
    switch.receive(ms(300), 0, packet([11, 0, 0, 1], 0));
    assert_eq!(ports(&mut switch, ms(300)), [3]);
    let kind = |result: belljar_p4::control::Result<()>| result.unwrap_err().kind;
    assert_eq!(kind(switch.delete_member(0, 1)), ErrorKind::FailedPrecondition);
    assert_eq!(kind(switch.delete_group(0, 0)), ErrorKind::FailedPrecondition);
    assert_eq!(kind(switch.add_member(0, 1, 1, &[vec![1], vec![1]])), ErrorKind::AlreadyExists);
    assert_eq!(kind(switch.set_group(0, 0, &[(9, 1)])), ErrorKind::NotFound);
    switch.set_group(0, 0, &[(1, 3)]).unwrap();
    switch.delete_member(0, 0).unwrap();
    switch.receive(ms(301), 0, packet([10, 0, 0, 1], 0));
    assert_eq!(ports(&mut switch, ms(301)), [2]);
    switch.set_group(0, 0, &[]).unwrap();
    switch.receive(ms(302), 0, packet([10, 0, 0, 1], 0));
    assert_eq!(ports(&mut switch, ms(302)), [0], "an empty group does nothing");
    let direct = Entry {
        key: vec![KeyMatch::Any],
        priority: 0,
        idle_timeout: None,
        action: ActionSpec::Direct { action: 1, arguments: vec![vec![], vec![]] },
    };
    assert_eq!(switch.add_entry(0, &direct).unwrap_err().kind, ErrorKind::InvalidArgument);
}

#[test]
fn value_sets_steer_the_parser() {
    let mut builder = Builder::new();
    builder
        .list("parse_vsets")
        .push(json!({"name": "types", "id": 0, "compressed_bitwidth": 16, "max_size": 2}));
    builder.root["parsers"][0]["parse_states"][0]["transitions"][0] =
        json!({"type": "parse_vset", "value": "types", "mask": null, "next_state": "ipv4"});
    builder.always(0, "out", vec![assign("standard_metadata", "egress_spec", field("ipv4", "$valid$"))]);
    let mut switch = builder.switch(SwitchConfig::default());
    let port = |switch: &mut belljar_p4::Switch| {
        switch.receive(ms(0), 0, packet([1, 1, 1, 1], 0));
        ports(switch, ms(0))[0]
    };
    assert_eq!(port(&mut switch), 0);
    commands::apply(&mut switch, "pvs_add types 0x0800\npvs_add types 0x86dd").unwrap();
    assert_eq!(port(&mut switch), 1);
    assert_eq!(switch.add_value(0, &[1]).unwrap_err().kind, ErrorKind::ResourceExhausted);
    assert_eq!(switch.add_value(0, &[1, 0, 0]).unwrap_err().kind, ErrorKind::InvalidArgument);
    commands::apply(&mut switch, "pvs_remove types 0x0800").unwrap();
    assert_eq!(port(&mut switch), 0);
    assert_eq!(commands::apply(&mut switch, "pvs_get types").unwrap(), "34525\n");
}

/// Value of `ethernet.dst = expression` for one packet.
fn compute(expression: serde_json::Value) -> u64 {
    let mut builder = Builder::new();
    builder.always(0, "compute", vec![assign("ethernet", "dst", expression)]);
    let mut switch = builder.switch(SwitchConfig::default());
    switch.receive(ms(0), 0, packet([1, 1, 1, 1], 0));
    let bytes = leaving(&mut switch, ms(0)).remove(0).1;
    bytes[..6].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[test]
fn arithmetic_has_no_width_until_it_is_written() {
    let big = || json!({"type": "hexstr", "value": format!("0x1{}", "0".repeat(80))});
    let minus = |value: &str| json!({"type": "hexstr", "value": format!("-{value}")});
    assert_eq!(compute(operation(">>", operation("-", big(), hexstr(1)), hexstr(280))), 0xff_ffff_ffff);
    assert_eq!(compute(operation("*", operation("+", big(), hexstr(3)), hexstr(5))), 15);
    assert_eq!(compute(operation("-", hexstr(0), hexstr(1))), 0xffff_ffff_ffff);
    assert_eq!(compute(operation(">>", minus("0x100"), hexstr(4))), 0xffff_ffff_fff0);
    assert_eq!(compute(operation("&", minus("0x1"), hexstr(0xf0))), 0xf0);
    assert_eq!(compute(operation("two_comp_mod", hexstr(257), hexstr(8))), 1);
    assert_eq!(
        compute(operation("&", operation("two_comp_mod", minus("0x81"), hexstr(8)), hexstr(0xffff))),
        127
    );
    assert_eq!(compute(operation("two_comp_mod", hexstr(128), hexstr(8))), 0xffff_ffff_ff80);
    assert_eq!(compute(operation("usat_cast", hexstr(300), hexstr(8))), 255);
    assert_eq!(compute(operation("usat_cast", minus("0x5"), hexstr(8))), 0);
    assert_eq!(compute(operation("sat_cast", hexstr(300), hexstr(8))), 127);
    assert_eq!(compute(operation("&", operation("sat_cast", minus("0x12c"), hexstr(8)), hexstr(0xff))), 0x80);
    assert_eq!(compute(operation("<<", hexstr(1), field("ethernet", "type"))), 0, "shifted by 2048");
    assert_eq!(
        compute(operation("&", operation("<<", hexstr(3), field("ipv4", "version")), hexstr(0xff))),
        0x30
    );
    // A full 128-bit value.
    let all = || json!({"type": "hexstr", "value": format!("0x{}", "f".repeat(32))});
    assert_eq!(
        compute(operation("b2d", json!(null), operation(">", operation("+", all(), hexstr(1)), all()))),
        1
    );
    assert_eq!(compute(operation(">>", operation("*", all(), all()), hexstr(208))), 0xffff_ffff_ffff);
    let choose = json!({"type": "expression", "value": {"op": "?", "cond": operation("==", hexstr(1), hexstr(1)),
        "left": hexstr(7), "right": hexstr(8)}});
    assert_eq!(compute(choose), 7);
}

#[test]
fn hashes_have_a_base_and_a_maximum() {
    let mut builder = Builder::new();
    builder
        .list("calculations")
        .push(json!({"name": "h", "id": 1, "algo": "crc32_custom", "input": [field("ipv4", "dstAddr")]}));
    let hash = |max| {
        call(
            "modify_field_with_hash_based_offset",
            json!([field("ethernet", "dst"), hexstr(1000), {"type": "calculation", "value": "h"}, hexstr(max)]),
        )
    };
    builder.always(0, "hash", vec![hash(1 << 32)]);
    builder.always(0, "zero", vec![assign("ethernet", "src", field("ethernet", "dst")), hash(0)]);
    let mut switch = builder.switch(SwitchConfig::default());
    let run = |switch: &mut belljar_p4::Switch| {
        switch.receive(ms(0), 0, packet(*b"1234", 0));
        let bytes = leaving(switch, ms(0)).remove(0).1;
        assert_eq!(bytes[..6], [0, 0, 0, 0, 3, 0xe8], "the base alone");
        bytes[6..12].iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)) - 1000
    };
    assert_eq!(run(&mut switch), 0x9be3_e0a3, "CRC-32 of 1234");
    let bzip2 = CrcParameters {
        width: 32,
        polynomial: 0x04c1_1db7,
        initial: 0xffff_ffff,
        xor_out: 0xffff_ffff,
        reflect_in: false,
        reflect_out: false,
    };
    switch.set_crc(1, bzip2).unwrap();
    assert_ne!(run(&mut switch), 0x9be3_e0a3);
    assert_eq!(
        switch.set_crc(1, CrcParameters { width: 16, ..bzip2 }).unwrap_err().kind,
        ErrorKind::InvalidArgument
    );
    assert_eq!(switch.set_crc(0, bzip2).unwrap_err().kind, ErrorKind::InvalidArgument);
}

#[test]
fn quotients_and_remainders_are_computed_at_run_time() {
    let mut builder = Builder::new();
    let protocol = || field("ipv4", "protocol");
    let quotient = operation("/", operation("+", field("meta", "wide"), hexstr(1_000)), protocol());
    builder.always(
        0,
        "divide",
        vec![
            assign("ethernet", "src", quotient),
            assign("ethernet", "dst", operation("%", operation("-", hexstr(5), hexstr(12)), protocol())),
            assign("standard_metadata", "egress_spec", hexstr(1)),
        ],
    );
    let mut switch = builder.switch(SwitchConfig::default());
    let mut results = |divisor: u8| {
        let mut bytes = packet([1, 1, 1, 1], 0);
        bytes[23] = divisor;
        switch.receive(ms(1), 0, bytes);
        let (_, sent) = leaving(&mut switch, ms(1)).pop().expect("the packet is sent");
        (sent[0..6].to_vec(), sent[6..12].to_vec())
    };
    // (5 - 12) % 3 is -1, as remainders have the dividend's sign; 1000 / 3 is 333.
    assert_eq!(results(3), (vec![255; 6], vec![0, 0, 0, 0, 1, 77]));
    // BMv2 stops at a division by 0.
    assert_eq!(results(0), (vec![0; 6], vec![0; 6]));
}

#[test]
fn saved_commands_restore_the_state() {
    let mut builder = forward();
    builder.list("meter_arrays").push(
        json!({"name": "m", "id": 0, "type": "packets", "rate_count": 2, "size": 4, "is_direct": false}),
    );
    let set = builder.action("set", &[("port", 9)], vec![]);
    let acl = [("ternary", "ipv4", "srcAddr"), ("range", "ipv4", "protocol"), ("optional", "meta", "a")];
    builder.table(0, "acl", &acl, &[set], json!({"support_timeout": true}));
    builder.root["pipelines"][0]["action_profiles"] =
        json!([{"name": "chosen_ports", "id": 0, "selector": {"algo": "crc16", "input": []}}]);
    builder.table(
        0,
        "chosen",
        &[("exact", "ipv4", "diffserv")],
        &[set],
        json!({"type": "indirect_ws", "action_profile": "chosen_ports", "default_entry": null}),
    );
    let mut switch = builder.switch(SwitchConfig::default());
    let text = "\
        table_add routes forward 10.0.0.0/8 => 02:00:00:00:00:01 1\n\
        table_add routes forward 11.0.0.0/8 => 02:00:00:00:00:02 2\n\
        table_delete routes 0\n\
        table_set_default routes forward 02:00:00:00:00:03 3\n\
        table_add acl set 10.0.0.1&&&255.255.255.255 1->9 0&&&0 => 7 5\n\
        table_set_timeout acl 0 1500\n\
        act_prof_create_member chosen_ports set 1\n\
        act_prof_create_member chosen_ports set 2\n\
        act_prof_create_member chosen_ports set 3\n\
        act_prof_delete_member chosen_ports 0\n\
        act_prof_create_group chosen_ports\n\
        act_prof_add_member_to_group chosen_ports 2 0\n\
        table_indirect_add chosen 1 => 1\n\
        table_indirect_add_with_group chosen 2 => 0\n\
        meter_set_rates m 2 0.001:1 0.002:2\n";
    commands::apply(&mut switch, text).unwrap();
    let saved = commands::save(&switch).unwrap();
    assert_eq!(
        saved,
        "act_prof_create_member chosen_ports set 0x0002\n\
         act_prof_create_member chosen_ports set 0x0003\n\
         act_prof_create_group chosen_ports\n\
         act_prof_add_member_to_group chosen_ports 1 0\n\
         table_set_default ingress.routes ingress.forward 0x020000000003 0x0003\n\
         table_add ingress.routes ingress.forward 0x0b000000/8 => 0x020000000002 0x0002\n\
         table_add acl set 0x0a000001&&&0xffffffff 0x01->0x09 0&&&0 => 0x0007 5\n\
         table_set_timeout acl 0 1500\n\
         table_indirect_add chosen 0x01 => 0\n\
         table_indirect_add_with_group chosen 0x02 => 0\n\
         meter_set_rates m 2 0.001:1 0.002:2\n"
    );
    let mut restored = builder.switch(SwitchConfig::default());
    commands::apply(&mut restored, &saved).unwrap();
    assert_eq!(commands::save(&restored).unwrap(), saved);
    assert_eq!(commands::save(&builder.switch(SwitchConfig::default())).unwrap(), "");
}

#[test]
fn a_table_of_the_first_json_format_has_its_own_profile() {
    let mut builder = Builder::new();
    builder.root.as_object_mut().unwrap().remove("__meta__");
    let send = builder.action(
        "send",
        &[("port", 9)],
        vec![call("modify_field", json!([field("standard_metadata", "egress_spec"), parameter(0)]))],
    );
    let selector = json!({"algo": "crc16", "input": [field("ipv4", "dstAddr")]});
    builder.table(
        0,
        "chosen",
        &[("exact", "ipv4", "protocol")],
        &[send],
        json!({"type": "indirect_ws", "act_prof_name": "chosen_ports", "selector": selector, "default_entry": null}),
    );
    let mut switch = builder.switch(SwitchConfig::default());
    let text = "act_prof_create_member chosen_ports send 3\nact_prof_create_member chosen_ports send 4\n\
        act_prof_create_group chosen_ports\nact_prof_add_member_to_group chosen_ports 0 0\nact_prof_add_member_to_group chosen_ports 1 0\n\
        table_indirect_add_with_group chosen 17 => 0\n";
    commands::apply(&mut switch, text).unwrap();
    for last in 0..64 {
        switch.receive(ms(1), 0, packet([10, 0, 0, last], 0));
    }
    let mut used = ports(&mut switch, ms(1));
    assert_eq!(used.len(), 64);
    used.sort_unstable();
    used.dedup();
    assert_eq!(used, [3, 4]);
}
