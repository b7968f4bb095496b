//! The live view in the terminal: drawn on the alternate screen, controlled by single keys.

use super::watch::{Selection, State, Watch};
use crate::failure::Failure;
use console::Term;
use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Interval between two drawings, in nanoseconds.
const REFRESH_NS: i64 = 250_000_000;
const KEYS: &str = "space pause/go on  s step  n next event  o order  w write snapshot  q leave";
/// Sort orders of hosts: by name, then by these columns.
const ORDERS: [&str; 6] = ["", "bytes_out", "syscalls", "queued", "dropped", "connections"];
/// Upper bounds on the lines for the schedule, for queues, and for warnings and notes.
const EVENTS: usize = 4;
const QUEUES: usize = 4;
const WARNINGS: usize = 3;
/// Escape sequences: to the alternate screen with the cursor hidden, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Original settings of the terminal while the view is open.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Restores the terminal's original settings.
pub fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &before);
        let _ = write!(io::stderr(), "{LEAVE}");
    }
}

/// Open view. Dropping the value restores the terminal.
pub struct Screen {
    is_closing: Arc<AtomicBool>,
    drawer: Option<JoinHandle<()>>,
    watch: Arc<Watch>,
}

impl Screen {
    /// Switches the terminal to the view and starts the drawing thread.
    pub fn open(watch: Arc<Watch>) -> Result<Screen, Failure> {
        let before = tcgetattr(io::stdin()).map_err(Failure::run)?;
        let mut ours = before.clone();
        // Ctrl-C still sends SIGINT; Ctrl-Z is disabled, since the shell would inherit the changed terminal.
        ours.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        ours.control_chars[SpecialCharacterIndices::VSUSP as usize] = 0;
        ours.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &ours).map_err(Failure::run)?;
        let _ = write!(io::stderr(), "{ENTER}");
        let is_closing = Arc::new(AtomicBool::new(false));
        let draw = {
            let (is_closing, watch) = (is_closing.clone(), watch.clone());
            move || View::default().show(&watch, &is_closing)
        };
        let drawer = thread::Builder::new().name("live view".into()).spawn(draw).map_err(Failure::run)?;
        Ok(Screen { is_closing, drawer: Some(drawer), watch })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_closing.store(true, Relaxed);
        if let Some(drawer) = self.drawer.take() {
            let _ = drawer.join();
        }
        restore();
        // These notes were on the alternate screen, which is gone.
        self.watch.later_notes().iter().for_each(|note| eprintln!("note: {note}"));
    }
}

/// State of the display.
#[derive(Default)]
struct View {
    order: usize,
    /// Message of the last key, if it failed or wrote a file.
    said: String,
}

impl View {
    /// Draws the run until the view is closed.
    fn show(&mut self, watch: &Watch, is_closing: &AtomicBool) {
        while !is_closing.load(Relaxed) {
            let (lines, columns) = Term::stderr().size();
            let size = (usize::from(columns), usize::from(lines));
            let selection = Selection { filter: "", by: ORDERS[self.order], limit: size.1 };
            let state = watch.state(&selection);
            let mut text = "\x1b[H".to_owned();
            for line in frame(&state, ORDERS[self.order], &self.said, size) {
                let _ = write!(text, "{line}\x1b[K\r\n");
            }
            let text = text.trim_end_matches("\r\n");
            let _ = write!(io::stderr().lock(), "{text}\x1b[J");
            if let Some(key) = key() {
                if key == b'q' {
                    watch.go_on();
                    return restore();
                }
                self.said = self.press(key, watch, state.is_paused).err().unwrap_or_default();
            }
        }
    }

