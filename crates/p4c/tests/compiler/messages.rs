//! Diagnostics: position, excerpt and remedy.

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
    let branches =
        format!("control C(in bit<32> x) {{ apply {{ {} }} }}\n", "if (x == 1) {} else ".repeat(20_000));
    assert!(refused(&branches).contains("a chain of more than"));
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

/// A v1model program with the given metadata fields and ingress statements.
fn with_metadata(before: &str, fields: &str, ingress: &str) -> String {
    format!(
        "#include <core.p4>
#include <v1model.p4>
{before}
struct headers_t {{}}
struct meta_t {{ {fields} }}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{ state start {{ transition accept; }} }}
control V(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ {ingress} }}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{}} }}
control D(packet_out p, in headers_t h) {{ apply {{}} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"
    )
}

#[test]
fn arguments_of_annotations_are_evaluated_or_refused() {
    let cases = [
        ("@field_list(missing) bit<8> a;", "'missing' is not declared"),
        ("@field_list(1 2) bit<8> a;", "the arguments of @field_list end before this"),
        (
            "@field_list(\"x\") bit<8> a;",
            "the argument of @field_list must be a number known at compile time",
        ),
        ("@field_list(-1) bit<8> a;", "-1 is not a number for @field_list"),
        (
            "@field_list(Plain.x) bit<8> a;",
            "the argument of @field_list must be a number known at compile time",
        ),
        ("@field_list(1) h_t a;", "a header cannot be kept by a field list"),
        ("@id(1, 2) bit<8> a;", "@id takes one number, not 2"),
        ("@name(3) bit<8> a;", "@name takes a string"),
        ("@name() bit<8> a;", "@name takes one string, not 0"),
        ("@hidden(1) bit<8> a;", "@hidden takes no arguments"),
    ];
    for (field, wanted) in cases {
        let error = refused(&with_metadata("enum Plain { x } header h_t { bit<8> f; }", field, "apply {}"));
        assert!(error.contains(wanted) && error.contains("program.p4:5:"), "{field}: {error}");
    }
}

#[test]
fn field_lists_without_fields_are_warned_of() {
    let compiled = |fields: &str, call: &str| {
        let before = "struct other_t { @field_list(1) bit<8> a; }";
        let before = if fields.is_empty() { before } else { "" };
        let text = with_metadata(before, fields, &format!("apply {{ {call} }}"));
        compile("program.p4", &text, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
    };
    let call = "clone_preserving_field_list(CloneType.I2E, 5, 2);";
    let warnings = compiled("@field_list(1) bit<8> a;", call).warnings.to_string();
    assert!(warnings.contains("no field of the user metadata has @field_list(2)"), "{warnings}");
    let warnings = compiled("", "").warnings.to_string();
    assert!(warnings.contains("@field_list has no effect here"), "{warnings}");
    assert!(compiled("@field_list(2) bit<8> a;", call).warnings.list.is_empty());
}

#[test]
fn a_name_is_any_constant_string() {
    for annotation in ["@name(\"first\" ++ \"_second\")", "@name(FULL)", "@pragma name \"first_second\"\n"] {
        let before = "const string FULL = \"first_second\";";
        let table = format!("{annotation} table t {{ actions = {{ NoAction; }} }} apply {{ t.apply(); }}");
        let text = with_metadata(before, "", &table);
        let compiled =
            compile("program.p4", &text, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
        assert!(compiled.p4info.contains("name: \"I.first_second\""), "{annotation}: {}", compiled.p4info);
    }
}

#[test]
fn calls_that_would_have_no_effect_are_refused() {
    let cases = [
        ("apply { recirculate_preserving_field_list(0); }", "recirculate works in egress only"),
        ("apply { clone(CloneType.E2E, 1); }", "a clone of type E2E works in egress only"),
        (
            "apply { bit<16> r; HashAlgorithm a = HashAlgorithm.crc16; if (s.packet_length > 9) { a = HashAlgorithm.crc32; }
             hash(r, a, 16w0, { s.packet_length }, 16w9); }",
            "the algorithm must be known at compile time",
        ),
        (
            "table t { actions = { NoAction; } support_timeout = s.packet_length > 9; } apply { t.apply(); }",
            "'support_timeout' must be true or false, known at compile time",
        ),
    ];
    for (ingress, wanted) in cases {
        let error = refused(&with_metadata("", "", ingress));
        assert!(error.contains(wanted), "{ingress}: {error}");
    }
}

#[test]
fn declarations_without_effect_are_warned_of() {
    let cases = [
        (
            "table t { actions = { NoAction; } color_aware = true; } apply { t.apply(); }",
            "the target has no table property 'color_aware': it has no effect",
        ),
        (
            "direct_counter(CounterType.bytes) c; action a() { c.count(); }
             table t { actions = { a; NoAction; } } apply { t.apply(); }",
            "no table has this direct counter: it stays empty",
        ),
        (
            "direct_meter<bit<2>>(MeterType.bytes) one; direct_meter<bit<2>>(MeterType.bytes) two; bit<2> color;
             action a() { one.read(color); }
             table t { key = { s.packet_length: exact; } actions = { a; } meters = two; }
             table u { key = { s.packet_length: exact; } actions = { a; } meters = one; }
             apply { t.apply(); u.apply(); }",
            "'I.one' is not the meter of the table 'I.t': the result stays as it was",
        ),
    ];
    for (ingress, wanted) in cases {
        let text = with_metadata("", "", ingress);
        let compiled =
            compile("program.p4", &text, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
        let warnings = compiled.warnings.to_string();
        assert!(warnings.contains(wanted), "{ingress}: {warnings}");
    }
}

#[test]
fn checksum_controls_have_no_flow_that_the_target_would_lose() {
    for (statements, wanted) in [
        ("if (h.e.isValid()) { return; }", "a return cannot be used in a checksum control"),
        ("switch (h.e.a) { 1: { CHECK } }", "switch cannot be used in a checksum control"),
    ] {
        let check = "verify_checksum(true, { h.e.a }, h.e.b, HashAlgorithm.csum16);";
        let statements = statements.replace("CHECK", check);
        let text = format!(
            "#include <core.p4>
#include <v1model.p4>
header e_t {{ bit<16> a; bit<16> b; }}
struct headers_t {{ e_t e; }}
struct meta_t {{}}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{ state start {{ p.extract(h.e); transition accept; }} }}
control V(inout headers_t h, inout meta_t m) {{ apply {{ {statements} {check} }} }}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{}} }}
control C(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control D(packet_out p, in headers_t h) {{ apply {{}} }}
V1Switch(P(), V(), I(), I(), C(), D()) main;
"
        );
        let error = refused(&text);
        assert!(error.contains(wanted) && error.contains("program.p4:7:"), "{statements}: {error}");
    }
}

