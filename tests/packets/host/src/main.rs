//! One simulated host that packet scripts drive over standard input: no guest, no network, no
//! clock but the commands'. Each command is a line; the answer is what has happened, then `ok TIME`.
//!
//! | command | |
//! |---|---|
//! | `call ID NUMBER ARG...` | a thread makes a system call; an ARG is a number, `in:HEX` (the address of these bytes), `out:LENGTH` or `inout:HEX` (their contents come back) |
//! | `inject HEX` | an IP packet arrives |
//! | `until TIME` | time passes, to TIME or to when something happens |
//!
//! | answer | |
//! |---|---|
//! | `packet TIME HEX` | an IP packet has left |
//! | `done ID TIME RESULT [HEX...]` | a call has ended, a negative RESULT is an errno; the contents of its `out` and `inout` arguments |
//!
//! Times are nanoseconds since the host started. With `--ipv6` the host speaks IPv6, too.
#![forbid(unsafe_code)]

use belljar_base::{EventClass, EventKey, HostId, SimTime};
use belljar_kernel::testing::{Answer, DATA, TestHost};
use belljar_linux_abi::Errno;
use belljar_net::Packet;
use std::error::Error;
use std::io::{BufRead, Write};

/// Calls that may wait at the same time.
const THREADS: usize = 8;
/// Each thread's part of the memory.
const AREA: u64 = 128 * 1024;

/// A call that waits: its name, and where its results will be.
struct Waiting {
    id: String,
    results: Vec<(u64, usize)>,
}

struct Script {
    test: TestHost,
    waiting: [Option<Waiting>; THREADS],
    arrivals: u64,
    /// What has happened since the last answer.
    news: Vec<String>,
}

impl Script {
    fn new(v6: bool) -> Script {
        Script {
            test: TestHost::speaking(v6, THREADS),
            waiting: Default::default(),
            arrivals: 0,
            news: Vec::new(),
        }
    }

    fn now(&self) -> SimTime {
        self.test.host.now()
    }

    fn command(&mut self, line: &str) -> Result<(), Box<dyn Error>> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["call", id, number, ref args @ ..] => self.call(id, number.parse()?, args)?,
            ["inject", bytes] => {
                self.arrivals += 1;
                let key = EventKey {
                    time: self.now(),
                    class: EventClass::Arrival,
                    source: HostId(1),
                    sequence: self.arrivals,
                };
                self.test.stack().deliver(key, None, Packet::new(from_hex(bytes)?));
                self.settle(self.now());
            }
            ["until", time] => self.pass(SimTime::from_nanos(time.parse()?)),
            _ => return Err(format!("unknown command: {line}").into()),
        }
        Ok(())
    }

    fn call(&mut self, id: &str, number: i64, args: &[&str]) -> Result<(), Box<dyn Error>> {
        let thread = self.waiting.iter().position(Option::is_none).ok_or("too many calls wait")?;
        let mut offset = thread as u64 * AREA;
        let end = offset + AREA;
        let mut values = Vec::new();
        let mut results = Vec::new();
        for arg in args {
            let (bytes, comes_back) = match arg.split_once(':') {
                None => {
                    values.push(arg.parse::<i128>()? as u64);
                    continue;
                }
                Some(("in", hex)) => (from_hex(hex)?, false),
                Some(("inout", hex)) => (from_hex(hex)?, true),
                Some(("out", len)) => (vec![0; len.parse()?], true),
                Some(_) => return Err(format!("unknown argument: {arg}").into()),
            };
            if offset + bytes.len() as u64 > end {
                return Err("the arguments are too long".into());
            }
            values.push(DATA + offset);
            self.test.put(offset, &bytes);
            if comes_back {
                results.push((offset, bytes.len()));
            }
            offset += (bytes.len() as u64).next_multiple_of(16);
        }
        self.waiting[thread] = Some(Waiting { id: id.to_owned(), results });
        let answer = self.test.attempt(thread, number, &values);
        self.answered(thread, answer);
        self.settle(self.now());
        Ok(())
    }

    fn answered(&mut self, thread: usize, answer: Answer) {
        let Answer::Ended(result) = answer else { return };
        let Some(waiting) = self.waiting[thread].take() else { return };
        let value = match result {
            Ok(value) => value as i64,
            Err(Errno(error)) => -i64::from(error),
        };
        let mut line = format!("done {} {} {value}", waiting.id, self.now().as_nanos());
        for (offset, len) in waiting.results {
            line.push(' ');
            line.push_str(&to_hex(&self.test.get(offset, len)));
        }
        self.news.push(line);
    }

    /// Handles what is due at `time` and lets those go on who were woken.
    fn settle(&mut self, time: SimTime) {
        self.test.fire_until(time);
        for thread in 0..THREADS {
            if self.waiting[thread].is_some() {
                let answer = self.test.go_on(thread);
                self.answered(thread, answer);
            }
        }
        let mut departures = Vec::new();
        self.test.stack().take_departures(&mut departures);
        for departure in departures {
            let bytes = to_hex(&departure.packet.into_bytes());
            self.news.push(format!("packet {} {bytes}", departure.at.as_nanos()));
        }
    }

    fn pass(&mut self, until: SimTime) {
        self.settle(self.now());
        while self.news.is_empty() {
            match self.test.host.next_event().filter(|at| *at <= until) {
                Some(at) => self.settle(at.max(self.now())),
                None => return self.settle(until.max(self.now())),
            }
        }
    }
}

fn from_hex(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let digit = |at: usize| text.get(at..at + 2).ok_or("an odd number of digits");
    (0..text.len()).step_by(2).map(|at| Ok(u8::from_str_radix(digit(at)?, 16)?)).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut script = Script::new(std::env::args().any(|argument| argument == "--ipv6"));
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        script.command(&line?)?;
        for news in script.news.drain(..) {
            writeln!(out, "{news}")?;
        }
        writeln!(out, "ok {}", script.now().as_nanos())?;
        out.flush()?;
    }
    Ok(())
}
