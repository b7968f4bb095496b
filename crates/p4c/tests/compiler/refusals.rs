//! Programs that p4c refuses for BMv2, because the switch could not carry them out: each is refused by its own message.

use belljar_p4c::{Options, compile};

/// Parts of a program that a case adds to the smallest one.
#[derive(Clone, Copy, Default)]
struct Parts {
    parser: &'static str,
    locals: &'static str,
    apply: &'static str,
    verify: &'static str,
    compute: &'static str,
    deparser: &'static str,
}

fn program(parts: Parts) -> String {
    let Parts { parser, locals, apply, verify, compute, deparser } = parts;
    format!(
        "#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; bit<16> c; }}
header v_t {{ bit<8> n; varbit<64> v; }}
struct headers_t {{ h_t h; h_t[2] s; v_t v; }}
struct meta_t {{ bit<8> m; bit<16> w; }}
register<bit<8>>(4) r;
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    state start {{ packet.extract(hdr.h); {parser} transition accept; }}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ {verify} }} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    action a() {{ }}
    {locals}
    apply {{ std.egress_spec = 1; {apply} }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{ apply {{ }} }}
control C(inout headers_t hdr, inout meta_t meta) {{ apply {{ {compute} }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.h); {deparser} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
    )
}

fn refused(parts: Parts, wanted: &str) {
    let text = program(parts);
    match compile("program.p4", &text, &Options::default()) {
        Ok(_) => panic!("this was compiled, wanted {wanted:?}:\n{text}"),
        Err(errors) => {
            let shown = errors.to_string();
            assert!(shown.contains(wanted), "{shown} instead of {wanted:?}");
        }
    }
}

fn compiles(parts: Parts) {
    let text = program(parts);
    let compiled = compile("program.p4", &text, &Options::default());
    let json = compiled.unwrap_or_else(|errors| panic!("{errors}")).json.to_string();
    belljar_p4::Program::from_text(&json).unwrap_or_else(|error| panic!("{error}\n{text}"));
}

#[test]
fn tables_that_the_target_cannot_hold() {
    let table = |locals| Parts { locals, apply: "t.apply();", ..Parts::default() };
    let cases = [
        ("table t { key = { hdr.h.a: lpm; hdr.h.b: lpm; } actions = { a; } }", "at most one lpm key"),
        ("table t { key = { hdr.v.v: exact; } actions = { a; } }", "a key cannot have the type varbit<64>"),
        (
            "action b(varbit<8> x) { } table t { key = { hdr.h.a: exact; } actions = { b; } }",
            "gives no varbit",
        ),
        (
            "table t { key = { hdr.h.a: exact; } actions = { @tableonly @defaultonly a; } }",
            "marked @tableonly and @defaultonly",
        ),
        (
            "action_selector(HashAlgorithm.crc16, 32w8, 32w8) s;
             table t { key = { hdr.h.a: exact; hdr.h.b: selector; } actions = { a; } implementation = s; }
             table u { key = { hdr.h.a: exact; hdr.h.c: selector; } actions = { a; } implementation = s; }",
            "with other selector keys",
        ),
        (
            "direct_meter<bit<8>>(MeterType.bytes) d; action b() { d.read(meta.m); }
             table t { key = { hdr.h.a: exact; } actions = { b; } }",
            "no table has the meter 'I.d'",
        ),
        (
            "@id(0x02000007) action b() { } table t { key = { hdr.h.a: exact; } actions = { b; } }",
            "the prefix of this @id is 0x02, not 0x01",
        ),
        (
            "@id(7) action b() { } @id(0x01000007) action c() { }
             table t { key = { hdr.h.a: exact; } actions = { b; c; } }",
            "has this @id too",
        ),
    ];
    for (locals, wanted) in cases {
        let parts = if locals.contains("table u") {
            Parts { apply: "t.apply(); u.apply();", ..table(locals) }
        } else {
            table(locals)
        };
        refused(parts, wanted);
    }
    compiles(table("table t { key = { hdr.h.a: lpm; hdr.h.b: ternary; } actions = { a; } }"));
    compiles(table("@id(7) action b() { } table t { key = { hdr.h.a: exact; } actions = { b; } }"));
}

#[test]
fn externs_where_the_target_has_none() {
    for call in [
        "r.write(0, 1);",
        "mark_to_drop(std);",
        "hash(meta.w, HashAlgorithm.crc16, 16w0, { hdr.h.a }, 16w5);",
        "random(meta.m, 8w0, 8w5);",
        "digest(1, { hdr.h.a });",
    ] {
        refused(Parts { parser: call, ..Parts::default() }, "cannot be called in a parser of this target");
    }
    refused(
        Parts { parser: "hdr.s.push_front(1);", ..Parts::default() },
        "a stack cannot be shifted in a parser",
    );
    compiles(Parts { parser: "log_msg(\"a {}\", { hdr.h.a }); assert(hdr.h.a < 9);", ..Parts::default() });
    refused(Parts { deparser: "r.write(0, 1);", ..Parts::default() }, "cannot be called in a deparser");
    refused(
        Parts { apply: "log_msg(\"a {}\", hdr.h.a);", ..Parts::default() },
        "log_msg needs a list of values",
    );
    let random = "hash(meta.w, HashAlgorithm.random, 16w0, { hdr.h.a }, 16w5);";
    refused(Parts { apply: random, ..Parts::default() }, "no hash algorithm 'random'");
}

#[test]
fn a_header_emitted_by_a_condition_is_emitted_once() {
    refused(
        Parts { deparser: "if (hdr.h.a == 1) { packet.emit(hdr.h); }", ..Parts::default() },
        "can only be emitted once",
    );
    compiles(Parts { deparser: "if (hdr.h.a == 1) { packet.emit(hdr.v); }", ..Parts::default() });
}

#[test]
fn checksums_in_the_control_and_order_of_the_target() {
    let update = "update_checksum(true, { hdr.h.a }, hdr.h.c, HashAlgorithm.csum16);";
    let verify = "verify_checksum(true, { hdr.h.a }, hdr.h.c, HashAlgorithm.csum16);";
    refused(Parts { verify: update, ..Parts::default() }, "the checksum control behind egress");
    refused(Parts { compute: verify, ..Parts::default() }, "the checksum control before ingress");
    compiles(Parts { verify, compute: update, ..Parts::default() });
    for after in ["hdr.h.a = 1;", "update_checksum(true, { hdr.h.c + 1 }, hdr.s[0].c, HashAlgorithm.csum16);"]
    {
        let compute = format!("{update} {after}").leak();
        refused(Parts { compute, ..Parts::default() }, "nothing can be computed after a checksum");
        let compute = format!("{after} {update}").leak();
        let computed = after.starts_with("update");
        if computed {
            refused(
                Parts { compute: format!("{after} {after}").leak(), ..Parts::default() },
                "nothing can be",
            );
        }
        compiles(Parts { compute, ..Parts::default() });
    }
}
