//! Logs by offsets, as Kafka has them.
//!
//! `send [KEY, MESSAGE]` gives `[KEY, [OFFSET, MESSAGE]]`; `poll {KEY: OFFSET}`, with the first offset of interest, gives
//! `{KEY: [[OFFSET, MESSAGE], ...]}`. Offsets may be sparse. Both show which offsets exist; a poll must not leave out any between
//! the offset that it asks for and the last one of its result. The operations `assign` and `commit` are not judged.

use super::{Judgement, absence, finding, refused, unknown};
use crate::report::Step;
use crate::{History, HistoryError, Operation, Outcome, Value};
use belljar_base::Map;

/// Message at an offset.
struct Entry<'a> {
    message: &'a Value,
    /// First operation that shows it.
    shown: &'a Operation,
    polled: bool,
}

/// Log of a key.
#[derive(Default)]
struct Log<'a> {
    entries: Map<i64, Entry<'a>>,
    offsets: Map<&'a Value, i64>,
    /// Highest offset that a poll has returned, with the poll.
    highest: Option<(i64, &'a Operation)>,
}

/// Part of a poll: what it has of one key.
struct Polled<'a> {
    key: &'a str,
    from: i64,
    records: Vec<(i64, &'a Value)>,
    by: &'a Operation,
}

#[derive(Default)]
struct Violations {
    inconsistent: Vec<Step>,
    duplicate: Vec<Step>,
    backwards: Vec<Step>,
    skipped: Vec<Step>,
    lost: Vec<Step>,
}

pub(super) fn check(history: &History) -> Result<Judgement, HistoryError> {
    let (mut logs, mut polls): (Map<&str, Log<'_>>, Vec<Polled<'_>>) = (Map::new(), Vec::new());
    let mut violations = Violations::default();
    for operation in &history.operations {
        match (operation.function.as_str(), operation.outcome) {
            ("send", Outcome::Ok) => {
                let (key, offset, message) = sent(operation)?;
                enter(
                    logs.entry(key).or_default(),
                    key,
                    (offset, message),
                    operation,
                    false,
                    &mut violations,
                );
            }
            ("poll", Outcome::Ok) => polls.extend(polled(operation)?),
            ("send" | "poll" | "assign" | "commit", _) => {}
            _ => return Err(unknown(operation, "kafka", "send, poll, assign and commit")),
        }
    }
    for poll in &polls {
        let log = logs.entry(poll.key).or_default();
        for &record in &poll.records {
            enter(log, poll.key, record, poll.by, true, &mut violations);
        }
    }
    for poll in &polls {
        if let Some(log) = logs.get(poll.key) {
            violations.gaps(log, poll);
        }
    }
    for (key, log) in &logs {
        violations.losses(key, log);
    }
    let (sent, seen) = logs.values().fold((0, 0), |(sent, seen), log| {
        (sent + log.entries.len(), seen + log.entries.values().filter(|entry| entry.polled).count())
    });
    let mut judgement = violations.judgement();
    judgement.notes.push(format!("{seen} of {sent} messages polled, of {} keys", logs.len()));
    Ok(judgement)
}

/// Enters a record into the log of its key, and notes contradictions to what others have seen.
fn enter<'a>(
    log: &mut Log<'a>,
    key: &str,
    (offset, message): (i64, &'a Value),
    by: &'a Operation,
    polled: bool,
    violations: &mut Violations,
) {
    if polled && log.highest.is_none_or(|(highest, _)| highest < offset) {
        log.highest = Some((offset, by));
    }
    let entry = log.entries.entry(offset).or_insert(Entry { message, shown: by, polled });
    entry.polled |= polled;
    if entry.message != message {
        let (one, other) = (entry.shown.lines(), by.lines());
        let text = format!("key {key}, offset {offset}: {} at {one}, {message} at {other}", entry.message);
        violations.inconsistent.push(Step::about([entry.shown, by], text));
    }
    let shown = entry.shown;
    match log.offsets.get(message) {
        Some(before) if *before != offset => {
            let text =
                format!("key {key}: {message} at offset {before} and at offset {offset}, {}", by.lines());
            violations.duplicate.push(Step::about([shown, by], text));
        }
        Some(_) => {}
        None => drop(log.offsets.insert(message, offset)),
    }
}

