//! Protobuf text format.

/// Message under construction.
#[derive(Default)]
pub struct Text {
    out: String,
    depth: usize,
}

impl Text {
    fn line(&mut self, text: &str) {
        self.out.push_str(&"  ".repeat(self.depth));
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// Writes a message field.
    pub fn block(&mut self, name: &str, body: impl FnOnce(&mut Text)) {
        self.line(&format!("{name} {{"));
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.line("}");
    }

    /// Writes a number, Boolean or enum member. Protobuf omits 0 and false.
    pub fn plain(&mut self, name: &str, value: impl std::fmt::Display) {
        let value = value.to_string();
        if !matches!(&*value, "0" | "false") {
            self.choice(name, value);
        }
    }

    /// Writes a number or Boolean that is a member of a `oneof`, also 0 and false.
    pub fn choice(&mut self, name: &str, value: impl std::fmt::Display) {
        self.line(&format!("{name}: {value}"));
    }

    /// Writes a string field. Protobuf omits an empty one.
    pub fn string(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.bytes(name, value.as_bytes());
        }
    }

    /// Writes a bytes field, or a string that is a member of a `oneof`, also if it is empty.
    pub fn bytes(&mut self, name: &str, value: &[u8]) {
        let mut text = String::new();
        for byte in value {
            match byte {
                b'\n' => text.push_str("\\n"),
                b'\r' => text.push_str("\\r"),
                b'\t' => text.push_str("\\t"),
                b'"' => text.push_str("\\\""),
                b'\'' => text.push_str("\\'"),
                b'\\' => text.push_str("\\\\"),
                0x20..=0x7e => text.push(char::from(*byte)),
                other => text.push_str(&format!("\\{other:03o}")),
            }
        }
        self.line(&format!("{name}: \"{text}\""));
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.out
    }
}
