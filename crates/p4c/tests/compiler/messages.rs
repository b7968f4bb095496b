//! Messages: the place, the excerpt and the remedy.

use belljar_p4c::{Options, compile};

fn refused(text: &str) -> String {
    match compile("program.p4", text, &Options::default()) {
        Ok(_) => panic!("this was compiled:\n{text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_syntax_error_shows_its_line() {
    let message = refused("#include <core.p4>\nconst bit<8> x = 1\nconst bit<8> y = 2;\n");
    let expected =
        "error: expected ';', found 'const'\n --> program.p4:3:1\n  |\n3 | const bit<8> y = 2;\n  | ^^^^^";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn a_misspelt_name_gets_a_suggestion() {
    let message = refused("struct s { bit<8> length; }\nbit<8> f(in s x) { return x.lenght; }\n");
    assert!(message.contains("program.p4:2:29"), "{message}");
    assert!(message.contains("did you mean 'length'?"), "{message}");
}

#[test]
fn types_that_differ_are_named() {
    let message = refused("bit<8> f(in bit<16> x) { return x; }\n");
    assert!(message.contains("expected bit<8>, found bit<16>"), "{message}");
}

#[test]
fn a_position_in_a_macro_is_that_of_its_use() {
    let message = refused("#define ADD(a, b) ((a) + (b))\nconst bit<8> x =\n    ADD(8w1, 4w1);\n");
    assert!(message.contains("program.p4:3:5"), "{message}");
}

#[test]
fn a_missing_include_names_the_remedy() {
    let message = refused("#include <psa.p4>\n");
    assert!(message.contains("file psa.p4 not found"), "{message}");
    assert!(message.contains("-I"), "{message}");
}

#[test]
fn a_program_without_main_is_refused() {
    assert!(refused("#include <v1model.p4>\n").contains("no 'main'"));
}

#[test]
fn deep_nesting_is_refused_not_overflowing() {
    let deep = format!("const bit<8> x = {}1{};\n", "(".repeat(100_000), ")".repeat(100_000));
    assert!(refused(&deep).contains("nested more than"));
    let chain = format!("const bit<8> x = 1{};\n", " + 1".repeat(100_000));
    assert!(refused(&chain).contains("nested more than"));
    let unary = format!("const bit<8> x = {}1;\n", "~".repeat(100_000));
    assert!(refused(&unary).contains("nested more than"));
    let types = format!("const {} x = 1;\n", "tuple<".repeat(100_000));
    assert!(refused(&types).contains("nested more than"));
}

#[test]
fn headers_that_do_not_fill_bytes_are_refused_on_the_wire() {
    let program = |statement: &str| {
        format!(
            "#include <core.p4>
#include <v1model.p4>
header odd_t {{ bit<7> a; }}
struct headers_t {{ odd_t odd; }}
struct meta_t {{}}
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    state start {{ {} transition accept; }}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{}} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{ apply {{ hdr.odd.setValid(); }} }}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{ apply {{}} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ {} }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
",
            if statement == "extract" { "packet.extract(hdr.odd);" } else { "" },
            if statement == "emit" { "packet.emit(hdr);" } else { "" },
        )
    };
    for statement in ["extract", "emit"] {
        let error = refused(&program(statement));
        let wanted = format!("header odd_t has 7 bits: this target {statement}s whole bytes only");
        assert!(error.contains(&wanted) && error.contains("add a field that fills the last byte"), "{error}");
    }
    assert!(compile("program.p4", &program("neither"), &Options::default()).is_ok());
}

#[test]
fn macros_that_explode_are_refused() {
    let mut text = String::from("#define A0 1 + 1\n");
    for level in 1..40 {
        text += &format!("#define A{level} A{} + A{}\n", level - 1, level - 1);
    }
    text += "const int x = A39;\n";
    assert!(refused(&text).contains("expand to too much"));
}

#[test]
fn tables_and_conditions_name_their_lines() {
    let text = include_str!("../programs/router.p4");
    let compiled = compile("router.p4", text, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let lines = text.lines().collect::<Vec<_>>();
    let (mut tables, mut conditions) = (0, 0);
    for pipeline in compiled.json["pipelines"].as_array().into_iter().flatten() {
        for kind in ["tables", "conditionals"] {
            for node in pipeline[kind].as_array().into_iter().flatten() {
                let info = &node["source_info"];
                let Some(line) = info["line"].as_u64() else { continue };
                let fragment = info["source_fragment"].as_str().expect("a place has its text");
                let column = info["column"].as_u64().expect("a place has a column") as usize;
                assert_eq!(info["filename"], "router.p4");
                assert!(lines[line as usize - 1][column - 1..].starts_with(fragment), "{node}");
                let keyword = if kind == "tables" { "table" } else { "if" };
                assert!(lines[line as usize - 1].contains(keyword), "{node}");
                tables += usize::from(kind == "tables");
                conditions += usize::from(kind == "conditionals");
            }
        }
    }
    assert!(tables > 0 && conditions > 0, "{tables} tables, {conditions} conditions");
}
