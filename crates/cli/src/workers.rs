//! Worker threads: their number, and the CPUs that they run on.

use crate::failure::Failure;
use belljar_config::Experiment;
use belljar_engine::{Estimate, Profile};
use belljar_sim::Places;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeSet;
use std::num::NonZeroU64;

/// Options for workers. None of them changes results.
#[derive(clap::Args, Default)]
#[group(skip)]
pub struct Arguments {
    /// Threads that run hosts; 0: one for each physical core [default: general.parallelism]
    #[arg(long, value_name = "N", env = "BELLJAR_PARALLELISM")]
    parallelism: Option<u32>,
    /// A thread without work takes over hosts of others
    #[arg(long, value_name = "BOOL", env = "BELLJAR_STEALING", default_value_t = true, action = clap::ArgAction::Set)]
    stealing: bool,
    /// Each thread stays on a CPU of its own [default: experimental.use_cpu_pinning, or if the machine has cores for
    /// all of them that nothing else uses]
    #[arg(long, value_name = "BOOL", env = "BELLJAR_PINNING", action = clap::ArgAction::Set)]
    pinning: Option<bool>,
    /// Print at the end how much real time hosts, programs, system calls and phases took, and how much more threads
    /// would save; profile.json in the results folder has all of it
    #[arg(long, env = "BELLJAR_PROFILE", value_parser = clap::builder::FalseyValueParser::new())]
    profile: bool,
    /// Other simulators run only while they are waited for [default: if they and this program are more than
    /// there are cores]
    #[arg(long, value_name = "BOOL", env = "BELLJAR_SIMULATOR_TURNS", action = clap::ArgAction::Set)]
    simulator_turns: Option<bool>,
}

/// Workers as they will run.
pub struct Workers {
    /// Their number.
    pub count: usize,
    /// True if they take over each other's hosts.
    pub stealing: bool,
    /// True if each has a core to itself, where it may spin.
    pub spinning: bool,
    /// True if their activities are measured.
    pub profile: bool,
    /// The processors that other simulators take turns on, if there are fewer than would spin.
    pub places: Option<Places>,
    /// True if those that wait for other simulators leave their processors to them.
    pub sleeping: bool,
    /// True if simulators are waited for, which takes short sleeps.
    simulators: bool,
    /// Where they stay, by number; empty if they may move.
    cpus: Vec<usize>,
}

impl Workers {
    /// One thread, for a command on one host.
    pub fn one() -> Workers {
        Workers {
            count: 1,
            stealing: true,
            spinning: false,
            profile: false,
            places: None,
            sleeping: false,
            simulators: false,
            cpus: Vec::new(),
        }
    }

    /// So many threads that may move between cores.
    pub fn some(count: usize, stealing: bool) -> Workers {
        Workers { count, stealing, ..Workers::one() }
    }

    /// The workers that the command line and the experiment ask for on this machine. More workers than hosts are of no
    /// use.
    pub fn new(arguments: &Arguments, experiment: &Experiment) -> Workers {
        let (cpus, cores) = cpus();
        let wanted = arguments.parallelism.unwrap_or(experiment.general.parallelism) as usize;
        let wanted = if wanted == 0 { cores } else { wanted };
        let count = wanted.clamp(1, experiment.hosts.len().max(1));
        // A pinned worker waits for its CPU even when another is free: beside other load, the P2P
        // benchmark took twice as long. So unasked, only where nothing else runs.
        let pinning = arguments.pinning.or(experiment.experimental.use_cpu_pinning);
        let pinned =
            pinning.unwrap_or_else(|| count > 1 && count + busy_cpus() <= cores) && count <= cpus.len();
        let groups = experiment.started_simulators();
        let sleeping = groups.iter().any(|group| needs_all(*group, cores));
        let places = places(&cpus, cores, &groups, arguments.simulator_turns);
        // A worker that waits stays on the processor that no simulator has; others would only be in its way.
        let spinning = count > 1 && count <= cores && places.is_none() && !sleeping;
        let cpus = match (&places, pinned) {
            (Some(_), _) => cpus.into_iter().take(1).collect(),
            (None, true) => cpus,
            (None, false) => Vec::new(),
        };
        let simulators = groups.iter().any(|group| *group > 0);
        let (stealing, profile) = (arguments.stealing, arguments.profile);
        Workers { count, stealing, spinning, profile, places, sleeping, simulators, cpus }
    }

