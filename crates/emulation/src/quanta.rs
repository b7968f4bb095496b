//! Controller of dilated time: it starts and stops the clocks of all nodes and changes their rates,
//! consistently.
//!
//! A machine has fewer processors than an experiment has hosts. In dilated time hosts can share them by
//! turns. All clocks are stopped at one virtual time, a *barrier*. Each node then runs until its clock has
//! advanced by a quantum, which takes the quantum times its time dilation factor of real time. While a node
//! waits for its turn, or for the others at the next barrier, it is frozen and its clock is stopped (Chen
//! et al., "Enhancing Fidelity of P4-Based Network Emulation with a Lightweight Virtual Time System", PADS
//! 2023, section 4.2). Since the quantum does not exceed the shortest latency, no frame arrives in the past
//! of a node: lines accept frames by the clock of their near end, and deliver them by that of the far end.
//!
//! Turns are planned from the recent usage of the nodes ([`plan`]): nodes that need no more than one
//! processor together share a turn, and turns are assigned to processors greedily. If there are no more
//! turns than processors, no node has to wait, and clocks run without barriers until the next measurement.
//! Freezing thus costs nothing where the machine suffices.
//!
//! Limits: the kernel schedules the processes; the controller only ensures that no more turns run at a time
//! than there are processors. A node that becomes busy is detected at the next measurement. Timeouts of the
//! kernel do not stop; see [`Page::mean_rate`].
//!
//! [`Page::mean_rate`]: belljar_platform::dilate::clock::Page::mean_rate

use crate::adapt::{Adapter, Pressure, Window};
use crate::clock::monotonic_ns;
use crate::dilation::{Dilation, set_timers_anew};
use crate::freeze::Freezer;
use crate::meter::{Counted, Meter, Use};
use crate::wake::Waker;
use crate::{go_first, precise_waits};
use belljar_base::SimDuration;
use belljar_platform::dilate::clock::Pace;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Shortest real time between two measurements of usage, also as a multiple of the duration of a
/// measurement.
const LOOK_NS: u64 = 100_000_000;
const LOOK_SHARE: u64 = 20;
/// Multiple of the planned interval from which on a late measurement means that the machine stalled.
const HELD_UP: u64 = 2;
/// Longest sleep while clocks run without barriers.
const NAP_NS: u64 = 5_000_000;
/// Real time in which all clocks can be written: running clocks are stopped this far ahead.
const AHEAD_NS: u64 = 2_000_000;
/// Processor share of its nodes at which a turn is full.
const FULL: f64 = 0.9;
/// Share of a node's demand that carries over to the next measurement.
const FADING: f64 = 0.7;
/// Processor share below which a node is not worth freezing; its clock is stopped nevertheless.
const IDLE: f64 = 0.02;
/// Relative change of the mean factor from which on kernel timers are set again.
const DRIFT: f64 = 0.08;

/// Time dilation factor, effective from a time on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Name of the node; `None` for all nodes without a factor of their own.
    pub node: Option<String>,
    /// Experiment time from which on the factor is effective, in nanoseconds.
    pub at_ns: u64,
    /// Factor in thousandths.
    pub tdf_milli: u64,
}

/// Node with a clock.
pub struct Member {
    /// Processes of the node.
    pub counted: Counted,
    /// Freezer; without one, only the clock is stopped.
    pub freezer: Option<Freezer>,
    /// Wakers of the threads that wait for the clock.
    pub wakers: Vec<Waker>,
    /// Factor of the node's own, in thousandths.
    pub tdf_milli: Option<u64>,
    /// Processor share of the node while it runs.
    demand: f64,
}

impl Member {
    /// Creates a node without usage.
    pub fn new(counted: Counted, freezer: Option<Freezer>, wakers: Vec<Waker>) -> Member {
        Member { counted, freezer, wakers, tdf_milli: None, demand: 0.0 }
    }
}

/// Change of a factor: experiment time in nanoseconds, member (`None` for all without a factor of their
/// own), factor in thousandths.
type Change = (u64, Option<usize>, u64);

/// Processor time that a node needs until the next barrier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Quantum in real nanoseconds.
    pub length: u64,
    /// Processor share during the quantum.
    pub demand: f64,
}

/// Turns of each processor until the next barrier, with the indices of the nodes in each turn.
pub type Turns = Vec<Vec<Vec<usize>>>;

