//! An interface of this machine.
//!
//! The clock outside is this machine's: before the present nothing comes any more. So whatever a gateway can reach runs at
//! most its latency ahead of real time, and a frame for outside is known that much before it is to leave. Frames that come
//! have the time at which they are read. Those for the link wait in a queue of their own with the link's rate.

use super::{Device, Outside};
use crate::gateways::PacedClock;
use crate::simulators::Failure;
use belljar_base::{Lateness, SimDuration, SimTime};
use belljar_config::topology;
use belljar_net::nic::{Nic, NicEvent};
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, NicConfig, Packet};
use belljar_packetio::{Port, Sent, wait_readable};
use belljar_plan::LinkChange;
use belljar_results::{GatewayStatistics, Quantiles, Statistics};
use belljar_wire::ethernet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Frames that are read before those that are due leave.
const BATCH: usize = 256;
/// More frames than these don't wait for a simulation that is behind: they are dropped.
const MOST_WAITING: usize = 20_000;
/// A sleep ends so much later than it should, as a rule. What is due sooner is waited for without sleep.
const WAKE_UP: Duration = Duration::from_micros(100);
/// The longest sleep: of the only gateway, and of one of several, which have their turns.
const SLEEP_ALONE: Duration = Duration::from_millis(1);
const SLEEP: Duration = Duration::from_micros(50);

/// See the [module](self).
pub struct Gateway {
    name: String,
    interface: String,
    port: Box<dyn Port>,
    clock: PacedClock,
    /// The way from outside into the link.
    nic: Nic,
    /// Frames that are to leave, in the order of their times.
    leaving: VecDeque<(SimTime, Packet)>,
    /// Frames that have come.
    arrived: VecDeque<(SimTime, Packet)>,
    horizon: SimTime,
    longest: usize,
    longest_sleep: Duration,
    lateness: Lateness,
    hard_limit: Option<SimDuration>,
    frames_in: u64,
    frames_out: u64,
    dropped: u64,
    interrupt: Arc<AtomicBool>,
    failure: Failure,
    is_down: bool,
    /// The interface is there no more, or the run is to end.
    closed: bool,
}

/// The run that gateways are part of.
pub struct Pace {
    /// Real time.
    pub clock: PacedClock,
    /// Ends their waiting.
    pub interrupt: Arc<AtomicBool>,
    /// Where they say why the run cannot go on.
    pub failure: Failure,
    /// There is one gateway: nobody waits while it sleeps.
    pub alone: bool,
}

impl Gateway {
    /// A gateway over an open port, with the way into its link.
    pub fn new(
        device: &topology::Device,
        settings: &topology::Gateway,
        port: Box<dyn Port>,
        into_link: &NicConfig,
        mtu: usize,
        run: &Pace,
    ) -> Gateway {
        Gateway {
            name: device.name.clone(),
            interface: settings.interface.clone(),
            port,
            clock: run.clock.clone(),
            nic: Nic::new(into_link),
            leaving: VecDeque::new(),
            arrived: VecDeque::new(),
            horizon: SimTime::ZERO,
            longest: mtu + ethernet::HEADER_LEN,
            longest_sleep: if run.alone { SLEEP_ALONE } else { SLEEP },
            lateness: Lateness::default(),
            hard_limit: settings.hard_limit,
            frames_in: 0,
            frames_out: 0,
            dropped: 0,
            interrupt: run.interrupt.clone(),
            failure: run.failure.clone(),
            is_down: false,
            closed: false,
        }
    }

    fn fail(&mut self, reason: String) {
        // Of several reasons the first one has led to the others.
        let _ = self.failure.set(format!("gateway '{}': {reason}", self.name));
        self.closed = true;
    }

    /// Gives the interface what is due.
    fn write(&mut self) {
        let mut wrote = false;
        while let Some((at, packet)) = self.leaving.front() {
            let now = self.clock.now();
            if *at > now {
                break;
            }
            let late = now.since(*at);
            match self.port.send(packet.bytes()) {
                Ok(Sent::Queued) => {
                    self.frames_out += 1;
                    self.lateness.add(late);
                }
                Ok(Sent::Full) => self.dropped += 1,
                Err(error) if error.is_fatal() => return self.fail(error.to_string()),
                Err(_) => self.dropped += 1,
            }
            self.leaving.pop_front();
            wrote = true;
            if let Some(limit) = self.hard_limit.filter(|limit| late > *limit) {
                let (late, limit) = (late.as_nanos() as f64 / 1e6, limit.as_nanos() as f64 / 1e6);
                return self.fail(format!(
                    "a frame left {late:.3} ms late, and 'hard_limit' is {limit:.3} ms: this machine is too slow for the experiment in real time"
                ));
            }
        }
        if wrote
            && let Err(error) = self.port.flush()
            && error.is_fatal()
        {
            self.fail(error.to_string());
        }
    }

