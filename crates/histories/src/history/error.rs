use std::fmt;
use std::path::{Path, PathBuf};

/// Refusal of a history, with the file, the line and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryError {
    /// File that was read, if the text came from one.
    pub file: Option<PathBuf>,
    /// Line of the file, counted from 1, or 0 if the whole file is meant.
    pub line: usize,
    /// Reason of the refusal.
    pub problem: String,
    /// Suggested change.
    pub remedy: String,
}

impl HistoryError {
    /// Error at a line of a file that is not named yet.
    pub fn new(line: usize, problem: impl Into<String>, remedy: impl Into<String>) -> HistoryError {
        HistoryError { file: None, line, problem: problem.into(), remedy: remedy.into() }
    }

    /// Adds the name of the file to the error, unless it has one.
    pub fn in_file(mut self, file: &Path) -> HistoryError {
        self.file.get_or_insert_with(|| file.to_path_buf());
        self
    }
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

impl std::error::Error for HistoryError {}