/// Plans turns: groups nodes into turns, and assigns each turn to the processor with the least work so far.
pub fn plan(needs: &[Need], processors: usize) -> Turns {
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&needs[*a], &needs[*b]);
        b.length.cmp(&a.length).then(b.demand.total_cmp(&a.demand))
    });
    let mut turns: Vec<(u64, f64, Vec<usize>)> = Vec::new();
    for node in order {
        let Need { length, demand } = needs[node];
        let demand = demand.clamp(0.0, 1.0);
        let fits = |turn: &&mut (u64, f64, Vec<usize>)| turn.0 == length && turn.1 + demand <= FULL;
        match turns.iter_mut().find(fits) {
            Some(turn) => {
                turn.1 += demand;
                turn.2.push(node);
            }
            None => turns.push((length, demand, vec![node])),
        }
    }
    let mut plan = vec![(0, Vec::new()); processors.max(1)];
    for (length, _, nodes) in turns {
        if let Some(least) = plan.iter_mut().min_by_key(|(work, _)| *work) {
            least.0 += length;
            least.1.push(nodes);
        }
    }
    plan.into_iter().map(|(_, turns)| turns).collect()
}

/// Statistics of barriers, in `emulation.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QuantaReport {
    /// Quantum: virtual microseconds between two barriers.
    pub quantum_us: f64,
    /// Freezing method, `control groups` or `signals`.
    pub frozen_by: String,
    /// Number of barriers.
    pub barriers: u64,
    /// Mean overhead of a barrier in real microseconds, beyond the turns of the busiest processor.
    pub barrier_us: f64,
    /// Maximum overhead of a barrier in real microseconds.
    pub barrier_max_us: f64,
    /// Share of real time that the overhead of barriers took.
    pub barrier_share: f64,
    /// Maximum number of turns of a processor between two barriers.
    pub most_turns: usize,
    /// Share of the experiment's time in which no node was frozen.
    pub free_share: f64,
}

/// Controller of the clocks of a run. See the [module](self).
pub struct Controller<'a> {
    dilation: &'a Dilation,
    /// Members, in the order of the clocks.
    members: Vec<Member>,
    quantum: Option<u64>,
    /// Factor of all members without one of their own, in thousandths.
    tdf_milli: u64,
    /// Future changes, the next one last.
    changes: Vec<Change>,
    adapter: Option<Adapter>,
    pressure: &'a Pressure,
    /// Mean ratio of real to virtual time, in thousandths, published for other threads.
    mean_milli: &'a AtomicU64,
    processors: usize,
    meter: Meter,
    /// Virtual time at which the experiment begins.
    begin: u64,
    look_due: u64,
    /// Planned duration of the last cycle in real nanoseconds; zero while clocks run without barriers.
    cycle_ns: u64,
    /// Real and virtual time of the last measurement.
    looked: (u64, u64),
    mean_rate: u64,
    frozen: Vec<bool>,
    report: QuantaReport,
    barrier_ns: u64,
    free_ns: u64,
    /// Changes so far: experiment time in seconds, member, new factor.
    factors: Vec<(f64, Option<usize>, f64)>,
    failed: Option<crate::Error>,
}

/// Result of a controller.
pub struct Controlled {
    /// Statistics of barriers, if there was a quantum.
    pub quanta: Option<QuantaReport>,
    /// Changes of factors: experiment time in seconds, member (`None` for all without a factor of their
    /// own), new factor.
    pub factors: Vec<(f64, Option<usize>, f64)>,
    /// Error of the first host that could not be frozen.
    pub failed: Option<crate::Error>,
}

/// Settings of a controller.
pub struct Control<'a> {
    /// Clocks of the nodes.
    pub dilation: &'a Dilation,
    /// Members, in the order of the clocks.
    pub members: Vec<Member>,
    /// Quantum in virtual nanoseconds, if hosts are frozen.
    pub quantum: Option<u64>,
    /// Initial factor, in thousandths.
    pub tdf_milli: u64,
    /// Changes of factors: experiment time in nanoseconds, member (`None` for all without a factor of their
    /// own), factor in thousandths.
    pub changes: Vec<Change>,
    /// Adapter, if the factor follows the load of the machine.
    pub adapter: Option<Adapter>,
    /// Lateness of frames, for the adapter.
    pub pressure: &'a Pressure,
    /// Mean factor in thousandths, which the controller updates for other threads.
    pub mean_milli: &'a AtomicU64,
    /// True if control groups freeze hosts, false if signals do.
    pub by_groups: bool,
    /// Virtual time at which the experiment begins.
    pub begin: u64,
}

