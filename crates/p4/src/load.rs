//! Program files: P4_16 source, which is compiled, and BMv2's JSON, which is taken as it is.

use crate::error::LoadError;
use crate::front::{self, Options};
use crate::program::Program;
use std::path::Path;

/// A program as a file gives it.
#[derive(Clone, Debug)]
pub struct ProgramFile {
    /// BMv2's JSON.
    pub json: String,
    /// P4Info as protobuf text; `None` if the file is JSON.
    pub p4info: Option<String>,
}

impl ProgramFile {
    /// Reads a file. One whose name ends in `.p4` is compiled, with its own folder searched for `#include "..."`.
    pub fn read(path: &Path) -> Result<ProgramFile, LoadError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let remedy = "name a P4_16 program (.p4), or JSON that belljar p4 build or p4c has written";
            LoadError::new("", format!("cannot be read: {error}"), remedy).in_file(path)
        })?;
        ProgramFile::of_text(path, text)
    }

    /// The same from the file's text.
    pub fn of_text(path: &Path, text: String) -> Result<ProgramFile, LoadError> {
        ProgramFile::of_text_with(path, text, &Options::default())
    }

    /// The same with options for the compiler, which JSON has no use for.
    pub fn of_text_with(path: &Path, text: String, options: &Options) -> Result<ProgramFile, LoadError> {
        if path.extension().is_none_or(|extension| extension != "p4") {
            return Ok(ProgramFile { json: text, p4info: None });
        }
        let name = path.display().to_string();
        let compiled = front::compile(&name, &text, options).map_err(|found| found.first_error())?;
        Ok(ProgramFile { json: compiled.json.to_string(), p4info: Some(compiled.p4info) })
    }
}

impl Program {
    /// Reads a program from a file of P4_16 source or of BMv2's JSON.
    pub fn from_file(path: &Path) -> Result<Program, LoadError> {
        Program::from_text(&ProgramFile::read(path)?.json).map_err(|error| error.in_file(path))
    }
    /// The same from the file's text.
    pub fn from_file_text(path: &Path, text: String) -> Result<Program, LoadError> {
        Program::from_text(&ProgramFile::of_text(path, text)?.json).map_err(|error| error.in_file(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_compiled_and_its_errors_name_the_line() {
        let text = include_str!("../tests/programs/router.p4").to_owned();
        let file = ProgramFile::of_text(Path::new("forward.p4"), text.clone()).unwrap();
        assert!(file.p4info.unwrap().contains("pkg_info"));
        assert!(Program::from_text(&file.json).is_ok());
        let broken = text.replacen("apply", "aply", 1);
        let error = Program::from_file_text(Path::new("forward.p4"), broken).unwrap_err().to_string();
        assert!(error.starts_with("forward.p4: line ") && !error.contains('\n'), "{error}");
        let json = ProgramFile::of_text(Path::new("forward.json"), "{}".to_owned()).unwrap();
        assert_eq!((json.json.as_str(), json.p4info), ("{}", None));
    }
}
