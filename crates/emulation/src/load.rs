//! Load of the machine during a run: usage of the processors, work of the network, waiting of the nodes,
//! and rates of direct links. [`truth`](crate::truth) judges it.
//!
//! Busy processors alone do no harm, and links that carry much do none either. Both together mean that
//! processors may have set the rates: TCP adapts to them, so that no frame is late or lost. Usage is
//! therefore measured in windows, and counted for the windows in which links are *loaded*, as a share of
//! these. A link that carried its full rate meanwhile set the rate itself, unless it carried more than the
//! processors can. The kernel counts the packets that it processes in interrupts for all interfaces together
//! (`softnet_stat`), whichever namespaces they are in.

use crate::clock::{ExperimentClock, monotonic_ns};
use crate::gateways;
use crate::meter::{Counted, Meter};
use crate::netlink::Netlink;
use crate::nodes::Node;
use crate::senders::Senders;
use belljar_base::Map;
use belljar_config::Experiment;
use belljar_platform::dilate::clock::FULL_RATE;
use serde::{Deserialize, Serialize};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Interval between two samples of processor usage.
const WINDOW: Duration = Duration::from_millis(200);
/// Usage of all processors from which on an interval counts as saturated, and as nearly saturated.
const SATURATED: f64 = 0.97;
const NEARLY: f64 = 0.90;
/// Usage of one processor from which on it counts as saturated, and the kernel's share of it from which on
/// the work is the kernel's: a program that computes leaves the network its processors.
const ONE_SATURATED: f64 = 0.95;
const KERNELS: f64 = 0.5;
/// Packets per second and processor that the kernel's network processes, from which on links are loaded. A
/// packet costs a processor 2 to 25 us, so that it has at least 40,000 of them when it is saturated.
const LOADED: f64 = 1_000.0;
/// Usage of all processors from which on they count as those that limit a sender which always has data, where
/// no link is filled.
const PRESSED: f64 = 0.5;
/// Least number of loaded windows of which shares are computed, and of windows that count as a share: the
/// start of programs saturates a machine for a moment.
const LEAST_LOADED: u64 = 8;
const LEAST_COUNTED: u64 = 2;
/// Share of the time from which on a switch or the lines count as busy throughout.
const BUSY: f64 = 0.95;
/// Shortest interval between two measurements of the nodes' usage, also as a multiple of the duration of a
/// measurement.
const LOOK: Duration = Duration::from_millis(500);
const LOOK_SHARE: u64 = 50;
/// Time over which the rate of a direct link is measured.
const SECOND_NS: u64 = 1_000_000_000;
/// Share of its rate from which on a link counts as filled.
const FILLED: f64 = 0.9;
/// Name of the threads that move frames.
pub const LINES: &str = "a thread of Belljar's lines";

/// Usage of the processors during a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// Number of processors.
    pub processors: usize,
    /// Share of their time that was used, by any process.
    pub busy: f64,
    /// Share of the time in which all of them were busy.
    pub saturated: f64,
    /// Share of their time that the hypervisor gave to other guests.
    pub stolen: f64,
    /// Share of their time that interrupts took, which no host is charged for: the kernel's network.
    #[serde(default)]
    pub interrupts: f64,
    /// Processor time of Belljar's lines, in seconds.
    pub line_seconds: f64,
    /// Processor time of each host's processes, in seconds.
    pub hosts: Map<String, f64>,
    /// Share of the time for which each host and P4 switch waited for a processor that it would have had on
    /// a machine of its own.
    #[serde(default)]
    pub short: Map<String, f64>,
}

