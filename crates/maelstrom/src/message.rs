//! Messages: JSON objects with `src`, `dest` and `body`.

use serde_json::{Value, json};

/// Message between nodes, clients and services.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub src: String,
    pub dest: String,
    pub body: Value,
}

/// Code of the error that a request is not supported.
pub const NOT_SUPPORTED: i64 = 10;
/// Code of the error that a request is malformed.
pub const MALFORMED: i64 = 12;
/// Code of the error that a key does not exist.
pub const NO_KEY: i64 = 20;
/// Code of the error that a comparison failed.
pub const PRECONDITION: i64 = 22;

/// Codes of errors after which an operation did not and will not happen.
const DEFINITE: [i64; 9] = [1, NOT_SUPPORTED, 11, MALFORMED, 14, NO_KEY, 21, PRECONDITION, 30];

/// True if the error with this code says that the operation did not happen.
pub fn is_definite(code: i64) -> bool {
    DEFINITE.contains(&code)
}

impl Message {
    pub fn new(src: &str, dest: &str, body: Value) -> Message {
        Message { src: src.to_owned(), dest: dest.to_owned(), body }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// The line is no JSON object with `src`, `dest` and `body`: the text says what is wrong.
    pub fn parse(line: &str) -> Result<Message, String> {
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("it is not valid JSON ({error})"))?;
        let Value::Object(mut members) = value else { return Err("it is not an object".to_owned()) };
        let mut text = |name: &str| match members.get_mut(name).map(Value::take) {
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(format!("\"{name}\" is {other}, not a string")),
            None => Err(format!("\"{name}\" is missing")),
        };
        let (src, dest) = (text("src")?, text("dest")?);
        match members.get_mut("body").map(Value::take) {
            Some(body @ Value::Object(_)) => Ok(Message { src, dest, body }),
            Some(other) => Err(format!("\"body\" is {other}, not an object")),
            None => Err("\"body\" is missing".to_owned()),
        }
    }

    /// The message as a line without its end.
    pub fn line(&self) -> String {
        json!({"src": self.src, "dest": self.dest, "body": self.body}).to_string()
    }

    /// Type of the body.
    pub fn kind(&self) -> &str {
        self.body["type"].as_str().unwrap_or_default()
    }
}

/// Body of an error.
pub fn error(code: i64, text: impl Into<String>) -> Value {
    json!({"type": "error", "code": code, "text": text.into()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_messages_and_back() {
        let line = r#"{"src":"c1","dest":"n1","body":{"type":"echo","msg_id":1,"echo":[null]}}"#;
        let message = Message::parse(line).unwrap();
        assert_eq!((message.kind(), message.line().as_str()), ("echo", line));
    }

    #[test]
    fn other_lines_are_refused_with_the_reason() {
        for (line, problem) in [
            ("starting", "it is not valid JSON (expected value at line 1 column 1)"),
            ("3", "it is not an object"),
            (r#"{"src": "a", "body": {}}"#, "\"dest\" is missing"),
            (r#"{"src": 1, "dest": "a", "body": {}}"#, "\"src\" is 1, not a string"),
            (r#"{"src": "a", "dest": "b"}"#, "\"body\" is missing"),
            (r#"{"src": "a", "dest": "b", "body": []}"#, "\"body\" is [], not an object"),
        ] {
            assert_eq!(Message::parse(line), Err(problem.to_owned()));
        }
    }

    #[test]
    fn definite_errors_are_those_of_the_protocol() {
        let definite: Vec<i64> = (0..1100).filter(|code| is_definite(*code)).collect();
        assert_eq!(definite, [1, 10, 11, 12, 14, 20, 21, 22, 30]);
    }
}
