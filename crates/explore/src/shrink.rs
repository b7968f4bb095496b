//! Shrinking: the smallest trial that shows a symptom.

use crate::choices::ForcedChoice;
use crate::trial::Trial;
use crate::verdict::{ForcedCall, Symptom};
use belljar_base::{HostId, SimDuration, SimTime};
use belljar_config::{Action, CpuShare, CrashFiles, ResetEnds, Scheduling, When};

/// Shortest duration that halving leads to.
const SHORTEST: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Result of shrinking.
#[derive(Debug)]
pub struct Shrunk {
    /// The smallest trial found.
    pub trial: Trial,
    /// True if nothing more can be removed alone; false if the limit of executed trials ended the search.
    pub is_minimal: bool,
}

/// Execution of trials for the search.
pub trait Executor {
    /// Reason for which a trial cannot be executed.
    type Error;
    /// Index of the first trial that shows the symptom.
    ///
    /// # Errors
    /// Those of the execution.
    fn first_that_shows(&mut self, trials: &[Trial]) -> Result<Option<usize>, Self::Error>;
    /// Choices of a trial's run other than their defaults, by stream and number.
    ///
    /// # Errors
    /// Those of the execution.
    fn unusual_choices(&mut self, trial: &Trial) -> Result<Vec<ForcedChoice>, Self::Error>;
}

/// Search for a smaller trial.
pub(crate) struct Search<'a, E: Executor + ?Sized> {
    pub(crate) trial: Trial,
    /// Number of trials that may still be executed.
    pub(crate) left: usize,
    /// True if the choices of the run have been recorded.
    pub(crate) knows_choices: bool,
    pub(crate) executor: &'a mut E,
}

/// Removes faults and the random order of threads, then (for a [safety](Symptom::is_safety) symptom) hosts and the end of the run, then shortens what is left, then
/// gives choices their defaults, until nothing more can go alone. `forced` are the calls of the trial's run that faults gave results. At most `limit` trials are
/// executed.
///
/// # Errors
/// Those of `executor`.
pub fn shrink<E: Executor + ?Sized>(
    trial: Trial,
    symptom: &Symptom,
    forced: &[ForcedCall],
    limit: usize,
    executor: &mut E,
) -> Result<Shrunk, E::Error> {
    let mut search = Search { trial, left: limit, knows_choices: false, executor };
    search.adopt(search.trial.with_forced_calls(forced).into_iter().collect())?;
    loop {
        let mut has_changed = search.remove_faults()?;
        has_changed |= search.adopt_all(without_random_order)?;
        if symptom.is_safety {
            has_changed |= search.adopt_all(stops)?;
            has_changed |= search.idle_hosts()?;
        }
        has_changed |= search.adopt_all(simpler_faults)?;
        // Choices come last: fewer are left of a smaller run.
        has_changed = has_changed || search.remove_choices()?;
        if !has_changed || search.left == 0 {
            return Ok(Shrunk { is_minimal: search.left > 0, trial: search.trial });
        }
    }
}

impl<E: Executor + ?Sized> Search<'_, E> {
    /// Adopts the first of these trials that shows the symptom, if one does.
    pub(crate) fn adopt(&mut self, trials: Vec<Trial>) -> Result<bool, E::Error> {
        Ok(self.adopt_at(trials)?.is_some())
    }

    /// The same; gives the index of that trial.
    pub(crate) fn adopt_at(&mut self, mut trials: Vec<Trial>) -> Result<Option<usize>, E::Error> {
        trials.truncate(self.left);
        if trials.is_empty() {
            return Ok(None);
        }
        let found = self.executor.first_that_shows(&trials)?;
        // What comes after the one found has not counted, so that the count does not depend on how many are executed at once.
        self.left -= found.map_or(trials.len(), |index| index + 1);
        if let Some(index) = found {
            self.trial = trials.swap_remove(index);
        }
        Ok(found)
    }

    /// Adopts trials that `smaller` derives from the current one, as long as there are some.
    fn adopt_all(&mut self, smaller: fn(&Trial) -> Vec<Trial>) -> Result<bool, E::Error> {
        let mut has_changed = false;
        while self.adopt(smaller(&self.trial))? {
            has_changed = true;
        }
        Ok(has_changed)
    }

    /// Leaves hosts without their programs, one more as long as the faults are still what brings the symptom about: a server that is
    /// missing altogether would show it as well.
    fn idle_hosts(&mut self) -> Result<bool, E::Error> {
        let mut has_changed = false;
        let mut needed: Vec<HostId> = Vec::new();
        loop {
            let trials: Vec<Trial> = idle_hosts(&self.trial)
                .into_iter()
                .filter(|trial| !trial.idle.last().is_some_and(|id| needed.contains(id)))
                .collect();
            let before = self.trial.clone();
            if !self.adopt(trials)? {
                return Ok(has_changed);
            }
            let control = self.trial.without_drawn_faults();
            // A trial that needs no fault, order or choice needs no control.
            let is_trivial = !control.has_same_causes(&self.trial) && self.shows(control)?;
            if is_trivial {
                needed.extend(self.trial.idle.last());
                self.trial = before;
            } else {
                has_changed = true;
            }
        }
    }

    /// True if a trial shows the symptom; also if it may no longer be executed.
    pub(crate) fn shows(&mut self, trial: Trial) -> Result<bool, E::Error> {
        if self.left == 0 {
            return Ok(true);
        }
        self.left -= 1;
        Ok(self.executor.first_that_shows(&[trial])?.is_some())
    }

    /// Removes faults: halves first, then quarters, down to single ones (delta debugging).
    fn remove_faults(&mut self) -> Result<bool, E::Error> {
        let mut has_changed = false;
        let mut size = self.trial.faults.len();
        while size > 0 {
            let count = self.trial.faults.len();
            let without = |start: usize| {
                let mut trial = self.trial.clone();
                trial.faults.drain(start..(start + size).min(count));
                trial
            };
            let trials = (0..count).step_by(size).map(without).collect();
            match self.adopt(trials)? {
                true => {
                    has_changed = true;
                    size = size.min(self.trial.faults.len());
                }
                false => size /= 2,
            }
        }
        Ok(has_changed)
    }
}