/// Load by the network. Shares are of the time in which links were loaded, and zero if that was a moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Share of the run in which links were loaded.
    pub loaded: f64,
    /// Share in which all processors were busy, and no link was filled.
    pub saturated: f64,
    /// Share in which all processors were busy for at least 90 %, and no link was filled.
    pub nearly_saturated: f64,
    /// Share in which one processor was busy, mostly with the kernel's work, and no link was filled.
    pub one_saturated: f64,
    /// Share in which processors were mostly busy, and no link was filled, while TCP senders had data without
    /// a pause.
    pub pressed: f64,
    /// Share in which one or all processors were busy, and some link carried its full rate.
    pub saturated_filled: f64,
    /// Share in which a P4 switch, or the threads that move frames, were busy, by name.
    pub busy: Map<String, f64>,
    /// Packets that the kernel's network processed, of the whole machine.
    pub packets: u64,
    /// Packets that it dropped because its backlog was full.
    pub dropped: u64,
    /// Share of the run in which processes waited for memory.
    pub memory_waits: f64,
    /// Highest rate of each direction of a direct link, in bit/s over a second, by "NAME, A to B".
    pub direct_rates: Map<String, f64>,
    /// Directions of direct links without a rate among these.
    pub unlimited: Vec<String>,
    /// Share of its rate that a direction of a direct link carried while it had a queue.
    pub carried: Map<String, f64>,
}

/// Direction of a link, from a node in a namespace.
struct Direction {
    name: String,
    is_direct: bool,
    /// Sending end: index of the node among those with a connection, name and index of the interface.
    node: usize,
    interface: String,
    index: u32,
    rate: Option<u64>,
    /// Bytes at the last sample, and at the beginning of the current second.
    bytes: u64,
    before: u64,
    /// Bytes in the queue at the last sample.
    backlog: u64,
    most: f64,
    /// Nanoseconds in which there was a queue, and bits carried in them.
    queued: (u64, u64),
}

/// Links of an experiment, whose rates are sampled.
#[derive(Default)]
pub struct Links {
    nodes: Vec<Netlink>,
    /// Index of the connection, by node.
    opened: Map<usize, usize>,
    directions: Vec<Direction>,
    due: u64,
    /// Experiment time of the last sample, and of the beginning of the current second.
    last: u64,
    second: u64,
    /// True if a direction carried its full rate since the last sample.
    filled: bool,
}

impl Links {
    /// Returns the links that are direct, which have no ends in the hub (`hub_ends`), or have a rate, and the
    /// uplinks of hosts on the graph.
    pub fn open(
        experiment: &Experiment,
        nodes: &[Node],
        hub_ends: &[Option<[u32; 2]>],
    ) -> crate::Result<Links> {
        let mut all = Links::default();
        for (link, ends) in experiment.topology.links.iter().zip(hub_ends) {
            for (near, far) in [(0, 1), (1, 0)] {
                let [near, far] = [near, far].map(|end| &link.ends[end]);
                let is_outside = gateways::of(experiment, near.node).is_some();
                if is_outside || ends.is_some() && near.properties.rate.is_none() {
                    continue;
                }
                let names = [near, far].map(|end| experiment.node_name(end.node));
                let name = format!("{}, {} to {}", link.name, names[0], names[1]);
                let interface = &experiment.node_interfaces(near.node)[near.port].name;
                let node = &nodes[near.node.index()];
                let index = node.ports[near.port];
                all.add(node, (interface, index), name, near.properties.rate, ends.is_none())?;
            }
        }
        for (host, node) in experiment.hosts.iter().zip(nodes) {
            if let (Some(rate), Some(index)) = (host.bandwidth_up, node.graph) {
                all.add(node, ("eth0", index), host.name.clone(), Some(rate), false)?;
            }
        }
        Ok(all)
    }

    fn add(
        &mut self,
        node: &Node,
        (interface, index): (&str, u32),
        name: String,
        rate: Option<u64>,
        is_direct: bool,
    ) -> crate::Result<()> {
        let id = node.id.index();
        if !self.opened.contains_key(&id) {
            self.opened.insert(id, self.nodes.len());
            self.nodes.push(Netlink::open(node.fd())?);
        }
        self.directions.push(Direction {
            name,
            is_direct,
            node: self.opened[&id],
            interface: interface.to_owned(),
            index,
            rate,
            bytes: 0,
            before: 0,
            backlog: 0,
            most: 0.0,
            queued: (0, 0),
        });
        Ok(())
    }