    fn press(&mut self, key: u8, watch: &Watch, is_paused: bool) -> Result<(), String> {
        match key {
            b' ' if is_paused => watch.go_on(),
            b' ' => watch.pause()?,
            b's' => watch.step()?,
            b'n' => watch.next_event()?,
            b'o' => self.order = (self.order + 1) % ORDERS.len(),
            b'w' => {
                let (at, json) = watch.snapshot()?;
                let name = format!("{}-{at}.json", watch.name());
                fs::write(&name, json).map_err(|error| format!("{name} cannot be written: {error}"))?;
                return Err(format!("written: {name}"));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Reads the next key, or returns `None` after the interval between two drawings.
fn key() -> Option<u8> {
    let stdin = io::stdin();
    let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: REFRESH_NS };
    if poll(&mut ready, Some(&timeout)).ok()? == 0 {
        return None;
    }
    let mut byte = [0];
    match rustix::io::read(&stdin, &mut byte) {
        Ok(1) => Some(byte[0]),
        // The terminal was closed: pause, rather than poll it in a busy loop.
        _ => {
            thread::park_timeout(std::time::Duration::from_nanos(REFRESH_NS as u64));
            None
        }
    }
}

/// Renders the lines of a screen of the given width and height.
fn frame(state: &State, order: &str, said: &str, (width, height): (usize, usize)) -> Vec<String> {
    let mut lines = head(state, width);
    let below = below(state);
    let room = height.saturating_sub(lines.len() + below.len() + 2);
    let by = if order.is_empty() { "name" } else { order };
    lines.push(bold(&fit(
        &format!(
            "{:<20} {:>7} {:>5} {:>9} {:>9} {:>9} {:>8} {:>7}  by {by}",
            "host", "running", "conns", "calls", "in", "out", "dropped", "queued"
        ),
        width,
    )));
    for host in state.hosts.iter().take(room) {
        let v = &host.view;
        lines.push(fit(
            &format!(
                "{:<20} {:>7} {:>5} {:>9} {:>9} {:>9} {:>8} {:>7}",
                fit(&host.name, 20),
                v.running,
                v.connections,
                short(v.syscalls),
                short(v.bytes_in),
                short(v.bytes_out),
                short(v.dropped),
                v.queued
            ),
            width,
        ));
    }
    lines.extend(below.iter().map(|line| fit(line, width)));
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), String::new());
    lines.push(bold(&fit(if said.is_empty() { KEYS } else { said }, width)));
    lines
}

/// Renders the time, the speed and the totals.
fn head(state: &State, width: usize) -> Vec<String> {
    let how = match (state.is_over, state.is_paused, state.speed) {
        (true, ..) => "writing results".to_owned(),
        (_, true, _) => "PAUSED".to_owned(),
        (_, _, Some(speed)) => format!("{speed:.1}x"),
        (_, _, None) => "running".to_owned(),
    };
    let late = if state.is_late { ", a program computes for long" } else { "" };
    let time =
        format!("{:.9} s of {} s: {how}{late}", state.time_ns as f64 / 1e9, state.stop_ns as f64 / 1e9);
    let room = width.saturating_sub(2);
    let done = (room as u128 * u128::from(state.time_ns) / u128::from(state.stop_ns.max(1))) as usize;
    let total = &state.total;
    vec![
        bold(&fit(&format!("{}  {time}", state.name), width)),
        fit(&format!("[{}{}]", "#".repeat(done), ".".repeat(room.saturating_sub(done))), width),
        fit(
            &format!(
                "{} hosts, {} devices, {} workers; programs: {} run, {} ended; {} connections, {} packets wait, {} dropped",
                state.host_count,
                state.device_count,
                state.workers,
                total.running,
                total.ended,
                total.connections,
                total.queued,
                total.dropped
            ),
            width,
        ),
        String::new(),
    ]
}

/// Renders queues, schedule, warnings and notes.
fn below(state: &State) -> Vec<String> {
    let mut lines = Vec::new();
    let queues: Vec<_> = state.links.iter().filter(|link| link.view.queued > 0).take(QUEUES).collect();
    if !queues.is_empty() {
        lines.extend([String::new(), "queues".to_owned()]);
        lines.extend(queues.iter().map(|link| {
            format!(
                "  {:>6} frames wait, {:>6} dropped: {}",
                link.view.queued,
                short(link.view.dropped),
                link.name
            )
        }));
    }
    if !state.to_come.is_empty() {
        lines.extend([String::new(), "to come".to_owned()]);
        lines.extend(
            state
                .to_come
                .iter()
                .take(EVENTS)
                .map(|entry| format!("  {:>14.6} s  {}", entry.at_ns as f64 / 1e9, entry.text)),
        );
    }
    let warnings = state.warnings.iter().map(|(text, count)| format!("  {text} ({count}x)"));
    let said: Vec<String> =
        warnings.chain(state.notes.iter().rev().map(|note| format!("  {note}"))).collect();
    if !said.is_empty() {
        lines.extend([String::new(), format!("warnings and notes ({})", said.len())]);
        lines.extend(said.into_iter().take(WARNINGS));
    }
    lines
}

/// Formats a count with a suffix for thousands, millions and so on.
fn short(count: u64) -> String {
    const SUFFIXES: [&str; 5] = ["", "k", "M", "G", "T"];
    let (mut value, mut n) = (count as f64, 0);
    while value >= 10_000.0 && n + 1 < SUFFIXES.len() {
        (value, n) = (value / 1_000.0, n + 1);
    }
    if n == 0 { count.to_string() } else { format!("{value:.0}{}", SUFFIXES[n]) }
}

/// Truncates a line to `width` columns, and replaces control characters.
fn fit(line: &str, width: usize) -> String {
    let mut text: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(width).collect();
    if line.chars().count() > width && width > 1 {
        text.pop();
        text.push('>');
    }
    text
}

fn bold(line: &str) -> String {
    format!("\x1b[1m{line}\x1b[m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_move_nothing() {
        assert_eq!(fit("hello\x1b[2J\nthere", 9), "hello [2>");
        assert_eq!(fit("hello", 5), "hello");
        assert_eq!(
            (short(9_999), short(10_000), short(25_400_000)),
            ("9999".into(), "10k".into(), "25M".into())
        );
    }
}
