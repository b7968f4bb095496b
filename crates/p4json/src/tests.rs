use super::*;

#[test]
fn every_part_is_optional_but_the_version() {
    let root = Root::from_text(r#"{"__meta__": {"version": [2, 23]}}"#).unwrap();
    assert_eq!(root.meta.version, [2, 23]);
    assert!(root.headers.is_empty());
}

#[test]
fn files_without_a_version_are_programs_of_bmv2() {
    let table = r#"{"name": "t", "id": 7, "match_type": "exact", "type": "indirect_ws", "act_prof_name": "p",
        "selector": {"algo": "crc16", "input": []}}"#;
    let text = format!(
        r#"{{"parsers": [], "pipelines": [{{"name": "ingress", "id": 0, "init_table": "t", "tables": [{table}]}}]}}"#
    );
    let root = Root::from_text(&text).unwrap();
    let pipeline = &root.pipelines[0];
    assert_eq!(pipeline.tables[0].action_profile.as_deref(), Some("p"));
    assert_eq!(pipeline.action_profiles[0].name, "p");
    assert_eq!(pipeline.action_profiles[0].selector.as_ref().unwrap().algo, "crc16");
    // The profile of a table without a selector has none.
    let text = text.replace("indirect_ws", "indirect");
    assert!(Root::from_text(&text).unwrap().pipelines[0].action_profiles[0].selector.is_none());
}

#[test]
fn refusals_name_place_and_remedy() {
    let refuse = |text: &str| Root::from_text(text).unwrap_err().to_string();
    assert!(refuse("{").starts_with("line 1, column 1: not valid JSON"), "{}", refuse("{"));
    assert!(refuse("[]").contains("not a JSON object"));
    assert!(refuse("{}").starts_with("__meta__.version: the file does not say"));
    assert!(refuse(r#"{"__meta__": {"version": [3, 0]}}"#).contains("version 3.x is not supported"));
    let wrong = r#"{"__meta__": {"version": [2, 23]}, "headers": [{"name": 3}]}"#;
    assert!(refuse(wrong).starts_with("headers[0].name: invalid type"), "{}", refuse(wrong));
    let deep = "[".repeat(401);
    assert!(refuse(&deep).starts_with("line 1: arrays and objects are nested deeper than 400"));
}

#[test]
fn brackets_in_strings_do_not_nest() {
    let text = format!(r#"{{"__meta__": {{"version": [2, 23]}}, "program": "{}\"[["}}"#, "[".repeat(500));
    assert!(Root::from_text(&text).is_ok());
}
