use crate::verdict::doubt;
use crate::{Condition, LineClaim, Location, Quantifier, Verdict, WriteTimes};
use belljar_base::SimTime;
use std::io::{self, BufRead, Read};

/// Longest line that is judged, in bytes.
const LINE_BYTES: u64 = 1 << 20;
/// Number of characters of a line that a verdict shows.
const SHOWN: usize = 160;

/// Window of simulated time, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First time.
    pub from: SimTime,
    /// Last time.
    pub to: SimTime,
    /// Time that the run reached.
    pub reached: SimTime,
}

/// Judge of a claim about lines: [`take`](Self::take) reads the files one by one, [`take_packet`](Self::take_packet) judges the
/// packets if the claim is about these, and [`finish`](Self::finish) gives the verdict.
pub struct LineJudge<'a> {
    claim: &'a LineClaim,
    /// Filter of the packets that are taken, if the claim is about packets; it may be empty.
    filter: Option<&'a str>,
    /// Window of [`Quantifier::Eventually`].
    window: Option<Window>,
    /// Number of lines taken.
    taken: u64,
    /// Number of lines judged, which `lines` of the claim selects.
    judged: u64,
    /// Number of violations, or of satisfying lines where one is to appear.
    decisive: u64,
    /// The earliest decisive line: its reason, location and text.
    found: Option<(String, Location, String)>,
    /// Satisfying line outside the window, the nearest one behind it, or one without a time.
    outside: Option<Location>,
}

/// Outcome of one line.
enum Outcome {
    Satisfied,
    Unsatisfied(String),
    Doubtful(String),
}

impl<'a> LineJudge<'a> {
    /// Judge of a claim; `window` is that of [`Quantifier::Eventually`].
    pub fn new(claim: &'a LineClaim, window: Option<Window>) -> LineJudge<'a> {
        LineJudge {
            claim,
            filter: None,
            window,
            taken: 0,
            judged: 0,
            decisive: 0,
            found: None,
            outside: None,
        }
    }

    /// Judge of a claim about the packets that pass a filter.
    pub fn of_packets(claim: &'a LineClaim, window: Option<Window>, filter: &'a str) -> LineJudge<'a> {
        LineJudge { filter: Some(filter), ..LineJudge::new(claim, window) }
    }

    /// Judges a packet by its description; `passes` is true if it passes the filter of [`Condition::Passes`].
    pub fn take_packet(&mut self, location: impl Fn() -> Location, description: &str, passes: bool) {
        self.taken += 1;
        if let Some(outcome) = self.outcome(description, passes) {
            self.judged += 1;
            self.weigh(outcome, location, description);
        }
    }

