//! The controller of dilated time: it lets the clocks of all nodes go on, and changes their rates, so that they agree.
//!
//! A machine has fewer processors than an experiment has hosts. In dilated time hosts may share them one after another: all clocks
//! stand at one virtual time, a *barrier*; each node then runs until its clock shows a quantum more, for which it takes the quantum times
//! its time dilation factor of the machine's time; and while it waits for its turn, or for the others at the next barrier, it is frozen and its
//! clock stands (Chen et al., "Enhancing Fidelity of P4-Based Network Emulation with a Lightweight Virtual Time System", PADS 2023,
//! section 4.2). As the quantum is no longer than the shortest latency, no frame arrives at a node that is already past its time:
//! lines take frames by the clock of the end where they come from, and hand them out by that of the other.
//!
//! Turns are made of what nodes have lately used ([`plan`]): nodes that together need no more than one processor run in one turn, and turns are
//! given to processors greedily. If there are no more turns than processors, nobody has to wait, and clocks run on without barriers
//! until the next look. So freezing costs nothing where the machine suffices.
//!
//! Limits: the kernel places processes; that as many turns run at a time as there are processors is all that this does. A node that
//! starts to work is found out by the next look. The kernel's own timers do not stand; see [`Page::mean_rate`].
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

/// Real time between two looks at what nodes have used, and how many times as long as a look it is at least.
const LOOK_NS: u64 = 100_000_000;
const LOOK_SHARE: u64 = 20;
/// A look that comes after so many times as long as it was to says that the machine stood still.
const HELD_UP: u64 = 2;
/// The longest sleep while clocks run on.
const NAP_NS: u64 = 5_000_000;
/// The real time in which all clocks can be written: a clock that goes is stopped so far ahead.
const AHEAD_NS: u64 = 2_000_000;
/// A turn is full when the nodes in it have used so much of a processor.
const FULL: f64 = 0.9;
/// The share of a node's demand that outlasts a look.
const FADING: f64 = 0.7;
/// A node that uses less of a processor is not worth freezing: its clock stands all the same.
const IDLE: f64 = 0.02;
/// The change of the mean factor from which kernel timers are set anew.
const DRIFT: f64 = 0.08;

/// A time dilation factor that holds from some time on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// The node; none for all that have no factor of their own.
    pub node: Option<String>,
    /// Nanoseconds of the experiment.
    pub at_ns: u64,
    /// The factor in thousandths.
    pub tdf_milli: u64,
}

/// A node with a clock.
pub struct Member {
    /// Its processes.
    pub counted: Counted,
    /// The way to freeze it; what has none only has its clock stopped.
    pub freezer: Option<Freezer>,
    /// Whoever waits for its clock.
    pub wakers: Vec<Waker>,
    /// A factor of its own, in thousandths.
    pub tdf_milli: Option<u64>,
    /// The share of a processor that it uses while it runs.
    demand: f64,
}

impl Member {
    /// A node that has used nothing yet.
    pub fn new(counted: Counted, freezer: Option<Freezer>, wakers: Vec<Waker>) -> Member {
        Member { counted, freezer, wakers, tdf_milli: None, demand: 0.0 }
    }
}

/// A change of a factor: the time, the member (none for all that have no factor of their own), and the factor in thousandths.
type Change = (u64, Option<usize>, u64);

/// Processor time that a node needs until the next barrier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Real nanoseconds of its quantum.
    pub length: u64,
    /// The share of a processor that it uses in them.
    pub demand: f64,
}

/// The turns of each processor until the next barrier: the numbers of the nodes in each.
pub type Turns = Vec<Vec<Vec<usize>>>;

/// Puts nodes into turns, and turns onto processors: each onto the one with the least work so far.
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

/// Figures of barriers and factors, in `emulation.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QuantaReport {
    /// Virtual microseconds between two barriers.
    pub quantum_us: f64,
    /// `control groups` or `signals`.
    pub frozen_by: String,
    /// Barriers.
    pub barriers: u64,
    /// Microseconds of the machine that a barrier took beyond the turns of the busiest processor: the mean, and the most.
    pub barrier_us: f64,
    /// See there.
    pub barrier_max_us: f64,
    /// The share of the machine's time that barriers took.
    pub barrier_share: f64,
    /// Most turns of a processor between two barriers.
    pub most_turns: usize,
    /// The share of the experiment in which nobody was frozen.
    pub free_share: f64,
}

/// See the [module](self).
pub struct Controller<'a> {
    dilation: &'a Dilation,
    /// In the order of the clocks.
    members: Vec<Member>,
    quantum: Option<u64>,
    /// The factor of all that have none of their own, in thousandths.
    tdf_milli: u64,
    /// The next one last.
    changes: Vec<Change>,
    adapter: Option<Adapter>,
    pressure: &'a Pressure,
    /// The machine's time in that of the hosts, in thousandths: others follow it.
    mean_milli: &'a AtomicU64,
    processors: usize,
    meter: Meter,
    /// The virtual time at which the experiment begins.
    begin: u64,
    look_due: u64,
    /// Real nanoseconds that the last cycle had to take; zero while clocks run on.
    cycle_ns: u64,
    /// Real and virtual time of the last look.
    looked: (u64, u64),
    mean_rate: u64,
    frozen: Vec<bool>,
    report: QuantaReport,
    barrier_ns: u64,
    free_ns: u64,
    /// Seconds of the experiment, the node, and the factor from then on.
    factors: Vec<(f64, Option<usize>, f64)>,
    failed: Option<crate::Error>,
}

