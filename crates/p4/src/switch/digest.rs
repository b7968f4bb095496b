//! Digests: samples are collected into lists. With an acknowledgement timeout, equal samples are reported
//! once until acknowledged.

use belljar_base::{Map, SimDuration, SimTime};

/// Sample: values of a digest's fields, big-endian.
pub type Sample = Vec<Vec<u8>>;

/// Configuration of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestConfig {
    /// List length at which a list is sent.
    pub max_list_size: usize,
    /// Maximum time that a sample waits in an incomplete list.
    pub max_timeout: SimDuration,
    /// Time during which an equal sample is suppressed unless acknowledged. Zero reports every sample.
    pub ack_timeout: SimDuration,
}

impl Default for DigestConfig {
    fn default() -> DigestConfig {
        DigestConfig { max_list_size: 1, max_timeout: SimDuration::ZERO, ack_timeout: SimDuration::ZERO }
    }
}

/// Maximum number of samples remembered for suppression.
const MAX_TOLD: usize = 65_536;

#[derive(Clone, Debug, Default)]
pub(crate) struct DigestState {
    pub config: DigestConfig,
    gathered: Vec<Sample>,
    due: Option<SimTime>,
    next_list: u64,
    /// Reported samples: end of suppression, list number.
    told: Map<Sample, (SimTime, u64)>,
}

impl DigestState {
    /// Adds a sample; returns the list and its number if the list is full.
    pub fn add(&mut self, now: SimTime, sample: Sample) -> Option<(u64, Vec<Sample>)> {
        if !self.config.ack_timeout.is_zero() {
            if self.told.get(&sample).is_some_and(|(until, _)| now < *until) {
                return None;
            }
            if self.told.len() >= MAX_TOLD {
                self.told.retain(|_, (until, _)| now < *until);
            }
            if self.told.len() < MAX_TOLD {
                self.told.insert(sample.clone(), (now + self.config.ack_timeout, self.next_list));
            }
        }
        self.gathered.push(sample);
        if self.gathered.len() >= self.config.max_list_size || self.config.max_timeout.is_zero() {
            return self.take();
        }
        self.due.get_or_insert(now + self.config.max_timeout);
        None
    }
    pub fn due(&self) -> Option<SimTime> {
        self.due
    }
    /// Takes the current list with its number.
    pub fn take(&mut self) -> Option<(u64, Vec<Sample>)> {
        self.due = None;
        if self.gathered.is_empty() {
            return None;
        }
        self.next_list += 1;
        Some((self.next_list - 1, std::mem::take(&mut self.gathered)))
    }
    /// Acknowledges a list: its samples are reported again when they recur.
    pub fn acknowledge(&mut self, list: u64) {
        self.told.retain(|_, (_, number)| *number != list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_gathered_and_told_once() {
        let mut state = DigestState::default();
        let sample = |n: u8| vec![vec![n]];
        let at = SimTime::from_secs;
        assert_eq!(state.add(at(0), sample(1)), Some((0, vec![sample(1)])), "each at once by default");
        assert_eq!(state.add(at(0), sample(1)), Some((1, vec![sample(1)])));
        state.config = DigestConfig {
            max_list_size: 2,
            max_timeout: SimDuration::from_secs(1),
            ack_timeout: SimDuration::from_secs(10),
        };
        assert_eq!(state.add(at(1), sample(1)), None);
        assert_eq!(state.due(), Some(at(2)));
        assert_eq!(state.add(at(1), sample(1)), None, "not twice");
        assert_eq!(state.add(at(1), sample(2)), Some((2, vec![sample(1), sample(2)])));
        assert_eq!(state.due(), None);
        assert_eq!(state.add(at(5), sample(1)), None);
        assert_eq!(state.take(), None, "still known");
        state.acknowledge(2);
        assert_eq!(state.add(at(6), sample(1)), None);
        assert_eq!(state.take(), Some((3, vec![sample(1)])));
        assert_eq!(state.add(at(15), sample(1)), None, "told until 16 s");
        assert_eq!(state.add(at(16), sample(1)), None);
        assert_eq!(state.take(), Some((4, vec![sample(1)])));
    }
}
