//! The lines of a host's processes until they are written out.

use crate::{Phrases, Short, Text, push_signed, push_time};
use belljar_base::{Footprint, Map, SimTime};
use std::cell::RefCell;
use std::fmt::Write;

/// The lines written so far, by process.
#[derive(Debug, Default)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Strace {
    enabled: bool,
    /// True if a log is worth being written out.
    full: bool,
    logs: Vec<Log>,
    /// Their places, by process id.
    places: Map<i32, usize>,
    /// The process whose log was asked for last, and its place: the next call is mostly of the same process.
    last: Option<(i32, usize)>,
    /// The beginning of the last line, by time and thread: most lines begin as the one before.
    begin: Option<(SimTime, i32, Short<48>)>,
    /// The text of an `execve` under way, by thread id.
    pub executing: Map<i32, Text>,
    /// Phrases that calls have in common.
    pub phrases: Phrases,
}

impl Strace {
    /// Keeps lines if `enabled`.
    pub fn new(enabled: bool) -> Strace {
        Strace { enabled, ..Strace::default() }
    }

    /// Tells what is read of it where it keeps none.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.enabled);
        footprint.object(&self.full);
    }

    /// True if it keeps any.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The place of the log of a process that has called before.
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
    /// Begins the log of a process; its place. The name is `<program>.<pid>`.
    pub fn add(&mut self, pid: i32, name: String) -> usize {
        self.places.insert(pid, self.logs.len());
        self.logs.push(Log { name, text: Text::default() });
        self.logs.len() - 1
    }

    /// Takes the text of a log, to append a line.
    #[inline]
    pub fn take_text(&mut self, place: usize) -> Text {
        let text = std::mem::take(&mut self.logs[place].text);
        if text.is_new() { SPARE.with_borrow_mut(Vec::pop).unwrap_or_default() } else { text }
    }
    /// Gives it back.
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
    /// True if there are lines that are worth being written out.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.full
    }
    /// Hands out the lines of processes that have much of them, or of all, with `<program>.<pid>`.
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

    /// Appends how a line of a thread begins.
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

/// The lines of one process that have not been written out.
#[derive(Debug)]
struct Log {
    /// `<program>.<pid>`, by the program that the process ran when it was first seen.
    name: String,
    text: Text,
}

/// Bytes of a log that wait before it is written out.
const WORTH_WRITING: usize = 32 << 10;
/// So many buffers are kept for logs that are begun next.
const MOST_SPARE: usize = 16;

thread_local! {
    /// Buffers of logs that have been written out, the last one on top: a worker's hosts, of which one runs at a time, use
    /// the same again and again, and what they put there stays in the cache until it is written.
    static SPARE: RefCell<Vec<Text>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a buffer, emptied, for whoever needs one next.
fn give_back(mut text: Text) {
    text.truncate(0);
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MOST_SPARE {
            spare.push(text);
        }
    });
}
