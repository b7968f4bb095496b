//! Turns: scheduling of the started simulators when there are fewer processors than spinning programs.
//!
//! SimBricks' simulators wait by spinning. If more of them run than there are processors, a peer that could
//! advance gets a processor only when the scheduler's tick preempts a spinning one, every 4 ms at 250 Hz:
//! three of them on two processors achieve some 100 rounds per second. A shorter time slice (`sched_setattr`)
//! does not help, since slices end at ticks. Therefore a simulator runs only while another one waits for it:
//! it is stopped (SIGSTOP) once its horizon is where it has to be, and another one is continued (SIGCONT)
//! instead. A turn takes some 30 us.
//!
//! The processors for turns exclude that of the worker, which spins as well while it waits. Simulators that
//! take long to respond are better run concurrently. So if no turn has ended for a while, one simulator more
//! is run than there are processors for turns, on any processor: the worker sleeps by then. The simulated
//! results do not depend on the order of turns.

use crate::process::Running;
use rustix::process::Signal;
use rustix::thread::CpuSet;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of unsuccessful polls for each queued simulator after which one simulator more is run.
const PATIENCE: usize = 300;

/// The processors on which simulators take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Number of simulators that run concurrently.
    pub count: usize,
    /// Processors reserved for them.
    pub apart: Vec<usize>,
    /// All processors.
    pub all: Vec<usize>,
}

/// A simulator's process, shared with the code that ends it.
pub type Shared = Arc<Mutex<Running>>;

/// Scheduler of the simulators that take turns.
#[derive(Debug)]
pub struct Turns {
    places: Places,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    programs: Vec<Program>,
    queue: VecDeque<usize>,
    running: usize,
    /// Number of unsuccessful polls of queued simulators since the last turn began or ended.
    looks: usize,
    over: bool,
}

/// Processes that run together because they wait for each other.
#[derive(Debug)]
struct Program {
    processes: Vec<Shared>,
    /// Number of turns that currently need the program.
    needs: usize,
    runs: bool,
    /// True if it may use all processors.
    wide: bool,
}

impl Turns {
    /// A scheduler for these processors.
    pub fn new(places: Places) -> Arc<Turns> {
        Arc::new(Turns { places, state: Mutex::default() })
    }

    /// Adds processes that wait for each other, and stops them until they are needed; returns their index for
    /// [`Turn::new`].
    pub fn add(&self, processes: Vec<Shared>) -> usize {
        let mut state = self.state();
        let mut program = Program { processes, needs: 0, runs: true, wide: true };
        program.widen(false, &self.places);
        program.signal(Signal::STOP);
        program.runs = false;
        state.programs.push(program);
        state.programs.len() - 1
    }

