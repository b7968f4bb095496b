//! External simulator, with a channel at each of its ports.
//!
//! A frame enters the queue of its port at its time stamp, and leaves by the link's rate; at once unless the experiment
//! specifies a rate, a queue, a token bucket or an overhead, because the simulator models its own line. Frames with the
//! same time leave in the order of the ports, then in that of sending.

use super::{Device, DeviceAccount, Outside};
use crate::pci;
use crate::simulators::{ChannelTrace, Process};
use belljar_base::{PacketAccount, SimDuration, SimTime};
use belljar_cosim::turns::Turn;
use belljar_cosim::{Channel, Error, Fault, Wire};
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, NicConfig, Packet, Ports};
use belljar_plan::LinkChange;
use belljar_results::Statistics;
use belljar_wire::ethernet;
use std::collections::VecDeque;

/// Consecutive polls without progress after which the peer's existence is checked.
const LOOK: u32 = 128;
/// Length of a VLAN tag in bytes.
const TAG: usize = 4;
/// Maximum number of frames that wait for other ports; more mean that an outside clock has stopped.
const MOST_WAITING: usize = 1_000_000;

/// Frame received from outside.
struct Arrived {
    at: SimTime,
    bytes: Vec<u8>,
    late: bool,
}

/// External simulator as a device. See the [module](self).
pub struct ForeignSimulator {
    /// Ports; `None` if the channel leads to another external simulator.
    ports: Vec<Option<Port>>,
    /// Egress queues into the links, by port.
    queues: Ports,
    process: Process,
    /// Turn on a processor, if processors are scarce.
    turn: Option<Turn>,
    trace: Option<ChannelTrace>,
    /// Number of consecutive polls without progress.
    in_vain: u32,
    /// True if the run lasts until the simulator ends, because nothing else in the experiment acts on its
    /// own.
    decides: bool,
    /// True once the end of the simulator has been judged.
    is_judged: bool,
}

struct Port {
    channel: Channel<Wire>,
    /// Frames for which the queue has no room.
    backlog: VecDeque<(SimTime, Vec<u8>)>,
    arrived: VecDeque<Arrived>,
    /// Frames and bytes sent to the simulator.
    counters: Counters,
    /// Frames for the simulator that arrived after its end.
    after_end: u64,
    /// Frames received from the simulator.
    from_simulator: u64,
    /// Frames that are shorter than a header or longer than the link allows.
    ignored: u64,
    /// Frames whose time stamp is before that of an earlier frame.
    late: u64,
    longest: usize,
    /// Time of the next poll of an unsynchronised channel, until its peer ends.
    tick: SimTime,
    latency: SimDuration,
}

/// Port of a simulator in the experiment: an established channel, and the link behind it.
pub struct PortSetup {
    /// Channel to the simulator.
    pub channel: Channel<Wire>,
    /// Maximum length of a frame.
    pub longest: usize,
    /// Latency of the channel.
    pub latency: SimDuration,
    /// Settings of the queue into the link.
    pub into_link: NicConfig,
}

impl ForeignSimulator {
    /// Creates a simulator with these ports. If it `decides`, the run lasts until all channels have ended.
    pub fn new(
        ports: impl IntoIterator<Item = Option<PortSetup>>,
        process: Process,
        turn: Option<Turn>,
        trace: Option<ChannelTrace>,
        decides: bool,
    ) -> ForeignSimulator {
        let present = |channel: &Channel<Wire>| {
            let bytes = pci::present(channel.layer().device()?);
            Some(Arrived { at: SimTime::ZERO, bytes, late: false })
        };
        let port = |setup: PortSetup| Port {
            arrived: present(&setup.channel).into_iter().collect(),
            channel: setup.channel,
            backlog: VecDeque::new(),
            counters: Counters::default(),
            after_end: 0,
            from_simulator: 0,
            ignored: 0,
            late: 0,
            longest: setup.longest,
            tick: SimTime::ZERO,
            latency: setup.latency,
        };
        let setups: Vec<Option<PortSetup>> = ports.into_iter().collect();
        // A port without a channel sends nothing.
        let unused = NicConfig::default();
        let queues = setups.iter().map(|setup| setup.as_ref().map_or(&unused, |setup| &setup.into_link));
        let queues = Ports::new(queues);
        let ports = setups.into_iter().map(|setup| setup.map(port)).collect();
        ForeignSimulator { ports, queues, process, turn, trace, in_vain: 0, decides, is_judged: false }
    }

    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().flatten()
    }
    fn ports_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        self.ports.iter_mut().flatten()
    }
    fn port_mut(&mut self, number: usize) -> Option<&mut Port> {
        self.ports.get_mut(number)?.as_mut()
    }

    /// Closes the channels and fails the run, unless it accepts the end of the simulator.
    fn fail(&mut self, error: Error) {
        self.ports_mut().for_each(|port| port.channel.close());
        if let Some(mut turn) = self.turn.take() {
            turn.leave();
        }
        self.is_judged = true;
        match &error.fault {
            Fault::Closed => self.process.judge_end(false),
            _ => self.process.fail(error.to_string()),
        }
    }

    /// Judges the end of a simulator that has announced it by TERMINATE, once the simulation needs its
    /// messages up to `limit`, later than its last.
    fn judge_announced_end(&mut self, limit: SimTime) {
        let is_over = |port: &Port| port.ended_at().is_some_and(|at| at < limit);
        let over = self.ports().filter(|port| is_over(port)).count();
        // A port less is an end only where none is accepted.
        if over == 0 || self.is_judged || self.process.may_end() && over < self.ports().count() {
            return;
        }
        self.is_judged = true;
        self.process.judge_end(true);
    }

    /// Records a message in the trace, if there is one.
    fn record(&mut self, message: (SimTime, usize, bool), stamp: SimTime, bytes: usize) {
        let Some(trace) = &mut self.trace else { return };
        if let Err(error) = trace.write(message, stamp, bytes) {
            self.process.fail(error);
            self.trace = None;
        }
    }

    /// Time and port of the first frame that has not entered the queue of its port.
    fn first_arrived(&self) -> Option<(SimTime, usize)> {
        let first =
            |(number, port): (usize, &Option<Port>)| Some((port.as_ref()?.arrived.front()?.at, number));
        self.ports.iter().enumerate().filter_map(first).min()
    }
}

