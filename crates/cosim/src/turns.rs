//! Turns: which of the started simulators run while there are fewer processors than programs that spin.
//!
//! SimBricks' simulators wait by spinning. If more of them run than there are processors, a peer that could go on gets a
//! processor only when the scheduler's tick takes it from one that spins, which is every 4 ms at 250 Hz: three of them on two processors make
//! some 100 rounds a second. A shorter slice of the scheduler (`sched_setattr`) does not help, since slices end at ticks. So a
//! simulator runs only while it is waited for: it is stopped (SIGSTOP) once its horizon is where it has to be, and another one is
//! continued (SIGCONT) in its place. A turn takes some 30 us.
//!
//! Places lie on processors of their own, since the worker that waits spins as well. Simulators that need long to answer are
//! better off side by side, so if no turn has ended for a while, one more runs than there are places, on any processor: the worker sleeps
//! by then. Nothing that is simulated depends on whose turn it is.

use crate::process::Running;
use rustix::process::Signal;
use rustix::thread::CpuSet;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Looks in vain of each simulator in the queue until one more runs than there are places.
const PATIENCE: usize = 300;

/// The processors that simulators take turns on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Simulators that run at once.
    pub count: usize,
    /// Their processors.
    pub apart: Vec<usize>,
    /// All processors.
    pub all: Vec<usize>,
}

/// A simulator's process, shared with who ends it.
pub type Shared = Arc<Mutex<Running>>;

/// The simulators that take turns.
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
    /// Looks in vain of those in the queue since the last turn began or ended.
    looks: usize,
    over: bool,
}

/// Processes that run together, since they wait for each other.
#[derive(Debug)]
struct Program {
    processes: Vec<Shared>,
    /// Number of those that wait for it.
    needs: usize,
    runs: bool,
    /// True if it may use all processors.
    wide: bool,
}

impl Turns {
    /// Turns on these places.
    pub fn new(places: Places) -> Arc<Turns> {
        Arc::new(Turns { places, state: Mutex::default() })
    }

    /// Adds processes that wait for each other, and stops them until they are needed; their number for [`Turn::new`].
    pub fn add(&self, processes: Vec<Shared>) -> usize {
        let mut state = self.state();
        let mut program = Program { processes, needs: 0, runs: true, wide: true };
        program.widen(false, &self.places);
        program.signal(Signal::STOP);
        program.runs = false;
        state.programs.push(program);
        state.programs.len() - 1
    }

    /// Lets all of them run from now on.
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
    /// Gives places to those that have waited longest, and one more if `beyond`.
    fn fill(&mut self, places: &Places, mut beyond: bool) {
        while !self.over && (self.running < places.count || beyond) {
            let Some(next) = self.queue.pop_front() else { return };
            let program = &mut self.programs[next];
            // Those that wait for each other would, on too few processors, take turns by the scheduler's slices.
            let many = program.processes.len() > places.apart.len();
            program.widen(many || self.running >= places.count, places);
            program.signal(Signal::CONT);
            program.runs = true;
            self.running += 1;
            (self.looks, beyond) = (0, false);
        }
    }
}

/// A simulator's part in the turns.
///
/// [`needs`](Self::needs) whenever it is looked for in vain, [`done`](Self::done) when it has gone far enough.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    program: usize,
    needs: bool,
    runs: bool,
}

impl Turn {
    /// That of a simulator in the processes that [`Turns::add`] gave the number of.
    pub fn new(turns: Arc<Turns>, program: usize) -> Turn {
        Turn { turns, program, needs: false, runs: false }
    }

    /// It is waited for.
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

    /// It has gone as far as is needed now.
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

    /// Lets it run from now on: it has closed its channels, and ends.
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

    /// True if Linux says so of the process, within what a test may take.
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
        // The first comes again, behind the third.
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
