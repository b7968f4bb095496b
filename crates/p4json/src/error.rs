use std::fmt;
use std::path::{Path, PathBuf};

/// Refusal of a program, with the file, the place in it and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// File that was read, if the text came from one.
    pub file: Option<PathBuf>,
    /// Place inside the file: a path such as `pipelines[0].tables[2] (ipv4_lpm)`, or a line.
    pub place: String,
    /// Reason of the refusal.
    pub problem: String,
    /// Suggested change, empty if there is none beyond the problem itself.
    pub remedy: String,
}

impl LoadError {
    /// Error at a place in a file that is not named yet.
    pub fn new(place: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> LoadError {
        LoadError { file: None, place: place.into(), problem: problem.into(), remedy: remedy.into() }
    }
    /// Same error, in this file.
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