impl<'a> Controller<'a> {
    /// Creates a controller that has not started.
    pub fn new(control: Control<'a>) -> Controller<'a> {
        let Control { dilation, members, quantum, tdf_milli, mut changes, .. } = control;
        changes.sort_by_key(|(at, ..)| *at);
        changes.reverse();
        let counted: Vec<Counted> = members.iter().map(|member| member.counted.clone()).collect();
        let report = QuantaReport {
            quantum_us: quantum.unwrap_or(0) as f64 / 1e3,
            frozen_by: if control.by_groups { "control groups" } else { "signals" }.to_owned(),
            ..QuantaReport::default()
        };
        Controller {
            dilation,
            frozen: vec![false; members.len()],
            members,
            quantum,
            tdf_milli,
            changes,
            adapter: control.adapter,
            pressure: control.pressure,
            mean_milli: control.mean_milli,
            processors: std::thread::available_parallelism().map_or(1, |count| count.get()),
            meter: Meter::new(&counted),
            begin: control.begin,
            look_due: 0,
            cycle_ns: 0,
            looked: (0, 0),
            mean_rate: Pace::rate_of(tdf_milli),
            report,
            barrier_ns: 0,
            free_ns: 0,
            factors: Vec::new(),
            failed: None,
        }
    }

    /// Drives all clocks until `stop` is set; afterwards they run freely and no node is frozen.
    pub fn run(mut self, stop: &AtomicBool) -> Controlled {
        // Frozen hosts wait for this thread, which uses little processor time.
        if !belljar_platform::go_before_programs() {
            go_first();
        }
        let _ = precise_waits();
        let (first_real, first) = (monotonic_ns(), self.time(monotonic_ns()));
        self.meter.look();
        self.pressure.take();
        self.looked = (monotonic_ns(), self.time(monotonic_ns()));
        self.look_due = monotonic_ns() + LOOK_NS;
        let mut now = self.stand();
        while !stop.load(Relaxed) && self.failed.is_none() {
            self.change(now);
            if monotonic_ns() >= self.look_due {
                self.look(now);
            }
            let turns = self.turns();
            now = match (self.quantum, turns.iter().all(|turns| turns.len() <= 1) && self.is_uniform()) {
                (Some(quantum), false) => self.cycle(now, now + quantum, &turns, stop),
                _ => self.run_on(now, stop),
            };
        }
        self.set(0..self.members.len(), now, u64::MAX);
        let real = monotonic_ns().saturating_sub(first_real).max(1);
        let barriers = self.report.barriers.max(1) as f64;
        self.report.barrier_us = self.barrier_ns as f64 / 1e3 / barriers;
        self.report.barrier_share = self.barrier_ns as f64 / real as f64;
        self.report.free_share = self.free_ns as f64 / now.saturating_sub(first).max(1) as f64;
        Controlled { quanta: self.quantum.map(|_| self.report), factors: self.factors, failed: self.failed }
    }

    /// Virtual time of the network's clock at a real time.
    fn time(&self, real: u64) -> u64 {
        self.dilation.network().pace().at(real)
    }

    fn tdf_of(&self, member: usize) -> u64 {
        self.members[member].tdf_milli.unwrap_or(self.tdf_milli)
    }

    fn is_uniform(&self) -> bool {
        (0..self.members.len()).all(|member| self.tdf_of(member) == self.tdf_of(0))
    }

    /// Stops all running clocks at the same virtual time, which it returns.
    fn stand(&mut self) -> u64 {
        let real = monotonic_ns() + AHEAD_NS;
        let now = self.time(real);
        for member in 0..self.members.len() {
            let pace = self.dilation.all[member].clock.pace();
            self.dilation.go_on(member, Pace { limit: now, ..pace }, self.mean_rate);
        }
        sleep_until(real);
        now
    }

    /// Continues the clocks of these members, which are stopped at `now`, until `limit`, and thaws their
    /// nodes. Returns the real time at which the clocks continued.
    fn set(&mut self, members: impl IntoIterator<Item = usize>, now: u64, limit: u64) -> u64 {
        let real = monotonic_ns();
        for member in members {
            let rate = Pace::rate_of(self.tdf_of(member));
            self.dilation.go_on(member, Pace { real, start: now, rate, limit }, self.mean_rate);
            self.freeze(member, false);
            self.members[member].wakers.iter().for_each(Waker::wake);
        }
        real
    }

    fn freeze(&mut self, member: usize, frozen: bool) {
        let is_idle = self.members[member].demand < IDLE;
        if self.frozen[member] != (frozen && !is_idle)
            && let Some(freezer) = &mut self.members[member].freezer
        {
            self.frozen[member] = !self.frozen[member];
            if let Err(error) = freezer.set(self.frozen[member]) {
                self.failed.get_or_insert(error);
            }
        }
    }

    fn turns(&self) -> Turns {
        let quantum = self.quantum.unwrap_or(0);
        let need = |member: usize| Need {
            length: (quantum as u128 * u128::from(self.tdf_of(member)) / 1_000) as u64,
            demand: self.members[member].demand,
        };
        plan(&(0..self.members.len()).map(need).collect::<Vec<_>>(), self.processors)
    }

    /// Runs all clocks without barriers from `now` until a change is due or turns are needed. Returns the
    /// virtual time at which they were stopped again.
    fn run_on(&mut self, now: u64, stop: &AtomicBool) -> u64 {
        self.cycle_ns = 0;
        self.set(0..self.members.len(), now, u64::MAX);
        let next = self.changes.last().map_or(u64::MAX, |(at, ..)| self.begin.saturating_add(*at));
        while !stop.load(Relaxed) {
            let real = monotonic_ns();
            if self.time(real) >= next {
                break;
            }
            if real >= self.look_due {
                let (factor, mean) = (self.tdf_milli, self.mean_rate);
                let wants_turns = self.look(self.time(real));
                if wants_turns || self.tdf_milli != factor || self.mean_rate != mean {
                    break;
                }
            }
            sleep_until(monotonic_ns() + NAP_NS);
        }
        let end = self.stand();
        self.free_ns += end - now;
        end
    }

    /// Runs all nodes from one barrier to the next, in turns. Returns the virtual time of the next barrier.
    fn cycle(&mut self, now: u64, end: u64, turns: &Turns, stop: &AtomicBool) -> u64 {
        let began = monotonic_ns();
        let length = |turn: &[usize]| {
            let one = |member: &usize| {
                Pace { real: 0, start: 0, rate: Pace::rate_of(self.tdf_of(*member)), limit: 0 }
                    .real_span(end - now)
            };
            turn.iter().map(one).max().unwrap_or(0)
        };
        let lengths: Vec<Vec<u64>> =
            turns.iter().map(|turns| turns.iter().map(|turn| length(turn)).collect()).collect();
        let needed = lengths.iter().map(|lengths| lengths.iter().sum::<u64>()).max().unwrap_or(0);
        self.cycle_ns = needed;
        // Current turn of each processor, and the real time of its end.
        let mut running: Vec<Option<(usize, u64)>> = vec![None; turns.len()];
        let mut next = vec![0; turns.len()];
        // Nodes of later turns wait frozen.
        for (processor, turns) in turns.iter().enumerate() {
            for member in turns.iter().skip(1).flatten() {
                self.freeze(*member, true);
            }
            self.begin_turn(processor, turns, &lengths, &mut running, &mut next, (now, end));
        }
        while let Some((processor, turn, until)) = running
            .iter()
            .enumerate()
            .filter_map(|(processor, turn)| turn.map(|(turn, until)| (processor, turn, until)))
            .min_by_key(|(.., until)| *until)
        {
            sleep_until(until);
            for member in &turns[processor][turn] {
                self.freeze(*member, true);
            }
            running[processor] = None;
            self.begin_turn(processor, &turns[processor], &lengths, &mut running, &mut next, (now, end));
            if stop.load(Relaxed) {
                // Nothing depends on the rest of the quantum.
                break;
            }
        }
        let over = (monotonic_ns() - began).saturating_sub(needed);
        self.report.barriers += 1;
        self.barrier_ns += over;
        self.report.barrier_max_us = self.report.barrier_max_us.max(over as f64 / 1e3);
        let most = turns.iter().map(Vec::len).max().unwrap_or(0);
        self.report.most_turns = self.report.most_turns.max(most);
        end
    }

    fn begin_turn(
        &mut self,
        processor: usize,
        turns: &[Vec<usize>],
        lengths: &[Vec<u64>],
        running: &mut [Option<(usize, u64)>],
        next: &mut [usize],
        (now, end): (u64, u64),
    ) {
        let turn = next[processor];
        if let Some(members) = turns.get(turn) {
            let real = self.set(members.iter().copied(), now, end);
            running[processor] = Some((turn, real + lengths[processor][turn]));
            next[processor] += 1;
        }
    }

    /// Applies the changes that are due at `now`.
    fn change(&mut self, now: u64) {
        while let Some((at, member, tdf_milli)) = self.changes.last().copied()
            && self.begin.saturating_add(at) <= now
        {
            self.changes.pop();
            match member {
                Some(member) => self.members[member].tdf_milli = Some(tdf_milli),
                None => self.tdf_milli = tdf_milli,
            }
            self.note(now, member, tdf_milli);
        }
    }

    fn note(&mut self, now: u64, member: Option<usize>, tdf_milli: u64) {
        let seconds = now.saturating_sub(self.begin) as f64 / 1e9;
        self.factors.push((seconds, member, tdf_milli as f64 / 1e3));
    }

    /// Measures the usage of nodes until `now`, and adapts the factor. Returns true if turns are needed.
    fn look(&mut self, now: u64) -> bool {
        let (used, took) = self.meter.look();
        let real = monotonic_ns();
        let passed = now.saturating_sub(self.looked.1).max(1);
        let real_passed = real.saturating_sub(self.looked.0).max(1);
        let is_held = is_held(real_passed, self.look_due.saturating_sub(self.looked.0), self.cycle_ns);
        self.looked = (real, now);
        self.look_due = real + LOOK_NS.max(LOOK_SHARE * took);
        let (mut short, count) = (0f64, used.len());
        for (member, used) in used.iter().enumerate() {
            let tdf = self.tdf_of(member) as f64 / 1e3;
            let demand = (used.ran + used.waited) as f64 / (passed as f64 * tdf);
            let own = &mut self.members[member];
            own.demand = demand.min(1.0).max(own.demand * FADING);
            // The last member is the network, which is not a node of the experiment.
            if member + 1 < count {
                short = short.max(used.short(passed, tdf));
            }
        }
        let own = (0..count).map(|member| &self.members[member].counted).zip(&used);
        let own = own.enumerate().map(|(member, (counted, used))| (counted, self.tdf_of(member), used));
        let busy = busy(own, passed, real_passed.saturating_mul(self.processors as u64));
        let late = self.pressure.take();
        // Usage before the beginning of the experiment is not representative.
        if now > self.begin
            && let Some(adapter) = &mut self.adapter
            && let Some(tdf_milli) =
                adapter.decide(Window { late, short, busy, passed: SimDuration::from_nanos(passed), is_held })
        {
            self.tdf_milli = tdf_milli;
            self.note(now, None, tdf_milli);
        }
        let turns = self.turns();
        let takes_turns =
            self.quantum.is_some() && (!self.is_uniform() || turns.iter().any(|turns| turns.len() > 1));
        // Clocks that run freely keep their factor; under barriers the last interval is the best estimate.
        let mean = match takes_turns {
            true => real_passed as f64 / passed as f64,
            false => self.tdf_of(0) as f64 / 1e3,
        };
        let before = self.mean_milli.load(Relaxed) as f64 / 1e3;
        if (mean / before - 1.0).abs() > DRIFT {
            self.mean_milli.store((mean * 1e3) as u64, Relaxed);
            self.mean_rate = Pace::rate_of((mean * 1e3) as u64);
            set_timers_anew(mean / before);
        }
        takes_turns
    }
}

/// True if the machine stalled: `passed` real nanoseconds have gone by since the last measurement, which
/// was due after `planned`. Under barriers a measurement waits for the end of a cycle, which takes `cycle`.
fn is_held(passed: u64, planned: u64, cycle: u64) -> bool {
    passed > HELD_UP.saturating_mul(planned.max(LOOK_NS)).saturating_add(cycle)
}

/// Busy share: the largest of any switch or the lines, or their joint share of all processors' time
/// `all_ns`, whichever is greater. `members` yields kind, factor in thousandths and usage of each member.
///
/// Hosts do not count: switches and lines only process their input, whereas a program on a host may use any
/// processor time, at every factor.
fn busy<'a>(members: impl Iterator<Item = (&'a Counted, u64, &'a Use)>, passed: u64, all_ns: u64) -> f64 {
    let (mut busiest, mut ran) = (0f64, 0);
    for (_, tdf_milli, used) in members.filter(|(counted, ..)| matches!(counted, Counted::Process(_))) {
        busiest = busiest.max(used.busy(passed, tdf_milli as f64 / 1e3));
        ran += used.ran;
    }
    busiest.max(ran as f64 / all_ns.max(1) as f64)
}