/// Figures of a controller, in the end.
pub struct Controlled {
    /// Figures of barriers, if there was a quantum.
    pub quanta: Option<QuantaReport>,
    /// Changes of factors: seconds of the experiment, the member's number (none for all), and the factor from then on.
    pub factors: Vec<(f64, Option<usize>, f64)>,
    /// A host that could not be frozen.
    pub failed: Option<crate::Error>,
}

/// Settings of a controller.
pub struct Control<'a> {
    /// The clocks.
    pub dilation: &'a Dilation,
    /// The nodes, in their order.
    pub members: Vec<Member>,
    /// Virtual nanoseconds between two barriers, if hosts are to be frozen.
    pub quantum: Option<u64>,
    /// The first factor, in thousandths.
    pub tdf_milli: u64,
    /// Changes of factors: nanoseconds of the experiment, the member (none for all without one of its own), thousandths.
    pub changes: Vec<Change>,
    /// Decisions on the factor, if it follows the machine.
    pub adapter: Option<Adapter>,
    /// The measures that these decisions follow.
    pub pressure: &'a Pressure,
    /// The mean factor in thousandths, written for others.
    pub mean_milli: &'a AtomicU64,
    /// True if control groups freeze hosts, false if signals do.
    pub by_groups: bool,
    /// The virtual time at which the experiment begins.
    pub begin: u64,
}

impl<'a> Controller<'a> {
    /// A controller that has not begun.
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

    /// Drives all clocks until `stop` is set; then they run on and nobody is frozen.
    pub fn run(mut self, stop: &AtomicBool) -> Controlled {
        // Frozen hosts wait for it, and it hardly works.
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

    /// The virtual time, by the network's clock.
    fn time(&self, real: u64) -> u64 {
        self.dilation.network().pace().at(real)
    }

    fn tdf_of(&self, member: usize) -> u64 {
        self.members[member].tdf_milli.unwrap_or(self.tdf_milli)
    }

    fn is_uniform(&self) -> bool {
        (0..self.members.len()).all(|member| self.tdf_of(member) == self.tdf_of(0))
    }

    /// Stops all clocks that go, at one time, which it returns.
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

    /// Lets the clocks of these members, which stand at `now`, go on until `limit`, and their nodes. Returns the real time at which
    /// all of them began to.
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

    /// Lets all clocks run from `now` on until there is something to do. Returns the time at which they stand then.
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

    /// Lets all nodes run from one barrier to the next, in turns.
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
        // By processor, the number of its turn and when that ends.
        let mut running: Vec<Option<(usize, u64)>> = vec![None; turns.len()];
        let mut next = vec![0; turns.len()];
        // Nobody runs before its turn.
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
                // The rest of the quantum would only be waited for.
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

    /// Makes the changes that are due at `now`.
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

    /// Looks at what nodes have used until `now`, and decides on the factor. Returns true if they are to take turns.
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
            // The network is no machine of the experiment.
            if member + 1 < count {
                short = short.max(used.short(passed, tdf));
            }
        }
        let own = (0..count).map(|member| &self.members[member].counted).zip(&used);
        let own = own.enumerate().map(|(member, (counted, used))| (counted, self.tdf_of(member), used));
        let busy = busy(own, passed, real_passed.saturating_mul(self.processors as u64));
        let late = self.pressure.take();
        // What comes before the experiment says nothing of it.
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
        // Clocks that run on go by their factor; else the last look's time is the best guess.
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

/// True if the machine stood still: `passed` went by since the last look, which was to be after `planned`. In turns a look waits for the end of
/// a cycle, which takes `cycle`.
fn is_held(passed: u64, planned: u64, cycle: u64) -> bool {
    passed > HELD_UP.saturating_mul(planned.max(LOOK_NS)).saturating_add(cycle)
}

/// The greatest share of its time for which a switch or the lines had work, or the share of all processors' time, `all_ns`, that these took
/// together. Of each member: what it is, its factor in thousandths, and what it has used.
///
/// Hosts do not count. Switches and lines only work as much as they are given, a host's program as much as it likes, whatever the factor.
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
        // The longest ones come first, as those of a greater factor.
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
        // All processors' time is used, by programs that never wait for one.
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
        // Lines that leave no moment of the processors raise it.
        let full = Use { ran: REAL * 2, ..moves };
        assert!((0..10).any(|_| step(&full) > 1_000));
    }

    #[test]
    fn a_long_cycle_is_not_a_machine_that_stood_still() {
        assert!(!is_held(LOOK_NS, LOOK_NS, 0) && is_held(3 * LOOK_NS, LOOK_NS, 0));
        // The look was due in the middle of it.
        let cycle = 8 * LOOK_NS;
        assert!(!is_held(cycle + LOOK_NS, LOOK_NS, cycle) && is_held(3 * cycle, LOOK_NS, cycle));
        assert!(!is_held(5 * LOOK_NS, 4 * LOOK_NS, 0), "looks are rare where they take long");
    }
}
