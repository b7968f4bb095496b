use belljar_base::SimTime;

/// Line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Host.
    pub host: String,
    /// File, relative to the host's folder.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Simulated time at which the line was complete, if it is known.
    pub time: Option<SimTime>,
}

/// Verdict on a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Reason for which the claim does not hold; `None` if it holds.
    pub failure: Option<String>,
    /// Line that decides: the first violation, or the line that was to appear.
    pub at: Option<Location>,
    /// Text of that line, shortened.
    pub text: Option<String>,
    /// Number of lines judged; of a history, that of its operations.
    pub judged: u64,
}

impl Verdict {
    /// Verdict on a claim that fails without a line that decides.
    pub fn failed(reason: impl Into<String>) -> Verdict {
        Verdict { failure: Some(reason.into()), ..Verdict::default() }
    }
    /// Verdict on a claim that cannot be judged: doubt fails.
    pub fn in_doubt(why: &str) -> Verdict {
        Verdict::failed(doubt(why))
    }
}

/// Reason of a claim that cannot be judged.
pub(crate) fn doubt(why: &str) -> String {
    format!("in doubt: {why}")
}
