//! Assertions that programs report as JSON lines, in the format of Antithesis' SDKs.
//!
//! A line `{"antithesis_assert": {...}}` declares an assertion (`"hit": false`) or reports one evaluation of it. Lines of the same `id` are
//! one assertion, on all hosts together. A line
//! `{"antithesis_setup": {"status": "complete"}}` says when the system is ready. Other lines (events, guidance) are not judged.
//!
//! | `assert_type`, `must_hit` | holds if |
//! |---|---|
//! | `always`, true | each evaluation is true, and there is one |
//! | `always`, false | each evaluation is true |
//! | `sometimes` | some evaluation is true |
//! | `reachability`, true | it is evaluated |
//! | `reachability`, false | it is not |

use crate::{Location, Verdict, WriteTimes};
use belljar_base::Map;
use serde_json::Value;
use std::io::{self, BufRead, Read};

/// Longest line that is read, in bytes.
const LINE_BYTES: u64 = 1 << 20;
/// Number of characters of a line that a verdict shows.
const SHOWN: usize = 160;
/// Kind of the entry that says when the setup was complete.
pub const SETUP: &str = "setup";
/// Longest message that becomes a name, in characters.
const NAME: usize = 100;

/// Verdict on one assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssertionVerdict {
    /// Message of the assertion.
    pub name: String,
    /// Kind as that of claims about lines, `always`, `never` or `sometimes` (also of a goal that was not reached), or [`SETUP`].
    pub kind: &'static str,
    /// Verdict.
    pub verdict: Verdict,
}

/// Judge of assertions: [`take`](Self::take) reads the files one by one, [`finish`](Self::finish) gives the verdicts.
#[derive(Default)]
pub struct AssertionJudge {
    assertions: Map<String, Assertion>,
    /// Line that completes the setup: the last of those that come first in their files.
    setup: Option<(Location, String)>,
}

/// Kind of an assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Always { must_hit: bool },
    Sometimes,
    Reachable,
    Unreachable,
}

/// Assertion, with what was seen of it.
struct Assertion {
    kind: Kind,
    message: String,
    /// Number of evaluations.
    hits: u64,
    /// Number of violations.
    violations: u64,
    /// Evaluation that decides, the earliest by its time: its location and text.
    decisive: Option<(Location, String)>,
}

/// Content of a line that matters.
enum Line {
    Assertion(Report),
    Setup,
}

/// Report about an assertion.
struct Report {
    id: String,
    kind: Kind,
    message: String,
    hit: bool,
    condition: bool,
}

impl AssertionJudge {
    /// Reads the assertions in a file of a host. A last line without an end is left out: a crash may have cut it.
    ///
    /// # Errors
    /// Errors of the reader, or a malformed line: the text names it.
    pub fn take(
        &mut self,
        host: &str,
        file: &str,
        times: Option<&WriteTimes>,
        mut input: impl BufRead,
    ) -> io::Result<()> {
        let (mut start, mut buffer, mut is_set_up) = (0, Vec::new(), false);
        for line in 1.. {
            buffer.clear();
            let read = input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut buffer)? as u64;
            if buffer.last() != Some(&b'\n') {
                if read == LINE_BYTES {
                    return Err(io::Error::other(format!("line {line} has more than {LINE_BYTES} bytes")));
                }
                return Ok(());
            }
            let end = start + read;
            let text = String::from_utf8_lossy(&buffer);
            let content =
                parse(text.trim()).map_err(|problem| io::Error::other(format!("line {line}: {problem}")))?;
            let time = times.and_then(|times| times.complete(start, end));
            let location = Location { host: host.to_owned(), file: file.to_owned(), line, time };
            match content {
                Some(Line::Assertion(report)) => self.enter(report, location, text.trim()),
                Some(Line::Setup) if !is_set_up => {
                    is_set_up = true;
                    self.set_up(location, text.trim());
                }
                Some(Line::Setup) | None => {}
            }
            start = end;
        }
        Ok(())
    }

    /// Notes that the setup of a host is complete: that of all is with the last of them.
    fn set_up(&mut self, location: Location, text: &str) {
        let is_later = self.setup.as_ref().is_none_or(|(before, _)| before.time <= location.time);
        if is_later {
            self.setup = Some((location, text.chars().take(SHOWN).collect()));
        }
    }

    fn enter(&mut self, report: Report, location: Location, text: &str) {
        let Report { id, kind, message, hit, condition } = report;
        let new = Assertion { kind, message, hits: 0, violations: 0, decisive: None };
        let assertion = self.assertions.entry(id).or_insert(new);
        if !hit {
            return;
        }
        assertion.hits += 1;
        let decides = match assertion.kind {
            Kind::Always { .. } => !condition,
            Kind::Unreachable => true,
            Kind::Sometimes => condition,
            Kind::Reachable => true,
        };
        if !decides {
            return;
        }
        assertion.violations += 1;
        let is_earlier = |before: &(Location, String)| {
            let known = |location: &Location| location.time.map(|time| time.as_nanos());
            known(&location).zip(known(&before.0)).is_some_and(|(new, old)| new < old)
        };
        if assertion.decisive.as_ref().is_none_or(is_earlier) {
            assertion.decisive = Some((location, text.chars().take(SHOWN).collect()));
        }
    }

    /// Verdicts on all assertions, sorted by their identifiers, and the completion of the setup if it is reported.
    pub fn finish(self) -> Vec<AssertionVerdict> {
        let setup = self.setup.map(|(at, text)| AssertionVerdict {
            name: "setup complete".to_owned(),
            kind: SETUP,
            verdict: Verdict { failure: None, at: Some(at), text: Some(text), judged: 1 },
        });
        self.assertions.into_values().map(Assertion::finish).chain(setup).collect()
    }
}

