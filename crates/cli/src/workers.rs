//! Worker threads: their number and their CPUs.

use crate::failure::Failure;
use belljar_base::Set;
use belljar_config::Experiment;
use belljar_engine::{Estimate, Profile};
use belljar_sim::Places;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};
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

/// Configuration of the workers of a run.
pub struct Workers {
    /// Number of workers.
    pub count: usize,
    /// True if workers steal each other's hosts.
    pub stealing: bool,
    /// True if each worker has a core of its own, on which it may spin.
    pub spinning: bool,
    /// True if workers' activities are measured.
    pub profile: bool,
    /// Processors that other simulators share in turns, if they are too few for all to spin.
    pub places: Option<Places>,
    /// True if workers sleep while they wait for simulators, to leave them their processors.
    pub sleeping: bool,
    /// True if the run has simulators to wait for, which takes short sleeps.
    simulators: bool,
    /// CPU of each pinned worker, by number; empty if workers may migrate.
    cpus: Vec<usize>,
}

impl Workers {
    /// One worker, for a command on one host.
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

    /// A number of workers that may migrate between cores.
    pub fn some(count: usize, stealing: bool) -> Workers {
        Workers { count, stealing, ..Workers::one() }
    }

    /// Determines the workers from the command line, the experiment and this machine. The number of hosts is
    /// an upper bound on that of workers.
    pub fn new(arguments: &Arguments, experiment: &Experiment) -> Workers {
        let (cpus, cores) = cpus();
        let wanted = arguments.parallelism.unwrap_or(experiment.general.parallelism) as usize;
        let wanted = if wanted == 0 { cores } else { wanted };
        let count = wanted.clamp(1, experiment.hosts.len().max(1));
        // A pinned worker waits for its CPU even when another is idle: beside other load, the P2P benchmark
        // took twice as long. The default is therefore to pin only on an idle machine.
        let pinning = arguments.pinning.or(experiment.experimental.use_cpu_pinning);
        let pinned =
            pinning.unwrap_or_else(|| count > 1 && count + busy_cpus() <= cores) && count <= cpus.len();
        let groups = experiment.started_simulators();
        let sleeping = groups.iter().any(|group| needs_all(*group, cores));
        let places = places(&cpus, cores, &groups, arguments.simulator_turns);
        // The worker that waits stays on the processor without simulators; other workers would compete with
        // it.
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

    /// Number of workers that may wait for other simulators; 0 for all.
    pub fn waiters(&self) -> usize {
        usize::from(self.places.is_some() || self.sleeping)
    }

    /// Divides the workers between `cells` processes, with at least one worker in each.
    pub fn in_cells(self, cells: usize) -> Result<Workers, Failure> {
        if cells == 1 {
            return Ok(self);
        }
        if self.profile {
            return Err(Failure::usage("--profile measures one process: leave out --cells"));
        }
        // Workers that share cores with other processes must neither spin nor be pinned.
        let count = self.count.div_ceil(cells);
        Ok(Workers { count, spinning: false, cpus: Vec::new(), ..self })
    }

    /// Divides the workers between the ranks with the same processors. A number that was requested is each
    /// rank's own and is not divided.
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

    /// Prepares the calling thread to be worker `worker`: sets its CPU affinity, and its timer slack for
    /// waiting on simulators.
    pub fn place(&self, worker: usize) {
        if self.simulators {
            // With the default slack, a sleep of one microsecond takes fifty. If the call fails, waiting is
            // slower.
            let _ = set_current_timer_slack(NonZeroU64::new(1));
        }
        let Some(cpu) = self.cpus.get(worker) else { return };
        let mut set = CpuSet::new();
        set.set(*cpu);
        // A worker that cannot be pinned runs unpinned.
        let _ = sched_setaffinity(None, &set);
    }
}

/// True if this process has a processor that `threads` threads leave idle.
pub fn leave_one_idle(threads: usize) -> bool {
    threads < granted()
}

/// Number of CPUs granted to this process: a container may see more.
fn granted() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// True if a group of `together` simulators with channels between them leaves no core to a worker: they make
/// progress only while all of them run.
fn needs_all(together: usize, cores: usize) -> bool {
    together > 1 && together >= cores
}

/// Returns the processors that simulators share in turns. `wanted` forces or forbids turns; by default
/// simulators take turns if they and the waiting worker need more cores than there are, except for a single
/// connected group that needs all cores. The worker stays on the first processor.
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

/// Formats a profile for the terminal; `benches/scaling.py` parses it.
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

/// CPU time of the calling thread in nanoseconds. This takes a system call: other clocks use `rdtsc`, which
/// faults on threads that run near guests.
pub fn thread_time_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the CPUs that this process may use, with one CPU of each physical core first, and the number of
/// cores.
fn cpus() -> (Vec<usize>, usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return (Vec::new(), 1) };
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let mut seen = Set::new();
    let (mut firsts, siblings): (Vec<usize>, Vec<usize>) =
        allowed.iter().partition(|cpu| seen.insert(core_of(**cpu)));
    let cores = firsts.len().clamp(1, granted());
    firsts.extend(siblings);
    (firsts, cores)
}

/// Load average of the last minute, rounded to a whole number of CPUs.
fn busy_cpus() -> usize {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load: Option<f64> = load.and_then(|text| text.split(' ').next()?.parse().ok());
    load.map_or(0, |load| load.round() as usize)
}

/// Returns an identifier of a CPU's core: the list of its CPUs.
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
        // A single connected group keeps all its cores; beside other simulators, it takes turns.
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
        assert_eq!(cpus.iter().collect::<Set<_>>().len(), cpus.len());
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
