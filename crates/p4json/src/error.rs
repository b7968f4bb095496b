use std::fmt;
use std::path::{Path, PathBuf};

/// Error of a program file, with the file, the position and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// File that was read, if any.
    pub file: Option<PathBuf>,
    /// Position in the file: a path such as `pipelines[0].tables[2] (ipv4_lpm)`, or a line.
    pub place: String,
    /// Description of the problem.
    pub problem: String,
    /// Suggested remedy; empty if the problem implies it.
    pub remedy: String,
}

impl LoadError {
    /// Creates an error without a file.
    pub fn new(place: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> LoadError {
        LoadError { file: None, place: place.into(), problem: problem.into(), remedy: remedy.into() }
    }
    /// Adds the file to the error.
    pub fn in_file(mut self, file: &Path) -> LoadError {
        self.file = Some(file.to_path_buf());
        self
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        write!(f, "{}", self.problem)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}
