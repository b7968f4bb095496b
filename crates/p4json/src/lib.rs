//! BMv2 JSON, version 2.x, as emitted by p4c: model of the file, its reader, and the error type of P4 files.
//!
//! Values and expressions remain JSON; `p4` resolves them when it lowers the program. The model is a separate
//! crate because its serde-derived reader is half of the code of all P4 crates and runs once.
#![forbid(unsafe_code)]

mod error;
mod model;
mod suggest;
#[cfg(test)]
mod tests;

pub use error::LoadError;
pub use model::*;
use serde::Deserialize;
pub use suggest::nearest;

/// Maximum nesting of arrays and objects.
const MAX_DEPTH: usize = 400;

impl Root {
    /// Reads a program from JSON text.
    pub fn from_text(text: &str) -> Result<Root, LoadError> {
        check_depth(text)?;
        let mut reader = serde_json::Deserializer::from_str(text);
        reader.disable_recursion_limit();
        // The version is checked first, because files of other versions cause many less specific errors.
        let value =
            serde_json::Value::deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
        let value = value.map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            LoadError::new(
                place,
                format!("not valid JSON: {error}"),
                "write the file again with the compiler",
            )
        })?;
        check_version(&value)?;
        let mut root: Root = serde_path_to_error::deserialize(value).map_err(|error| {
            let place = error.path().to_string();
            let problem = error.into_inner().to_string();
            LoadError::new(
                place,
                problem,
                "see the format of BMv2 JSON 2.x, or write the file again with the compiler",
            )
        })?;
        root.pipelines.iter_mut().for_each(Pipeline::declare_own_profiles);
        Ok(root)
    }
}

impl Pipeline {
    /// Declares the action profiles that tables name by `act_prof_name`, as files without a version do.
    fn declare_own_profiles(&mut self) {
        for table in &mut self.tables {
            let indirect = matches!(table.kind.as_deref(), Some("indirect" | "indirect_ws"));
            if indirect
                && table.action_profile.is_none()
                && let Some(name) = table.act_prof_name.take()
            {
                let selector = table.selector.take().filter(|_| table.kind.as_deref() == Some("indirect_ws"));
                table.action_profile = Some(name.clone());
                self.action_profiles.push(ActionProfile { name, id: table.id, max_size: None, selector });
            }
        }
    }
}

impl Call {
    /// Reads a primitive call that is an argument of another call.
    ///
    /// # Errors
    /// Returns the reason why the value is not a call.
    pub fn from_value(value: &serde_json::Value) -> Result<Call, String> {
        serde_json::from_value(value.clone()).map_err(|error| error.to_string())
    }
}

fn check_depth(text: &str) -> Result<(), LoadError> {
    let (mut depth, mut line, mut quoted, mut escaped) = (0usize, 1, false, false);
    for byte in text.bytes() {
        match byte {
            b'\n' => line += 1,
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => depth += 1,
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            let problem = format!("arrays and objects are nested deeper than {MAX_DEPTH}");
            return Err(LoadError::new(
                format!("line {line}"),
                problem,
                "split the expression in the P4 program",
            ));
        }
    }
    Ok(())
}

fn check_version(value: &serde_json::Value) -> Result<(), LoadError> {
    if !value.is_object() {
        let remedy = "name a file that p4c --target bmv2 --arch v1model has written";
        return Err(LoadError::new("", "the file is not a JSON object", remedy));
    }
    let version = value.pointer("/__meta__/version");
    match version.map(|version| version.get(0).and_then(serde_json::Value::as_u64)) {
        // As in BMv2, whose files had no version before 2.0.
        None if ["header_types", "parsers", "pipelines"].iter().any(|key| value.get(key).is_some()) => Ok(()),
        Some(Some(2)) => Ok(()),
        Some(Some(other)) => {
            let problem = format!("BMv2 JSON version {other}.x is not supported");
            Err(LoadError::new("__meta__.version", problem, "compile with a p4c that writes version 2.x"))
        }
        _ => Err(LoadError::new(
            "__meta__.version",
            "the file does not say which version of BMv2 JSON it is",
            "give a BMv2 JSON file of version 2.x; P4Info and other JSON files are something else",
        )),
    }
}