    /// Number of those that wait for other simulators; 0: all of them.
    pub fn waiters(&self) -> usize {
        usize::from(self.places.is_some() || self.sleeping)
    }

    /// The share of each of so many processes: as many workers together, but at least one in each.
    pub fn in_cells(self, cells: usize) -> Result<Workers, Failure> {
        if cells == 1 {
            return Ok(self);
        }
        if self.profile {
            return Err(Failure::usage("--profile measures one process: leave out --cells"));
        }
        // Who shares cores with other processes must not spin on them, nor insist on one.
        let count = self.count.div_ceil(cells);
        Ok(Workers { count, spinning: false, cpus: Vec::new(), ..self })
    }

    /// The share of each of the ranks that use the same processors, unless a number is asked for, which is each rank's.
    pub fn in_ranks(
        self,
        arguments: &Arguments,
        experiment: &Experiment,
        sharers: usize,
    ) -> Result<Workers, Failure> {
        if self.profile {
            return Err(Failure::usage(
                "--profile measures one process: start it without mpirun or srun, or with --no-ranks",
            ));
        }
        let asked = arguments.parallelism.unwrap_or(experiment.general.parallelism) > 0;
        let count = if asked { self.count } else { self.count.div_ceil(sharers.max(1)) };
        if sharers <= 1 {
            return Ok(Workers { count, ..self });
        }
        Ok(Workers { count, spinning: false, cpus: Vec::new(), ..self })
    }

    /// Puts the calling thread, worker `worker`, where it stays.
    pub fn place(&self, worker: usize) {
        if self.simulators {
            // Sleeps of a microsecond would take fifty; if not, waiting is slower and nothing else.
            let _ = set_current_timer_slack(NonZeroU64::new(1));
        }
        let Some(cpu) = self.cpus.get(worker) else { return };
        let mut set = CpuSet::new();
        set.set(*cpu);
        // One that may not be placed runs all the same.
        let _ = sched_setaffinity(None, &set);
    }
}

/// True if this process has a processor that so many threads leave idle.
pub fn leave_one_idle(threads: usize) -> bool {
    threads < granted()
}

/// Number of CPUs whose time this process is granted: a container may see more of them.
fn granted() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// True if so many simulators that have channels with each other leave no core to a worker: what they have to say to each other
/// goes on only while all of them run.
fn needs_all(together: usize, cores: usize) -> bool {
    together > 1 && together >= cores
}

/// The processors for simulators to take turns on, `wanted` or if there are more of them than can spin beside the worker that
/// waits, in several groups of those together or in one that has a core left. It stays on the first one.
fn places(cpus: &[usize], cores: usize, groups: &[usize], wanted: Option<bool>) -> Option<Places> {
    let simulators: usize = groups.iter().sum();
    let alone = groups.contains(&simulators) && needs_all(simulators, cores);
    let short = simulators > 0 && simulators + 1 > cores && !alone;
    if simulators == 0 || !wanted.unwrap_or(short) {
        return None;
    }
    let apart = if cpus.len() > 1 { &cpus[1..] } else { cpus };
    Some(Places { count: cores.saturating_sub(1).max(1), apart: apart.to_vec(), all: cpus.to_vec() })
}