impl Violations {
    /// Notes offsets that go backwards in a poll, and those that it leaves out.
    fn gaps(&mut self, log: &Log<'_>, poll: &Polled<'_>) {
        let mut next = poll.from;
        for &(offset, _) in &poll.records {
            let (key, lines) = (poll.key, poll.by.lines());
            if offset < next {
                let text = format!("{lines}: key {key}, offset {offset} where {next} or a higher one is due");
                self.backwards.push(Step::about([poll.by], text));
            } else if let Some((missing, entry)) = log.entries.range(next..offset).next() {
                let shown = entry.shown.lines();
                let text =
                    format!("{lines}: key {key}, offset {offset} without {missing}, which {shown} shows");
                self.skipped.push(Step::about([entry.shown, poll.by], text));
            }
            next = next.max(offset.saturating_add(1));
        }
    }

    /// Notes messages that were acknowledged and that no poll has, although polls have later ones.
    fn losses(&mut self, key: &str, log: &Log<'_>) {
        let Some((highest, poll)) = log.highest else { return };
        for (offset, entry) in log.entries.range(..highest).filter(|(_, entry)| !entry.polled) {
            let (shown, by) = (entry.shown.lines(), poll.lines());
            let text = format!(
                "key {key}, offset {offset}: {} of {shown} was never polled, offset {highest} was at {by}",
                entry.message
            );
            self.lost.push(Step::about([entry.shown, poll], text));
        }
    }

    fn judgement(self) -> Judgement {
        let lost = (!self.lost.is_empty())
            .then(|| absence("lost write", "acknowledged messages that no poll has", self.lost));
        let kinds = [
            ("inconsistent offset", "offsets with two messages", self.inconsistent),
            ("duplicate message", "messages at two offsets", self.duplicate),
            ("skipped offset", "polls that leave out offsets", self.skipped),
            ("nonmonotonic poll", "polls whose offsets go backwards", self.backwards),
        ];
        let others = kinds.into_iter().filter(|(_, _, steps)| !steps.is_empty());
        let others = others.map(|(kind, title, steps)| finding(kind, None, title, steps));
        let findings = lost.into_iter().chain(others).collect();
        Judgement { findings, ..Judgement::default() }
    }
}

/// Key, offset and message of a completed `send`.
fn sent(operation: &Operation) -> Result<(&str, i64, &Value), HistoryError> {
    let record = operation.result.pair();
    let key = record.and_then(|(key, _)| key.text());
    match (key, record.and_then(|(_, record)| offset_and_message(record))) {
        (Some(key), Some((offset, message))) => Ok((key, offset, message)),
        _ => {
            let problem =
                format!("the result of \"send\" is {}, not [KEY, [OFFSET, MESSAGE]]", operation.result);
            Err(refused(operation, "kafka", problem))
        }
    }
}

/// Parts of a completed `poll`, by key.
fn polled(operation: &Operation) -> Result<Vec<Polled<'_>>, HistoryError> {
    let problem = |what: &str, value: &Value, form: &str| {
        refused(operation, "kafka", format!("the {what} of \"poll\" is {value}, not {form}"))
    };
    let Value::Object(from) = &operation.argument else {
        return Err(problem("value", &operation.argument, "{KEY: OFFSET}"));
    };
    let records = match &operation.result {
        Value::Object(records) => records,
        other => return Err(problem("result", other, "{KEY: [[OFFSET, MESSAGE], ...]}")),
    };
    records
        .iter()
        .map(|(key, list)| {
            let asked = from.iter().find(|(name, _)| name == key).map(|(_, from)| from);
            let records = list.list().and_then(|list| list.iter().map(offset_and_message).collect());
            match (asked, records) {
                (Some(Value::Integer(from)), Some(records)) => {
                    Ok(Polled { key, from: *from, records, by: operation })
                }
                (Some(_), None) => {
                    Err(problem("result", &operation.result, "{KEY: [[OFFSET, MESSAGE], ...]}"))
                }
                (Some(other), _) => Err(problem("value", other, "an offset")),
                (None, _) => Err(problem(
                    "result",
                    &Value::Text(key.clone()),
                    "one of the keys that the poll asks for",
                )),
            }
        })
        .collect()
}

fn offset_and_message(record: &Value) -> Option<(i64, &Value)> {
    match record.pair()? {
        (Value::Integer(offset), message) => Some((*offset, message)),
        _ => None,
    }
}