    /// Continues all simulators and ends the scheduling.
    pub fn end(&self) {
        let mut state = self.state();
        state.over = true;
        for program in &mut state.programs {
            program.widen(true, &self.places);
            program.signal(Signal::CONT);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Program {
    fn signal(&self, signal: Signal) {
        for process in &self.processes {
            process.lock().unwrap_or_else(PoisonError::into_inner).signal(signal);
        }
    }

    fn widen(&mut self, wide: bool, places: &Places) {
        if self.wide != wide {
            self.wide = wide;
            let mut set = CpuSet::new();
            let cpus = if wide { &places.all } else { &places.apart };
            cpus.iter().for_each(|cpu| set.set(*cpu));
            for process in &self.processes {
                process.lock().unwrap_or_else(PoisonError::into_inner).place(&set);
            }
        }
    }
}

impl State {
    /// Runs the simulators that have waited longest on free processors, and one more if `beyond`.
    fn fill(&mut self, places: &Places, mut beyond: bool) {
        while !self.over && (self.running < places.count || beyond) {
            let Some(next) = self.queue.pop_front() else { return };
            let program = &mut self.programs[next];
            // On too few processors, processes that wait for each other would alternate by the scheduler's
            // time slices.
            let many = program.processes.len() > places.apart.len();
            program.widen(many || self.running >= places.count, places);
            program.signal(Signal::CONT);
            program.runs = true;
            self.running += 1;
            (self.looks, beyond) = (0, false);
        }
    }
}

/// A simulator's handle on the turns.
///
/// Call [`needs`](Self::needs) after each unsuccessful poll of the simulator, [`done`](Self::done) when it
/// has advanced far enough.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    program: usize,
    needs: bool,
    runs: bool,
}

impl Turn {
    /// The handle of a simulator in the processes with this index from [`Turns::add`].
    pub fn new(turns: Arc<Turns>, program: usize) -> Turn {
        Turn { turns, program, needs: false, runs: false }
    }

    /// Requests a turn: another simulator or the worker waits for this one.
    pub fn needs(&mut self) {
        if self.runs {
            return;
        }
        let mut state = self.turns.state();
        let State { programs, queue, looks, .. } = &mut *state;
        let program = &mut programs[self.program];
        if !self.needs {
            self.needs = true;
            program.needs += 1;
            if program.needs == 1 {
                queue.push_back(self.program);
            }
        }
        *looks += usize::from(!program.runs);
        let beyond = *looks > PATIENCE * queue.len();
        state.fill(&self.turns.places, beyond);
        self.runs = state.programs[self.program].runs;
    }

    /// Ends the turn: the simulator has advanced far enough for now.
    pub fn done(&mut self) {
        if !std::mem::take(&mut self.needs) {
            return;
        }
        self.runs = false;
        let mut state = self.turns.state();
        let over = state.over;
        let program = &mut state.programs[self.program];
        program.needs -= 1;
        if program.needs > 0 || over {
            return;
        }
        if std::mem::take(&mut program.runs) {
            program.signal(Signal::STOP);
            state.running -= 1;
            state.looks = 0;
        } else {
            state.queue.retain(|queued| *queued != self.program);
        }
        state.fill(&self.turns.places, false);
    }

    /// Continues the simulator for good: it has closed its channels, and exits.
    pub fn leave(&mut self) {
        self.done();
        self.turns.state().programs[self.program].signal(Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Launch;
    use std::ffi::OsString;
    use std::fs::File;
    use std::time::Duration;

    fn start() -> Shared {
        let null = || File::options().write(true).open("/dev/null").unwrap();
        let launch = Launch {
            command: ["sh", "-c", "while :; do :; done"].map(OsString::from).to_vec(),
            environment: Vec::new(),
            directory: "/".into(),
            stdout: null(),
            stderr: null(),
        };
        Arc::new(Mutex::new(Running::start(launch).unwrap()))
    }

    /// True if Linux reports this state of the process within the time limit of a test.
    fn becomes(process: &Shared, stopped: bool) -> bool {
        let id = process.lock().unwrap().id();
        for _ in 0..60_000 {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
            if stat.rsplit(") ").next().unwrap().starts_with('T') == stopped {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    #[test]
    fn one_runs_at_a_time_until_it_takes_too_long() {
        let all = [start(), start(), start()];
        let turns = Turns::new(Places { count: 1, apart: vec![0], all: vec![0] });
        let mut each: Vec<Turn> =
            all.iter().map(|one| Turn::new(turns.clone(), turns.add(vec![one.clone()]))).collect();
        assert!(all.iter().all(|one| becomes(one, true)));
        each.iter_mut().for_each(Turn::needs);
        assert!(becomes(&all[0], false) && becomes(&all[1], true) && becomes(&all[2], true));
        each[0].done();
        assert!(becomes(&all[0], true) && becomes(&all[1], false) && becomes(&all[2], true));
        // The first one is queued again, behind the third.
        each[0].needs();
        each[1].done();
        assert!(becomes(&all[2], false) && becomes(&all[0], true) && becomes(&all[1], true));
        (0..PATIENCE + 1).for_each(|_| each[0].needs());
        assert!(becomes(&all[0], false) && becomes(&all[2], false));
        each[0].done();
        each[1].leave();
        assert!(becomes(&all[0], true) && becomes(&all[1], false));
        turns.end();
        assert!(all.iter().all(|one| becomes(one, false)));
    }

    #[test]
    fn those_that_wait_for_each_other_run_together() {
        let all = [start(), start()];
        let turns = Turns::new(Places { count: 1, apart: vec![0], all: vec![0] });
        let both = turns.add(all.to_vec());
        let (mut one, mut other) = (Turn::new(turns.clone(), both), Turn::new(turns.clone(), both));
        one.needs();
        other.needs();
        assert!(all.iter().all(|process| becomes(process, false)));
        one.done();
        assert!(all.iter().all(|process| becomes(process, false)));
        other.done();
        assert!(all.iter().all(|process| becomes(process, true)));
    }
}
