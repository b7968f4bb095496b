use crate::proto::{DataType, FieldMatchType, MatchType, P4Info, Representation};
use prost::Message;

#[test]
fn reads_every_form_of_the_format() {
    let text = r#"
        # A comment.
        pkg_info { name: "one" ' and two' arch: "v1model" }
        tables: <
          preamble { id: 0x2000001; name: "c.t", annotations: ["@a", "@b\n\x41\101"] }
          match_fields { id: 1 name: "f" bitwidth: 010 match_type: LPM }
          match_fields { id: 2 other_match_type: "mine" }
          const_default_action_id: 7
          direct_resource_ids: 1
          direct_resource_ids: [2, 3]
          size: 1024
          is_const_table: true
        >
        type_info {
          new_types { key: "port" value { translated_type { uri: "p4.org/port" sdn_bitwidth: 32 } } }
          structs { key: "s" value { members { name: "m" type_spec { bitstring { bit { bitwidth: 9 } } } } } }
        }
    "#;
    let info = P4Info::from_text(text).unwrap();
    let table = &info.tables[0];
    let preamble = table.preamble.as_ref().unwrap();
    assert_eq!(info.pkg_info.as_ref().unwrap().name, "one and two");
    assert_eq!((preamble.id, preamble.name.as_str()), (0x0200_0001, "c.t"));
    assert_eq!(preamble.annotations, ["@a", "@b\nAA"]);
    assert_eq!(table.match_fields[0].bitwidth, 8);
    assert_eq!(table.match_fields[0].r#match, Some(FieldMatchType::MatchType(MatchType::Lpm as i32)));
    assert_eq!(table.match_fields[1].r#match, Some(FieldMatchType::OtherMatchType("mine".to_string())));
    assert_eq!(table.direct_resource_ids, [1, 2, 3]);
    assert!(table.is_const_table);
    let types = info.type_info.as_ref().unwrap();
    assert!(matches!(types.new_types["port"].representation, Some(Representation::TranslatedType(_))));
    let member = types.structs["s"].members[0].type_spec.as_ref().unwrap();
    assert!(matches!(member.type_spec, Some(DataType::Bitstring(_))));
    // The binary form holds the same.
    assert_eq!(P4Info::decode(&info.encode_to_vec()[..]).unwrap(), info);
}

#[test]
fn errors_name_the_line() {
    for (text, error) in [
        ("tables {\n  sise: 1\n}", "line 2: Table has no field 'sise'"),
        ("tables {\n\n size: \"x\" }", "line 3: 'size' takes an integer"),
        ("tables {", "line 1: the text ends inside a message: '}' is missing"),
        (
            "tables { match_fields { match_type: EXAKT } }",
            "line 1: 'match_type' takes one of UNSPECIFIED, EXACT, LPM, TERNARY, RANGE, OPTIONAL",
        ),
        ("\npkg_info { name: \"x }", "line 2: the string does not end on its line"),
        (
            "tables { const_default_action_id: -1 }",
            "line 1: 'const_default_action_id' takes a number that fits u32",
        ),
        ("tables { size: 1e9 }", "line 1: '1e9' is not an integer"),
        ("}", "line 1: expected the name of a field, found '}'"),
        ("tables 5", "line 1: expected ':' or '{' after 'tables', found 5"),
    ] {
        assert_eq!(P4Info::from_text(text).unwrap_err().to_string(), error, "{text}");
    }
    let deep = format!("a{}", " { a".repeat(100_000));
    assert_eq!(P4Info::from_text(&deep).unwrap_err().message, "messages are nested more than 64 deep");
}
