//! Where the memory of units lies, to be fetched while others run.

use crate::Node;
use crate::unit::Unit;
use belljar_base::{Footprint, LineGroup};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::{array, iter};

/// So many groups of lines of a unit at most are fetched.
const MOST: usize = 72;
/// A unit's lines are found out at its first few runs, and from then on again after so many.
const PERIOD: u32 = 256;
/// While so many others ran, hardly more than a second-level cache holds was touched: what is in it need not be fetched.
const WARM: u32 = 256;

/// Has the processor fetch the cache lines of these groups ([`LineGroup::word`]), up to the first that is 0.
pub type Fetch = fn(&[AtomicUsize]);

/// Groups of the lines that a unit reads, ended with a 0 if there are fewer: a hint for whoever runs it next, so that it does no
/// harm if somebody is just writing them.
#[repr(align(64))]
struct Groups([AtomicUsize; MOST]);

/// Run count of a unit, and the last time at which run of its worker.
#[derive(Default)]
struct Use {
    runs: AtomicU32,
    last: AtomicU32,
}

/// Footprints of all units.
pub struct Footprints {
    groups: Vec<OnceLock<Box<Groups>>>,
    uses: Vec<Use>,
    fetch: Fetch,
}

impl Footprints {
    /// Of `units` units, of which so many are run here. `None` if those are so few for each worker that they stay warm.
    pub fn new(units: usize, here: usize, workers: usize, fetch: Fetch) -> Option<Footprints> {
        if here <= workers * WARM as usize {
            return None;
        }
        Some(Footprints {
            groups: (0..units).map(|_| OnceLock::new()).collect(),
            uses: (0..units).map(|_| Use::default()).collect(),
            fetch,
        })
    }

    /// A unit is run next by a worker that has made so many runs.
    pub fn is_next(&self, unit: u32, worker_runs: u32) {
        if let Some(groups) = self.if_cold(unit, worker_runs) {
            (self.fetch)(&groups.0);
        }
    }

    /// A unit is run after the next one: what is known of it has gone cold too.
    pub fn comes_then(&self, unit: u32, worker_runs: u32) {
        if let Some(groups) = self.if_cold(unit, worker_runs) {
            for group in LineGroup::of(&raw const *groups as usize, size_of::<Groups>()) {
                (self.fetch)(&[AtomicUsize::new(group.word())]);
            }
        }
    }

    fn if_cold(&self, unit: u32, worker_runs: u32) -> Option<&Groups> {
        let since = worker_runs.wrapping_sub(self.uses[unit as usize].last.load(Relaxed));
        if since < WARM { None } else { self.groups[unit as usize].get().map(|groups| &**groups) }
    }

    /// A unit has run, in a worker that has made so many runs.
    pub fn has_run<N: Node>(&self, number: u32, worker_runs: u32, place: &Mutex<Unit<N>>, unit: &Unit<N>) {
        let number = number as usize;
        let of_it = &self.uses[number];
        of_it.last.store(worker_runs, Relaxed);
        let runs = of_it.runs.load(Relaxed).wrapping_add(1);
        of_it.runs.store(runs, Relaxed);
        if runs.is_power_of_two() && runs <= PERIOD || runs.is_multiple_of(PERIOD) {
            self.find_out(number, place, unit);
        }
    }

    #[cold]
    fn find_out<N: Node>(&self, number: usize, place: &Mutex<Unit<N>>, unit: &Unit<N>) {
        let mut footprint = Footprint::default();
        footprint.object(place);
        unit.footprint(&mut footprint);
        let groups =
            self.groups[number].get_or_init(|| Box::new(Groups(array::from_fn(|_| AtomicUsize::new(0)))));
        let found = footprint.groups().iter().chain(iter::repeat(&LineGroup::NONE));
        groups.0.iter().zip(found).for_each(|(group, found)| group.store(found.word(), Relaxed));
    }
}
