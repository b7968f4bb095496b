//! Prefetch of units' memory while other units run.

use crate::Node;
use crate::unit::Unit;
use belljar_base::{Footprint, LineGroup};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::{array, iter};

/// Maximum number of cache line groups prefetched for a unit.
const MOST: usize = 72;
/// Runs between two updates of a unit's footprint; before that, updates follow the first few runs.
const PERIOD: u32 = 256;
/// Number of runs of other units within which a unit's memory stays in a second-level cache and is not
/// prefetched.
const WARM: u32 = 256;

/// Function that prefetches the cache lines of these groups ([`LineGroup::word`]), up to the first that is 0.
pub type Fetch = fn(&[AtomicUsize]);

/// Cache line groups that a unit reads, terminated by 0 if there are fewer than the maximum. They are hints
/// for the next worker to run the unit, so a concurrent update is harmless.
#[repr(align(64))]
struct Groups([AtomicUsize; MOST]);

/// Number of runs of a unit, and the run number of its worker at the last one.
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
    /// Creates the footprints of `units` units, `here` of which run in this cell. `None` if the units for
    /// each worker are so few that they stay in its cache.
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

    /// Prefetches the memory of a unit that its worker runs next; `worker_runs` is the worker's run count.
    pub fn is_next(&self, unit: u32, worker_runs: u32) {
        if let Some(groups) = self.if_cold(unit, worker_runs) {
            (self.fetch)(&groups.0);
        }
    }

    /// Prefetches the footprint itself of the unit after the next, which is out of the cache too.
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

    /// Records a run of a unit, and updates its footprint when that is due.
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
