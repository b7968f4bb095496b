//! Buffered log lines of a host's processes.

use crate::{Phrases, Short, Text, push_signed, push_time};
use belljar_base::{Footprint, Map, SimTime};
use std::cell::RefCell;
use std::fmt::Write;

/// Unwritten log lines by process.
#[derive(Debug, Default)]
#[repr(C)] // The order puts frequently read fields first: see `belljar_base::Footprint`.
pub struct Strace {
    enabled: bool,
    /// True if a log is large enough to be written.
    full: bool,
    logs: Vec<Log>,
    /// Index of each log by process id.
    places: Map<i32, usize>,
    /// Process id and index of the latest lookup: the next call is usually of the same process.
    last: Option<(i32, usize)>,
    /// Time, thread and text of the latest line prefix: most lines repeat it.
    begin: Option<(SimTime, i32, Short<48>)>,
    /// Text of an unfinished `execve`, by thread id.
    pub executing: Map<i32, Text>,
    /// Cache of formatted calls.
    pub phrases: Phrases,
}

impl Strace {
    /// Creates a log that stores lines if `enabled`.
    pub fn new(enabled: bool) -> Strace {
        Strace { enabled, ..Strace::default() }
    }

    /// Reports the memory that is read when the log is disabled.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.enabled);
        footprint.object(&self.full);
    }

    /// True if the log stores lines.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Index of the log of a known process.
    #[inline]
    pub fn place(&mut self, pid: i32) -> Option<usize> {
        match self.last {
            Some((last, place)) if last == pid => Some(place),
            _ => {
                let place = *self.places.get(&pid)?;
                self.last = Some((pid, place));
                Some(place)
            }
        }
    }
    /// Creates the log of a process named `<program>.<pid>`; returns its index.
    pub fn add(&mut self, pid: i32, name: String) -> usize {
        self.places.insert(pid, self.logs.len());
        self.logs.push(Log { name, text: Text::default() });
        self.logs.len() - 1
    }

    /// Takes the text of a log in order to append a line.
    #[inline]
    pub fn take_text(&mut self, place: usize) -> Text {
        let text = std::mem::take(&mut self.logs[place].text);
        if text.is_new() { SPARE.with_borrow_mut(Vec::pop).unwrap_or_default() } else { text }
    }
    /// Returns the text taken by [`take_text`](Self::take_text).
    #[inline]
    pub fn put_text(&mut self, place: usize, text: Text) {
        self.full |= text.len() >= WORTH_WRITING;
        self.logs[place].text = text;
    }
    /// Appends a line to a log.
    pub fn push_line(&mut self, place: usize, line: std::fmt::Arguments<'_>) {
        let text = &mut self.logs[place].text;
        let _ = writeln!(text, "{line}");
        self.full |= text.len() >= WORTH_WRITING;
    }
    /// True if a log is large enough to be written.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.full
    }
    /// Passes the large logs, or all, to `sink` with their names `<program>.<pid>`.
    pub fn drain(&mut self, all: bool, mut sink: impl FnMut(&str, &[u8])) {
        if !self.full && !all {
            return;
        }
        self.full = false;
        let least = if all { 1 } else { WORTH_WRITING };
        for log in self.logs.iter_mut().filter(|log| log.text.len() >= least) {
            sink(&log.name, log.text.as_bytes());
            give_back(std::mem::take(&mut log.text));
        }
    }

    /// Appends the prefix of a line of a thread.
    #[inline]
    pub fn push_begin(&mut self, now: SimTime, tid: i32, out: &mut Text) {
        if let Some((at, of, text)) = &self.begin
            && (*at, *of) == (now, tid)
        {
            return out.push_short(text);
        }
        let begin = out.len();
        push_time(out, now);
        out.push_str(" [");
        push_signed(out, i64::from(tid));
        out.push_str("] ");
        self.begin = Short::new(&out.as_bytes()[begin..]).map(|text| (now, tid, text));
    }
}

/// Unwritten lines of one process.
#[derive(Debug)]
struct Log {
    /// `<program>.<pid>`, with the first program that the process ran.
    name: String,
    text: Text,
}

/// Size in bytes at which a log is written.
const WORTH_WRITING: usize = 32 << 10;
/// Maximum number of spare buffers.
const MOST_SPARE: usize = 16;

thread_local! {
    /// Spare buffers of written logs, the latest on top. A worker runs one host at a time, so its hosts reuse
    /// the same few buffers, which stay in the cache until they are written.
    static SPARE: RefCell<Vec<Text>> = const { RefCell::new(Vec::new()) };
}

/// Empties a buffer and stores it for reuse.
fn give_back(mut text: Text) {
    text.truncate(0);
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MOST_SPARE {
            spare.push(text);
        }
    });
}
