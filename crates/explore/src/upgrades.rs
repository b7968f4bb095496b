//! Upgrades: hosts that get another program one after the other, for good or for a time.

use crate::faults::{Fault, pick, rounded, within};
use belljar_base::{HostId, Map, Set, SimDuration, SimTime, Stream};
use belljar_config::{Action, Event, Experiment, HostSet, ProcessRef, When};
use std::borrow::Borrow;

/// Draws one upgrade of several hosts: which of the hosts, their order, and whether they go back to what they had. Each host is a fault of
/// its own, so that shrinking can leave some of them as they were.
pub(crate) fn draw(
    experiment: &Experiment,
    upgrades: &[Action],
    (at, lasting): (SimTime, SimDuration),
    stream: &mut Stream,
) -> Vec<Fault> {
    let mut action = pick(upgrades, stream).clone();
    let set = action.hosts_mut().into_iter().next().map(|hosts| hosts.clone());
    let is_one = matches!(set, Some(HostSet::OneOf(_)));
    let mut order = match set {
        Some(HostSet::Some(hosts) | HostSet::OneOf(hosts)) => hosts,
        _ => (0..experiment.hosts.len() as u32).map(HostId).collect(),
    };
    for last in (1..order.len()).rev() {
        order.swap(last, stream.below(last as u64 + 1) as usize);
    }
    let count = match (is_one, stream.chance(0.5)) {
        (true, _) => 1,
        (false, true) => order.len(),
        (false, false) => within(1, order.len() as u64, stream) as usize,
    };
    order.truncate(count);
    let goes_back = stream.chance(0.5);
    let parts = if goes_back { 2 * count } else { count };
    let interval = lasting.as_nanos() / parts as u64;
    let lasting = SimDuration::from_nanos(rounded(lasting.as_nanos() - interval * (count as u64 - 1), 1));
    let upgraded = (0..).zip(order).map(|(number, host)| {
        let mut action = action.clone();
        action.hosts_mut().into_iter().for_each(|hosts| *hosts = HostSet::Some(vec![host]));
        let after = SimDuration::from_nanos(rounded(interval * number, 0));
        let (when, lasting) = (When::At(at + after), goes_back.then_some(lasting));
        let event = Event { number: 0, name: None, when, lasting, action };
        Fault { kind: "upgrade", is_drawn: true, events: vec![event] }
    });
    upgraded.collect()
}

/// Removes the drawn upgrades that do not follow from those before them: of a program that does not run at that time, to one that runs, or of
/// one that is to go back. `faults` are sorted by time.
pub(crate) fn remove_impossible<F: Borrow<Fault>>(experiment: &Experiment, faults: &mut Vec<F>) {
    let mut hosts: Map<HostId, Programs> = Map::new();
    faults.retain(|fault| {
        let fault: &Fault = fault.borrow();
        let mut is_possible = true;
        for event in &fault.events {
            let Action::Upgrade { hosts: set, process, to, .. } = &event.action else { continue };
            for (index, host) in experiment.hosts.iter().enumerate() {
                let id = HostId(index as u32);
                let one = |process: &ProcessRef| host.processes_like(process).next();
                let (true, Some(from), Some(to)) = (set.may_hold(id), one(process), one(to)) else {
                    continue;
                };
                let starts = |n: &usize| host.processes[*n].start_time != SimTime::MAX;
                let programs = hosts.entry(id).or_insert_with(|| Programs {
                    current: (0..host.processes.len()).filter(starts).collect(),
                    going_back: Vec::new(),
                });
                let end = event.lasting.map(|lasting| event.first() + lasting);
                is_possible &= programs.upgrade(event.first(), from, to, end, fault.is_drawn);
            }
        }
        is_possible
    });
}

/// Programs of a host at a time.
struct Programs {
    /// Processes of the list that the host starts.
    current: Set<usize>,
    /// Upgrades that end: the time, the process that comes back, and the one that it replaces.
    going_back: Vec<(SimTime, usize, usize)>,
}

impl Programs {
    /// Carries an upgrade out, up to the time `end` if there is one; a drawn one only if it is possible. False if it is not.
    fn upgrade(&mut self, at: SimTime, from: usize, to: usize, end: Option<SimTime>, is_drawn: bool) -> bool {
        let current = &mut self.current;
        self.going_back.retain(|&(time, back, gone)| {
            if time <= at {
                current.remove(&gone);
                current.insert(back);
            }
            time > at
        });
        let is_busy =
            self.going_back.iter().any(|(_, back, gone)| [from, to].iter().any(|n| n == back || n == gone));
        let is_possible = self.current.contains(&from) && !self.current.contains(&to) && !is_busy;
        if is_possible || !is_drawn {
            self.current.remove(&from);
            self.current.insert(to);
            self.going_back.extend(end.map(|end| (end, from, to)));
        }
        is_possible || !is_drawn
    }
}