/// The text of a profile, for people and for `benches/scaling.py`.
pub fn profile_text(profile: &Profile) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let total = profile.run_ns + profile.prepare_ns;
    let mut text = format!(
        "profile: {} windows, {} runs of hosts, {} messages | hosts {:.3} ms, handing over {:.3} ms, \
         critical path {:.3} ms\n",
        profile.windows,
        profile.runs,
        profile.messages,
        ms(profile.run_ns),
        ms(profile.prepare_ns),
        ms(profile.longest_ns),
    );
    for Estimate { workers, at_least_ns, at_most_ns } in profile.estimates() {
        let waiting = |ns: u64| 100.0 * (1.0 - total as f64 / (ns.max(1) as f64 * workers as f64));
        text += &format!(
            "profile: {workers:2} workers: {:.3} to {:.3} ms, waiting {:.0} to {:.0} %\n",
            ms(at_least_ns),
            ms(at_most_ns),
            waiting(at_least_ns),
            waiting(at_most_ns),
        );
    }
    text
}

/// CPU time of the calling thread in nanoseconds. A system call: other clocks are read by `rdtsc`, which faults on threads that run near guests.
pub fn thread_time_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The CPUs that this process may use, one of each physical core first, and how many cores these are.
fn cpus() -> (Vec<usize>, usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return (Vec::new(), 1) };
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let mut seen = BTreeSet::new();
    let (mut firsts, siblings): (Vec<usize>, Vec<usize>) =
        allowed.iter().partition(|cpu| seen.insert(core_of(**cpu)));
    let cores = firsts.len().clamp(1, granted());
    firsts.extend(siblings);
    (firsts, cores)
}

/// Number of CPUs that were busy in the last minute, rounded to the next whole one.
fn busy_cpus() -> usize {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load: Option<f64> = load.and_then(|text| text.split(' ').next()?.parse().ok());
    load.map_or(0, |load| load.round() as usize)
}

/// The name of a CPU's core: the list of its CPUs.
fn core_of(cpu: usize) -> String {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    std::fs::read_to_string(path).unwrap_or_else(|_| cpu.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_left_idle_where_there_are_more() {
        let granted = granted();
        assert!(leave_one_idle(granted - 1) && !leave_one_idle(granted) && !leave_one_idle(granted + 1));
    }

    #[test]
    fn simulators_take_turns_where_they_are_too_many() {
        let places = |cores: usize, groups: &[usize], wanted| {
            places(&(0..cores).collect::<Vec<_>>(), cores, groups, wanted).map(|places| places.apart)
        };
        assert_eq!(places(2, &[1], None), None);
        assert_eq!(places(2, &[1, 1], None), Some(vec![1]));
        assert_eq!(places(4, &[1; 3], None), None);
        assert_eq!(places(4, &[1; 4], None), Some(vec![1, 2, 3]));
        assert_eq!(places(1, &[1], None), Some(vec![0]));
        assert_eq!((places(4, &[], Some(true)), places(2, &[1; 9], Some(false))), (None, None));
        assert_eq!(places(4, &[1], Some(true)), Some(vec![1, 2, 3]));
        // Those together are left running, if they are all there are; with others they take turns.
        assert_eq!(
            (places(2, &[2, 0], None), places(4, &[3], None), places(4, &[5], None)),
            (None, None, None)
        );
        assert_eq!(places(2, &[2, 1], None), Some(vec![1]));
        assert_eq!(places(2, &[2], Some(true)), Some(vec![1]));
        assert!(needs_all(2, 2) && needs_all(5, 4) && !needs_all(3, 4) && !needs_all(1, 1));
    }

    #[test]
    fn each_cpu_is_there_once() {
        let (cpus, cores) = cpus();
        assert!(cores >= 1 && cores <= cpus.len());
        assert_eq!(cpus.iter().collect::<BTreeSet<_>>().len(), cpus.len());
    }

    #[test]
    fn a_pinned_worker_stays_where_it_is_put() {
        let workers = Workers { cpus: vec![cpus().0[0]], ..Workers::one() };
        std::thread::scope(|scope| {
            let pinned = scope.spawn(|| {
                workers.place(0);
                sched_getaffinity(None).unwrap()
            });
            let set = pinned.join().unwrap();
            assert_eq!((set.count(), set.is_set(workers.cpus[0])), (1, true));
        });
    }
}
