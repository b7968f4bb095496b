//! Small programs in BMv2 JSON.
#![allow(dead_code)]

use belljar_base::SimTime;
use belljar_p4::control::{ActionSpec, Entry, KeyMatch};
use belljar_p4::{Program, Switch, SwitchConfig};
use serde_json::{Value, json};
use std::sync::Arc;

/// Program that parses Ethernet and IPv4, extended by each test.
pub struct Builder {
    pub root: Value,
}

pub fn field(header: &str, name: &str) -> Value {
    json!({"type": "field", "value": [header, name]})
}
pub fn hexstr(value: u64) -> Value {
    json!({"type": "hexstr", "value": format!("{value:#x}")})
}
pub fn parameter(n: u64) -> Value {
    json!({"type": "runtime_data", "value": n})
}
pub fn call(op: &str, parameters: Value) -> Value {
    json!({"op": op, "parameters": parameters})
}
pub fn operation(op: &str, left: Value, right: Value) -> Value {
    json!({"type": "expression", "value": {"op": op, "left": left, "right": right}})
}
/// `header.name = value`.
pub fn assign(header: &str, name: &str, value: Value) -> Value {
    call("assign", json!([field(header, name), value]))
}
pub fn drop_packet() -> Value {
    call("mark_to_drop", json!([{"type": "header", "value": "standard_metadata"}]))
}

