//! Files of choices: text, one choice a line, sorted.
//!
//! ```text
//! belljar choices 1
//! experiment 5d41402abc4b2a76
//! * * default
//! host/server/scheduling/slices 12 3
//! link/up/client/loss 7 1
//! ```
//!
//! The first line names the format. `experiment` is the digest of the experiment of the run. Each other line is a choice: stream,
//! number of the draw in the stream from 0, and value: a number, or bytes as `x` and hexadecimal digits. The default may follow;
//! it is not read. `* default` in a line of a stream gives its other choices their default, and `* * default` those of all
//! streams. Lines that begin with `#` are comments.

use crate::{Map, hex};
use std::fmt::{self, Display, Formatter, Write};

/// First line of a file.
const FORMAT: &str = "belljar choices 1";
/// Stands for all streams, or all numbers of a stream.
const ALL: &str = "*";
const DEFAULT: &str = "default";

/// Value of a choice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Choice {
    /// A number. A decision between two is 0 or 1.
    Number(u64),
    /// Random bytes.
    Bytes(Vec<u8>),
}

impl Display for Choice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Number(number) => write!(f, "{number}"),
            Choice::Bytes(bytes) => write!(f, "x{}", hex(bytes)),
        }
    }
}

impl Choice {
    pub(super) fn parse(text: &str) -> Option<Choice> {
        let Some(digits) = text.strip_prefix('x') else { return text.parse().ok().map(Choice::Number) };
        let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(pair).collect();
        bytes.map(Choice::Bytes)
    }
}

/// Forced choices of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForcedStream {
    /// Values by the numbers of the choices.
    pub values: Map<u64, Choice>,
    /// True if the other choices take their default.
    pub takes_default: bool,
}

/// Content of a file of choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChoiceFile {
    /// Digest of the experiment of the run.
    pub experiment: Option<String>,
    /// True if all choices that are not forced take their default.
    pub takes_default: bool,
    /// Forced choices by stream.
    pub streams: Map<String, ForcedStream>,
}

impl ChoiceFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// One sentence that names the line.
    pub fn parse(text: &str) -> Result<ChoiceFile, String> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        match lines.next() {
            Some((_, FORMAT)) => {}
            Some((number, line)) => return Err(format!("line {number} is '{line}' instead of '{FORMAT}'")),
            None => return Err(format!("it is empty instead of beginning with '{FORMAT}'")),
        }
        let mut file = ChoiceFile::default();
        for (number, line) in lines {
            file.read(line).map_err(|problem| format!("line {number}: {problem}"))?;
        }
        Ok(file)
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (stream, index, value) = match words[..] {
            ["experiment", digest] => {
                self.experiment = Some(digest.to_owned());
                return Ok(());
            }
            [ALL, ALL, DEFAULT] => {
                self.takes_default = true;
                return Ok(());
            }
            [ALL, ..] => return Err(format!("'{line}' is not '{ALL} {ALL} {DEFAULT}'")),
            [stream, index, value] | [stream, index, value, _] => (stream, index, value),
            _ => return Err(format!("'{line}' is not a stream, a number and a value")),
        };
        if index == ALL {
            if value != DEFAULT {
                return Err(format!("the value of '{ALL}' is '{DEFAULT}', not '{value}'"));
            }
            self.streams.entry(stream.to_owned()).or_default().takes_default = true;
            return Ok(());
        }
        let index: u64 = index.parse().map_err(|_| format!("'{index}' is not the number of a choice"))?;
        let value = Choice::parse(value)
            .ok_or_else(|| format!("'{value}' is neither a number nor bytes such as x00ff"))?;
        match self.streams.entry(stream.to_owned()).or_default().values.insert(index, value) {
            Some(_) => Err(format!("choice {index} of {stream} has two values")),
            None => Ok(()),
        }
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let mut text = head(self.experiment.as_deref());
        if self.takes_default {
            let _ = writeln!(text, "{ALL} {ALL} {DEFAULT}");
        }
        for (name, stream) in &self.streams {
            if stream.takes_default {
                let _ = writeln!(text, "{name} {ALL} {DEFAULT}");
            }
            for (index, value) in &stream.values {
                let _ = writeln!(text, "{name} {index} {value}");
            }
        }
        text
    }

    /// Forced choices of a stream.
    pub fn of(&self, stream: &str) -> ForcedStream {
        let mut forced = self.streams.get(stream).cloned().unwrap_or_default();
        forced.takes_default |= self.takes_default;
        forced
    }

    /// Number of forced choices.
    pub fn count(&self) -> usize {
        self.streams.values().map(|stream| stream.values.len()).sum()
    }
}

/// First lines of a file.
pub(super) fn head(experiment: Option<&str>) -> String {
    let mut text = format!("{FORMAT}\n");
    if let Some(digest) = experiment {
        let _ = writeln!(text, "experiment {digest}");
    }
    text
}
