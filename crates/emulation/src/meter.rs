//! Processor time that the nodes of an emulation use and wait for, from the kernel's statistics of each
//! thread (`schedstat`).
//!
//! A node lacks a processor to the extent that it waited for one while it ran for less than the whole time:
//! on a machine of its own it would not have waited. Waits that are short in the node's own time are
//! ignored here: the lateness of frames shows them.

use crate::clock::monotonic_ns;
use belljar_base::Map;
use std::fs;
use std::path::{Path, PathBuf};

/// Node whose processes are metered.
#[derive(Clone, Debug)]
pub enum Counted {
    /// Host with this first process, which itself is not metered.
    Host(u32),
    /// Single process.
    Process(u32),
}

/// Usage in nanoseconds since the last measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// Time on a processor.
    pub ran: u64,
    /// Time runnable and waiting for a processor.
    pub waited: u64,
    /// Number of times that threads began to run.
    pub turns: u64,
    /// Running time of the busiest thread.
    pub most_ran: u64,
    /// Running and waiting time of the busiest thread.
    pub most_ready: u64,
}

/// Harmless wait per turn, in virtual nanoseconds.
const HARMLESS_NS: f64 = 500_000.0;

/// Mean wait, in virtual nanoseconds, up to which a forwarding process keeps up: frames that arrive
/// meanwhile are processed in a batch.
const CAUGHT_UP_NS: f64 = 0.5 * HARMLESS_NS;

impl Use {
    /// Share of `passed`, in virtual nanoseconds, for which the busiest thread was busy; `tdf` real
    /// nanoseconds take one virtual nanosecond.
    pub fn busy(&self, passed: u64, tdf: f64) -> f64 {
        let is_caught_up = self.waited as f64 <= CAUGHT_UP_NS * tdf * self.turns as f64;
        let busiest = if is_caught_up { self.most_ran } else { self.most_ready };
        busiest as f64 / (passed.max(1) as f64 * tdf.max(1.0))
    }

    /// Share of `passed`, in virtual nanoseconds, for which the node lacked a processor; `tdf` is the
    /// number of real nanoseconds per virtual nanosecond.
    pub fn short(&self, passed: u64, tdf: f64) -> f64 {
        let passed = passed.max(1) as f64;
        let waited = self.waited as f64 / tdf.max(1.0);
        if waited <= HARMLESS_NS * self.turns as f64 {
            return 0.0;
        }
        (waited / passed).min(1.0 - self.ran as f64 / passed).max(0.0)
    }
}

/// Meter of all nodes.
#[derive(Debug)]
pub struct Meter {
    namespaces: Map<PathBuf, usize>,
    /// First processes of hosts, which are not metered.
    first: Vec<u32>,
    single: Map<u32, usize>,
    nodes: usize,
    /// Node of each known process.
    known: Map<u32, Option<usize>>,
    /// Usage of each thread at the last measurement.
    seen: Map<u32, Use>,
}

impl Meter {
    /// Creates a meter of these nodes.
    pub fn new(nodes: &[Counted]) -> Meter {
        let mut meter = Meter {
            namespaces: Map::new(),
            first: Vec::new(),
            single: Map::new(),
            nodes: nodes.len(),
            known: Map::new(),
            seen: Map::new(),
        };
        for (index, node) in nodes.iter().enumerate() {
            match node {
                Counted::Host(init) => {
                    meter.namespaces.extend(namespace(*init).map(|namespace| (namespace, index)));
                    meter.first.push(*init);
                }
                Counted::Process(pid) => {
                    meter.single.insert(*pid, index);
                }
            }
        }
        meter
    }

