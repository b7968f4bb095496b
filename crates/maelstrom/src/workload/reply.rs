//! Replies: the result of an operation in the form that histories have.

use super::Operation;
use serde_json::{Value, json};

/// Result of an operation.
///
/// # Errors
/// The reply has another form than the protocol's: the text says which is expected.
pub fn result(operation: &Operation, body: &Value) -> Result<Value, String> {
    let request = operation.body["type"].as_str().unwrap_or_default();
    if body["type"] != format!("{request}_ok") {
        return Err(format!("\"type\" is {}, not \"{request}_ok\"", body["type"]));
    }
    let member = |name: &str, form: &str, fits: fn(&Value) -> bool| match body.get(name) {
        Some(value) if fits(value) => Ok(value.clone()),
        Some(other) => Err(format!("\"{name}\" is {other}, not {form}")),
        None => Err(format!("\"{name}\" is missing")),
    };
    match request {
        "echo" => member("echo", "a value", |_| true),
        "generate" => member("id", "a value", |_| true),
        "read" if operation.body.get("key").is_some() => member("value", "a value", |_| true),
        "read" if body.get("messages").is_some() => member("messages", "a list", Value::is_array),
        "read" => member("value", "a list or a whole number", |value| value.is_array() || value.is_i64()),
        "txn" => {
            let done = member("txn", "a list", Value::is_array)?;
            same_transaction(&operation.value, &done)?;
            Ok(done)
        }
        "send" => {
            let offset = member("offset", "a whole number", Value::is_i64)?;
            Ok(json!([operation.value[0], [offset, operation.value[1]]]))
        }
        "poll" => member("msgs", "an object of lists of [offset, message]", is_records),
        "list_committed_offsets" => member("offsets", "an object of whole numbers", |value| {
            value.as_object().is_some_and(|offsets| offsets.values().all(Value::is_i64))
        }),
        _ => Ok(operation.value.clone()),
    }
}

fn is_records(value: &Value) -> bool {
    let is_record =
        |record: &Value| record.as_array().is_some_and(|pair| pair.len() == 2 && pair[0].is_i64());
    let is_list = |list: &Value| list.as_array().is_some_and(|list| list.iter().all(is_record));
    value.as_object().is_some_and(|keys| keys.values().all(is_list))
}

/// Holds that a completed transaction has the operations of its request, with the values of reads filled in.
fn same_transaction(asked: &Value, done: &Value) -> Result<(), String> {
    let (asked, done) =
        (asked.as_array().map_or(&[][..], Vec::as_slice), done.as_array().map_or(&[][..], Vec::as_slice));
    let same = asked.len() == done.len()
        && asked.iter().zip(done).all(|(asked, done)| {
            let is_read = asked[0] == "r";
            done.as_array().is_some_and(|parts| parts.len() == 3)
                && asked[0] == done[0]
                && asked[1] == done[1]
                && (is_read || asked[2] == done[2])
        });
    let problem =
        || format!("\"txn\" is {}, not the transaction of the request with its reads filled in", json!(done));
    same.then_some(()).ok_or_else(problem)
}