/// The trial with threads in their order of arrival.
fn without_random_order(trial: &Trial) -> Vec<Trial> {
    if trial.scheduling == Scheduling::Fifo {
        return Vec::new();
    }
    let mut ordered = trial.clone();
    ordered.scheduling = Scheduling::Fifo;
    vec![ordered]
}

/// Trials that end earlier: at a half, three quarters and seven eighths of the time, and a second earlier, in whole seconds.
fn stops(trial: &Trial) -> Vec<Trial> {
    let stop = trial.stop.as_nanos();
    let earlier = [stop / 2, stop / 4 * 3, stop / 8 * 7, stop.saturating_sub(SECOND)];
    let mut seconds: Vec<u64> = earlier.iter().map(|at| at.div_ceil(SECOND)).collect();
    seconds.dedup();
    let seconds = seconds.into_iter().filter(|second| *second > 0 && *second * SECOND < stop);
    let until = |second| {
        let mut trial = trial.clone();
        trial.stop = SimTime::from_secs(second);
        trial
    };
    seconds.map(until).collect()
}

/// Trials in which one host more is idle.
fn idle_hosts(trial: &Trial) -> Vec<Trial> {
    let without = |id| {
        let mut trial = trial.clone();
        trial.idle.push(id);
        trial
    };
    trial.busy_hosts().into_iter().map(without).collect()
}

/// Fates of files that take less than that of a crash.
fn simpler_crashes(action: &Action) -> Vec<CrashFiles> {
    match action {
        Action::Crash { files: CrashFiles::Lost | CrashFiles::Unsynced { torn: false, .. }, .. } => {
            vec![CrashFiles::Kept]
        }
        Action::Crash { files: CrashFiles::Unsynced { torn: true, disk }, .. } => {
            vec![CrashFiles::Kept, CrashFiles::Unsynced { torn: false, disk: *disk }]
        }
        _ => Vec::new(),
    }
}

/// Shares of a processor that slow less than that of a fault: more of each period, or a shorter one.
fn faster(action: &Action) -> Vec<CpuShare> {
    let Action::Cpu { share, .. } = action else { return Vec::new() };
    let CpuShare { period, slice } = *share;
    let longer = [8, 2].map(|times| CpuShare { period, slice: slice.saturating_mul(times) });
    let shorter = SimDuration::from_nanos(period.as_nanos() / 2 / SHORTEST * SHORTEST);
    let shorter = (shorter.as_nanos() >= SHORTEST).then(|| CpuShare::new(share.share(), shorter));
    let less =
        longer.into_iter().filter(|share| share.slice.saturating_mul(10) <= share.period.saturating_mul(9));
    less.chain(shorter).filter(|share| !share.slice.is_zero()).collect()
}

/// Trials in which one fault is shorter, weaker, keeps files, is seen by both ends, or begins at a rounder time.
fn simpler_faults(trial: &Trial) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (index, fault) in trial.faults.iter().enumerate() {
        let [event] = &fault.events[..] else { continue };
        let mut add = |change: &dyn Fn(&mut belljar_config::Event)| {
            let mut trial = trial.clone();
            change(&mut trial.faults[index].events[0]);
            trials.push(trial);
        };
        if matches!(event.action, Action::ConnectionReset { ends: ResetEnds::First | ResetEnds::Second, .. })
        {
            add(&|event| {
                if let Action::ConnectionReset { ends, .. } = &mut event.action {
                    *ends = ResetEnds::Both;
                }
            });
        }
        for simpler in simpler_crashes(&event.action) {
            add(&|event| {
                if let Action::Crash { files, .. } = &mut event.action {
                    *files = simpler;
                }
            });
        }
        for faster in faster(&event.action) {
            add(&|event| {
                if let Action::Cpu { share, .. } = &mut event.action {
                    *share = faster;
                }
            });
        }
        if let Some(lasting) = event.lasting {
            for part in [8, 2] {
                let shorter = lasting.as_nanos() / part / SHORTEST * SHORTEST;
                if shorter >= SHORTEST {
                    add(&|event| event.lasting = Some(SimDuration::from_nanos(shorter)));
                }
            }
        }
        // The calls of a process are numbered from the beginning of a fault.
        let is_call = matches!(event.action, Action::CallFault { .. });
        if let When::At(at) = event.when
            && !is_call
        {
            for unit in [SECOND, SECOND / 10] {
                let rounder = at.as_nanos() / unit * unit;
                if rounder > 0 && rounder < at.as_nanos() {
                    add(&|event| event.when = When::At(SimTime::from_nanos(rounder)));
                }
            }
        }
    }
    trials
}
