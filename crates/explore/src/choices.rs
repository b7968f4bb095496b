//! Choices of a trial: those that are forced, and the search for the few that a symptom needs.
//!
//! A recorded run gives all choices that are not their default. The trial that forces them all and gives every other choice its
//! default is the same run. From there, choices go back to their defaults, chunk by chunk (delta debugging): what is left is
//! 1-minimal, and each of its choices can be read as an event, such as a packet that is lost.

use crate::shrink::{Executor, Search};
use belljar_base::Map;
use belljar_base::choices::{Choice, ChoiceFile};

/// Choice of a trial with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForcedChoice {
    /// Name of the stream.
    pub stream: String,
    /// Number of the draw in its stream.
    pub index: u64,
    /// Forced value.
    pub value: u64,
}

impl ForcedChoice {
    /// The file that forces these choices and gives all others their default.
    pub fn file(choices: &[ForcedChoice]) -> ChoiceFile {
        let mut file = ChoiceFile { experiment: None, takes_default: true, streams: Map::new() };
        for ForcedChoice { stream, index, value } in choices {
            let values = &mut file.streams.entry(stream.clone()).or_default().values;
            values.insert(*index, Choice::Number(*value));
        }
        file
    }
}

impl<E: Executor + ?Sized> Search<'_, E> {
    /// Forces the choices that the symptom needs, and gives the others their default. Where it needs none, choices stay as drawn.
    pub(crate) fn remove_choices(&mut self) -> Result<bool, E::Error> {
        if self.trial.choices.is_none() && !self.force_all()? {
            return Ok(false);
        }
        let before = self.trial.choices.as_ref().map_or(0, Vec::len);
        let mut size = before.div_ceil(2);
        while size > 0 {
            let has_changed = self.remove_chunks(size)?;
            if size > 1 || !has_changed {
                size /= 2;
            }
        }
        Ok(self.trial.choices.as_ref().map_or(0, Vec::len) < before)
    }

    /// Adopts the trial that forces all choices of this one's run that are not their default, unless it makes no difference.
    fn force_all(&mut self) -> Result<bool, E::Error> {
        if self.left == 0 || std::mem::replace(&mut self.knows_choices, true) {
            return Ok(false);
        }
        self.left -= 1;
        let all = self.executor.unusual_choices(&self.trial)?;
        let trial = self.trial.clone();
        let with = |choices| {
            let mut trial = trial.clone();
            trial.choices = Some(choices);
            trial
        };
        if all.is_empty() || self.shows(with(Vec::new()))? {
            return Ok(false);
        }
        self.adopt(vec![with(all)])
    }

    /// Removes chunks of so many choices, from the first to the last.
    fn remove_chunks(&mut self, size: usize) -> Result<bool, E::Error> {
        let (mut at, mut has_changed) = (0, false);
        loop {
            let choices = self.trial.choices.clone().unwrap_or_default();
            let starts: Vec<usize> = (at..choices.len()).step_by(size).collect();
            let without = |start: &usize| {
                let mut trial = self.trial.clone();
                let mut left = choices.clone();
                left.drain(*start..(start + size).min(choices.len()));
                trial.choices = Some(left);
                trial
            };
            let trials = starts.iter().map(without).collect();
            match self.adopt_at(trials)? {
                // Chunks before this one are needed.
                Some(index) => (at, has_changed) = (starts[index], true),
                None => return Ok(has_changed),
            }
        }
    }
}