    /// Judges all lines of a file of a host.
    ///
    /// # Errors
    /// Errors of the reader.
    pub fn take(
        &mut self,
        host: &str,
        file: &str,
        times: Option<&WriteTimes>,
        mut input: impl BufRead,
    ) -> io::Result<()> {
        let (mut start, mut buffer) = (0, Vec::new());
        for line in 1.. {
            buffer.clear();
            let read = input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut buffer)? as u64;
            if read == 0 {
                break;
            }
            if read == LINE_BYTES && buffer.last() != Some(&b'\n') {
                let reason = format!("line {line} of {file} at {host} has more than {LINE_BYTES} bytes");
                return Err(io::Error::other(reason));
            }
            let end = start + read;
            let text = String::from_utf8_lossy(&buffer);
            let text = text.strip_suffix('\n').unwrap_or(&text);
            let text = text.strip_suffix('\r').unwrap_or(text);
            self.taken += 1;
            if let Some(outcome) = self.outcome(text, false) {
                self.judged += 1;
                let location = || Location {
                    host: host.to_owned(),
                    file: file.to_owned(),
                    line,
                    time: times.and_then(|times| times.complete(start, end)),
                };
                self.weigh(outcome, location, text);
            }
            start = end;
        }
        Ok(())
    }

    /// Outcome of a line; `None` if it is not judged.
    fn outcome(&self, line: &str, passes: bool) -> Option<Outcome> {
        let LineClaim { condition, lines, comparisons, .. } = self.claim;
        if comparisons.is_empty() {
            if lines.as_ref().is_some_and(|lines| !lines.is_match(line)) {
                return None;
            }
            let holds = match condition {
                Condition::Matches(pattern) => pattern.is_match(line),
                Condition::Passes(_) => passes,
            };
            return Some(match holds {
                true => Outcome::Satisfied,
                false => Outcome::Unsatisfied(self.unmatched()),
            });
        }
        let of_lines = match lines {
            Some(lines) => Some(lines.captures(line)?),
            None => None,
        };
        let (own, holds) = match condition {
            Condition::Matches(pattern) => {
                let own = pattern.captures(line);
                let holds = own.is_some();
                (own, holds)
            }
            Condition::Passes(_) => (None, passes),
        };
        if !holds {
            return Some(Outcome::Unsatisfied(self.unmatched()));
        }
        let group = |name: &str| {
            let found = own
                .as_ref()
                .and_then(|own| own.name(name))
                .or_else(|| of_lines.as_ref().and_then(|of_lines| of_lines.name(name)));
            found.map(|found| found.as_str())
        };
        for comparison in comparisons {
            match comparison.check(group) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => return Some(Outcome::Unsatisfied(why)),
                Err(why) => return Some(Outcome::Doubtful(doubt(&why))),
            }
        }
        Some(Outcome::Satisfied)
    }

    /// Noun of a line.
    fn noun(&self) -> &'static str {
        if self.filter.is_some() { "packet" } else { "line" }
    }

    fn unmatched(&self) -> String {
        match &self.claim.condition {
            Condition::Matches(pattern) => format!("a {} does not match '{}'", self.noun(), pattern.text()),
            Condition::Passes(filter) => format!("a packet does not pass '{filter}'"),
        }
    }

    /// Lines that satisfy the claim, in words.
    fn satisfying(&self) -> String {
        let mut text = match &self.claim.condition {
            Condition::Matches(pattern) => format!("matches '{}'", pattern.text()),
            Condition::Passes(filter) => format!("passes '{filter}'"),
        };
        for comparison in &self.claim.comparisons {
            text.push_str(&format!(" with {}", comparison.text()));
        }
        text
    }

    /// Takes the outcome of a line into account.
    fn weigh(&mut self, outcome: Outcome, location: impl Fn() -> Location, text: &str) {
        match (self.claim.quantifier, outcome) {
            (Quantifier::Always, Outcome::Unsatisfied(why)) => self.decide(why, location(), text),
            (Quantifier::Always | Quantifier::Never, Outcome::Doubtful(why)) => {
                self.decide(why, location(), text);
            }
            (Quantifier::Never, Outcome::Satisfied) => {
                self.decide(format!("a {} {}", self.noun(), self.satisfying()), location(), text);
            }
            (Quantifier::Sometimes, Outcome::Satisfied) => self.decide(String::new(), location(), text),
            (Quantifier::Eventually { .. }, Outcome::Satisfied) => {
                let (at, window) = (location(), self.window);
                let inside =
                    at.time.zip(window).is_some_and(|(at, window)| window.from <= at && at <= window.to);
                let is_late = |at: &Location| at.time.zip(window).is_some_and(|(at, window)| at > window.to);
                if inside {
                    self.decide(String::new(), at, text);
                } else if at.time.is_none() {
                    self.outside.get_or_insert(at);
                } else if is_late(&at) && self.outside.as_ref().is_none_or(|known| known.time > at.time) {
                    self.outside = Some(at);
                }
            }
            _ => {}
        }
    }

    /// Keeps the earliest decisive line.
    fn decide(&mut self, reason: String, at: Location, text: &str) {
        self.decisive += 1;
        let time = |at: &Location| at.time.unwrap_or(SimTime::MAX);
        if self.found.as_ref().is_none_or(|(_, known, _)| time(&at) < time(known)) {
            let shown: String =
                text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect();
            self.found = Some((reason, at, shown));
        }
    }

    /// Verdict on the files that were taken.
    pub fn finish(self) -> Verdict {
        let failure = match (self.claim.quantifier, &self.found) {
            (Quantifier::Always | Quantifier::Never, Some((reason, ..))) => Some(match self.decisive {
                1 => reason.clone(),
                count => format!("{reason} ({count} such {}s)", self.noun()),
            }),
            (Quantifier::Always | Quantifier::Never, None) if self.judged == 0 => self.nothing_judged(),
            (Quantifier::Always | Quantifier::Never, None) => None,
            (_, Some(_)) => None,
            (Quantifier::Sometimes, None) => {
                Some(format!("no {} of {} {}", self.noun(), self.judged, self.satisfying()))
            }
            (Quantifier::Eventually { .. }, None) => Some(self.missed()),
        };
        let (at, text) = self.found.map(|(_, at, text)| (at, text)).unzip();
        Verdict { failure, at, text, judged: self.judged }
    }

    /// Doubt of a claim about all lines where none was judged; `never` needs one only if some were to be selected.
    fn nothing_judged(&self) -> Option<String> {
        let why = format!("there is no {} to judge", self.noun());
        let selected_by = match (self.filter, &self.claim.lines) {
            (Some(filter), _) if self.taken == 0 && !filter.is_empty() => {
                Some(format!("none passes '{filter}' of 'filter'"))
            }
            (_, Some(lines)) => Some(format!("none matches '{}' of 'lines'", lines.text())),
            (_, None) => None,
        };
        match (selected_by, self.claim.quantifier) {
            (Some(by), _) => Some(doubt(&format!("{why}: {by}"))),
            (None, Quantifier::Always) => Some(doubt(&why)),
            (None, _) => None,
        }
    }

    /// Reason for which no line appeared in the window.
    fn missed(&self) -> String {
        let mut reason = format!("no {} {}", self.noun(), self.satisfying());
        if let Some(Window { from, to, reached }) = self.window {
            reason.push_str(&format!(" from {} to {}", seconds(from), seconds(to)));
            if reached < to {
                reason.push_str(&format!("; the run ended at {}", seconds(reached)));
            }
        }
        match &self.outside {
            Some(Location { host, file, line, time: Some(time) }) => {
                reason.push_str(&format!(
                    "; the first one after it is {file}:{line} at {host}, at {}",
                    seconds(*time)
                ));
            }
            Some(Location { host, file, line, time: None }) => {
                reason.push_str(&format!("; no simulated time is known of {file}:{line} at {host}"));
            }
            None => {}
        }
        reason
    }
}

/// Time in seconds.
fn seconds(time: SimTime) -> String {
    format!("{:.6} s", time.as_secs_f64())
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
