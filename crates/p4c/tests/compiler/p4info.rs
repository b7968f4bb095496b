//! P4Info of own programs, compared with known output of p4c.

use belljar_p4c::{Options, compile};

/// Program with the given top-level declarations, ingress body and package annotations.
fn program(before: &str, ingress: &str, package: &str) -> String {
    format!(
        "#include <core.p4>
#include <v1model.p4>
{before}
header h_t {{ @name(\"renamed\") bit<8> a; bit<32> b; }}
struct headers_t {{ h_t h; @name(\".top\") h_t other; }}
struct meta_t {{}}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{ state start {{ transition accept; }} }}
control V(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ {ingress} }}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{}} }}
control D(packet_out p, in headers_t h) {{ apply {{}} }}
{package}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"
    )
}

fn info(before: &str, ingress: &str, package: &str) -> String {
    let text = program(before, ingress, package);
    let compiled = compile("program.p4", &text, &Options::default());
    compiled.unwrap_or_else(|error| panic!("{error}")).p4info
}

/// Asserts that the text contains these consecutive lines, ignoring indentation.
fn has(text: &str, wanted: &[&str]) {
    let lines = text.lines().map(str::trim).collect::<Vec<_>>();
    assert!(lines.windows(wanted.len()).any(|lines| lines == wanted), "no {wanted:#?} in\n{text}");
}

#[test]
fn instances_made_in_place_have_the_name_and_annotations_of_the_property() {
    let text = info(
        "",
        "action a() {}
         table t {
             key = { h.h.b: exact; h.h.a: selector; }
             actions = { a; }
             @name(\"choice\") @max_group_size(2 * 8) implementation = action_selector(HashAlgorithm.crc16, 32, 16);
             @name(\"hits\") counters = direct_counter(CounterType.bytes);
             @name(\"rate\") meters = direct_meter<bit<2>>(MeterType.packets);
         }
         apply { t.apply(); }",
        "",
    );
    has(&text, &["name: \"choice\"", "alias: \"choice\"", "}"]);
    has(&text, &["with_selector: true", "size: 32", "max_group_size: 16"]);
    has(&text, &["name: \"hits\"", "alias: \"hits\"", "}", "spec {", "unit: BYTES"]);
    has(&text, &["name: \"rate\"", "alias: \"rate\"", "}", "spec {", "unit: PACKETS"]);
}

#[test]
fn the_package_says_who_made_it() {
    let package = "@pkginfo(name = \"router\", organization = \"lab\") @pkginfo(version = \"1.\" ++ \"2\")
                   @platform_property(multicast_group_table_size = 5 * 2)";
    has(
        &info("", "apply {}", package),
        &[
            "pkg_info {",
            "name: \"router\"",
            "version: \"1.2\"",
            "arch: \"v1model\"",
            "organization: \"lab\"",
            "platform_properties {",
            "multicast_group_table_size: 10",
        ],
    );
}

#[test]
fn structured_annotations_have_their_values() {
    let text = info(
        "const int N = 4;",
        "@list[1, \"x\", N > 3] @pairs[n = N * 2, last = false] table t { actions = { NoAction; } } apply { t.apply(); }",
        "",
    );
    has(&text, &["name: \"list\"", "expression_list {", "expressions {", "int64_value: 1"]);
    has(&text, &["expressions {", "bool_value: true"]);
    has(&text, &["key: \"n\"", "value {", "int64_value: 8"]);
}

#[test]
fn keys_are_spelled_as_in_the_source() {
    let text = info(
        "",
        "table t {
             key = { h.h.a: exact; h.other.b: exact; h.h.b & 0x0F0F: ternary; h.h.b & 8: ternary; }
             actions = { NoAction; }
         }
         apply { t.apply(); }",
        "",
    );
    for name in ["h.h.renamed", "top.b", "h.h.b & 0xf0f", "h.h.b & 8"] {
        has(&text, &[&format!("name: \"{name}\"")]);
    }
}

#[test]
fn a_type_of_a_translated_type_has_the_width_of_the_original() {
    let text = info(
        "@p4runtime_translation(\"lab/port\", 12) type bit<8> port_t; @mark type port_t inner_t;",
        "action a(inner_t x, port_t y) {} table t { actions = { a; } } apply { t.apply(); }",
        "",
    );
    has(&text, &["name: \"x\"", "bitwidth: 8"]);
    has(&text, &["name: \"y\"", "bitwidth: 12"]);
    has(&text, &["}", "}", "}", "annotations: \"@mark\""]);
}

#[test]
fn two_tables_with_one_name_are_refused() {
    let tables = "table t { actions = { NoAction; } } @name(\".I.t\") table u { actions = { NoAction; } }
                  apply { t.apply(); u.apply(); }";
    let error = compile("program.p4", &program("", tables, ""), &Options::default());
    let error = error.err().unwrap_or_else(|| panic!("this was compiled")).to_string();
    assert!(error.contains("another table has the name 'I.t'"), "{error}");
}

#[test]
fn objects_are_in_the_order_of_their_declarations_with_unique_aliases() {
    let before = "
        struct inner_t { bit<8> x; bit<16> y; }
        @controller_header(\"packet_in\") header in_t { inner_t inner; bit<8> z; }
        control C(inout bit<32> b) {
            counter(4, CounterType.packets) first;
            table u { key = { b: exact @Mark[kind=\"key\"]; } actions = { NoAction; } }
            apply { first.count(0); u.apply(); }
        }
        action late(inout bit<32> b) { b = 1; }";
    let ingress = "
        counter(4, CounterType.packets) second;
        @name(\"u\") action act() { second.count(1); }
        table t { key = { h.h.a: exact; } actions = { act; } }
        apply { C.apply(h.h.b); t.apply(); exit; late(h.h.b); }";
    let text = info(before, ingress, "");
    let at = |piece: &str| text.find(piece).unwrap_or_else(|| panic!("no {piece} in\n{text}"));
    // The control that is applied directly comes after the tables and counters around it.
    assert!(at("name: \"I.t\"") < at("name: \"I.C.u\""), "{text}");
    assert!(at("name: \"I.second\"") < at("name: \"I.C.first\""), "{text}");
    // A table and an action share the last part of their names.
    has(&text, &["name: \"I.C.u\"", "alias: \"C.u\""]);
    has(&text, &["name: \"I.u\"", "alias: \"I.u\""]);
    has(&text, &["match_type: EXACT", "structured_annotations {", "name: \"Mark\""]);
    has(&text, &["id: 1", "name: \"inner.x\"", "bitwidth: 8"]);
    has(&text, &["id: 2", "name: \"inner.y\"", "bitwidth: 16"]);
    has(&text, &["id: 3", "name: \"z\"", "bitwidth: 8"]);
    // An action that is called after an exit.
    has(&text, &["name: \"late\"", "alias: \"late\""]);
}

#[test]
fn briefs_and_descriptions_are_documentation() {
    let text = info(
        "struct pair_t { @brief(\"low byte\") bit<8> low; bit<16> high; }",
        "@brief(\"sends\") @description(\"to a port\") @other action a(@description(\"number\") bit<9> port) {}
         @description(\"all\")
         table t {
             key = { h.h.b: exact @brief(\"second\") @name(\"b\"); }
             actions = { a; }
         }
         apply { t.apply(); }",
        "@brief(\"demo\") @seen(1) @pkginfo(name = \"p\") @made[by = \"us\"]",
    );
    has(
        &text,
        &["name: \"p\"", "doc {", "brief: \"demo\"", "}", "annotations: \"@seen(1)\"", "arch: \"v1model\""],
    );
    has(&text, &["arch: \"v1model\"", "structured_annotations {", "name: \"made\""]);
    has(
        &text,
        &[
            "annotations: \"@other\"",
            "doc {",
            "brief: \"sends\"",
            "description: \"to a port\"",
            "}",
            "}",
            "params {",
        ],
    );
    has(&text, &["bitwidth: 9", "doc {", "description: \"number\"", "}", "}"]);
    has(&text, &["alias: \"t\"", "doc {", "description: \"all\"", "}"]);
    has(&text, &["match_type: EXACT", "doc {", "brief: \"second\"", "}"]);
}

#[test]
fn conditional_groups_in_strings_are_those_of_the_preprocessor() {
    let table = "@entry_restriction(\"
#ifdef WIDE
            // Wide
            b != 0;
  #if 1 > 2
            never;
  #endif
#else
            b == 1;
#endif
            # note
        \") table t { key = { h.h.b: exact @name(\"b\"); } actions = { NoAction; } } apply { t.apply(); }";
    let text = info("", table, "");
    let wanted = "@entry_restriction(\\\"\\n\\n\\n\\n\\n\\n\\n\\n            b == 1;\\n\\n            # note\\n        \\\")";
    assert!(text.contains(wanted), "{text}");
    let text = info("#define WIDE", table, "");
    let wanted =
        "\\n\\n            // Wide\\n            b != 0;\\n\\n\\n\\n\\n\\n\\n            # note\\n        ";
    assert!(text.contains(wanted), "{text}");
    let open = table.replace("#endif\n            # note", "");
    let error = compile("program.p4", &program("", &open, ""), &Options::default());
    let error = error.err().unwrap_or_else(|| panic!("this was compiled")).to_string();
    assert!(error.contains("this conditional group is not closed in the string"), "{error}");
}

#[test]
fn value_sets_have_a_match_for_each_field() {
    let before = "@p4runtime_translation(\"x/port\", string) type bit<9> port_t;
        struct pair_t { @brief(\"low byte\") bit<8> low; @match(ternary) bit<16> high; }
        @controller_header(\"packet_in\") header in_t { port_t port; bit<7> pad; }";
    let text =
        program(before, "action a(port_t port) {} table t { actions = { a; } } apply { t.apply(); }", "");
    let text = text.replace(
        "state start { transition accept; }",
        "value_set<pair_t>(2) pairs; value_set<tuple<bit<8>, bit<32>>>(3) tuples;
         state start { p.extract(h.h); transition select(h.h.a, (bit<16>)h.h.b) { pairs: next; default: accept; } }
         state next { transition select(h.h.a, h.h.b) { tuples: accept; default: reject; } }",
    );
    let compiled = compile("program.p4", &text, &Options::default());
    let text = compiled.unwrap_or_else(|error| panic!("{error}")).p4info;
    has(
        &text,
        &["name: \"low\"", "bitwidth: 8", "match_type: EXACT", "doc {", "brief: \"low byte\"", "}", "}"],
    );
    has(&text, &["id: 2", "name: \"high\"", "bitwidth: 16", "match_type: TERNARY"]);
    has(
        &text,
        &[
            "id: 1",
            "bitwidth: 8",
            "match_type: EXACT",
            "}",
            "match {",
            "id: 2",
            "bitwidth: 32",
            "match_type: EXACT",
        ],
    );
    // A translation to strings leaves no width.
    assert!(!text.contains("bitwidth: 0"), "{text}");
    has(&text, &["name: \"port\"", "type_name {", "name: \"port_t\""]);
}
