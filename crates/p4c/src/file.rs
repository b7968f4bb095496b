//! Program files: P4_16 source, which is compiled, and BMv2 JSON, which is used unchanged.

use crate::source::Diagnostics;
use crate::{Options, compile};
use std::path::{Path, PathBuf};

/// Program as loaded by a switch and its controllers.
#[derive(Clone, Debug)]
pub struct ProgramFile {
    /// BMv2's JSON.
    pub json: String,
    /// P4Info as protobuf text; `None` if the file is JSON.
    pub p4info: Option<String>,
}

/// Error of a program file. Its `Display` is one line.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error(
        "{}: cannot be read: {problem}; name a P4_16 program (.p4), or JSON that belljar p4 build or p4c has written",
        path.display()
    )]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Message of the operating system.
        problem: String,
    },
    /// The program has errors.
    #[error("{}", .0.first_error())]
    Compile(Diagnostics),
}

impl ProgramFile {
    /// Reads a file. A file with the suffix `.p4` is compiled; `#include "..."` is searched in the file's
    /// folder.
    pub fn read(path: &Path) -> Result<ProgramFile, FileError> {
        let text = belljar_inputs::read_text(path)
            .map_err(|error| FileError::Read { path: path.to_path_buf(), problem: error.to_string() })?;
        ProgramFile::of_text(path, text)
    }

    /// Builds a program from the text of a file.
    pub fn of_text(path: &Path, text: String) -> Result<ProgramFile, FileError> {
        ProgramFile::of_text_with(path, text, &Options::default())
    }

    /// Builds a program from the text of a file with compiler options, which JSON ignores.
    pub fn of_text_with(path: &Path, text: String, options: &Options) -> Result<ProgramFile, FileError> {
        if path.extension().is_none_or(|extension| extension != "p4") {
            return Ok(ProgramFile { json: text, p4info: None });
        }
        let name = path.display().to_string();
        let compiled = compile(&name, &text, options).map_err(FileError::Compile)?;
        Ok(ProgramFile { json: compiled.json.to_string(), p4info: Some(compiled.p4info) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_compiled_and_its_errors_name_the_line() {
        let text = include_str!("../tests/programs/router.p4").to_owned();
        let path = Path::new("forward.p4");
        let file = ProgramFile::of_text(path, text.clone()).unwrap();
        assert!(file.p4info.unwrap().contains("pkg_info"));
        assert!(file.json.starts_with('{'));
        let broken = text.replacen("apply", "aply", 1);
        let error = ProgramFile::of_text(path, broken).unwrap_err().to_string();
        let remedy = "; belljar p4 build shows the place and the remedy";
        assert!(error.starts_with("forward.p4: line ") && error.ends_with(remedy), "{error}");
        assert!(!error.contains('\n'), "{error}");
        let json = ProgramFile::of_text(Path::new("forward.json"), "{}".to_owned()).unwrap();
        assert_eq!((json.json.as_str(), json.p4info), ("{}", None));
    }

    #[test]
    fn a_file_that_is_not_there_is_named_with_the_remedy() {
        let error = ProgramFile::read(Path::new("/nowhere/p.json")).unwrap_err().to_string();
        assert_eq!(
            error,
            "/nowhere/p.json: cannot be read: No such file or directory (os error 2); name a P4_16 program (.p4), or JSON \
             that belljar p4 build or p4c has written"
        );
    }
}