impl Builder {
    pub fn new() -> Builder {
        let ipv4 = [
            ("version", 4),
            ("ihl", 4),
            ("diffserv", 8),
            ("totalLen", 16),
            ("identification", 16),
            ("flags", 3),
            ("fragOffset", 13),
            ("ttl", 8),
            ("protocol", 8),
            ("hdrChecksum", 16),
            ("srcAddr", 32),
            ("dstAddr", 32),
        ];
        let checksum: Vec<Value> = ipv4
            .iter()
            .filter(|(name, _)| *name != "hdrChecksum")
            .map(|(name, _)| field("ipv4", name))
            .collect();
        let valid = json!({"type": "expression", "value": {"op": "d2b", "left": null, "right": field("ipv4", "$valid$")}});
        let fields = |all: &[(&str, u32)]| {
            all.iter().map(|(name, width)| json!([name, width, false])).collect::<Vec<_>>()
        };
        let standard = [
            ("ingress_port", 9),
            ("egress_spec", 9),
            ("egress_port", 9),
            ("instance_type", 32),
            ("packet_length", 32),
            ("enq_timestamp", 32),
            ("enq_qdepth", 19),
            ("deq_timedelta", 32),
            ("deq_qdepth", 19),
            ("ingress_global_timestamp", 48),
            ("egress_global_timestamp", 48),
            ("mcast_grp", 16),
            ("egress_rid", 16),
            ("checksum_error", 1),
            ("parser_error", 32),
            ("priority", 3),
            ("_padding", 3),
        ];
        let aliases: Vec<Value> = [
            ("queueing_metadata", "enq_timestamp"),
            ("queueing_metadata", "enq_qdepth"),
            ("queueing_metadata", "deq_timedelta"),
            ("queueing_metadata", "deq_qdepth"),
            ("intrinsic_metadata", "ingress_global_timestamp"),
            ("intrinsic_metadata", "egress_global_timestamp"),
            ("intrinsic_metadata", "mcast_grp"),
            ("intrinsic_metadata", "egress_rid"),
            ("intrinsic_metadata", "priority"),
        ]
        .iter()
        .map(|(header, name)| json!([format!("{header}.{name}"), ["standard_metadata", name]]))
        .collect();
        Builder {
            root: json!({
                "__meta__": {"version": [2, 23]},
                "program": "test",
                "header_types": [
                    {"name": "ethernet_t", "id": 0, "fields": fields(&[("dst", 48), ("src", 48), ("type", 16)])},
                    {"name": "ipv4_t", "id": 1, "fields": fields(&ipv4)},
                    {"name": "standard_metadata", "id": 2, "fields": fields(&standard)},
                    {"name": "meta_t", "id": 3, "fields": fields(&[("a", 16), ("b", 32), ("colour", 2), ("wide", 200)])},
                ],
                "headers": [
                    {"name": "ethernet", "id": 0, "header_type": "ethernet_t", "metadata": false},
                    {"name": "ipv4", "id": 1, "header_type": "ipv4_t", "metadata": false},
                    {"name": "standard_metadata", "id": 2, "header_type": "standard_metadata", "metadata": true},
                    {"name": "meta", "id": 3, "header_type": "meta_t", "metadata": true},
                ],
                "errors": [["NoError", 0], ["PacketTooShort", 1], ["ParserTimeout", 5]],
                "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [
                    {"name": "start", "id": 0,
                     "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "ethernet"}]}],
                     "transition_key": [field("ethernet", "type")],
                     "transitions": [
                        {"type": "hexstr", "value": "0x0800", "mask": null, "next_state": "ipv4"},
                        {"type": "default", "value": null, "mask": null, "next_state": null}]},
                    {"name": "ipv4", "id": 1,
                     "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "ipv4"}]}],
                     "transition_key": [],
                     "transitions": [{"type": "default", "value": null, "mask": null, "next_state": null}]},
                ]}],
                "deparsers": [{"name": "deparser", "id": 0, "order": ["ethernet", "ipv4"]}],
                "calculations": [{"name": "sum", "id": 0, "algo": "csum16", "input": checksum}],
                "checksums": [
                    {"name": "verify", "id": 0, "target": ["ipv4", "hdrChecksum"], "type": "generic", "calculation": "sum",
                     "verify": true, "update": false, "if_cond": valid},
                    {"name": "update", "id": 1, "target": ["ipv4", "hdrChecksum"], "type": "generic", "calculation": "sum",
                     "verify": false, "update": true, "if_cond": valid},
                ],
                "actions": [],
                "pipelines": [
                    {"name": "ingress", "id": 0, "init_table": null, "tables": [], "action_profiles": [], "conditionals": []},
                    {"name": "egress", "id": 1, "init_table": null, "tables": [], "action_profiles": [], "conditionals": []},
                ],
                "field_aliases": aliases,
            }),
        }
    }

    pub fn list(&mut self, name: &str) -> &mut Vec<Value> {
        let root = self.root.as_object_mut().unwrap();
        root.entry(name).or_insert_with(|| json!([])).as_array_mut().unwrap()
    }
    /// Adds an action; returns its id.
    pub fn action(&mut self, name: &str, parameters: &[(&str, u32)], primitives: Vec<Value>) -> u64 {
        let id = self.list("actions").len() as u64;
        let parameters: Vec<Value> =
            parameters.iter().map(|(name, width)| json!({"name": name, "bitwidth": width})).collect();
        self.list("actions")
            .push(json!({"name": name, "id": id, "runtime_data": parameters, "primitives": primitives}));
        id
    }
    /// Adds a table at the end of a pipeline. Keys are kind, header and field; the first action is the
    /// default.
    pub fn table(
        &mut self,
        pipeline: usize,
        name: &str,
        keys: &[(&str, &str, &str)],
        actions: &[u64],
        more: Value,
    ) {
        let all = self.list("actions").clone();
        let names: Vec<&str> = actions.iter().map(|id| all[*id as usize]["name"].as_str().unwrap()).collect();
        let kinds: Vec<&str> = keys.iter().map(|(kind, ..)| *kind).collect();
        let kind =
            ["range", "ternary", "lpm"].into_iter().find(|kind| kinds.contains(kind)).unwrap_or("exact");
        let key: Vec<Value> = keys
            .iter()
            .map(|(kind, header, field)| {
                json!({"match_type": kind, "name": format!("{header}.{field}"), "target": [header, field], "mask": null})
            })
            .collect();
        let next: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
        let data: Vec<Value> = all[actions[0] as usize]["runtime_data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|_| json!("0x0"))
            .collect();
        let mut table = json!({
            "name": name, "id": 0, "key": key, "match_type": kind, "type": "simple", "max_size": 1024,
            "with_counters": false, "support_timeout": false, "direct_meters": null, "action_ids": actions,
            "actions": names, "base_default_next": null, "next_tables": next,
            "default_entry": {"action_id": actions[0], "action_const": false, "action_data": data, "action_entry_const": false},
        });
        for (name, value) in more.as_object().unwrap() {
            table[name] = value.clone();
        }
        let pipeline = &mut self.root["pipelines"][pipeline];
        if let Some(last) = pipeline["tables"].as_array_mut().unwrap().last_mut() {
            last["base_default_next"] = json!(name);
            for next in last["next_tables"].as_object_mut().unwrap().values_mut() {
                *next = json!(name);
            }
        } else {
            pipeline["init_table"] = json!(name);
        }
        pipeline["tables"].as_array_mut().unwrap().push(table);
    }
    /// Adds a keyless table that always runs the primitives.
    pub fn always(&mut self, pipeline: usize, name: &str, primitives: Vec<Value>) {
        let id = self.action(&format!("do_{name}"), &[], primitives);
        self.table(pipeline, name, &[], &[id], json!({}));
    }
    pub fn build(&self) -> Arc<Program> {
        Arc::new(Program::from_text(&self.root.to_string()).unwrap_or_else(|error| panic!("{error}")))
    }
    pub fn switch(&self, config: SwitchConfig) -> Switch {
        Switch::new(self.build(), config)
    }
}