    /// Reads what has come; how many frames that were.
    fn read(&mut self) -> usize {
        let (clock, arrived) = (&self.clock, &mut self.arrived);
        let (longest, dropped) = (self.longest, &mut self.dropped);
        let received = self.port.receive(BATCH, &mut |frame| {
            // One with a VLAN tag is that much longer.
            let fits = (ethernet::HEADER_LEN..=longest + 4).contains(&frame.bytes.len());
            match fits && arrived.len() < MOST_WAITING {
                true => arrived.push_back((clock.now(), Packet::new(frame.bytes.to_vec()))),
                false => *dropped += 1,
            }
        });
        self.is_down = received.is_err();
        match received {
            Ok(count) => count,
            Err(error) => {
                if error.is_fatal() {
                    self.fail(error.to_string());
                }
                0
            }
        }
    }

    /// Waits until something comes, something is due or it is `limit`, but not for long.
    fn wait(&mut self, limit: SimTime) {
        let now = self.clock.now();
        let until = |at: SimTime| Duration::from_nanos(at.since(now.min(at)).as_nanos());
        let mut sleep = self.longest_sleep.min(until(limit));
        if let Some((due, _)) = self.leaving.front() {
            sleep = sleep.min(until(*due).saturating_sub(WAKE_UP));
        }
        match sleep.is_zero() {
            true => {}
            // There is always something to be said of it.
            false if self.is_down => thread::park_timeout(sleep),
            false => {
                if let Err(error) = wait_readable(&*self.port, sleep) {
                    self.fail(error.to_string());
                }
            }
        }
    }
}

impl Outside for Gateway {
    fn send(&mut self, at: SimTime, _: usize, frame: &Packet) {
        if !self.closed {
            self.leaving.push_back((at, frame.clone()));
        }
    }

    fn exchange(&mut self, limit: SimTime) -> SimTime {
        self.closed |= self.interrupt.load(Relaxed);
        if self.closed {
            // Its time stands still, so that the window is closed and the run ends here.
            return self.horizon.min(limit);
        }
        self.write();
        if self.read() == 0 && self.clock.now() < limit {
            self.wait(limit);
            self.write();
            self.read();
        }
        // What comes from now on is read later.
        self.horizon = self.clock.now();
        self.horizon.min(limit)
    }
}

impl Device for Gateway {
    /// It has been sent before.
    fn receive(&mut self, _: SimTime, _: usize, frame: Packet) {
        self.nic.count_received(frame.len());
    }
    fn change(&mut self, now: SimTime, change: LinkChange) {
        match change {
            LinkChange::Carrier(_, on) => self.nic.set_carrier(now, on),
            LinkChange::Nic(_, change) => self.nic.change(now, &change),
            _ => {}
        }
    }
    fn on_timeout(&mut self, now: SimTime) {
        while self.arrived.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, frame)) = self.arrived.pop_front() else { break };
            self.frames_in += 1;
            // One that is lost is counted by the interface.
            let _ = self.nic.send(now, frame);
        }
    }
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        while self.nic.next_event().is_some_and(|at| at <= now) {
            if let Some((at, NicEvent::Transmit { packet, departs })) = self.nic.poll(now) {
                return Some(EgressFrame { port: 0, at, departs, packet });
            }
        }
        None
    }
    fn next_event(&self) -> Option<SimTime> {
        let arrived = self.arrived.front().map(|(at, _)| *at);
        [Some(self.horizon), arrived, self.nic.next_event()].into_iter().flatten().min()
    }
    fn counters(&self, _: usize) -> Counters {
        *self.nic.counters()
    }
    fn queue_len(&self, _: usize) -> usize {
        self.nic.egress_queue_len()
    }
    fn outside(&mut self) -> Option<&mut dyn Outside> {
        Some(self)
    }
    fn finished_at(&self) -> Option<SimTime> {
        // Somebody outside may speak at any time.
        None
    }
    fn add_statistics(&self, name: &str, statistics: &mut Statistics) {
        let gateway = GatewayStatistics {
            interface: self.interface.clone(),
            frames_in: self.frames_in,
            frames_out: self.frames_out,
            dropped: self.dropped,
            late: Quantiles::of_lateness(&self.lateness),
        };
        statistics.gateways.insert(name.to_owned(), gateway);
    }
}
