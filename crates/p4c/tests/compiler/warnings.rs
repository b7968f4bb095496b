//! Warnings: where they occur and how they are disabled.

use belljar_p4c::source::Severity;
use belljar_p4c::{Options, compile};

const HEAD: &str = "\
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t x; h_t y; }
struct meta_t { bit<8> m; }
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.x); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply {} }
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply {} }
control C(inout headers_t hdr, inout meta_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
";

/// Warnings of an ingress control with these declarations and this body: name and source text.
fn warned(locals: &str, body: &str, options: &Options) -> Vec<(String, String)> {
    let text = format!(
        "{HEAD}\n{locals}\ncontrol I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{\n{body}\n}}\n\
         V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    );
    let compiled = compile("w.p4", &text, options).unwrap_or_else(|error| panic!("{error}"));
    let warnings = &compiled.warnings;
    let list = warnings.list.iter().map(|warning| match warning.severity {
        Severity::Warning(name) => (name.to_string(), warnings.sources.text(warning.span).to_string()),
        Severity::Error => panic!("an error of a program that compiles"),
    });
    list.collect()
}

fn check(locals: &str, body: &str, wanted: &[(&str, &str)]) {
    let got = warned(locals, body, &Options::default());
    let got = got.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect::<Vec<_>>();
    assert_eq!(got, wanted, "{locals}\n{body}");
}

#[test]
fn a_variable_without_a_value() {
    let use_ = [("uninitialized-use", "v")];
    check("", "apply { bit<8> v; hdr.x.a = v; }", &use_);
    check("", "apply { bit<8> v; if (hdr.x.b == 1) { v = 2; } hdr.x.a = v; }", &use_);
    check("", "apply { bit<8> v; switch (hdr.x.b) { 1: { v = 2; } } hdr.x.a = v; }", &use_);
    check(
        "struct s_t { bit<8> p; bit<8> q; }",
        "apply { s_t s; s.p = 1; hdr.x.a = s.q; }",
        &[("uninitialized-use", "s.q")],
    );
    check("", "apply { bit<8> v; if (hdr.x.b == 1) { v = 2; } else { v = 3; } hdr.x.a = v; }", &[]);
    check("", "apply { bit<8> v; if (hdr.x.b == 1) { return; } else { v = 3; } hdr.x.a = v; }", &[]);
    check("", "apply { bit<8> v; switch (hdr.x.b) { 1: { v = 2; } default: { v = 1; } } hdr.x.a = v; }", &[]);
    check("void f(out bit<8> r) { r = 1; }", "apply { bit<8> v; f(v); hdr.x.a = v; }", &[]);
    check("", "bit<8> v;\naction set() { v = 1; }\napply { set(); hdr.x.a = v; }", &[]);
    let table = "action a() {}\ntable t { actions = { a; NoAction; } }\n";
    let all = "apply { bit<8> v; switch (t.apply().action_run) { a: { v = 1; } default: { v = 2; } } hdr.x.a = v; }";
    check("", &format!("{table}{all}"), &[]);
}

#[test]
fn an_out_parameter_without_a_value() {
    check(
        "void f(out bit<8> r, in bit<8> v) { if (v == 1) { r = 1; } }",
        "apply { f(hdr.x.a, hdr.x.b); }",
        &[("uninitialized-out-param", "r")],
    );
    check(
        "void f(out bit<8> r, in bit<8> v) { if (v == 1) { r = 1; return; } r = 2; }",
        "apply { f(hdr.x.a, hdr.x.b); }",
        &[],
    );
}

#[test]
fn a_field_of_an_invalid_header() {
    let y = |text| [("invalid-header", text)];
    check("", "apply { hdr.y.setInvalid(); hdr.x.a = hdr.y.a; }", &y("hdr.y.a"));
    check("", "apply { hdr.y.setInvalid(); hdr.y.a = 1; }", &y("hdr.y.a"));
    check("", "apply { h_t h; hdr.x.a = h.b; }", &y("h.b"));
    check("", "apply { h_t h = {#}; hdr.x.a = h.b; }", &y("h.b"));
    check("", "apply { hdr.y.setInvalid(); hdr.y.setValid(); hdr.x.a = hdr.y.a; }", &[]);
    check("", "apply { hdr.y.setInvalid(); if (hdr.y.isValid()) { hdr.x.a = hdr.y.a; } }", &[]);
    check("", "apply { if (hdr.x.b == 1) { hdr.y.setInvalid(); } hdr.x.a = hdr.y.a; }", &[]);
    check("", "apply { h_t h; h.setValid(); h.a = 1; hdr.x.a = h.a; }", &[]);
}

#[test]
fn what_is_never_used_and_what_is_hidden() {
    let table = "table t { actions = { NoAction; } }\n";
    check("", &format!("{table}apply {{}}"), &[("unused", "t")]);
    check("", &format!("{table}apply {{ t.apply(); }}"), &[]);
    let unused = |text| [("unused", text)];
    check("", "bit<8> v;\napply {}", &unused("v"));
    check("", "apply { bit<8> v = hdr.x.a; }", &unused("v"));
    check("const bit<8> LIMIT = 1;", "apply {}", &unused("LIMIT"));
    check("const bool right = static_assert(true);", "apply {}", &[]);
    check("", "action a() {}\napply {}", &unused("a"));
    check(
        "",
        "action a(bit<8> p) {}\ntable t { actions = { a; } default_action = a(1); }\napply { t.apply(); }",
        &unused("p"),
    );
    check("", "register<bit<8>>(4) r;\napply {}", &unused("r"));
    check(
        "",
        "direct_counter(CounterType.packets) c;\ntable t { actions = { NoAction; } counters = c; }\napply { t.apply(); }",
        &[],
    );
    check("void f(in bit<8> p) { return; }", "apply { f(hdr.x.a); }", &unused("p"));
    check("control X() { apply {} }", "apply {}", &unused("X"));
    check("control X() { apply {} }", "apply { X.apply(); }", &[]);
    check("control X() { apply {} }", "X() x;\napply { x.apply(); }", &[]);
    check(
        "const bit<8> hidden = 1;",
        "apply { hdr.x.b = hidden; { bit<8> hidden = 2; hdr.x.a = hidden; } }",
        &[("shadow", "hidden")],
    );
    check("", "apply { hdr.x.a = 8w257; }", &[("overflow", "8w257")]);
}

#[test]
fn warnings_are_switched_off_by_name() {
    let body = "apply { bit<8> v; hdr.x.a = v; }";
    let silenced = |name: &str| Options { silenced: vec![name.to_string()], ..Options::default() };
    assert_eq!(warned("", body, &silenced("uninitialized-use")), []);
    assert_eq!(warned("", body, &silenced("shadow")).len(), 1);
    // `@noWarn` before the declaration accepts p4c's spelling and the hyphenated one.
    for name in ["uninitialized_use", "uninitialized-use"] {
        let locals = format!("@noWarn(\"{name}\")");
        assert_eq!(warned(&locals, body, &Options::default()), []);
    }
    let table = "@noWarn(\"unused\") table t { actions = { NoAction; } }\napply {}";
    assert_eq!(warned("", table, &Options::default()), []);
    let wrong = warned("@noWarn(\"unsed\")", "apply {}", &Options::default());
    assert_eq!(wrong, [("invalid".to_string(), "\"unsed\"".to_string())]);
}
