//! Tables with 100,000 entries of each kind: every entry is found, and so is the right one of several that match.

use belljar_base::SimTime;
use belljar_p4::control::{ActionSpec, Entry, KeyMatch};
use belljar_p4::{Program, ProgramFile, Switch, SwitchConfig};
use std::path::Path;
use std::sync::Arc;

const ENTRIES: u32 = 100_000;

/// A program with one table of a kind, whose actions name the port.
fn program(kind: &str) -> Arc<Program> {
    let source = format!(
        "#include <core.p4>
#include <v1model.p4>
header key_t {{ bit<32> value; bit<32> other; }}
struct headers_t {{ key_t key; }}
struct metadata_t {{ }}
parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    state start {{ packet.extract(hdr.key); transition accept; }}
}}
control check(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    action send(bit<9> port, bit<32> other) {{ standard.egress_spec = port; hdr.key.other = other; }}
    action drop() {{ mark_to_drop(standard); }}
    table large {{
        key = {{ hdr.key.value: {kind}; }}
        actions = {{ send; drop; }}
        default_action = drop();
        size = {ENTRIES};
    }}
    apply {{ large.apply(); }}
}}
control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{ apply {{ }} }}
control update(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control deparse(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.key); }} }}
V1Switch(parse(), check(), ingress(), egress(), update(), deparse()) main;
"
    );
    let file = ProgramFile::of_text(Path::new("large.p4"), source).unwrap_or_else(|error| panic!("{error}"));
    Arc::new(Program::from_text(&file.json).unwrap_or_else(|error| panic!("{error}")))
}

/// Distinct, spread over all 32 bits, the last six of them 0.
fn value(n: u32) -> u32 {
    (n * 40_503 % (1 << 26)) << 6
}

#[test]
fn a_hundred_thousand_entries_of_each_kind() {
    type Make = fn(Vec<u8>) -> KeyMatch;
    let kinds: [(&str, Make); 5] = [
        ("exact", KeyMatch::Exact),
        ("lpm", |value| KeyMatch::Lpm { value, prefix: 26 }),
        ("ternary", |value| KeyMatch::Ternary { value, mask: vec![0xff, 0xff, 0xff, 0xc0] }),
        ("range", |low| KeyMatch::Range { high: vec![low[0], low[1], low[2], low[3] | 0x3f], low }),
        ("optional", |value| KeyMatch::Ternary { value, mask: vec![0xff; 4] }),
    ];
    for (kind, make) in kinds {
        let program = program(kind);
        let mut switch = Switch::new(program.clone(), SwitchConfig { ports: 4, ..SwitchConfig::default() });
        let empty = switch.memory();
        let table = program.table("large").unwrap();
        let send = program.action_of(table, "send").unwrap();
        let action =
            |n: u32| ActionSpec::Direct { action: send, arguments: vec![vec![1], n.to_be_bytes().to_vec()] };
        for n in 0..ENTRIES {
            let priority = if matches!(kind, "exact" | "lpm") { 0 } else { 1 + (n % 7) as i32 };
            let key = vec![make(value(n).to_be_bytes().to_vec())];
            let entry = Entry { key, priority, action: action(n), idle_timeout: None };
            switch.add_entry(table, &entry).unwrap_or_else(|error| panic!("{kind} {n}: {}", error.message));
        }
        assert_eq!(switch.entry_count(table).unwrap(), ENTRIES as usize);
        let full =
            Entry { key: vec![make(vec![0xff; 4])], priority: 1, action: action(0), idle_timeout: None };
        let full = if matches!(kind, "exact" | "lpm") { Entry { priority: 0, ..full } } else { full };
        assert!(switch.add_entry(table, &full).unwrap_err().message.contains("is full with 100000 entries"));
        for n in (0..ENTRIES).step_by(61) {
            // Within the prefix, the mask or the range.
            let key = value(n) | if matches!(kind, "exact" | "optional") { 0 } else { n % 64 };
            let mut packet = key.to_be_bytes().to_vec();
            packet.extend([0; 4]);
            switch.receive(SimTime::from_nanos(u64::from(n)), 0, packet);
            let left = switch.poll(SimTime::from_nanos(u64::from(n))).unwrap_or_else(|| panic!("{kind} {n}"));
            assert_eq!((left.port, &left.packet[4..]), (1, &n.to_be_bytes()[..]), "{kind}");
        }
        let counts = switch.table_counts(table);
        assert_eq!((counts.misses, counts.hits), (0, u64::from(ENTRIES.div_ceil(61))), "{kind}");
        let each = (switch.memory() - empty) / u64::from(ENTRIES);
        println!("{kind}: {each} bytes an entry");
        assert!((40..1_000).contains(&each), "{kind}: {each} bytes an entry");
        // Half of them go again, and only they.
        let handles = switch.entries(table).unwrap();
        handles.iter().step_by(2).for_each(|handle| switch.delete_entry(table, *handle).unwrap());
        for (n, found) in [(0, false), (1, true), (99_998, false), (99_999, true)] {
            let mut packet = value(n).to_be_bytes().to_vec();
            packet.extend([0; 4]);
            let now = SimTime::from_nanos(1_000_000);
            switch.receive(now, 0, packet);
            assert_eq!(switch.poll(now).is_some(), found, "{kind} {n}");
        }
    }
}
