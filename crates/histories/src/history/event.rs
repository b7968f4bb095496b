//! Events: the lines of a history, each an invocation or a completion.

use super::{HistoryError, Value};

/// One line of a history.
pub(super) struct Event {
    /// Time in nanoseconds, if there is one.
    pub time: Option<i64>,
    /// Client.
    pub process: Value,
    /// Step of the operation.
    pub kind: Kind,
    /// Function.
    pub function: String,
    /// Object that the operation is about.
    pub key: Option<Value>,
    /// Argument or result.
    pub value: Value,
    /// True for an invocation after which nothing changes any more.
    pub is_final: bool,
}

/// Step of an operation that an event reports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Invoke,
    Ok,
    Fail,
    Info,
}

/// Shape of a line, as errors show it.
const SHAPE: &str = r#"write one object a line, such as {"time": 12, "process": 0, "type": "invoke", "f": "read", "value": null}"#;

/// Parses a line of a file.
///
/// # Errors
/// The line is no object, or one of its members is missing or of a wrong type.
pub(super) fn parse(line: usize, text: &str) -> Result<Event, HistoryError> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        // The parser counts from the start of the text, which is one line.
        let problem = error.to_string().replace(&format!(" at line {} column ", error.line()), " at column ");
        HistoryError::new(line, format!("not valid JSON: {problem}"), SHAPE)
    })?;
    let serde_json::Value::Object(mut members) = value else {
        return Err(HistoryError::new(line, "not an object", SHAPE));
    };
    let mut take = |name: &str| members.remove(name).map(Value::from).filter(|value| !value.is_null());
    let time = match take("time") {
        None => None,
        Some(value) => Some(nanoseconds(&value).ok_or_else(|| {
            let remedy = "write nanoseconds as a whole number, or a string with a unit such as \"1.5 ms\"";
            HistoryError::new(line, problem("time", Some(value)), remedy)
        })?),
    };
    let process = match take("process") {
        Some(value @ (Value::Integer(_) | Value::Text(_))) => value,
        value @ Some(_) => {
            let remedy = "name the process by a whole number or a string";
            return Err(HistoryError::new(line, problem("process", value), remedy));
        }
        None => {
            let remedy = "name the client that invokes the operation: a whole number or a string";
            return Err(HistoryError::new(line, problem("process", None), remedy));
        }
    };
    let kind = match take("type") {
        Some(Value::Text(text)) if text == "invoke" => Kind::Invoke,
        Some(Value::Text(text)) if text == "ok" => Kind::Ok,
        Some(Value::Text(text)) if text == "fail" => Kind::Fail,
        Some(Value::Text(text)) if text == "info" => Kind::Info,
        other => {
            let remedy = "write one of \"invoke\", \"ok\", \"fail\" and \"info\"";
            return Err(HistoryError::new(line, problem("type", other), remedy));
        }
    };
    let function = match take("f") {
        Some(Value::Text(text)) => text,
        other => {
            let remedy = "name the function of the operation, such as \"read\"";
            return Err(HistoryError::new(line, problem("f", other), remedy));
        }
    };
    let key = take("key");
    let value = take("value").unwrap_or_default();
    let is_final = match take("final") {
        None => false,
        Some(Value::Bool(is_final)) => is_final,
        other => return Err(HistoryError::new(line, problem("final", other), "write true or false")),
    };
    Ok(Event { time, process, kind, function, key, value, is_final })
}

/// Problem of a member that is missing, or has an invalid value.
fn problem(member: &str, value: Option<Value>) -> String {
    match value {
        Some(value) => format!("\"{member}\" is {value}"),
        None => format!("\"{member}\" is missing"),
    }
}

/// Nanoseconds of a whole number, or of a decimal number with a unit.
fn nanoseconds(value: &Value) -> Option<i64> {
    let text = match value {
        Value::Integer(nanoseconds) => return Some(*nanoseconds),
        Value::Text(text) => text.trim(),
        _ => return None,
    };
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale: i64 = match unit.trim() {
        "" | "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') {
        return None;
    }
    let mut total = whole.parse::<i64>().ok()?.checked_mul(scale)?;
    let mut part = scale;
    for digit in fraction.chars() {
        part /= 10;
        total = total.checked_add(i64::from(digit.to_digit(10)?) * part)?;
    }
    Some(total)
}