    /// Samples the links, unless the last sample is recent. Rates are those of the experiment's time.
    fn sample(&mut self, clock: &ExperimentClock) {
        let (real, now) = (monotonic_ns(), clock.time().as_nanos());
        if real < self.due || now <= self.last || self.directions.is_empty() {
            return;
        }
        let is_first = self.second == 0;
        let passed = now - std::mem::replace(&mut self.last, now);
        let of_second = now - self.second;
        let is_second = is_first || of_second >= SECOND_NS;
        self.filled = false;
        for direct in &mut self.directions {
            let netlink = &mut self.nodes[direct.node];
            let Ok(counters) = netlink.counters(&direct.interface) else { continue };
            let bytes = counters.tx_bytes;
            let bits = 8 * bytes.saturating_sub(direct.bytes);
            if let Some(rate) = direct.rate.filter(|_| !is_first) {
                self.filled |= bits as f64 >= FILLED * rate as f64 * passed as f64 / 1e9;
            }
            let backlog = match direct.is_direct && direct.rate.is_some() {
                true => netlink.queue(direct.index).map_or(0, |queue| queue.backlog),
                false => 0,
            };
            // What waited at the start was enough for all that was carried: the link had no pause for want of
            // packets. Two bursts that each leave a queue have one.
            if !is_first && backlog > 0 && direct.backlog > 0 && 8 * direct.backlog >= bits {
                direct.queued.0 += passed;
                direct.queued.1 += bits;
            }
            (direct.bytes, direct.backlog) = (bytes, backlog);
            if is_second {
                if !is_first {
                    let bits = 8.0 * bytes.saturating_sub(direct.before) as f64;
                    direct.most = direct.most.max(bits * 1e9 / of_second as f64);
                }
                direct.before = bytes;
            }
        }
        if is_second {
            self.second = now;
        }
        let took = monotonic_ns() - real;
        self.due = real + (LOOK_SHARE * took).max(WINDOW.as_nanos() as u64);
    }

    fn report(self, load: &mut Load) {
        for direct in self.directions.into_iter().filter(|direct| direct.is_direct && direct.most > 0.0) {
            let (ns, bits) = direct.queued;
            match direct.rate {
                None => load.unlimited.push(direct.name.clone()),
                Some(rate) if ns >= SECOND_NS => {
                    let carried = bits as f64 * 1e9 / (ns as f64 * rate as f64);
                    load.carried.insert(direct.name.clone(), carried);
                }
                Some(_) => {}
            }
            load.direct_rates.insert(direct.name, direct.most);
        }
    }
}

/// Measures the load by these nodes and links until `stop` is set.
pub fn watch(
    nodes: &[(String, Counted)],
    (mut links, mut senders): (Links, Senders),
    clock: &ExperimentClock,
    stop: &AtomicBool,
) -> (Cpu, Load) {
    let mut shortage = Shortage::new(nodes);
    let mut windows = Windows::default();
    let first = Sample::take();
    let mut last = first.clone();
    let mut due = monotonic_ns() + WINDOW.as_nanos() as u64;
    while !stop.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        shortage.look(clock);
        links.sample(clock);
        if monotonic_ns() < due {
            continue;
        }
        due = monotonic_ns() + WINDOW.as_nanos() as u64;
        let now = Sample::take();
        let window = now.since(&last);
        // Sockets are of interest where processors may limit them.
        let is_pressed = window.is_busy() && senders.sample() >= LOADED;
        windows.add(&window, links.filled, is_pressed);
        last = now;
    }
    let all = Sample::take().since(&first);
    let mut load = windows.load();
    (load.packets, load.dropped) = (all.packets, all.dropped);
    load.memory_waits = all.memory_waits_us as f64 / (all.ns.max(1) as f64 / 1e3);
    load.busy = shortage.busy();
    links.report(&mut load);
    let mut cpu = windows.cpu(&all);
    cpu.short = shortage.shares();
    (cpu, load)
}