impl Port {
    /// Sends the backlog. Returns true if it is empty.
    fn flush(&mut self) -> Result<bool, Error> {
        while let Some((at, frame)) = self.backlog.front() {
            if !self.channel.send(*at, frame)? {
                return Ok(false);
            }
            self.backlog.pop_front();
        }
        Ok(true)
    }

    /// Exchanges messages up to `limit`. Returns true if there was progress: a message received or a later
    /// horizon.
    fn exchange(&mut self, limit: SimTime) -> Result<bool, Error> {
        let synchronised = self.channel.is_synchronised();
        if self.flush()? {
            self.channel.sync(limit);
        }
        let now = match synchronised {
            true => SimTime::from_picos(limit.as_picos() - 1),
            false if self.tick >= limit => return Ok(true),
            false => self.tick,
        };
        let (before, mut came) = (self.channel.horizon(), false);
        loop {
            let late = self.channel.counts().late;
            let Some((at, bytes)) = self.channel.poll(now)? else { break };
            let late = self.channel.counts().late > late;
            self.arrived.push_back(Arrived { at, bytes, late });
            came = true;
            if self.arrived.len() > MOST_WAITING {
                return Err(Error {
                    peer: self.channel.peer().to_owned(),
                    fault: Fault::Flood(MOST_WAITING),
                });
            }
            if !synchronised && self.arrived.len() >= LOOK as usize {
                break;
            }
        }
        if !synchronised && !self.channel.has_ended() {
            self.tick = (self.tick + self.latency).max(limit);
        }
        Ok(came || self.channel.horizon() > before)
    }

    /// Time at which the peer ended, if it has.
    fn ended_at(&self) -> Option<SimTime> {
        // One of the two is zero.
        self.channel.has_ended().then(|| self.channel.last_heard().max(self.tick))
    }

    /// True if the channel is a link, not a PCI connection or that of a memory.
    fn is_link(&self) -> bool {
        matches!(self.channel.layer(), Wire::Net(_))
    }

    /// Time before which no further frame can arrive.
    fn horizon(&self) -> SimTime {
        match self.channel.has_ended() || self.channel.is_synchronised() {
            true => self.channel.horizon(),
            false => self.tick,
        }
    }
}

impl Outside for ForeignSimulator {
    fn send(&mut self, at: SimTime, port: usize, frame: &Packet) {
        let Some(port) = self.port_mut(port).filter(|port| !port.channel.has_ended()) else { return };
        // The message by which a PCI device presents itself is Belljar's own.
        if port.is_link() || !pci::is_present(frame.bytes()) {
            port.backlog.push_back((at, frame.bytes().to_vec()));
        }
    }

    fn exchange(&mut self, limit: SimTime) -> SimTime {
        let mut moved = false;
        let exchanged = self.ports_mut().try_for_each(|port| {
            moved |= port.exchange(limit)?;
            Ok(())
        });
        self.in_vain = if moved { 0 } else { self.in_vain + 1 };
        let look = self.in_vain % LOOK == LOOK - 1;
        let mut check = || match look {
            true => self.ports_mut().try_for_each(|port| port.channel.check_peer()),
            false => Ok(()),
        };
        if let Err(error) = exchanged.and_then(|()| check()) {
            self.fail(error);
        }
        self.judge_announced_end(limit);
        let horizon = self.ports().map(Port::horizon).min().unwrap_or(limit);
        for port in self.ports() {
            port.channel.watch().set_waited_for(port.horizon() < limit);
        }
        match &mut self.turn {
            Some(turn) if horizon < limit => turn.needs(),
            Some(turn) => turn.done(),
            None => {}
        }
        horizon.min(limit)
    }
}

