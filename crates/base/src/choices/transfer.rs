//! Reports on their way from one process of a run to another.

use super::file::Choice;
use super::report::{ChoiceReport, StreamReport, Value};
use serde_core::de::Error;
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};

/// A recorded value: number, text, default.
type Written = (u64, String, Option<u64>);
/// A stream: name, values, numbers that were reached, refused values, and true if the name is ambiguous.
type WrittenStream = (String, Vec<Written>, Vec<u64>, Vec<(u64, String)>, bool);

impl Serialize for ChoiceReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.streams.iter().map(|(name, stream)| -> WrittenStream {
            let values = stream.values().into_iter();
            let values = values.map(|(index, value)| (index, value.choice.to_string(), value.usual));
            let reached = stream.reached.iter().copied().collect();
            (name.clone(), values.collect(), reached, stream.refused.clone(), stream.is_ambiguous)
        }))
    }
}

impl<'de> Deserialize<'de> for ChoiceReport {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ChoiceReport, D::Error> {
        let mut report = ChoiceReport::default();
        for (name, values, reached, refused, is_ambiguous) in Vec::<WrittenStream>::deserialize(deserializer)?
        {
            let read = |(index, text, usual): Written| {
                let choice = Choice::parse(&text).ok_or_else(|| D::Error::custom("not a value"))?;
                Ok((index, Value { choice, usual }))
            };
            let mut stream = StreamReport::default();
            for value in values {
                let (index, value) = read(value)?;
                stream.add(index, value);
            }
            stream.reached = reached.into_iter().collect();
            (stream.refused, stream.is_ambiguous) = (refused, is_ambiguous);
            report.streams.insert(name, stream);
        }
        Ok(report)
    }
}