/// Times of one processor, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    all: u64,
    idle: u64,
    kernel: u64,
    interrupts: u64,
    stolen: u64,
}

impl Ticks {
    fn since(self, before: Ticks) -> Ticks {
        Ticks {
            all: self.all.saturating_sub(before.all),
            idle: self.idle.saturating_sub(before.idle),
            kernel: self.kernel.saturating_sub(before.kernel),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }

    fn with(self, other: Ticks) -> Ticks {
        Ticks {
            all: self.all + other.all,
            idle: self.idle + other.idle,
            kernel: self.kernel + other.kernel,
            interrupts: self.interrupts + other.interrupts,
            stolen: self.stolen + other.stolen,
        }
    }

    fn busy(self) -> f64 {
        1.0 - self.share(self.idle)
    }

    fn share(self, part: u64) -> f64 {
        part as f64 / self.all.max(1) as f64
    }
}

/// Counts of the kernel at a moment, or their growth.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    ns: u64,
    /// Times of the processors that this process may use.
    processors: Vec<Ticks>,
    /// Packets processed and dropped by the kernel's network; `None` if it does not count them.
    network: Option<(u64, u64)>,
    packets: u64,
    dropped: u64,
    memory_waits_us: u64,
}

impl Sample {
    fn take() -> Sample {
        let own = rustix::thread::sched_getaffinity(None).ok();
        let is_own = |cpu: usize| {
            cpu < rustix::thread::CpuSet::MAX_CPU && own.as_ref().is_none_or(|set| set.is_set(cpu))
        };
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let network = softnet(&read("/proc/net/softnet_stat"));
        let (packets, dropped) = network.unwrap_or_default();
        Sample {
            ns: monotonic_ns(),
            processors: ticks(&read("/proc/stat"), is_own),
            network,
            packets,
            dropped,
            memory_waits_us: stalled(&read("/proc/pressure/memory")),
        }
    }

    fn since(&self, before: &Sample) -> Sample {
        let processors = self.processors.iter().zip(&before.processors);
        Sample {
            ns: self.ns.saturating_sub(before.ns),
            processors: processors.map(|(now, before)| now.since(*before)).collect(),
            network: self.network,
            packets: self.packets.saturating_sub(before.packets),
            dropped: self.dropped.saturating_sub(before.dropped),
            memory_waits_us: self.memory_waits_us.saturating_sub(before.memory_waits_us),
        }
    }

    fn total(&self) -> Ticks {
        self.processors.iter().fold(Ticks::default(), |sum, ticks| sum.with(*ticks))
    }

    /// True if links are loaded, and processors mostly busy.
    fn is_busy(&self) -> bool {
        self.is_loaded(1) && self.total().busy() >= PRESSED
    }

    /// True if links carry so much in this window that so many processors may limit them.
    fn is_loaded(&self, processors: usize) -> bool {
        is_loaded(self.network.map(|_| self.packets), self.ns, processors)
    }
}

/// True if the kernel's network processed so many packets in this time that so many processors may limit it,
/// or if it does not count them.
fn is_loaded(packets: Option<u64>, ns: u64, processors: usize) -> bool {
    let limit = LOADED * processors.max(1) as f64 * ns as f64 / 1e9;
    packets.is_none_or(|packets| packets as f64 >= limit)
}

/// Numbers of windows.
#[derive(Clone, Copy, Debug, Default)]
struct Windows {
    all: u64,
    saturated: u64,
    loaded: u64,
    loaded_for_one: u64,
    loaded_saturated: u64,
    loaded_nearly: u64,
    loaded_one: u64,
    loaded_pressed: u64,
    filled: u64,
}

