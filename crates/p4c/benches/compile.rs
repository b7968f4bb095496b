//! Time to compile programs of 500 to 8,000 lines: headers, parser states, actions and tables in equal numbers.
//!
//! `cargo bench -p belljar-p4c`
#![allow(missing_docs, clippy::disallowed_methods)]

use belljar_p4c::{Options, compile};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Source of a program with `parts` headers, parser states, actions and tables each.
fn program(parts: usize) -> String {
    let mut text = String::from("#include <core.p4>\n#include <v1model.p4>\n\n");
    for n in 0..parts {
        let _ = write!(
            text,
            "header h{n}_t {{\n    bit<16> next;\n    bit<8> kind;\n    bit<8> ttl;\n    bit<32> value;\n}}\n\n"
        );
    }
    text += "struct headers_t {\n";
    for n in 0..parts {
        let _ = writeln!(text, "    h{n}_t h{n};");
    }
    text += "}\n\nstruct meta_t {\n";
    for n in 0..parts {
        let _ = writeln!(text, "    bit<16> m{n};");
    }
    text += "}\n\nbit<8> less(in bit<8> value) {\n    if (value == 0) {\n        return 0;\n    }\n    return value - 1;\n}\n\n";
    text +=
        "parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {\n";
    text += "    state start {\n        transition s0;\n    }\n";
    for n in 0..parts {
        let next = if n + 1 < parts { format!("s{}", n + 1) } else { "accept".into() };
        let _ = write!(
            text,
            "    state s{n} {{\n        packet.extract(hdr.h{n});\n        meta.m{n} = hdr.h{n}.next;\n        \
             transition select(hdr.h{n}.next, hdr.h{n}.kind) {{\n            (0x0800 &&& 0xFF00, _): {next};\n            \
             (1 .. 7, 3): {next};\n            default: accept;\n        }}\n    }}\n"
        );
    }
    text += "}\n\ncontrol V(inout headers_t hdr, inout meta_t meta) {\n    apply {}\n}\n\n";
    text += "control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {\n";
    for n in 0..parts {
        let _ = write!(
            text,
            "    action set{n}(bit<32> value, bit<9> port) {{\n        hdr.h{n}.value = value;\n        \
             hdr.h{n}.ttl = less(hdr.h{n}.ttl);\n        std.egress_spec = port;\n    }}\n    table t{n} {{\n        key = {{\n            \
             hdr.h{n}.value: lpm;\n            hdr.h{n}.kind: exact;\n        }}\n        actions = {{\n            set{n};\n            \
             NoAction;\n        }}\n        size = 1024;\n        default_action = NoAction();\n    }}\n"
        );
    }
    text += "    apply {\n";
    for n in 0..parts {
        let _ = write!(
            text,
            "        if (hdr.h{n}.isValid() && meta.m{n} != 0) {{\n            t{n}.apply();\n        }} else {{\n            \
             meta.m{n} = meta.m{n} + {n};\n        }}\n"
        );
    }
    text += "    }\n}\n\ncontrol E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {\n    apply {}\n}\n\n";
    text += "control C(inout headers_t hdr, inout meta_t meta) {\n    apply {}\n}\n\n";
    text += "control D(packet_out packet, in headers_t hdr) {\n    apply {\n        packet.emit(hdr);\n    }\n}\n\n";
    text += "V1Switch(P(), V(), I(), E(), C(), D()) main;\n";
    text
}

/// Minimum compilation time over several runs.
fn shortest(text: &str) -> Duration {
    let once = || {
        let start = Instant::now();
        if let Err(error) = compile("large.p4", text, &Options::default()) {
            panic!("{error}");
        }
        start.elapsed()
    };
    (0..5).map(|_| once()).min().unwrap_or_default()
}

fn main() {
    println!("{:>8} {:>10} {:>14}", "lines", "ms", "us per line");
    for parts in [12, 49, 2 * 49, 4 * 49] {
        let text = program(parts);
        let (lines, time) = (text.lines().count(), shortest(&text).as_secs_f64());
        println!("{lines:>8} {:>10.1} {:>14.1}", time * 1e3, time * 1e6 / lines as f64);
    }
}
