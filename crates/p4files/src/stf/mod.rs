//! Packet tests in STF, the test format of p4c.
//!
//! A script adds entries, sends packets to ports and lists the expected packets of each port in order. The
//! checks run at the end: each port named by the script must have emitted exactly the expected packets.

mod entries;
mod pattern;

use crate::commands;
use belljar_base::{Map, SimDuration, SimTime, hex};
use belljar_p4::{Program, Switch, SwitchConfig};
use pattern::Pattern;
use std::fmt;
use std::sync::Arc;

/// Simulated time of each `wait`, and between packets.
const WAIT: SimDuration = SimDuration::from_secs(1);
const PACE: SimDuration = SimDuration::from_millis(1);

/// Failure: a deviation of the switch from the script, or an error in the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line number; 0 if the failure has no single line.
    pub line: usize,
    /// Description of the failure.
    pub message: String,
    /// True if the script, not the switch, is at fault.
    pub script: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.message)
    }
}

/// Result of a script.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Failures in order; empty if the script passed.
    pub failures: Vec<Failure>,
    /// Number of packets sent to the switch.
    pub sent: usize,
    /// Number of expected packets.
    pub expected: usize,
    /// Packet trace, if requested.
    pub trace: String,
}

struct Script {
    switch: Switch,
    now: SimTime,
    /// Entry handles by their names in the script.
    handles: Map<String, u32>,
    expected: Map<u16, Vec<(usize, Option<Pattern>)>>,
    got: Map<u16, Vec<Vec<u8>>>,
    /// Ports named by the script.
    named: Vec<u16>,
}

/// Runs a script on a new switch with the program.
pub fn run(program: &Arc<Program>, script: &str, trace: bool) -> Outcome {
    let config = SwitchConfig { name: "s1".to_owned(), ports: 512, ..SwitchConfig::default() };
    let mut switch = Switch::new(program.clone(), config);
    switch.set_trace(trace);
    let mut state = Script {
        switch,
        now: SimTime::ZERO,
        handles: Map::new(),
        expected: Map::new(),
        got: Map::new(),
        named: Vec::new(),
    };
    let mut outcome = Outcome::default();
    for (n, line) in script.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Err((script, message)) = state.line(n + 1, line, &mut outcome) {
            outcome.failures.push(Failure { line: n + 1, message, script });
            if script {
                // Subsequent failures would be consequences of this one.
                return outcome;
            }
        }
    }
    state.now += WAIT;
    state.collect();
    state.check(&mut outcome);
    outcome.trace = state.switch.take_trace();
    outcome
}

fn mistake(message: impl Into<String>) -> (bool, String) {
    (true, message.into())
}

impl Script {
    fn line(&mut self, n: usize, line: &str, outcome: &mut Outcome) -> Result<(), (bool, String)> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match word.to_ascii_lowercase().as_str() {
            "packet" => {
                let (port, data) = self.port(rest)?;
                let bytes = pattern::bytes(data).map_err(mistake)?;
                self.now += PACE;
                self.switch.receive(self.now, port, bytes);
                outcome.sent += 1;
                self.collect();
            }
            "expect" => {
                let (port, data) = self.port(rest)?;
                let pattern = match data {
                    "" => None,
                    data => Some(Pattern::new(data).map_err(mistake)?),
                };
                self.expected.entry(port).or_default().push((n, pattern));
                outcome.expected += 1;
            }
            "no_packet" => {}
            "wait" => {
                self.now += WAIT;
                self.collect();
            }
            "add" => self.add(rest).map_err(mistake)?,
            "setdefault" => self.set_default(rest).map_err(mistake)?,
            "check_counter" => self.check_counter(rest)?,
            "remove" => self.remove(rest).map_err(mistake)?,
            _ => {
                commands::command(&mut self.switch, line).map_err(mistake)?;
            }
        }
        Ok(())
    }

    fn port<'a>(&mut self, text: &'a str) -> Result<(u16, &'a str), (bool, String)> {
        let (port, data) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let number = port.parse().map_err(|_| mistake(format!("'{port}' is not a port")))?;
        if !self.named.contains(&number) {
            self.named.push(number);
        }
        Ok((number, data.trim()))
    }

    fn collect(&mut self) {
        while let Some(leaving) = self.switch.poll(self.now) {
            self.got.entry(leaving.port).or_default().push(leaving.packet);
        }
        while self.switch.notification().is_some() {}
    }

    fn check(&self, outcome: &mut Outcome) {
        let mut ports = self.named.clone();
        ports.sort_unstable();
        for port in ports {
            let expected = self.expected.get(&port).map_or(&[][..], Vec::as_slice);
            let got = self.got.get(&port).map_or(&[][..], Vec::as_slice);
            let mut fail = |line: usize, message: String| {
                outcome.failures.push(Failure { line, message, script: false })
            };
            for ((line, pattern), packet) in expected.iter().zip(got) {
                if let Some(pattern) = pattern
                    && let Err(difference) = pattern.check(packet)
                {
                    fail(*line, format!("the packet on port {port} differs: {difference}"));
                }
            }
            for (line, _) in expected.iter().skip(got.len()) {
                fail(*line, format!("the packet on port {port} did not come; {} came there", got.len()));
            }
            for packet in got.iter().skip(expected.len()) {
                fail(0, format!("port {port} has a packet that was not expected: {}", hex(packet)));
            }
        }
    }

    /// `NAME(INDEX) [packets|bytes RELATION NUMBER]`.
    fn check_counter(&mut self, text: &str) -> Result<(), (bool, String)> {
        let usage = || mistake("write check_counter NAME(INDEX) packets == NUMBER");
        let (name, rest) = text.split_once('(').ok_or_else(usage)?;
        let (index, rest) = rest.split_once(')').ok_or_else(usage)?;
        let program = self.switch.program().clone();
        let counter = program.counter(name.trim()).map_err(|error| mistake(error.message))?;
        let index = match index.trim().strip_prefix('$') {
            Some(name) => {
                let handle = self.handles.get(name).copied();
                u64::from(handle.ok_or_else(|| mistake(format!("no entry is named '{name}'")))?)
            }
            None => crate::values::small(index.trim()).map_err(mistake)?,
        };
        let data = match program.table_of_counter(counter) {
            Some(table) => self.switch.entry_counter(table, index as u32),
            None => self.switch.counter(counter, index),
        };
        let data = data.map_err(|error| mistake(error.message))?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let (kind, relation, wanted) = match words.as_slice() {
            [] => return Ok(()),
            [kind, relation, number] => (*kind, *relation, crate::values::small(number).map_err(mistake)?),
            _ => return Err(usage()),
        };
        let value = match kind {
            "packets" => data.packets,
            "bytes" => data.bytes,
            _ => return Err(usage()),
        };
        let holds = |value: u64| {
            Some(match relation {
                "==" => value == wanted,
                "!=" => value != wanted,
                "<" => value < wanted,
                "<=" => value <= wanted,
                ">" => value > wanted,
                ">=" => value >= wanted,
                _ => return None,
            })
        };
        // Some scripts of p4c count the frame check sequence, which simulated frames lack.
        let with_fcs = if kind == "bytes" { value + 4 * data.packets } else { value };
        let (Some(plain), Some(with_fcs)) = (holds(value), holds(with_fcs)) else { return Err(usage()) };
        if !plain && !with_fcs {
            return Err((
                false,
                format!("counter {name}({index}) has {value} {kind}, expected {relation} {wanted}"),
            ));
        }
        Ok(())
    }
}
