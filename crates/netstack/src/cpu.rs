//! Processor: simulated time that a node's work takes.
//!
//! *Problem.* Computation is free by default, so no node ever saturates, and a server's latency does not depend on its
//! load. *Insight.* A node is sequential, and so is one core: the node's clock is the core's time. Work moves the clock
//! on at the moment at which it is done; whatever falls due meanwhile finds the clock past its time, and waits.
//!
//! *Algorithm.* [`Clock::work`](crate::clock::Clock::work) charges work by its kind:
//!
//! * a system call before it has its effect, and again each time that a waiting call goes on, which is a switch of
//!   context;
//! * a packet and its bytes when it is handed to an interface, and when it is received;
//! * an interrupt for a packet that comes in while no other is being received. As under Linux's NAPI the driver then
//!   polls: packets that have come in by the time the one before has been received cost no interrupt.
//!
//! Received packets come before threads, as softirqs do. After [`BURST_PACKETS`] packets or [`BURST`] without a pause
//! the threads that can run get as much time as the packets had, as they do beside `ksoftirqd`; else a flood of packets
//! would starve them.
//!
//! Packets wait in the receive ring while the core is busy, and a packet that finds [`CpuCosts::backlog`] of them there
//! is lost. That is decided when its turn comes, from the times at which its predecessors began to be received:
//! those that began later than it came were in its way. So nothing is looked at that comes later than the packet
//! itself, and how far the node may be run at once makes no difference.
//!
//! *Limits.* One core. A call is not interrupted: a packet waits for its end. Code of programs between their calls takes
//! no time. Segments are charged one by one: there is no segmentation offload.

use belljar_base::{SimDuration, SimTime};
use std::collections::VecDeque;

/// Packets received in one go while threads could run: `net.core.netdev_budget`.
const BURST_PACKETS: u32 = 300;
/// Time of receiving packets in one go while threads could run: `net.core.netdev_budget_usecs`.
const BURST: SimDuration = SimDuration::from_millis(2);

/// Kind of work that takes a node's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A system call, or a call that goes on after a wait.
    Syscall,
    /// A packet sent or received.
    Packet,
    /// A byte of such a packet, headers included.
    Byte,
    /// An interrupt of a device.
    Interrupt,
}

impl Work {
    /// All kinds, in the order of their values.
    pub const ALL: [Work; 4] = [Work::Syscall, Work::Packet, Work::Byte, Work::Interrupt];

    /// The kind's name in experiments and results.
    pub fn name(self) -> &'static str {
        match self {
            Work::Syscall => "syscall",
            Work::Packet => "packet",
            Work::Byte => "byte",
            Work::Interrupt => "interrupt",
        }
    }
}

/// Time that a unit of each kind of work takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCosts {
    /// A system call.
    pub syscall: SimDuration,
    /// A packet sent or received.
    pub packet: SimDuration,
    /// A byte of a packet.
    pub byte: SimDuration,
    /// An interrupt.
    pub interrupt: SimDuration,
    /// Packets that can wait to be received.
    pub backlog: usize,
}

impl CpuCosts {
    fn of(&self, kind: Work) -> SimDuration {
        match kind {
            Work::Syscall => self.syscall,
            Work::Packet => self.packet,
            Work::Byte => self.byte,
            Work::Interrupt => self.interrupt,
        }
    }
}

/// Work done so far by a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// Time spent, by [`Work::ALL`].
    pub busy: [SimDuration; Work::ALL.len()],
    /// Packets lost because too many waited.
    pub dropped: u64,
    /// Most packets that have waited at a time.
    pub longest_backlog: usize,
}

impl CpuUse {
    /// Time spent on work of all kinds.
    pub fn total(&self) -> SimDuration {
        self.busy.iter().fold(SimDuration::ZERO, |sum, time| sum + *time)
    }
}

/// State of a processor: see the [module](self).
#[derive(Clone, Debug)]
pub struct Cpu {
    costs: CpuCosts,
    used: CpuUse,
    /// Times after the last packet's arrival at which packets before it began to be received.
    begun: VecDeque<SimTime>,
    /// The end of the last packet's reception, until which the driver polls.
    polls_until: SimTime,
    /// Packets received since the threads last had their turn, and when the first of them was.
    burst: (u32, SimTime),
    /// Until then the threads that can run come before packets.
    yields_until: SimTime,
}

