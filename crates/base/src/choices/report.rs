//! Reports: the choices of a run, and what has become of the forced ones.

use super::file::{Choice, ChoiceFile, head};
use crate::{Map, Set};
use std::io::{self, Write};

/// Recorded value of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The value.
    pub choice: Choice,
    /// The default, if there is one.
    pub usual: Option<u64>,
}

/// Recorded numbers that follow each other and have the same default. A run draws much, so that each takes little memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Series {
    /// Number of the first choice.
    first: u64,
    usual: Option<u64>,
    numbers: Vec<u64>,
}

impl Series {
    /// Number of the choice after the last one.
    fn end(&self) -> u64 {
        self.first + self.numbers.len() as u64
    }
}

/// Choices of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamReport {
    /// Recorded numbers, in order.
    series: Vec<Series>,
    /// Recorded bytes by the numbers of their choices.
    bytes: Map<u64, Vec<u8>>,
    /// Numbers of forced choices that were reached.
    pub reached: Set<u64>,
    /// Forced choices that were reached and could not have their value, with the reason.
    pub refused: Vec<(u64, String)>,
    /// True if several streams of this name drew different values under one number.
    pub is_ambiguous: bool,
}

impl StreamReport {
    /// Adds a recorded value.
    pub(super) fn add(&mut self, index: u64, value: Value) {
        let Value { choice, usual } = value;
        match choice {
            Choice::Number(number) => self.add_number(index, number, usual),
            Choice::Bytes(bytes) => {
                let other = self.bytes.insert(index, bytes.clone());
                self.is_ambiguous |=
                    other.is_some_and(|other| other != bytes) || self.number(index).is_some();
            }
        }
    }

    /// Adds a recorded number.
    pub(super) fn add_number(&mut self, index: u64, number: u64, usual: Option<u64>) {
        match self.series.last_mut() {
            Some(last) if last.end() == index && last.usual == usual => last.numbers.push(number),
            Some(last) if index < last.end() => match self.number(index) {
                Some(known) => self.is_ambiguous |= known != (number, usual),
                None => {
                    let at = self.series.partition_point(|series| series.first < index);
                    self.series.insert(at, Series { first: index, usual, numbers: vec![number] });
                }
            },
            _ => self.series.push(Series { first: index, usual, numbers: vec![number] }),
        }
        self.is_ambiguous |= !self.bytes.is_empty() && self.bytes.contains_key(&index);
    }

    /// The recorded number of a choice, with its default.
    fn number(&self, index: u64) -> Option<(u64, Option<u64>)> {
        let after = self.series.partition_point(|series| series.first <= index);
        let series = &self.series[after.checked_sub(1)?];
        let number = series.numbers.get((index - series.first) as usize)?;
        Some((*number, series.usual))
    }

    /// Recorded values by their numbers, in order.
    pub fn values(&self) -> Vec<(u64, Value)> {
        let numbers = self.series.iter().flat_map(|series| {
            let value = |number: &u64| Value { choice: Choice::Number(*number), usual: series.usual };
            (series.first..).zip(series.numbers.iter().map(value))
        });
        let bytes = self
            .bytes
            .iter()
            .map(|(index, bytes)| (*index, Value { choice: Choice::Bytes(bytes.clone()), usual: None }));
        let mut values: Vec<(u64, Value)> = numbers.chain(bytes).collect();
        if !self.bytes.is_empty() {
            values.sort_by_key(|(index, _)| *index);
        }
        values
    }

    fn merge(&mut self, other: StreamReport) {
        for (index, value) in other.values() {
            self.add(index, value);
        }
        self.reached.extend(other.reached);
        self.refused.extend(other.refused);
        self.is_ambiguous |= other.is_ambiguous;
    }
}

/// Choices of a run, or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChoiceReport {
    /// By stream.
    pub streams: Map<String, StreamReport>,
}

impl ChoiceReport {
    /// Adds the report of another part of the run.
    pub fn merge(&mut self, other: ChoiceReport) {
        for (name, stream) in other.streams {
            self.streams.entry(name).or_default().merge(stream);
        }
    }

    /// Writes the recorded choices as a [`ChoiceFile`], each with its default, or `-`, behind it.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, experiment: &str, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(head(Some(experiment)).as_bytes())?;
        for (name, stream) in &self.streams {
            for (index, Value { choice, usual }) in stream.values() {
                match usual {
                    Some(usual) => writeln!(out, "{name} {index} {choice} {usual}")?,
                    None => writeln!(out, "{name} {index} {choice} -")?,
                }
            }
        }
        Ok(())
    }

    /// Choices other than their default, from the text of a recording: stream, number and value.
    pub fn unusual(recording: &str) -> Vec<(String, u64, u64)> {
        let read = |line: &str| {
            let mut words = line.split_whitespace();
            let (stream, index) = (words.next()?, words.next()?.parse().ok()?);
            let (value, usual) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            (value != usual).then(|| (stream.to_owned(), index, value))
        };
        recording.lines().filter_map(read).collect()
    }

    /// Problems with forced choices: those without effect, by stream. Each is one sentence.
    pub fn problems(&self, forced: &ChoiceFile) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, stream) in &forced.streams {
            let report = self.streams.get(name);
            let mut refused = report.map(|report| report.refused.clone()).unwrap_or_default();
            refused.sort();
            refused.dedup();
            for (index, why) in &refused {
                problems.push(format!("choice {index} of {name} was not forced: {why}"));
            }
            let is_known = |index: &u64| {
                report.is_some_and(|report| {
                    report.reached.contains(index) || refused.iter().any(|(known, _)| known == index)
                })
            };
            let missing: Vec<u64> = stream.values.keys().copied().filter(|index| !is_known(index)).collect();
            problems.extend(match (&missing[..], report) {
                ([], None) => Some(format!("there is no stream {name}")),
                ([], Some(_)) => None,
                ([one], _) => Some(format!("choice {one} of {name} was never reached")),
                ([one, ..], _) => Some(format!(
                    "{} choices of {name} were never reached, the first is {one}",
                    missing.len()
                )),
            });
        }
        let is_forced = |name: &String| forced.streams.contains_key(name);
        let ambiguous = self.streams.iter().filter(|(name, stream)| stream.is_ambiguous && is_forced(name));
        problems.extend(ambiguous.map(|(name, _)| {
            format!("several streams have the name {name}: a forced choice is one of each of them")
        }));
        problems
    }
}