/// Router: longest prefix match, TTL, checksum.
pub fn forward() -> Builder {
    let mut builder = Builder::new();
    let drop = builder.action("drop", &[], vec![drop_packet()]);
    let ttl = operation("&", operation("+", field("ipv4", "ttl"), hexstr(0xff)), hexstr(0xff));
    let forward = builder.action(
        "ingress.forward",
        &[("dst", 48), ("port", 9)],
        vec![
            assign("standard_metadata", "egress_spec", parameter(1)),
            assign("ethernet", "src", field("ethernet", "dst")),
            assign("ethernet", "dst", parameter(0)),
            assign("ipv4", "ttl", ttl),
        ],
    );
    builder.table(
        0,
        "ingress.routes",
        &[("lpm", "ipv4", "dstAddr")],
        &[drop, forward],
        json!({"max_size": 200_000}),
    );
    builder
}

/// Bridge without learning: known destinations have a port, others go to group 1; no frame returns to its
/// ingress port.
pub fn bridge() -> Builder {
    let mut builder = Builder::new();
    let flood =
        builder.action("ingress.flood", &[], vec![assign("standard_metadata", "mcast_grp", hexstr(1))]);
    let forward = builder.action(
        "ingress.forward",
        &[("port", 9)],
        vec![assign("standard_metadata", "egress_spec", parameter(0))],
    );
    builder.table(0, "ingress.stations", &[("exact", "ethernet", "dst")], &[flood, forward], json!({}));
    let back = builder.action("egress.drop", &[], vec![drop_packet()]);
    builder.table(1, "egress.back", &[], &[back], json!({}));
    let condition = operation(
        "==",
        field("standard_metadata", "ingress_port"),
        field("standard_metadata", "egress_port"),
    );
    builder.root["pipelines"][1]["conditionals"] = json!([
        {"name": "came_from_there", "id": 0, "expression": condition, "true_next": "egress.back", "false_next": null}]);
    builder.root["pipelines"][1]["init_table"] = json!("came_from_there");
    builder
}

pub fn route(program: &Program, prefix: [u8; 4], len: u32, port: u16) -> Entry {
    let table = program.table("routes").unwrap();
    Entry {
        key: vec![KeyMatch::Lpm { value: prefix.to_vec(), prefix: len }],
        priority: 0,
        action: ActionSpec::Direct {
            action: program.action_of(table, "forward").unwrap(),
            arguments: vec![vec![2, 0, 0, 0, 0, port as u8], port.to_be_bytes().to_vec()],
        },
        idle_timeout: None,
    }
}

/// IPv4 packet in an Ethernet frame, with a correct checksum.
pub fn packet(dst: [u8; 4], payload: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 0xaa, 2, 0, 0, 0, 0, 0xbb, 8, 0];
    let len = (20 + payload) as u16;
    let mut header = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1];
    header.extend(dst);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(header);
    bytes.extend((0..payload).map(|n| n as u8));
    bytes
}
pub fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

pub fn ms(n: u64) -> SimTime {
    SimTime::from_nanos(n * 1_000_000)
}
/// Ports and packets transmitted up to `now`.
pub fn leaving(switch: &mut Switch, now: SimTime) -> Vec<(u16, Vec<u8>)> {
    std::iter::from_fn(|| switch.poll(now)).map(|leaving| (leaving.port, leaving.packet)).collect()
}
pub fn ports(switch: &mut Switch, now: SimTime) -> Vec<u16> {
    leaving(switch, now).into_iter().map(|(port, _)| port).collect()
}
