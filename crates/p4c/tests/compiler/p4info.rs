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
fn numbers_in_key_names_keep_their_base() {
    let text = info(
        "#define MASK 0x3C
         #define HEX(digits) 0x##digits
         #define BITS 0b11
         const bit<32> M = 0x3D; const int TOP = 0xF;",
        "table t {
             key = {
                 h.h.b & MASK: ternary; h.h.b & M: ternary; h.h.b & HEX(3E): ternary; h.h.b & 32w0o17: ternary;
                 h.h.b & (bit<32>)0x0E: ternary; h.h.b & (0x1 << 3): ternary; h.h.b & (1 << 0x5): ternary;
                 h.h.b[0xF:0x8]: exact; h.h.b[TOP:0]: exact; h.h.b[TOP - 1:BITS]: exact;
             }
             actions = { NoAction; }
         }
         apply { t.apply(); }",
        "",
    );
    let keys = [
        "h.h.b & 0x3c",
        "h.h.b & 0x3d",
        "h.h.b & 0x3e",
        "h.h.b & 0o17",
        "h.h.b & 0xe",
        "h.h.b & 0x8",
        "h.h.b & 32",
        "h.h.b[0xf:0x8]",
        "h.h.b[0xf:0]",
        "h.h.b[0xe:0b11]",
    ];
    for name in keys {
        has(&text, &[&format!("name: \"{name}\"")]);
    }
}