    /// Measures the usage of each node since the last call. Returns it with the duration of the measurement
    /// in nanoseconds.
    pub fn look(&mut self) -> (Vec<Use>, u64) {
        let began = monotonic_ns();
        let mut used = vec![Use::default(); self.nodes];
        let (mut known, mut seen) = (Map::new(), Map::new());
        for process in numbers(Path::new("/proc")) {
            let node = self.known.get(&process).copied().unwrap_or_else(|| self.node_of(process));
            known.insert(process, node);
            let Some(node) = node else { continue };
            let tasks = PathBuf::from(format!("/proc/{process}/task"));
            for task in numbers(&tasks) {
                let text = fs::read_to_string(tasks.join(format!("{task}/schedstat"))).unwrap_or_default();
                let Some(now) = parse(&text) else { continue };
                let before = self.seen.get(&task).copied().unwrap_or_default();
                let ran = now.ran.saturating_sub(before.ran);
                let waited = now.waited.saturating_sub(before.waited);
                used[node].ran += ran;
                used[node].waited += waited;
                used[node].turns += now.turns.saturating_sub(before.turns);
                used[node].most_ran = used[node].most_ran.max(ran);
                used[node].most_ready = used[node].most_ready.max(ran + waited);
                seen.insert(task, now);
            }
        }
        (self.known, self.seen) = (known, seen);
        (used, monotonic_ns() - began)
    }

    fn node_of(&self, process: u32) -> Option<usize> {
        if self.first.contains(&process) {
            return None;
        }
        let of_single = self.single.get(&process).copied();
        of_single.or_else(|| self.namespaces.get(&namespace(process)?).copied())
    }
}

/// PID namespace of a process.
fn namespace(process: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}

/// Numeric names in a directory.
pub fn numbers(directory: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parse(schedstat: &str) -> Option<Use> {
    let mut words = schedstat.split_whitespace().map(str::parse);
    match (words.next(), words.next(), words.next()) {
        (Some(Ok(ran)), Some(Ok(waited)), Some(Ok(turns))) => {
            Some(Use { ran, waited, turns, ..Use::default() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_has_had_a_processor_is_not_short_of_one() {
        const MS: u64 = 1_000_000;
        let short = |ran, waited, tdf| {
            Use { ran: ran * MS, waited: waited * MS, turns: 10, ..Use::default() }.short(1_000 * MS, tdf)
        };
        assert_eq!(short(400, 600, 1.0), 0.6);
        assert_eq!(short(1_000, 3_000, 1.0), 0.0);
        assert_eq!(short(100, 0, 1.0), 0.0);
        assert_eq!(short(500, 1_000, 4.0), 0.25, "at a factor it has waited for less of its own time");
        assert_eq!(short(750, 2_000, 4.0), 0.25);
    }

    #[test]
    fn short_waits_do_no_harm() {
        let short = |turns, tdf| Use { waited: 100_000_000, turns, ..Use::default() }.short(200_000_000, tdf);
        assert_eq!((short(10, 1.0), short(10, 16.0), short(400, 1.0)), (0.5, 100.0 / 16.0 / 200.0, 0.0));
        assert_eq!(short(20, 16.0), 0.0, "5 ms of the machine are 0.3 ms of its own");
    }

    #[test]
    fn whoever_hands_on_frames_has_work_while_it_waits_for_long() {
        let used = Use {
            ran: 300,
            waited: 600_000_000,
            turns: 1_000,
            most_ran: 300_000_000,
            most_ready: 800_000_000,
        };
        assert_eq!((used.busy(500_000_000, 2.0), used.busy(250_000_000, 4.0)), (0.8, 0.3));
    }

    #[test]
    fn the_account_is_read_as_the_kernel_writes_it() {
        assert_eq!(parse("12 34 5\n"), Some(Use { ran: 12, waited: 34, turns: 5, ..Use::default() }));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_process_that_works_is_counted() {
        let mut meter = Meter::new(&[Counted::Process(std::process::id()), Counted::Process(u32::MAX)]);
        meter.look();
        let end = monotonic_ns() + 50_000_000;
        while monotonic_ns() < end {}
        let (used, _) = meter.look();
        let threads = used[0].ran + used[0].waited;
        assert!((1..=threads).contains(&used[0].most_ready) && used[1] == Use::default(), "{used:?}");
    }
}