impl Windows {
    /// Adds a window; `filled` if a link carried its full rate in it, `pressed` if senders always had data.
    fn add(&mut self, window: &Sample, filled: bool, pressed: bool) {
        let total = window.total();
        if total.all == 0 {
            return;
        }
        self.all += 1;
        let busy = total.busy();
        self.saturated += u64::from(busy >= SATURATED);
        let is_full =
            |one: &Ticks| one.busy() >= ONE_SATURATED && one.share(one.kernel) >= KERNELS * one.busy();
        let is_one_full = window.processors.iter().any(is_full);
        // A flow that one processor carries does not load many.
        if window.is_loaded(1) {
            self.loaded_for_one += 1;
            self.loaded_one += u64::from(is_one_full && !filled);
            self.loaded_pressed += u64::from(pressed && window.is_busy() && !filled);
        }
        if window.is_loaded(window.processors.len()) {
            self.loaded += 1;
            if filled {
                self.filled += u64::from(busy >= NEARLY || is_one_full);
            } else {
                self.loaded_saturated += u64::from(busy >= SATURATED);
                self.loaded_nearly += u64::from(busy >= NEARLY);
            }
        }
    }

    fn load(&self) -> Load {
        let of = |windows: u64, loaded: u64| match windows >= LEAST_COUNTED {
            true => windows as f64 / loaded.max(LEAST_LOADED) as f64,
            false => 0.0,
        };
        let share = |windows| of(windows, self.loaded);
        Load {
            loaded: self.loaded as f64 / self.all.max(1) as f64,
            saturated: share(self.loaded_saturated),
            nearly_saturated: share(self.loaded_nearly),
            one_saturated: of(self.loaded_one, self.loaded_for_one),
            pressed: of(self.loaded_pressed, self.loaded_for_one),
            saturated_filled: share(self.filled),
            ..Load::default()
        }
    }

    fn cpu(&self, all: &Sample) -> Cpu {
        let total = all.total();
        Cpu {
            processors: std::thread::available_parallelism().map_or(1, |count| count.get()),
            busy: total.busy(),
            saturated: self.saturated as f64 / self.all.max(1) as f64,
            stolen: total.share(total.stolen),
            interrupts: total.share(total.interrupts),
            ..Cpu::default()
        }
    }
}

/// Accumulated time for which nodes lacked a processor, or switches and lines were busy.
struct Shortage {
    names: Vec<String>,
    /// True for processes that move frames.
    forwards: Vec<bool>,
    meter: Meter,
    due: u64,
    /// Experiment time, real time and processed packets at the last measurement.
    last: (u64, u64, u64),
    passed: u64,
    short: Vec<f64>,
    /// Real nanoseconds in which links were loaded, and in which each process was busy meanwhile.
    loaded: u64,
    busy: Vec<u64>,
}

impl Shortage {
    fn new(nodes: &[(String, Counted)]) -> Shortage {
        let lines = (LINES.to_owned(), Counted::Process(std::process::id()));
        let (names, counted): (Vec<_>, Vec<_>) = nodes.iter().cloned().chain([lines]).unzip();
        Shortage {
            short: vec![0.0; names.len()],
            busy: vec![0; names.len()],
            forwards: counted.iter().map(|counted| matches!(counted, Counted::Process(_))).collect(),
            meter: Meter::new(&counted),
            names,
            due: 0,
            last: (0, 0, 0),
            passed: 0,
            loaded: 0,
        }
    }

