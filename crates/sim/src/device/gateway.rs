//! Gateway: an interface of the machine as the end of a link.
//!
//! The network outside runs by the machine's clock: nothing can arrive from it before the present. Nodes
//! that can be reached from a gateway therefore run ahead of real time by at most their latency from it,
//! and a frame to the outside is known by that much before it must leave. An arriving frame has the time at
//! which it is read. Frames into the link pass a queue of the gateway's own, with the link's rate.

use super::{Device, DeviceAccount, Outside};
use crate::gateways::PacedClock;
use crate::simulators::Failure;
use belljar_base::{Lateness, PacketAccount, SimDuration, SimTime};
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

/// Maximum number of frames read before due frames are sent.
const BATCH: usize = 256;
/// Maximum number of frames that wait for a simulation that lags; further ones are dropped.
const MOST_WAITING: usize = 20_000;
/// Typical delay of the end of a sleep. The last part of a wait, of this length, is polled.
const WAKE_UP: Duration = Duration::from_micros(100);
/// Longest sleep of an only gateway, and of one of several, which are served in turn.
const SLEEP_ALONE: Duration = Duration::from_millis(1);
const SLEEP: Duration = Duration::from_micros(50);

/// Gateway device. See the [module](self).
pub struct Gateway {
    name: String,
    interface: String,
    port: Box<dyn Port>,
    clock: PacedClock,
    /// Egress queue into the link.
    nic: Nic,
    /// Frames to the outside, in the order of their times.
    leaving: VecDeque<(SimTime, Packet)>,
    /// Frames received from the outside.
    arrived: VecDeque<(SimTime, Packet)>,
    horizon: SimTime,
    longest: usize,
    longest_sleep: Duration,
    lateness: Lateness,
    hard_limit: Option<SimDuration>,
    /// Frames read from the interface, and frames of the link for it.
    read: u64,
    to_interface: u64,
    frames_in: u64,
    frames_out: u64,
    /// Frames that the interface refused.
    refused: u64,
    /// Frames of the interface that are shorter than a header or longer than the link allows.
    invalid_length: u64,
    /// Frames of the interface that were dropped because the simulation was far behind.
    behind: u64,
    /// Frames for the interface after the gateway was closed.
    closed_drops: u64,
    /// Frames that the machine's kernel dropped before the gateway read them.
    missed: u64,
    /// Frames that the interface had accepted and could not send.
    failed: u64,
    interrupt: Arc<AtomicBool>,
    failure: Failure,
    is_down: bool,
    /// True if the interface has disappeared, or the run is to end.
    closed: bool,
}

/// Common state of a run's gateways.
pub struct Pace {
    /// Real-time clock.
    pub clock: PacedClock,
    /// Flag that interrupts waits.
    pub interrupt: Arc<AtomicBool>,
    /// Shared slot for the reason of a failure, which ends the run.
    pub failure: Failure,
    /// True if there is only one gateway: its sleep delays no other one.
    pub alone: bool,
}

impl Gateway {
    /// Creates a gateway over an open port; `into_link` are the settings of the queue into its link.
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
            read: 0,
            to_interface: 0,
            frames_in: 0,
            frames_out: 0,
            refused: 0,
            invalid_length: 0,
            behind: 0,
            closed_drops: 0,
            missed: 0,
            failed: 0,
            interrupt: run.interrupt.clone(),
            failure: run.failure.clone(),
            is_down: false,
            closed: false,
        }
    }

    fn fail(&mut self, reason: String) {
        // The first of several failures has caused the others.
        let _ = self.failure.set(format!("gateway '{}': {reason}", self.name));
        self.closed = true;
    }

    /// Sends the frames that are due to the interface.
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
                Ok(Sent::Full) => self.refused += 1,
                Err(error) if error.is_fatal() => return self.fail(error.to_string()),
                Err(_) => self.refused += 1,
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

    /// Reads frames from the interface; returns their number.
    fn read(&mut self) -> usize {
        let (clock, arrived) = (&self.clock, &mut self.arrived);
        let (longest, read) = (self.longest, &mut self.read);
        let (invalid_length, behind) = (&mut self.invalid_length, &mut self.behind);
        let received = self.port.receive(BATCH, &mut |frame| {
            *read += 1;
            // A VLAN tag adds 4 bytes.
            if !(ethernet::HEADER_LEN..=longest + 4).contains(&frame.bytes.len()) {
                *invalid_length += 1;
            } else if arrived.len() >= MOST_WAITING {
                *behind += 1;
            } else {
                arrived.push_back((clock.now(), Packet::new(frame.bytes.to_vec())));
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

    /// Waits until a frame arrives, a frame is due, or the clock reaches `limit`, but not longer than
    /// `longest_sleep`.
    fn wait(&mut self, limit: SimTime) {
        let now = self.clock.now();
        let until = |at: SimTime| Duration::from_nanos(at.since(now.min(at)).as_nanos());
        let mut sleep = self.longest_sleep.min(until(limit));
        if let Some((due, _)) = self.leaving.front() {
            sleep = sleep.min(until(*due).saturating_sub(WAKE_UP));
        }
        match sleep.is_zero() {
            true => {}
            // An interface that is down is always readable.
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
        self.to_interface += 1;
        match self.closed {
            true => self.closed_drops += 1,
            false => self.leaving.push_back((at, frame.clone())),
        }
    }

    fn exchange(&mut self, limit: SimTime) -> SimTime {
        self.closed |= self.interrupt.load(Relaxed);
        if self.closed {
            // The gateway's time stands still, so that the window closes and the run ends.
            return self.horizon.min(limit);
        }
        self.write();
        if self.read() == 0 && self.clock.now() < limit {
            self.wait(limit);
            self.write();
            self.read();
        }
        // Frames that arrive from now on will be read later.
        self.horizon = self.clock.now();
        self.horizon.min(limit)
    }
}

impl Device for Gateway {
    /// Counts the frame, which [`Outside::send`] has already sent.
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
            // The queue counts a dropped frame.
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
    fn packet_accounts(&self) -> Vec<DeviceAccount> {
        let mut account = PacketAccount {
            received: self.to_interface,
            sent: self.nic.counters().offered_out,
            held: (self.leaving.len() + self.arrived.len()) as u64,
            ..PacketAccount::default()
        };
        account.originate("interface", self.read + self.missed);
        account.consume("interface", self.frames_out.saturating_sub(self.failed));
        account.drop_for("refused", self.refused + self.failed.min(self.frames_out));
        account.drop_for("invalid_length", self.invalid_length);
        account.drop_for("behind", self.behind);
        account.drop_for("closed", self.closed_drops);
        account.drop_for("missed", self.missed);
        vec![DeviceAccount::interface(0, &self.nic), DeviceAccount::inside(None, account)]
    }
    fn finish(&mut self, _: SimTime) {
        let counters = self.port.counters();
        self.missed = counters.dropped_kernel + counters.dropped_port;
        self.failed = counters.failed;
    }
    fn outside(&mut self) -> Option<&mut dyn Outside> {
        Some(self)
    }
    fn finished_at(&self) -> Option<SimTime> {
        // Frames may arrive from outside at any time.
        None
    }
    fn add_statistics(&self, name: &str, statistics: &mut Statistics) {
        let gateway = GatewayStatistics {
            interface: self.interface.clone(),
            frames_in: self.frames_in,
            frames_out: self.frames_out,
            dropped: self.refused + self.invalid_length + self.behind + self.closed_drops + self.missed,
            late: Quantiles::of_lateness(&self.lateness),
        };
        statistics.gateways.insert(name.to_owned(), gateway);
    }
}