#[test]
fn annotations_are_written_token_by_token() {
    let text = info(
        "#define NUMBER 0x1F
         @controller_header(\"to\" ++ \"me\") header in_t { @keep(8w0xF,4s1) bit<8> x; }",
        "@restriction(\"a \\\"b\\\" \\n\") @refers_to(other,b) @field(A/B) @at(c::d) @n(NUMBER,00) @inner(@x(y),z>>1)
         @empty() @max_group_size(0x10) @noWarn(\"unused\")
         table t { actions = { NoAction; } }
         apply { t.apply(); }",
        "",
    );
    let wanted = [
        r#"annotations: "@restriction(\"a \\\"b\\\" \\n\")""#,
        "annotations: \"@refers_to(other , b)\"",
        "annotations: \"@field(A / B)\"",
        "annotations: \"@at(c : : d)\"",
        "annotations: \"@n(0x1F , 00)\"",
        "annotations: \"@inner(@ x ( y ) , z > > 1)\"",
        "annotations: \"@empty\"",
        "annotations: \"@max_group_size(0x10)\"",
        r#"annotations: "@noWarn(\"unused\")""#,
    ];
    has(&text, &wanted);
    has(&text, &[r#"annotations: "@controller_header(\"tome\")""#]);
    has(&text, &["annotations: \"@keep(8w0xF , 4s1)\""]);
}

#[test]
fn fields_with_default_values_are_left_out() {
    let before = "@p4runtime_translation(\"\", 32) type bit<8> port_t;";
    let ingress = "
        action a(port_t port) {}
        counter(0, CounterType.bytes) none;
        @list[0, false, \"\"]
        table t { key = { h.h.b: exact; } actions = { a; } size = 0; }
        apply { t.apply(); none.count(0); }";
    let text = info(before, ingress, "@platform_property(multicast_group_table_size = 0)");
    assert!(!text.contains("uri:") && !text.contains("size: 0"), "{text}");
    has(&text, &["unit: BYTES", "}", "}"]);
    has(&text, &["platform_properties {", "}"]);
    has(&text, &["int64_value: 0", "}", "expressions {", "bool_value: false", "}", "expressions {"]);
    has(&text, &["string_value: \"\""]);
    has(&text, &["size: 1024"]);
}

#[test]
fn the_size_of_a_table_with_entries_is_their_number() {
    let ingress = "
        action a() {}
        table t {
            key = { h.h.b: exact; } actions = { a; } size = 10;
            const entries = { 1: a(); 2: a(); }
        }
        table u { key = { h.h.b: exact; } actions = { a; } size = 0; }
        apply { t.apply(); u.apply(); }";
    let compiled = compile("program.p4", &program("", ingress, ""), &Options::default());
    let compiled = compiled.unwrap_or_else(|error| panic!("{error}"));
    has(&compiled.p4info, &["size: 10", "is_const_table: true"]);
    let size = |table: &str| {
        let tables = &compiled.json["pipelines"][0]["tables"];
        let found = tables.as_array().into_iter().flatten().find(|one| one["name"] == table);
        found.map(|found| found["max_size"].clone())
    };
    assert_eq!((size("I.t"), size("I.u")), (Some(2.into()), Some(1024.into())));
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
fn two_instances_of_a_kind_with_one_name_are_refused() {
    let table = |name: &str, property: &str| {
        format!("table {name} {{ key = {{ h.h.b: exact; }} actions = {{ NoAction; }} {property} }}")
    };
    let tables = |first: &str, second: &str| format!("{} {}", table("t", first), table("u", second));
    let applied = "apply { t.apply(); u.apply(); }";
    let profiles = tables("implementation = p;", "implementation = q;");
    let direct = tables("counters = p;", "counters = q;");
    let rates = tables("meters = p;", "meters = q;");
    let inline = |property: &str| tables(property, property);
    let cases = [
        ("counter", "counter(1, CounterType.bytes) p; @name(\"p\") counter(2, CounterType.bytes) q; apply { p.count(0); q.count(0); }".to_string()),
        ("meter", "meter(1, MeterType.bytes) p; @name(\".I.p\") meter(2, MeterType.bytes) q; apply {}".to_string()),
        ("register", "@name(\"r\") register<bit<8>>(1) p; @name(\"r\") register<bit<8>>(1) q; apply { p.write(0, 1); q.write(0, 1); }".to_string()),
        ("action profile", format!("@name(\"r\") action_profile(1) p; @name(\"r\") action_profile(2) q; {profiles} {applied}")),
        ("direct counter", format!("@name(\"r\") direct_counter(CounterType.bytes) p; @name(\"r\") direct_counter(CounterType.bytes) q; {direct} {applied}")),
        ("direct meter", format!("@name(\"r\") direct_meter<bit<2>>(MeterType.bytes) p; @name(\"r\") direct_meter<bit<2>>(MeterType.bytes) q; {rates} {applied}")),
        ("action profile", format!("{} {applied}", inline("@name(\"r\") implementation = action_profile(4);"))),
    ];
    for (kind, ingress) in cases {
        let error = compile("program.p4", &program("", &ingress, ""), &Options::default());
        let error = error.err().unwrap_or_else(|| panic!("{kind}: this was compiled")).to_string();
        assert!(error.contains(&format!("another {kind} has the name")), "{kind}: {error}");
    }
    let headers = "@controller_header(\"packet_in\") header in_t { bit<8> x; }
                   @controller_header(\"packet_in\") header out_t { bit<8> x; }";
    let error = compile("program.p4", &program(headers, "apply {}", ""), &Options::default());
    let error = error.err().unwrap_or_else(|| panic!("this was compiled")).to_string();
    assert!(error.contains("another controller header has the name 'packet_in'"), "{error}");
    // One name may be that of objects of several kinds, and one profile may have several tables.
    let shared = tables("implementation = p;", "implementation = p;");
    info(
        "",
        &format!(
            "@name(\"r\") action_profile(4) p; @name(\"r\") register<bit<8>>(1) q; {shared} apply {{ t.apply(); u.apply(); q.write(0, 1); }}"
        ),
        "",
    );
}

#[test]
fn properties_of_the_package_have_their_types() {
    let refused = |package: &str| {
        let error = compile("program.p4", &program("", "apply {}", package), &Options::default());
        error.err().unwrap_or_else(|| panic!("{package}: this was compiled")).to_string()
    };
    assert!(refused("@pkginfo(name = 1)").contains("'name' of @pkginfo must be a string"));
    let error = refused("@platform_property(multicast_group_table_size = \"x\")");
    assert!(error.contains("'multicast_group_table_size' of @platform_property must be a number"), "{error}");
    let package = "@pkginfo(nane = \"x\", arch = \"mine\") @platform_property(size = 4)";
    let compiled = compile("program.p4", &program("", "apply {}", package), &Options::default());
    let compiled = compiled.unwrap_or_else(|error| panic!("{error}"));
    has(&compiled.p4info, &["pkg_info {", "arch: \"mine\""]);
    let warnings = compiled.warnings.to_string();
    for wanted in ["@pkginfo has no key 'nane'", "@platform_property has no key 'size'", "'arch' of @pkginfo"]
    {
        assert!(warnings.contains(wanted), "no {wanted} in\n{warnings}");
    }
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

/// P4Info that others have committed, in the file that `BELLJAR_P4INFO_PAIRS` names: a line has a source, its
/// P4Info and macros (`NAME=VALUE`), separated by tabs. `initial_default_action`, which older versions of p4c do
/// not write, is not compared if the P4Info has none.
#[test]
#[allow(clippy::disallowed_methods)] // The files are named by the environment.
fn pairs_of_a_list_have_the_same_p4info() {
    let Some(list) = std::env::var_os("BELLJAR_P4INFO_PAIRS") else { return };
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let list = read(list.to_str().expect("a path"));
    let (mut wrong, mut pairs) = (Vec::new(), 0);
    for line in list.lines() {
        let mut columns = line.split('\t');
        let (Some(source), Some(wanted)) = (columns.next(), columns.next()) else { continue };
        pairs += 1;
        let define = |text: &str| match text.split_once('=') {
            Some((name, value)) => (name.to_string(), value.to_string()),
            None => (text.to_string(), "1".to_string()),
        };
        let options = Options { defines: columns.map(define).collect(), ..Options::default() };
        let wanted = read(wanted);
        let compiled = match compile(source, &read(source), &options) {
            Ok(compiled) => compiled.p4info,
            Err(error) => {
                wrong.push(format!("{source}: {error}"));
                continue;
            }
        };
        let with_default = wanted.contains("initial_default_action");
        let (own, wanted) = (fields(&compiled, with_default), fields(&wanted, with_default));
        if own != wanted {
            let at = (0..).find(|at| own.get(*at) != wanted.get(*at)).unwrap_or(0);
            wrong.push(format!("{source}: field {at}: {:?}, not {:?}", own.get(at), wanted.get(at)));
        }
    }
    eprintln!("{} of {pairs} programs have the same P4Info", pairs - wrong.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Lines of P4Info without comments, and without `initial_default_action` unless `with_default`.
fn fields(text: &str, with_default: bool) -> Vec<&str> {
    let (mut list, mut inside) = (Vec::new(), false);
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        inside |= !with_default && line == "  initial_default_action {";
        if !inside {
            list.push(line.trim());
        }
        inside &= line != "  }";
    }
    list
}
