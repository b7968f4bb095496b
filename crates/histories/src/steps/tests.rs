use super::*;
use crate::{Verdict, check};

/// Step function of a register, with a fault.
#[derive(Clone, Copy, Default)]
struct Faults {
    /// Number of the question from which each answer has another state.
    changes_at: Option<u64>,
    /// Number of the question that has no answer.
    fails_at: Option<u64>,
    /// Initial states after the first restart.
    restarts_elsewhere: bool,
    /// `write` is among the reads.
    hides_writes: bool,
    needs_process: bool,
}

struct Register {
    faults: Faults,
    asked: u64,
    restarts: i64,
}

fn register(faults: Faults) -> Box<dyn Steps> {
    Box::new(Register { faults, asked: 0, restarts: 0 })
}

impl Steps for Register {
    fn start(&mut self) -> Result<Start, HistoryError> {
        let state = match self.faults.restarts_elsewhere && self.restarts > 0 {
            true => Value::Integer(self.restarts),
            false => Value::Null,
        };
        let mut reads = vec!["read".to_string()];
        reads.extend(self.faults.hides_writes.then(|| "write".to_string()));
        Ok(Start { state, reads, needs_process: self.faults.needs_process })
    }

    fn step(&mut self, state: &Value, question: &Question) -> Result<Option<Value>, HistoryError> {
        self.asked += 1;
        assert_eq!(question.process.is_some(), self.faults.needs_process);
        if self.faults.fails_at == Some(self.asked) {
            return Err(self.error(format!("no answer to {}", question.lines), "answer"));
        }
        let is_changed = self.faults.changes_at.is_some_and(|at| self.asked >= at);
        Ok(match question.function.as_str() {
            "write" if is_changed => Some(Value::Integer(99)),
            "write" => Some(question.argument.clone()),
            "read" => question.result.as_ref().is_none_or(|result| result == state).then(|| state.clone()),
            other => return Err(self.error(format!("there is no {other}"), "write another")),
        })
    }

    fn restart(&mut self) {
        self.restarts += 1;
    }

    fn error(&self, problem: String, remedy: &str) -> HistoryError {
        HistoryError::new(0, problem, remedy)
    }
}

/// History of events such as `0 invoke write 1`.
fn history(events: &[&str]) -> History {
    let line = |event: &&str| {
        let [process, kind, function, value] = event.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!() };
        format!(r#"{{"process": {process}, "type": "{kind}", "f": "{function}", "value": {value}}}"#)
    };
    let text: Vec<String> = events.iter().map(line).collect();
    History::read(text.join("\n").as_bytes()).unwrap()
}

const STALE: [&str; 6] = [
    "0 invoke write 1",
    "0 ok write 1",
    "1 invoke write 2",
    "1 ok write 2",
    "0 invoke read null",
    "0 ok read 1",
];

fn problem(events: &[&str], faults: Faults) -> String {
    check_steps(&history(events), "given", register(faults), Limits::default()).unwrap_err().problem
}

#[test]
fn verdicts_are_those_of_the_register() {
    let unknown =
        ["0 invoke write 1", "1 invoke read null", "1 ok read 1", "2 invoke read null", "2 ok read null"];
    for events in [&STALE[..], &STALE[..4], &unknown[..], &unknown[..3]] {
        let history = history(events);
        let own = check(&history, "register", Default::default(), Limits::default()).unwrap();
        for needs_process in [false, true] {
            let steps = register(Faults { needs_process, ..Faults::default() });
            let given = check_steps(&history, "given", steps, Limits::default()).unwrap();
            assert_eq!(given.verdict, own.verdict, "{given}");
        }
    }
}

#[test]
fn an_explanation_shows_states_and_promises_less() {
    let report =
        check_steps(&history(&STALE), "given", register(Faults::default()), Limits::default()).unwrap();
    assert_eq!(report.verdict, Verdict::Invalid);
    let text = report.to_string();
    assert!(text.contains("of 2 operations, after which the state is 2:"), "{text}");
    assert!(
        text.contains("smallest part that is impossible, of 3 operations, perhaps not the smallest:"),
        "{text}"
    );
}

#[test]
fn a_failure_is_the_result_whatever_the_search_finds() {
    let fails = Faults { fails_at: Some(2), ..Faults::default() };
    assert_eq!(problem(&STALE, fails), "no answer to lines 3-4");
    assert_eq!(problem(&["0 invoke pop null"], Faults::default()), "there is no pop");
    let never_searched = ["0 invoke pop null", "0 info pop null", "1 invoke write 1", "1 ok write 1"];
    assert_eq!(problem(&never_searched, Faults::default()), "there is no pop");
}

#[test]
fn answers_that_change_are_noticed() {
    let asked =
        "asked twice for \"write\" of lines 3-4 in the state 1, it answered the state 2, then the state 99";
    let found = problem(&STALE[..4], Faults { changes_at: Some(3), ..Faults::default() });
    assert_eq!(found, asked);
    let elsewhere = Faults { restarts_elsewhere: true, ..Faults::default() };
    assert_eq!(problem(&STALE, elsewhere), "asked twice for the initial state, it answered null, then 1");
}

#[test]
fn reads_do_not_write() {
    let found = problem(&STALE, Faults { hides_writes: true, ..Faults::default() });
    assert_eq!(found, "\"write\" of lines 1-2 changes the state null to 1, and is among \"reads\"");
}

#[test]
fn answers_are_forgotten_where_memory_is_short() {
    let events: Vec<String> =
        (0..200).flat_map(|n| [format!("0 invoke write {n}"), format!("0 ok write {n}")]).collect();
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let limits = Limits { bytes: 1 << 10, ..Limits::default() };
    let report = check_steps(&history(&events), "given", register(Faults::default()), limits).unwrap();
    assert_eq!(report.verdict, Verdict::Unknown, "{report}");
    // Each of many objects needs little.
    let text: Vec<String> = (0..400)
        .map(|n| {
            let kind = if n % 2 == 0 { "invoke" } else { "ok" };
            format!(
                r#"{{"process": 0, "type": "{kind}", "f": "write", "key": {}, "value": {}}}"#,
                n / 2,
                n / 2
            )
        })
        .collect();
    let history = History::read(text.join("\n").as_bytes()).unwrap();
    let limits = Limits { bytes: 4 << 10, ..Limits::default() };
    let report = check_steps(&history, "given", register(Faults::default()), limits).unwrap();
    assert_eq!((report.verdict, report.objects), (Verdict::Valid, 200), "{report}");
}