/// Sleeps until `CLOCK_MONOTONIC` shows `real`.
fn sleep_until(real: u64) {
    let left = real.saturating_sub(monotonic_ns());
    if left > 0 {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::Late;

    fn need(length: u64, demand: f64) -> Need {
        Need { length, demand }
    }

    #[test]
    fn idle_nodes_share_a_turn_and_busy_ones_have_their_own() {
        let needs: Vec<Need> =
            (0..10).map(|node| need(1_000, if node % 5 == 0 { 0.95 } else { 0.05 })).collect();
        let turns = plan(&needs, 2);
        assert_eq!(turns, [vec![vec![0], vec![1, 2, 3, 4, 6, 7, 8, 9]], vec![vec![5]]]);
        assert_eq!(plan(&needs, 3), [vec![vec![0]], vec![vec![5]], vec![vec![1, 2, 3, 4, 6, 7, 8, 9]]]);
    }

    #[test]
    fn turns_go_to_the_processor_with_the_least_work() {
        // Longer turns, as those of nodes with a greater factor, are assigned first.
        let needs =
            [need(1_000, 1.0), need(4_000, 1.0), need(1_000, 1.0), need(1_000, 1.0), need(1_000, 1.0)];
        assert_eq!(plan(&needs, 2), [vec![vec![1]], vec![vec![0], vec![2], vec![3], vec![4]]]);
    }

    #[test]
    fn every_node_has_one_turn_and_the_same_plan_comes_of_the_same_needs() {
        let needs: Vec<Need> = (0..257)
            .map(|node| need([1_000, 2_000, 500][node % 3], f64::from(node as u32 * 7 % 13) / 10.0))
            .collect();
        for processors in [0, 1, 2, 7, 300] {
            let turns = plan(&needs, processors);
            assert_eq!(turns, plan(&needs, processors));
            let mut all: Vec<usize> = turns.iter().flatten().flatten().copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..257).collect::<Vec<_>>());
            let alike =
                |turn: &Vec<usize>| turn.iter().all(|node| needs[*node].length == needs[turn[0]].length);
            assert!(turns.iter().flatten().all(alike));
        }
    }
    #[test]
    fn programs_that_fill_the_processors_at_every_factor_do_not_raise_it() {
        const REAL: u64 = 100_000_000;
        let (processors, mut tdf_milli) = (2, 2_000);
        let mut adapter = Adapter::new(tdf_milli, 1e5, SimDuration::ZERO);
        let (host, lines) = (Counted::Host(1), Counted::Process(2));
        // Programs use all processors, but never wait for one.
        let spins = Use { ran: REAL, turns: 10, most_ran: REAL, most_ready: REAL, ..Use::default() };
        let moves = Use { ran: REAL / 50, turns: 100, most_ran: REAL / 50, most_ready: REAL / 50, ..spins };
        let mut step = |moves: &Use| {
            let passed = REAL * 1_000 / tdf_milli;
            let members =
                [(&host, tdf_milli, &spins), (&host, tdf_milli, &spins), (&lines, tdf_milli, moves)];
            let busy = busy(members.into_iter(), passed, REAL * processors);
            let passed = SimDuration::from_nanos(passed);
            let window = Window { late: Late::of(1_000, 0.0, 0), short: 0.0, busy, passed, is_held: false };
            tdf_milli = adapter.decide(window).unwrap_or(tdf_milli);
            tdf_milli
        };
        assert!((0..200).all(|_| step(&moves) <= 2_000));
        assert_eq!(step(&moves), 1_000, "there is slack");
        // Lines that use all processors raise the factor.
        let full = Use { ran: REAL * 2, ..moves };
        assert!((0..10).any(|_| step(&full) > 1_000));
    }

    #[test]
    fn a_long_cycle_is_not_a_machine_that_stood_still() {
        assert!(!is_held(LOOK_NS, LOOK_NS, 0) && is_held(3 * LOOK_NS, LOOK_NS, 0));
        // The measurement was due in the middle of the cycle.
        let cycle = 8 * LOOK_NS;
        assert!(!is_held(cycle + LOOK_NS, LOOK_NS, cycle) && is_held(3 * cycle, LOOK_NS, cycle));
        assert!(!is_held(5 * LOOK_NS, 4 * LOOK_NS, 0), "looks are rare where they take long");
    }
}
