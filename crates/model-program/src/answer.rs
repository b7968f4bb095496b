//! Answers of a program, and questions to it, as JSON.

use belljar_histories::{Question, Start, Value};
use serde_json::{Map, Value as Json, json};

/// Length of the text of an answer in messages.
const SHOWN: usize = 200;

/// First question.
pub(crate) fn first() -> String {
    json!({"initial": true}).to_string()
}

/// Question about an operation.
pub(crate) fn question(state: &Value, question: &Question) -> String {
    let mut members = json!({
        "state": Json::from(state),
        "f": question.function,
        "value": Json::from(&question.argument),
    });
    if let Some(result) = &question.result {
        members["result"] = result.into();
    }
    if let Some(process) = &question.process {
        members["process"] = process.into();
    }
    members.to_string()
}

/// Answer that is none.
pub(crate) enum Refusal {
    /// The program says why it has no answer.
    Said(String),
    /// The answer is not as it must be.
    Malformed(String),
}

impl From<String> for Refusal {
    fn from(problem: String) -> Refusal {
        Refusal::Malformed(problem)
    }
}

/// Reads the first answer.
pub(crate) fn start(line: &[u8]) -> Result<Start, Refusal> {
    let mut members = members(line, &["state", "reads", "process"])?;
    let Some(state) = members.remove("state") else { return Err(without("state", line).into()) };
    let reads = match members.remove("reads") {
        None => Vec::new(),
        Some(Json::Array(names)) if names.iter().all(Json::is_string) => {
            names.iter().filter_map(Json::as_str).map(str::to_owned).collect()
        }
        Some(other) => {
            return Err(format!("\"reads\" of its first answer is {other}, not a list of functions").into());
        }
    };
    let needs_process = match members.remove("process") {
        None => false,
        Some(Json::Bool(needs)) => needs,
        Some(other) => {
            return Err(format!("\"process\" of its first answer is {other}, not true or false").into());
        }
    };
    Ok(Start { state: state.into(), reads, needs_process })
}

/// Reads an answer about an operation: the state after it.
pub(crate) fn step(line: &[u8]) -> Result<Option<Value>, Refusal> {
    let mut members = members(line, &["ok", "state"])?;
    match (members.remove("ok"), members.remove("state")) {
        (Some(Json::Bool(true)), Some(state)) => Ok(Some(state.into())),
        (Some(Json::Bool(true)), None) => Err(without("state", line).into()),
        (Some(Json::Bool(false)), _) => Ok(None),
        (Some(other), _) => Err(format!("\"ok\" of its answer is {other}, not true or false").into()),
        (None, _) => Err(without("ok", line).into()),
    }
}

fn members(line: &[u8], known: &[&str]) -> Result<Map<String, Json>, Refusal> {
    let parsed: Json =
        serde_json::from_slice(line).map_err(|_| format!("its answer is not JSON: {}", shown(line)))?;
    let Json::Object(members) = parsed else {
        return Err(format!("its answer is no object: {}", shown(line)).into());
    };
    if let Some(Json::String(error)) = members.get("error") {
        return Err(Refusal::Said(shown(error.as_bytes())));
    }
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!(
            "its answer has the member \"{name}\", which is none of {}: {}",
            known.join(", "),
            shown(line)
        )
        .into()),
        None => Ok(members),
    }
}

fn without(member: &str, line: &[u8]) -> String {
    format!("its answer has no \"{member}\": {}", shown(line))
}

/// Text of a line, its beginning if it is long.
pub(crate) fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let one_line: String =
        text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect();
    if one_line.is_empty() { "an empty line".to_owned() } else { one_line }
}