impl Device for ForeignSimulator {
    /// Counts and traces the frame, which [`Outside::send`] has already sent.
    fn receive(&mut self, now: SimTime, number: usize, frame: Packet) {
        let Some(port) = self.port_mut(number) else { return };
        port.counters.packets_in += 1;
        port.counters.bytes_in += frame.bytes().len() as u64;
        // Up to this time the end of the simulator may be unknown.
        let known = port.ended_at().map(|at| at + port.latency);
        port.after_end += u64::from(known.is_some_and(|known| now > known));
        let stamp = now + port.latency;
        self.record((now, number, true), stamp, frame.bytes().len());
    }
    /// Changes the queue into a link.
    fn change(&mut self, now: SimTime, change: LinkChange) {
        match change {
            LinkChange::Nic(port, change) => self.queues.change(now, port, &change),
            LinkChange::Carrier(port, on) => self.queues.set_carrier(now, port, on),
            LinkChange::Routes(_) | LinkChange::Routes6(_) | LinkChange::Blocked(_) => {}
        }
    }
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        loop {
            if let Some(leaving) = self.queues.poll(now) {
                return Some(leaving);
            }
            let (_, number) = self.first_arrived().filter(|(at, _)| *at <= now)?;
            let port = self.port_mut(number)?;
            let Arrived { at, bytes, late } = port.arrived.pop_front()?;
            port.late += u64::from(late);
            port.from_simulator += 1;
            if port.is_link() && !(ethernet::HEADER_LEN..=port.longest + TAG).contains(&bytes.len()) {
                port.ignored += 1;
                continue;
            }
            let len = bytes.len();
            self.queues.send(at, number, Packet::new(bytes));
            self.record((at, number, false), at, len);
        }
    }
    fn next_event(&self) -> Option<SimTime> {
        let horizon = self.ports().map(Port::horizon).min();
        let arrived = self.first_arrived().map(|(at, _)| at);
        let all = [horizon, arrived, self.queues.next_event()];
        all.into_iter().flatten().min().filter(|at| *at < SimTime::MAX)
    }
    /// Earliest time by which a peer needs a SYNC. The horizon may be later, since the peer is ahead. The peer then
    /// still waits for the SYNC, and another simulator, joined to it by a channel of their own, for the peer.
    fn next_exchange(&self) -> Option<SimTime> {
        self.ports().map(|port| port.channel.sync_due()).min().filter(|at| *at < SimTime::MAX)
    }
    fn counters(&self, port: usize) -> Counters {
        let mut counters = *self.queues.counters(port);
        self.ports[port].iter().for_each(|port| counters.add(&port.counters));
        counters
    }
    fn queue_len(&self, port: usize) -> usize {
        self.queues.queue_len(port) + self.ports[port].as_ref().map_or(0, |port| port.backlog.len())
    }
    /// Account of the frames at ports that are links; PCI connections carry transactions. A frame counts when
    /// the simulation reaches its time, since the progress of the other process depends on the machine.
    fn packet_accounts(&self) -> Vec<DeviceAccount> {
        let mut account = PacketAccount::default();
        for (number, port) in self.ports.iter().enumerate() {
            let Some(port) = port.as_ref().filter(|port| port.is_link()) else { continue };
            account.received += port.counters.packets_in;
            account.sent += self.queues.counters(number).packets_out;
            account.originate("simulator", port.from_simulator);
            account.consume("simulator", port.counters.packets_in - port.after_end);
            account.drop_for("simulator_ended", port.after_end);
            account.drop_for("invalid_length", port.ignored);
            account.include(&self.queues.nic(number).packet_account());
        }
        vec![DeviceAccount::whole(account)]
    }
    /// Sends a last SYNC, so that the simulator's clock ends at a time that does not depend on the machine.
    fn finish(&mut self, end: SimTime) {
        for port in self.ports_mut() {
            // A peer that does not read ends where it is.
            if matches!(port.flush(), Ok(true)) {
                port.channel.finish(end);
            }
        }
    }
    fn outside(&mut self) -> Option<&mut dyn Outside> {
        Some(self)
    }
    fn finished_at(&self) -> Option<SimTime> {
        match self.decides {
            true => self.ports().try_fold(SimTime::ZERO, |last, port| Some(last.max(port.ended_at()?))),
            false => Some(SimTime::ZERO),
        }
    }
    fn add_statistics(&self, name: &str, statistics: &mut Statistics) {
        let sum = |count: fn(&Port) -> u64| self.ports().map(count).sum::<u64>();
        let warnings = [
            (sum(|port| port.after_end), "frames that arrived after its end: lost"),
            (sum(|port| port.late), "frames stamped before one that came before them: they arrive after it"),
            (
                sum(|port| port.ignored),
                "frames shorter than a header or longer than the link allows: ignored",
            ),
        ];
        for (count, what) in warnings.into_iter().filter(|(count, _)| *count > 0) {
            *statistics.warnings.entry(format!("simulator '{name}': {what}")).or_default() += count;
        }
    }
}
