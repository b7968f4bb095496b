//! External simulator, with a channel at each of its ports.
//!
//! Its frames leave at their time stamps, without a rate or a queue, which the simulator itself models.
//! Frames with the same time leave in the order of the ports, then in that of sending.

use super::{Device, Outside};
use crate::pci;
use crate::simulators::{ChannelTrace, Ended, Process};
use belljar_base::{SimDuration, SimTime};
use belljar_cosim::turns::Turn;
use belljar_cosim::{Channel, Error, Fault, Wire};
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, Packet};
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
    process: Process,
    /// Turn on a processor, if processors are scarce.
    turn: Option<Turn>,
    trace: Option<ChannelTrace>,
    /// Number of consecutive polls without progress.
    in_vain: u32,
    /// True if the run lasts until the simulator ends, because nothing else in the experiment acts on its
    /// own.
    decides: bool,
}

struct Port {
    channel: Channel<Wire>,
    /// Frames for which the queue has no room.
    backlog: VecDeque<(SimTime, Vec<u8>)>,
    arrived: VecDeque<Arrived>,
    counters: Counters,
    /// Frames that are shorter than a header or longer than the link allows.
    ignored: u64,
    /// Frames whose time stamp is before that of an earlier frame.
    late: u64,
    longest: usize,
    /// Time of the next poll of an unsynchronised channel, until its peer ends.
    tick: SimTime,
    latency: SimDuration,
}

impl ForeignSimulator {
    /// Creates a simulator with these channels, each with the maximum frame length and the latency of its
    /// link. If it `decides`, the run lasts until all of them have ended.
    pub fn new(
        channels: impl IntoIterator<Item = Option<(Channel<Wire>, usize, SimDuration)>>,
        process: Process,
        turn: Option<Turn>,
        trace: Option<ChannelTrace>,
        decides: bool,
    ) -> ForeignSimulator {
        let present = |channel: &Channel<Wire>| {
            let bytes = pci::present(channel.layer().device()?);
            Some(Arrived { at: SimTime::ZERO, bytes, late: false })
        };
        let port = |(channel, longest, latency)| Port {
            arrived: present(&channel).into_iter().collect(),
            channel,
            backlog: VecDeque::new(),
            counters: Counters::default(),
            ignored: 0,
            late: 0,
            longest,
            tick: SimTime::ZERO,
            latency,
        };
        let ports = channels.into_iter().map(|channel| channel.map(port)).collect();
        ForeignSimulator { ports, process, turn, trace, in_vain: 0, decides }
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

    /// Fails the run, unless the simulator has just ended successfully.
    fn fail(&mut self, error: Error) {
        self.ports_mut().for_each(|port| port.channel.close());
        if let Some(mut turn) = self.turn.take() {
            turn.leave();
        }
        match (&error.fault, self.process.how_it_ended()) {
            (Fault::Closed, Ended::Well) => {}
            (Fault::Closed, Ended::Badly(how)) => self.process.fail(how),
            _ => self.process.fail(error.to_string()),
        }
    }

    /// Records a message in the trace, if there is one.
    fn record(&mut self, message: (SimTime, usize, bool), stamp: SimTime, bytes: usize) {
        let Some(trace) = &mut self.trace else { return };
        if let Err(error) = trace.write(message, stamp, bytes) {
            self.process.fail(error);
            self.trace = None;
        }
    }

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
        if let Some(port) = self.port_mut(port).filter(|port| !port.channel.has_ended())
            && !pci::is_present(frame.bytes())
        {
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
        let stamp = now + port.latency;
        self.record((now, number, true), stamp, frame.bytes().len());
    }
    /// Ignores changes of the links, which act on the sender's directions.
    fn change(&mut self, _: SimTime, _: LinkChange) {}
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        loop {
            let (_, number) = self.first_arrived().filter(|(at, _)| *at <= now)?;
            let port = self.port_mut(number)?;
            let Arrived { at, bytes, late } = port.arrived.pop_front()?;
            port.late += u64::from(late);
            let is_frame = matches!(port.channel.layer(), Wire::Net(_));
            if is_frame && !(ethernet::HEADER_LEN..=port.longest + TAG).contains(&bytes.len()) {
                port.ignored += 1;
                continue;
            }
            port.counters.packets_out += 1;
            port.counters.bytes_out += bytes.len() as u64;
            self.record((at, number, false), at, bytes.len());
            return Some(EgressFrame { port: number, at, departs: at, packet: Packet::new(bytes) });
        }
    }
    fn next_event(&self) -> Option<SimTime> {
        let horizon = self.ports().map(Port::horizon).min();
        let arrived = self.first_arrived().map(|(at, _)| at);
        horizon.into_iter().chain(arrived).min().filter(|at| *at < SimTime::MAX)
    }
    fn counters(&self, port: usize) -> Counters {
        self.ports.get(port).and_then(Option::as_ref).map_or_else(Counters::default, |port| port.counters)
    }
    fn queue_len(&self, port: usize) -> usize {
        self.ports.get(port).and_then(Option::as_ref).map_or(0, |port| port.backlog.len())
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