#[test]
fn macros_are_those_of_the_c_preprocessor() {
    let text = "#include <core.p4>
#include <v1model.p4>
#define NAME(n) lut_##n
#define WIDTH(v) 8w##v
#define TEXT(x) #x
#define ALL(f, ...) f(__VA_ARGS__)
#define REST(first, args...) args
#define OPTIONAL(a, ...) pair(a, ## __VA_ARGS__)
#define ADD(a, b) ((a) + (b))
#define VALUE 7
#define JOINED VAL ## UE
const bit<8> NAME(00) = WIDTH(0x0F);
const bit<8> lut_0 = 1;
const string t = TEXT(a + 0x0F);
const bit<8> sum = ALL(ADD, 1, 2);
const bit<8> rest = REST(1, ADD(3, 4));
const bit<8> joined = JOINED;
#if !defined(__TARGET_BMV2__) || 'A' != 65 || (1 ? 0 : 1) || ~0 != -1
#error this is cpp
#endif
const bool all = static_assert(lut_00 == 0x0F && sum == 3 && rest == 7 && joined == 7 && t == \"a + 0x0F\");
";
    let error = refused(text);
    assert!(error.contains("no 'main'"), "{error}");
    let width = refused("const bit<8> x = 8w;\n");
    assert!(width.contains("program.p4:1:18") && width.contains("8w1"), "{width}");
}

#[test]
fn a_p4_14_program_gets_one_error() {
    let program =
        "// P4_14\n#include \"missing.p4\"\nheader_type tag_t { fields { a : 8; } }\nheader tag_t tag;\n";
    let old = |text: &str| {
        let message = refused(text);
        assert_eq!(message.matches("error:").count(), 1, "{message}");
        message.starts_with("error: this is a P4_14 program")
    };
    assert!(old(program));
    assert!(old("parser start { extract(tag); return ingress; }\n"));
    assert!(old("action a(p) { drop(); }\ntable t { reads { tag.a : exact; } actions { a; } }\n"));
    assert!(refused(program).contains("program.p4:3:1"), "{}", refused(program));
    // A comment in a program of P4_16 that has an error does not make it one of P4_14.
    assert!(!old("/* header_type tag_t { fields { a : 8; } } */\nconst bit<8> x = ;\n"));
    assert!(!old("control C() { table t { key = { }; } }\n"));
    assert!(!old("#define T \\\n table t { \\\n key = {} }\nconst bit<8> x = ;\n"));
}

#[test]
fn the_preprocessor_finds_files_as_the_c_preprocessor_does() {
    let folder = std::env::temp_dir().join(format!("belljar-p4-include-{}", std::process::id()));
    let (first, second) = (folder.join("first"), folder.join("second"));
    for dir in [&first, &second] {
        std::fs::create_dir_all(dir).expect("a folder is made");
    }
    // The first file adds to the second one of its name.
    std::fs::write(first.join("types.p4"), "#include_next <types.p4>\n#define OUTER 1\n").expect("written");
    std::fs::write(second.join("types.p4"), "#define INNER 1\n").expect("written");
    let options = Options { include_dirs: vec![first, second], ..Options::default() };
    let refusal = |text: &str| {
        compile("program.p4", text, &options).err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    let program = "
#define TYPES <types.p4>
#if !__has_include(TYPES) || !__has_include(<core.p4>) || __has_include(\"missing.p4\")
#error has_include
#endif
#ifndef __has_include
#error not defined
#endif
#include TYPES
#if defined(INNER) && defined(OUTER)
#error both
#endif
";
    assert!(refusal(program).contains("#error both"), "{}", refusal(program));
    // An operand that another one decides is not evaluated.
    let lazy = "#if 0 && 1 / 0 || 1 || 1 % 0\n#error lazy\n#endif\n";
    assert!(refusal(lazy).contains("#error lazy"), "{}", refusal(lazy));
    assert!(refusal("#if 1 / 0\n#endif\n").contains("division by zero"));
    std::fs::remove_dir_all(folder).expect("the folder is removed");
}

#[test]
fn lines_are_those_of_the_c_preprocessor_for_assembler() {
    let program = "\
#define LONG_\\\nNAME 8w1
# STEP don't forget this
#STEP nor \"this
// a comment \\\nthat goes on
const bit<8> x = LONG_NAME;
const bit<8> y = LO\\  \nNG_NAME \\ \t\n + z;
";
    let message = refused(program);
    assert_eq!(message.matches("error:").count(), 1, "{message}");
    assert!(message.contains("'z' is not declared"), "{message}");
    assert!(message.contains("unknown preprocessor directive '#STEP': the line is skipped"), "{message}");
}

#[test]
fn a_file_that_asks_for_it_is_included_once() {
    let folder = std::env::temp_dir().join(format!("belljar-p4-once-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder is made");
    std::fs::write(folder.join("once.p4"), "#pragma once\nconst bit<8> x = 1;\n").expect("written");
    std::fs::write(folder.join("twice.p4"), "const bit<8> y = 1;\n").expect("written");
    let options = Options { include_dirs: vec![folder.clone()], ..Options::default() };
    let refusal = |text: &str| {
        compile("program.p4", text, &options).err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    let once = refusal("#include \"once.p4\"\n#include <once.p4>\n#import <twice.p4>\n#import <twice.p4>\n");
    assert!(once.contains("no 'main'"), "{once}");
    let twice = refusal("#include \"twice.p4\"\n#include \"twice.p4\"\n");
    assert!(twice.contains("'y' is declared twice"), "{twice}");
    std::fs::remove_dir_all(folder).expect("the folder is removed");
}

#[test]
fn numbers_that_are_none_and_open_calls_are_named() {
    let number = refused("const bit<8> x = 0xZZ;\n");
    assert!(number.contains("program.p4:1:18") && number.contains("'0xZZ' is not a number"), "{number}");
    let condition = refused("#if 8w1\n#endif\n");
    assert!(condition.contains("'8w1' is not a number of the C preprocessor"), "{condition}");
    let call = refused("#define ID(x) x\nconst bit<8> y = ID(\n#include <core.p4>\n1);\n");
    assert!(call.contains("program.p4:2:18") && call.contains("not closed"), "{call}");
    let main = refused("#define ID(x) x\nconst bit<8> y = ID(\n#if 1\n1\n#else\n2\n#endif\n);\n");
    assert!(main.contains("no 'main'"), "{main}");
    let variable = refused("void f() { bit<8> i; for (i in 1..6) {} }\n");
    assert!(variable.contains("program.p4:1:29") && variable.contains("for (bit<8> i in ...)"), "{variable}");
}
