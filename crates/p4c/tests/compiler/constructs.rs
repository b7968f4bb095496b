//! Programs that together use every construct of the language and of v1model. Each is compiled and run on
//! packets whose results follow from the specifications.

use belljar_p4::Program;
use belljar_p4c::{Options, compile};
use belljar_p4files::stf;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/constructs");
    let entries = std::fs::read_dir(folder).expect("the folder is readable");
    let paths = entries.map(|entry| entry.expect("the folder is readable").path());
    let mut list = paths.filter(|path| path.extension().is_some_and(|end| end == "p4")).collect::<Vec<_>>();
    list.sort();
    list
}

/// Failures of one program, formatted for the user.
fn failures(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("the program is readable");
    let script = std::fs::read_to_string(path.with_extension("stf")).expect("the program has a packet test");
    let compiled = match compile(&path.display().to_string(), &text, &Options::default()) {
        Ok(compiled) => compiled,
        Err(errors) => return vec![errors.to_string()],
    };
    let program = match Program::from_text(&compiled.json.to_string()) {
        Ok(program) => program,
        Err(error) => return vec![error.to_string()],
    };
    let outcome = stf::run(&Arc::new(program), &script, false);
    if outcome.sent == 0 && outcome.failures.is_empty() {
        return vec!["the script sends no packet".into()];
    }
    outcome.failures.iter().map(ToString::to_string).collect()
}

#[test]
fn every_construct_does_what_the_specification_says() {
    let list = programs();
    assert!(list.len() >= 40, "there are only {} programs", list.len());
    let mut wrong = Vec::new();
    for path in &list {
        for failure in failures(path) {
            wrong.push(format!("{}: {failure}", path.file_name().unwrap_or_default().to_string_lossy()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A program whose branches apply no tables: in an action, in controls, in the parser, by `switch` and in a loop.
const BRANCHES: &str = include_str!("../constructs/traced.p4");

#[test]
fn traces_show_every_branch_and_its_line() {
    let compiled = compile(
        "tests/traced.p4",
        BRANCHES,
        &Options {
            include_dirs: vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/constructs")],
            ..Options::default()
        },
    );
    let compiled = compiled.unwrap_or_else(|errors| panic!("{errors}"));
    let program = Program::from_text(&compiled.json.to_string()).unwrap_or_else(|error| panic!("{error}"));
    let mut switch = belljar_p4::Switch::new(Arc::new(program), belljar_p4::SwitchConfig::default());
    switch.set_trace(true);
    switch.receive(belljar_base::SimTime::ZERO, 0, vec![1, 7, 0]);
    let trace = switch.take_trace();
    let line = |text: &str| BRANCHES.lines().position(|line| line.contains(text)).map_or(0, |at| at + 1);
    for (condition, results) in [
        ("hdr.h.a > 3", &[false][..]),
        ("hdr.h.r == 0", &[true]),
        ("hdr.h.a == 1", &[true]),
        ("hdr.h.b > 9", &[false]),
        ("hdr.h.b == 7", &[true]),
        ("round < 2", &[true, true, false]),
        ("hdr.h.b == 6", &[true]),
        ("hdr.h.r != 0", &[true]),
    ] {
        let start = format!("if {condition} (traced.p4:{}) is ", line(condition));
        let shown = trace.lines().filter_map(|line| line.trim().strip_prefix(&start)).collect::<Vec<_>>();
        let wanted = results.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown, wanted, "{condition} in\n{trace}");
    }
    // Each case of a switch, in the control and in an action, has the line of its labels.
    for case in [
        format!("if hdr.h.b == 3 (traced.p4:{}) is false", line("3: {")),
        format!("if hdr.h.b == 7 (traced.p4:{}) is true", line("7: {")),
        format!("if hdr.h.a == 8 or 9 (traced.p4:{}) is false", line("8:")),
        format!("if default (traced.p4:{}) is true", line("default: { hdr.h.r")),
        format!("if hdr.h.b == 6 (traced.p4:{}) is false", line("6: {")),
        format!("if default (traced.p4:{}) is true", line("default: { hdr.h.b = 6; }")),
    ] {
        assert!(trace.lines().any(|line| line.trim() == case), "no {case:?} in\n{trace}");
    }
}

#[test]
fn digests_have_fields_constants_and_expressions() {
    let text = "#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<16> c; }
struct headers_t { h_t h; }
struct meta_t {}
struct seen_t { bit<3> kind; bit<16> c; bool set; bit<8> sum; }
parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); transition accept; }
}
control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply { digest<seen_t>(1, { 3w6, hdr.h.c, true, hdr.h.a + 1 }); }
}
#include \"rest.inc\"
";
    let include_dirs = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/constructs")];
    let compiled = compile("digests.p4", text, &Options { include_dirs, ..Options::default() });
    let json = compiled.unwrap_or_else(|errors| panic!("{errors}")).json;
    // BMv2 reads fields in learn lists, and nothing else.
    for element in json["learn_lists"][0]["elements"].as_array().expect("the digest has elements") {
        assert_eq!(element["type"], "field", "{element}");
    }
    let program = Program::from_text(&json.to_string()).unwrap_or_else(|error| panic!("{error}"));
    let mut switch = belljar_p4::Switch::new(Arc::new(program), belljar_p4::SwitchConfig::default());
    switch.receive(belljar_base::SimTime::ZERO, 0, vec![8, 0x12, 0x34]);
    let mut found = Vec::new();
    while let Some(notification) = switch.notification() {
        if let belljar_p4::switch::Notification::Digest { samples, .. } = notification {
            found.extend(samples);
        }
    }
    assert_eq!(found, [vec![vec![6], vec![0x12, 0x34], vec![1], vec![9]]]);
}

#[test]
fn long_chains_of_conditions_run() {
    let branch = |n: u32| format!("if (hdr.h.c == {n}) {{ hdr.h.d = {}; }} else ", n * 7 % 65_536);
    let text = format!(
        "#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<16> c; bit<16> d; }}
struct headers_t {{ h_t h; }}
struct meta_t {{}}
parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    state start {{ packet.extract(hdr.h); transition accept; }}
}}
control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    apply {{ std.egress_spec = 1; {} hdr.h.d = 0xFFFF; }}
}}
#include \"rest.inc\"
",
        (0..3_000).map(branch).collect::<String>()
    );
    let include_dirs = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/constructs")];
    let compiled = compile("chain.p4", &text, &Options { include_dirs, ..Options::default() });
    let json = compiled.unwrap_or_else(|errors| panic!("{errors}")).json.to_string();
    let program = Arc::new(Program::from_text(&json).unwrap_or_else(|error| panic!("{error}")));
    let script = "packet 0 0000 0000\nexpect 1 0000 0000 $\npacket 0 0BB7 0000\nexpect 1 0BB7 5201 $\n\
                  packet 0 0BB8 0000\nexpect 1 0BB8 FFFF $\n";
    let outcome = stf::run(&program, script, false);
    assert!(outcome.failures.is_empty() && outcome.sent == 3, "{:?}", outcome.failures);
}