impl Assertion {
    fn finish(self) -> AssertionVerdict {
        let is_decided = self.decisive.is_some();
        let (kind, failure) = match self.kind {
            Kind::Always { .. } if is_decided => {
                ("always", Some(format!("false {} times of {}", self.violations, self.hits)))
            }
            Kind::Always { must_hit: true } if self.hits == 0 => {
                ("sometimes", Some("was never evaluated".to_owned()))
            }
            Kind::Always { .. } => ("always", None),
            Kind::Unreachable => {
                ("never", is_decided.then(|| format!("was reached {} times", self.violations)))
            }
            Kind::Reachable => ("sometimes", (!is_decided).then(|| "was never reached".to_owned())),
            Kind::Sometimes if is_decided => ("sometimes", None),
            Kind::Sometimes => ("sometimes", Some(format!("was never true, of {} times", self.hits))),
        };
        let (at, text) = self.decisive.unzip();
        let verdict = Verdict { failure, at, text, judged: self.hits };
        AssertionVerdict { name: self.message.chars().take(NAME).collect(), kind, verdict }
    }
}

/// Reads a line; `None` if it is about something else.
fn parse(text: &str) -> Result<Option<Line>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(text).map_err(|error| {
        format!("not valid JSON: {}", error.to_string().replace(" at line 1 column ", " at column "))
    })?;
    if value["antithesis_setup"]["status"] == "complete" {
        return Ok(Some(Line::Setup));
    }
    let Some(body) = value.get("antithesis_assert") else { return Ok(None) };
    let missing =
        |name: &str, form: &str| format!("\"{name}\" of \"antithesis_assert\" is {}, not {form}", body[name]);
    let flag = |name: &str| body[name].as_bool().ok_or_else(|| missing(name, "true or false"));
    let words = |name: &str| body[name].as_str().map(str::to_owned).ok_or_else(|| missing(name, "a text"));
    let message = words("message")?;
    let must_hit = flag("must_hit")?;
    let kind = match words("assert_type")?.as_str() {
        "always" => Kind::Always { must_hit },
        "sometimes" => Kind::Sometimes,
        "reachability" if must_hit => Kind::Reachable,
        "reachability" => Kind::Unreachable,
        _ => return Err(missing("assert_type", "\"always\", \"sometimes\" or \"reachability\"")),
    };
    let id = body["id"].as_str().unwrap_or(&message).to_owned();
    Ok(Some(Line::Assertion(Report { id, kind, message, hit: flag("hit")?, condition: flag("condition")? })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::SimTime;
    use serde_json::json;

    fn line(kind: &str, must_hit: bool, message: &str, hit: bool, condition: bool) -> String {
        let body = json!({"hit": hit, "must_hit": must_hit, "assert_type": kind, "display_type": "any", "message": message,
            "condition": condition, "id": message, "location": {}, "details": null});
        json!({"antithesis_assert": body}).to_string() + "\n"
    }

    fn judge(lines: &[String]) -> Vec<(&'static str, Option<String>, Option<usize>)> {
        let mut judge = AssertionJudge::default();
        judge.take("a", "sdk.jsonl", None, lines.concat().as_bytes()).unwrap();
        let of = |one: AssertionVerdict| (one.kind, one.verdict.failure, one.verdict.at.map(|at| at.line));
        judge.finish().into_iter().map(of).collect()
    }

    #[test]
    fn assertions_are_judged_by_their_kind() {
        let declared = |kind: &str, must_hit: bool| vec![line(kind, must_hit, "m", false, false)];
        let with = |kind: &str, must_hit: bool, conditions: &[bool]| {
            let mut lines = declared(kind, must_hit);
            lines.extend(conditions.iter().map(|condition| line(kind, must_hit, "m", true, *condition)));
            judge(&lines).remove(0)
        };
        let failed = |text: &str| Some(text.to_owned());
        assert_eq!(with("always", true, &[]), ("sometimes", failed("was never evaluated"), None));
        assert_eq!(with("always", false, &[]), ("always", None, None));
        assert_eq!(with("always", true, &[true, true]), ("always", None, None));
        assert_eq!(
            with("always", true, &[true, false, false]),
            ("always", failed("false 2 times of 3"), Some(3))
        );
        assert_eq!(with("sometimes", true, &[]), ("sometimes", failed("was never true, of 0 times"), None));
        assert_eq!(
            with("sometimes", true, &[false]),
            ("sometimes", failed("was never true, of 1 times"), None)
        );
        assert_eq!(with("sometimes", true, &[false, true]), ("sometimes", None, Some(3)));
        assert_eq!(with("reachability", true, &[]), ("sometimes", failed("was never reached"), None));
        assert_eq!(with("reachability", true, &[true]), ("sometimes", None, Some(2)));
        assert_eq!(with("reachability", false, &[]), ("never", None, None));
        assert_eq!(with("reachability", false, &[false]), ("never", failed("was reached 1 times"), Some(2)));
    }

    #[test]
    fn other_lines_are_not_judged() {
        let lines = [
            "{\"antithesis_sdk\": {}}\n",
            "\n",
            "{\"antithesis_guidance\": {}}\n",
            "{\"antithesis_assert\": {\"cut",
        ];
        assert_eq!(judge(&lines.map(str::to_owned)), []);
    }

    #[test]
    fn the_setup_is_complete_when_all_are() {
        let line = "{\"antithesis_setup\": {\"status\": \"complete\", \"details\": {}}}\n";
        let mut judge = AssertionJudge::default();
        for (host, at) in [("a", 5), ("b", 8), ("c", 6)] {
            let mut times = WriteTimes::default();
            times.write(0, line.len() as u64, SimTime::from_nanos(at));
            // A host that is started again completes its setup again.
            times.write(line.len() as u64, 2 * line.len() as u64, SimTime::from_nanos(100));
            judge.take(host, "sdk.jsonl", Some(&times), line.repeat(2).as_bytes()).unwrap();
        }
        let setup = judge.finish().remove(0);
        assert_eq!((setup.kind, setup.verdict.failure), (SETUP, None));
        assert_eq!(setup.verdict.at.unwrap().time, Some(SimTime::from_nanos(8)));
    }

    #[test]
    fn the_earliest_violation_of_all_hosts_is_shown() {
        let violated = line("always", true, "m", true, false);
        let mut judge = AssertionJudge::default();
        for (host, at) in [("a", 9), ("b", 4), ("c", 7)] {
            let mut times = WriteTimes::default();
            times.write(0, violated.len() as u64, SimTime::from_nanos(at));
            judge.take(host, "sdk.jsonl", Some(&times), violated.as_bytes()).unwrap();
        }
        let verdict = judge.finish().remove(0).verdict;
        assert_eq!((verdict.at.unwrap().host.as_str(), verdict.judged), ("b", 3));
    }

    #[test]
    fn malformed_lines_are_errors() {
        let good = line("always", true, "m", true, true);
        for (line, problem) in [
            ("{]\n".to_owned(), "line 2: not valid JSON: key must be a string at column 2"),
            (
                good.replace("always", "never"),
                "line 2: \"assert_type\" of \"antithesis_assert\" is \"never\", not \"always\", \"sometimes\" or \"reachability\"",
            ),
            (
                good.replace("\"hit\":true", "\"hit\":1"),
                "line 2: \"hit\" of \"antithesis_assert\" is 1, not true or false",
            ),
            (
                good.replace("\"message\":\"m\"", "\"massage\":\"m\""),
                "line 2: \"message\" of \"antithesis_assert\" is null, not a text",
            ),
            ("x".repeat(LINE_BYTES as usize + 1), "line 2 has more than 1048576 bytes"),
        ] {
            let text = good.clone() + &line;
            let error = AssertionJudge::default().take("a", "f", None, text.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
    }
}
