//! Choices: the draws of a run as data.
//!
//! A *choice* is one draw of a [`Stream`](crate::Stream), named by the stream and the number of the draw in it. A run can record
//! its choices and force some of them; the others are drawn as ever, or take their default, which is the value without an effect:
//! no loss, the first of several candidates, a slice of the usual length. Draws without such a value (random bytes, sequence numbers)
//! have no default.
//!
//! Forcing a choice leaves the generator of its stream alone: the draws after it have the values that they would have had. What
//! the program does after it may still draw more often or less often, so that later numbers belong to other decisions.
//!
//! [`Choices`] is the handle that a [`Seed`](crate::Seed) carries to the streams derived from it. Most runs have none, and their
//! streams test one pointer for each draw.

mod file;
mod report;
mod transfer;

pub use file::{Choice, ChoiceFile, ForcedStream};
pub use report::{ChoiceReport, StreamReport, Value};

use crate::Map;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Choices of a run: what is forced, and whether all are recorded. The default does neither.
#[derive(Clone, Copy, Default)]
pub struct Choices(Option<&'static Registry>);

/// Streams of a run.
struct Registry {
    forced: ChoiceFile,
    records: bool,
    logs: Mutex<Map<String, Arc<Log>>>,
}

/// Choices of one stream.
#[derive(Debug)]
struct Log {
    forced: ForcedStream,
    records: bool,
    state: Mutex<StreamReport>,
}

impl Choices {
    /// Nothing is forced or recorded.
    pub const NONE: Choices = Choices(None);

    /// Choices that force those of a file and, if `records`, record all. The memory is that of the process: a run has one such value.
    pub fn new(forced: ChoiceFile, records: bool) -> Choices {
        let registry = Registry { forced, records, logs: Mutex::default() };
        Choices(Some(Box::leak(Box::new(registry))))
    }

    /// True if choices are forced or recorded.
    pub fn are_observed(self) -> bool {
        self.0.is_some()
    }

    /// The forced choices, if there are any.
    pub fn forced(self) -> Option<&'static ChoiceFile> {
        self.0.map(|registry| &registry.forced)
    }

    /// Choices so far, by stream.
    pub fn report(self) -> ChoiceReport {
        let Some(registry) = self.0 else { return ChoiceReport::default() };
        let logs = lock(&registry.logs);
        let of_log = |(name, log): (&String, &Arc<Log>)| (name.clone(), lock(&log.state).clone());
        ChoiceReport { streams: logs.iter().map(of_log).collect() }
    }

    /// Observer of the stream of an owner, with one log for each purpose, or one alone if there are none; `None` where nothing is
    /// recorded, forced or taken by default.
    pub(crate) fn tap(self, owner: &[&str], purposes: &[&str]) -> Option<Box<Tap>> {
        let registry = self.0?;
        let name = name(owner);
        let channel = |name: String| Channel { log: registry.log(name), next: 0 };
        let channels: Vec<Channel> = match purposes {
            [] => vec![channel(name)],
            _ => purposes.iter().map(|purpose| channel(format!("{name}/{}", escaped(purpose)))).collect(),
        };
        channels.iter().any(|channel| channel.log.is_needed()).then(|| Box::new(Tap { channels }))
    }
}

impl fmt::Debug for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.are_observed() { "Choices(observed)" } else { "Choices(none)" })
    }
}

impl PartialEq for Choices {
    /// True for the same value, or two that do nothing.
    fn eq(&self, other: &Choices) -> bool {
        self.0.map(std::ptr::from_ref) == other.0.map(std::ptr::from_ref)
    }
}

impl Eq for Choices {}

impl Registry {
    fn log(&self, name: String) -> Arc<Log> {
        let mut logs = lock(&self.logs);
        if let Some(log) = logs.get(&name) {
            return log.clone();
        }
        let log = Log { forced: self.forced.of(&name), records: self.records, state: Mutex::default() };
        let log = Arc::new(log);
        logs.insert(name, log.clone());
        log
    }
}

impl Log {
    fn is_needed(&self) -> bool {
        self.records || self.forced.takes_default || !self.forced.values.is_empty()
    }
}

/// Observer of a stream: the logs of its purposes, and the numbers of their next choices.
#[derive(Clone, Debug)]
pub(crate) struct Tap {
    channels: Vec<Channel>,
}

#[derive(Clone, Debug)]
struct Channel {
    log: Arc<Log>,
    next: u64,
}

impl Tap {
    /// Value of the next choice of a purpose: a number below `bound`, or of 64 bits if `bound` is 0.
    #[cold]
    #[inline(never)]
    pub(crate) fn number(&mut self, purpose: usize, drawn: u64, bound: u64, usual: Option<u64>) -> u64 {
        let Channel { log, next } = &mut self.channels[purpose];
        let index = std::mem::replace(next, *next + 1);
        let value = match log.forced.values.get(&index) {
            Some(&Choice::Number(forced)) if bound == 0 || forced < bound => {
                log.state().reached.insert(index);
                forced
            }
            Some(other) => {
                let what = if bound == 0 { "a number".to_owned() } else { format!("a number below {bound}") };
                log.state().refused.push((index, format!("{other} is not {what}")));
                drawn
            }
            None if log.forced.takes_default => usual.unwrap_or(drawn),
            None => drawn,
        };
        // There is nothing to choose from one candidate.
        if log.records && bound != 1 {
            log.state().add_number(index, value, usual);
        }
        value
    }

    /// Replaces drawn bytes by those of the next choice.
    #[cold]
    #[inline(never)]
    pub(crate) fn bytes(&mut self, drawn: &mut [u8]) {
        let Channel { log, next } = &mut self.channels[0];
        let index = std::mem::replace(next, *next + 1);
        match log.forced.values.get(&index) {
            Some(Choice::Bytes(forced)) if forced.len() == drawn.len() => {
                log.state().reached.insert(index);
                drawn.copy_from_slice(forced);
            }
            Some(other) => {
                log.state().refused.push((index, format!("{other} is not {} bytes", drawn.len())));
            }
            None => {}
        }
        if log.records {
            log.state().add(index, Value { choice: Choice::Bytes(drawn.to_vec()), usual: None });
        }
    }
}

impl Log {
    fn state(&self) -> MutexGuard<'_, StreamReport> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Name of a stream: the parts of its owner, joined by slashes.
pub(crate) fn name(owner: &[&str]) -> String {
    owner.iter().map(|part| escaped(part)).collect::<Vec<_>>().join("/")
}

/// A part of a name without white space, slashes and what a line of the file gives a meaning to.
fn escaped(part: &str) -> String {
    let mut text = String::new();
    for c in part.chars() {
        match c {
            ' ' => text.push('-'),
            '/' | '*' | '#' | '%' => text.push_str(&format!("%{:02x}", u32::from(c))),
            c if c.is_whitespace() || c.is_control() => text.push_str(&format!("%{:02x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests;