    fn look(&mut self, clock: &ExperimentClock) {
        if monotonic_ns() < self.due {
            return;
        }
        let (used, took) = self.meter.look();
        let network = softnet(&fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default());
        let now = (clock.time().as_nanos(), monotonic_ns(), network.unwrap_or_default().0);
        self.due = now.1 + (LOOK_SHARE * took).max(LOOK.as_nanos() as u64);
        let last = std::mem::replace(&mut self.last, now);
        let passed = now.0.saturating_sub(last.0);
        if passed == 0 {
            return;
        }
        let tdf = FULL_RATE as f64 / clock.pace().rate as f64;
        self.passed += passed;
        let real = now.1.saturating_sub(last.1);
        // One processor carries what a switch or a thread of lines does.
        let packets = network.map(|_| now.2.saturating_sub(last.2));
        let is_loaded = last.0 > 0 && is_loaded(packets, real, 1);
        self.loaded += if is_loaded { real } else { 0 };
        let lines = self.names.len() - 1;
        for (number, used) in used.iter().enumerate() {
            self.short[number] += used.short(passed, tdf) * passed as f64;
            // Lines work while any node has its turn. Their threads do not wait, but others of this process do.
            let ran = used.most_ran as f64 / real.max(1) as f64;
            let busy = if number == lines { ran } else { used.busy(passed, tdf) };
            if is_loaded && self.forwards[number] && busy >= BUSY {
                self.busy[number] += real;
            }
        }
    }

    /// Shares of the time for which nodes lacked a processor. Belljar itself is not a node.
    fn shares(&self) -> Map<String, f64> {
        if !self.is_known() {
            return Map::new();
        }
        let shares = self.short.iter().map(|short| short / self.passed as f64);
        let nodes = self.names.len() - 1;
        self.names.iter().cloned().zip(shares).take(nodes).collect()
    }

    /// Shares of the loaded time in which switches and lines were busy, without those that never were.
    fn busy(&self) -> Map<String, f64> {
        let least = LEAST_LOADED * WINDOW.as_nanos() as u64;
        let busy =
            self.names.iter().zip(&self.busy).filter(|(_, busy)| **busy > LOOK.as_nanos() as u64 * 3 / 2);
        busy.map(|(name, busy)| (name.clone(), *busy as f64 / self.loaded.max(least) as f64)).collect()
    }

    /// True if the kernel has statistics of waiting.
    fn is_known(&self) -> bool {
        fs::read("/proc/self/schedstat").is_ok() && self.passed > 0
    }
}

/// Times of the processors that this process may use, from `/proc/stat`.
fn ticks(stat: &str, is_own: impl Fn(usize) -> bool) -> Vec<Ticks> {
    let mut all = Vec::new();
    for line in stat.lines().filter_map(|line| line.strip_prefix("cpu")) {
        let mut words = line.split(' ');
        if !words.next().and_then(|cpu| cpu.parse().ok()).is_some_and(&is_own) {
            continue;
        }
        let fields: Vec<u64> = words.filter_map(|field| field.parse().ok()).collect();
        let at = |n: usize| fields.get(n).copied().unwrap_or(0);
        // Fields: user nice system idle iowait irq softirq steal; guest time is part of user time.
        all.push(Ticks {
            all: (0..8).map(at).sum(),
            idle: at(3) + at(4),
            kernel: at(2) + at(5) + at(6),
            interrupts: at(5) + at(6),
            stolen: at(7),
        });
    }
    all
}

/// Packets processed and dropped, from `/proc/net/softnet_stat`: a line of hexadecimal numbers per
/// processor.
fn softnet(text: &str) -> Option<(u64, u64)> {
    let mut sum = None;
    for line in text.lines() {
        let mut words = line.split_whitespace().map(|word| u64::from_str_radix(word, 16));
        let (Some(Ok(packets)), Some(Ok(dropped))) = (words.next(), words.next()) else { return None };
        let (all, all_dropped) = sum.unwrap_or_default();
        sum = Some((all + packets, all_dropped + dropped));
    }
    sum
}

/// Microseconds for which any process has waited, from a file in `/proc/pressure`.
fn stalled(text: &str) -> u64 {
    let some = text.lines().find_map(|line| line.strip_prefix("some "));
    let total = some.and_then(|some| some.split_whitespace().find_map(|word| word.strip_prefix("total=")));
    total.and_then(|total| total.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests;
