//! Shares of the processor: in each period the programs of a host run for a slice, and stand still for the rest.
//!
//! *Problem.* A slow host is to be slow whatever its programs do: they compute, which takes no time by default, or make calls, which take
//! time if the host has costs. *Insight.* What a program cannot do within its slices it does later: work that takes no time waits for the
//! next slice, and work that takes time takes as many slices as it needs.
//!
//! *Algorithm.* A slice begins with its period. A call, or computation that is charged at its end, may take longer than the rest of the
//! slice. The excess is a debt: the next slices are shorter, or left out, until it is paid, as under Linux's bandwidth control. The kernel
//! of the host goes on all the time: packets are acknowledged, timers expire, and what programs find at the next slice is what has
//! happened since.
//!
//! Of several shares at a time the smallest holds.

use crate::node::{Due, HostNode};
use belljar_base::{SimDuration, SimTime};
use belljar_config::CpuShare;
use belljar_kernel::suspension;

/// Shares of a host's processor.
#[derive(Default)]
pub(crate) struct Shares {
    /// Shares of events that last, in order of their beginnings.
    of_events: Vec<(u32, CpuShare)>,
    cycle: Option<Cycle>,
}

/// Course of the periods of a share.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cycle {
    share: CpuShare,
    /// Beginning of the first period.
    since: SimTime,
    /// Processor time that programs have had beyond their slices.
    debt: SimDuration,
    /// True in a slice.
    runs: bool,
}

impl Cycle {
    fn new(share: CpuShare, since: SimTime) -> Cycle {
        Cycle { share, since, debt: SimDuration::ZERO, runs: true }
    }
    /// Ends a slice that was to end at `end`; the clock shows `now`. Returns the beginning of the next one.
    fn end_slice(&mut self, end: SimTime, now: SimTime) -> SimTime {
        let CpuShare { period, slice } = self.share;
        self.runs = false;
        self.debt += now.since(end);
        let number = |at: SimTime| at.since(self.since).as_picos() / period.as_picos();
        // Periods that have begun since would have had their slices.
        let (ended, current) = (number(SimTime::from_picos(end.as_picos().saturating_sub(1))), number(now));
        self.debt = self.debt.saturating_sub(slice.saturating_mul(current.saturating_sub(ended)));
        let left_out = self.debt.as_picos() / slice.as_picos();
        self.debt = self.debt.saturating_sub(slice.saturating_mul(left_out));
        self.since.saturating_add(period.saturating_mul((current + 1).saturating_add(left_out)))
    }
    /// Begins a slice, or what is left of it, when the clock shows `now`. Returns its end.
    fn begin_slice(&mut self, now: SimTime) -> SimTime {
        self.runs = true;
        let left = self.share.slice.saturating_sub(std::mem::take(&mut self.debt));
        now.saturating_add(left)
    }
}

impl Shares {
    /// The share that holds: the smallest, of equal ones the earliest.
    fn holds(&self) -> Option<CpuShare> {
        let part = |share: &CpuShare| {
            (u128::from(share.slice.as_picos()) << 64) / u128::from(share.period.as_picos())
        };
        self.of_events.iter().map(|(_, share)| *share).min_by_key(part)
    }
}

impl HostNode {
    /// Begins the share of an event.
    pub(crate) fn begin_share(&mut self, at: SimTime, event: u32, share: CpuShare) {
        self.shares.of_events.push((event, share));
        self.follow_share(at);
    }

    /// Ends the share of an occurrence of an event.
    pub(crate) fn end_share(&mut self, at: SimTime, event: u32) {
        if let Some(at) = self.shares.of_events.iter().position(|(other, _)| *other == event) {
            self.shares.of_events.remove(at);
        }
        self.follow_share(at);
    }

    /// Begins the periods of the share that holds now, unless they go on.
    fn follow_share(&mut self, at: SimTime) {
        self.host.advance(at);
        let share = self.shares.holds();
        if share == self.shares.cycle.map(|cycle| cycle.share) {
            return;
        }
        self.changes.retain(|(_, due)| !matches!(due, Due::Slice));
        self.shares.cycle = share.map(|share| Cycle::new(share, at));
        if let Some(share) = share {
            let now = at.max(self.host.stack().clock.now());
            self.plan_last(now.saturating_add(share.slice), Due::Slice);
        }
        self.suspend(false);
    }

    /// Ends or begins a slice that was planned for `at`, when everything before `until` has happened.
    pub(crate) fn turn_slice(&mut self, at: SimTime, until: SimTime) {
        self.host.advance(until);
        let now = self.host.stack().clock.now();
        let Some(cycle) = &mut self.shares.cycle else { return };
        let next = match cycle.runs {
            true => cycle.end_slice(at, now),
            false => cycle.begin_slice(now),
        };
        let runs = cycle.runs;
        self.suspend(!runs);
        self.plan_last(next, Due::Slice);
    }

    /// Puts the end or beginning of a slice off while the host is paused.
    pub(crate) fn defer_slice(&mut self, at: SimTime) {
        if let Some(cycle) = &self.shares.cycle {
            self.plan_last(at.saturating_add(cycle.share.period), Due::Slice);
        }
    }

    fn suspend(&mut self, all: bool) {
        if let Some(linux) = self.host.linux_mut() {
            suspension::set_all(linux, all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(ms: u64) -> SimTime {
        SimTime::from_nanos(ms * 1_000_000)
    }

    /// Cycle with slices of 10 ms in periods of 100 ms, from 1 s on.
    fn cycle() -> Cycle {
        Cycle::new(CpuShare::new(0.1, CpuShare::PERIOD), millis(1_000))
    }

    #[test]
    fn slices_begin_with_their_periods() {
        let mut cycle = cycle();
        assert_eq!(cycle.end_slice(millis(1_010), millis(1_010)), millis(1_100));
        assert_eq!(cycle.begin_slice(millis(1_100)), millis(1_110));
        // The processor was busy with packets when the slice should have begun.
        cycle.end_slice(millis(1_110), millis(1_110));
        assert_eq!(cycle.begin_slice(millis(1_203)), millis(1_213));
        assert_eq!(cycle.end_slice(millis(1_213), millis(1_213)), millis(1_300));
    }

    #[test]
    fn what_takes_longer_than_a_slice_is_paid_for() {
        // A call of 25 ms has 15 ms too much: a slice is left out, and the next one is half as long.
        let mut cycle = cycle();
        assert_eq!(cycle.end_slice(millis(1_010), millis(1_025)), millis(1_200));
        assert_eq!(cycle.begin_slice(millis(1_200)), millis(1_205));
        // Of the 400 ms that another call has too much, the slices of four periods that begin meanwhile pay 40 ms. 36 are left out.
        assert_eq!(cycle.end_slice(millis(1_205), millis(1_605)), millis(1_700 + 36 * 100));
    }

    #[test]
    fn the_smallest_share_holds() {
        let second = SimDuration::from_secs(1);
        let [small, large] = [0.1, 0.3].map(|share| CpuShare::new(share, second));
        let shares = Shares { of_events: vec![(0, large), (1, small)], cycle: None };
        assert_eq!(shares.holds(), Some(small));
    }
}