impl Cpu {
    pub(crate) fn new(costs: CpuCosts) -> Cpu {
        Cpu {
            costs,
            used: CpuUse::default(),
            begun: VecDeque::new(),
            polls_until: SimTime::ZERO,
            burst: (0, SimTime::ZERO),
            yields_until: SimTime::ZERO,
        }
    }

    /// Work done so far.
    pub fn used(&self) -> &CpuUse {
        &self.used
    }

    /// Counts work; the time that it takes.
    pub(crate) fn work(&mut self, kind: Work, amount: u64) -> SimDuration {
        let time = self.costs.of(kind).saturating_mul(amount);
        self.used.busy[kind as usize] += time;
        time
    }

    /// The time at which a packet is received that came in at `at`.
    pub(crate) fn receives(&self, at: SimTime) -> SimTime {
        at.max(self.yields_until)
    }

    /// Lets packets come before threads again.
    pub(crate) fn stop_yielding(&mut self) {
        self.yields_until = SimTime::ZERO;
    }

    /// A packet that came in at `at` is to be received at `now`: true if it interrupts the core, false if the driver polls,
    /// `None` if it found the ring full.
    pub(crate) fn begin_packet(&mut self, at: SimTime, now: SimTime) -> Option<bool> {
        while self.begun.front().is_some_and(|begun| *begun <= at) {
            self.begun.pop_front();
        }
        if self.begun.len() >= self.costs.backlog {
            self.used.dropped += 1;
            return None;
        }
        if now > at {
            self.begun.push_back(now);
            self.used.longest_backlog = self.used.longest_backlog.max(self.begun.len());
        }
        let interrupts = at > self.polls_until || self.polls_until == SimTime::ZERO;
        if interrupts || self.burst.0 == 0 {
            self.burst = (0, now);
        }
        Some(interrupts)
    }

    /// The packet has been received at `now`.
    pub(crate) fn end_packet(&mut self, now: SimTime) {
        self.polls_until = now;
        self.burst.0 += 1;
        let (packets, since) = self.burst;
        if packets >= BURST_PACKETS || now.since(since) >= BURST {
            self.yields_until = now + now.since(since);
            self.burst.0 = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(us: u64) -> SimTime {
        SimTime::from_nanos(us * 1_000)
    }

    fn cpu(backlog: usize) -> Cpu {
        let us = SimDuration::from_micros;
        Cpu::new(CpuCosts { syscall: us(1), packet: us(2), byte: us(0), interrupt: us(5), backlog })
    }

    /// Receives packets that come in at these times, 10 us each; what became of each.
    fn receive(cpu: &mut Cpu, times: &[u64]) -> Vec<Option<bool>> {
        let mut now = SimTime::ZERO;
        let each = times.iter().map(|at| {
            now = now.max(micros(*at));
            let began = cpu.begin_packet(micros(*at), now);
            if began.is_some() {
                now += SimDuration::from_micros(10);
                cpu.end_packet(now);
            }
            began
        });
        each.collect()
    }

    #[test]
    fn packets_that_come_while_others_are_received_cost_no_interrupt() {
        let mut cpu = cpu(1_000);
        let (interrupts, polled) = (Some(true), Some(false));
        // The last one comes after the third has been received, at 35.
        assert_eq!(receive(&mut cpu, &[5, 6, 25, 36]), [interrupts, polled, polled, interrupts]);
    }

    #[test]
    fn a_packet_that_finds_the_ring_full_is_lost_and_the_next_one_finds_room() {
        let mut cpu = cpu(2);
        // The first begins at once; two wait, until 15 and 25; at 16 there is room again.
        let received: Vec<bool> =
            receive(&mut cpu, &[5, 6, 7, 8, 16]).into_iter().map(|began| began.is_some()).collect();
        assert_eq!(received, [true, true, true, false, true]);
        assert_eq!((cpu.used().dropped, cpu.used().longest_backlog), (1, 2));
    }

    #[test]
    fn after_a_long_burst_threads_come_first_for_as_long_as_it_took() {
        let mut cpu = cpu(1_000);
        receive(&mut cpu, &[1; 199]);
        assert_eq!(cpu.receives(micros(1)), micros(1));
        let mut cpu = self::cpu(1_000);
        receive(&mut cpu, &[1; 200]);
        assert_eq!(cpu.receives(micros(1)), micros(1 + 2_000 + 2_000));
        cpu.stop_yielding();
        assert_eq!(cpu.receives(micros(1)), micros(1));
    }
}
