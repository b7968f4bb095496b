//! Processor: simulated time that a node's work takes.
//!
//! *Problem.* Computation is free by default, so no node ever saturates, and a server's latency does not
//! depend on its load. *Insight.* A node is sequential, and so is one core: the node's clock is the core's
//! time. Work advances the clock when it is done. An event that falls due in the meantime finds the clock
//! past its time and is delayed.
//!
//! *Algorithm.* [`Clock::work`](crate::clock::Clock::work) charges work by its kind:
//!
//! * a system call before it takes effect, and again each time that a blocked call resumes, which is a
//!   context switch;
//! * a packet and its bytes when it is passed to an interface, and when it is received;
//! * an interrupt for a packet that arrives while no other is being received. As under Linux's NAPI the
//!   driver then polls: packets that have arrived by the time the previous one has been received cost no
//!   interrupt.
//!
//! Received packets precede threads, as softirqs do. After [`BURST_PACKETS`] packets or [`BURST`] without a
//! pause the runnable threads get as much time as the packets had, as they do beside `ksoftirqd`; otherwise a
//! flood of packets would starve them.
//!
//! Packets wait in the receive ring while the core is busy, and a packet that finds [`CpuCosts::backlog`] of
//! them there is dropped. The drop is decided when the packet's turn comes, from the times at which its
//! predecessors began to be received: those that began after its arrival occupied the ring. The decision thus
//! depends on no later event, and the length of the interval for which the node is run makes no difference.
//!
//! *Limits.* One core. A call is not interrupted: a packet waits until it ends. Program code between calls
//! takes no time. Segments are charged one by one: there is no segmentation offload.

use belljar_base::{SimDuration, SimTime};
use std::collections::VecDeque;

/// Maximum number of packets received in a burst while threads are runnable: `net.core.netdev_budget`.
const BURST_PACKETS: u32 = 300;
/// Maximum duration of such a burst: `net.core.netdev_budget_usecs`.
const BURST: SimDuration = SimDuration::from_millis(2);

/// Kind of work that takes processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A system call, or the resumption of a blocked one.
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

/// Processor time per unit of each kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCosts {
    /// Cost of a system call.
    pub syscall: SimDuration,
    /// Cost of a packet sent or received.
    pub packet: SimDuration,
    /// Cost of a byte of a packet.
    pub byte: SimDuration,
    /// Cost of an interrupt.
    pub interrupt: SimDuration,
    /// Capacity of the receive ring, in packets.
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
    /// Busy time, indexed as [`Work::ALL`].
    pub busy: [SimDuration; Work::ALL.len()],
    /// Packets dropped because the receive ring was full.
    pub dropped: u64,
    /// Maximum number of packets queued in the receive ring.
    pub longest_backlog: usize,
}

impl CpuUse {
    /// Total busy time.
    pub fn total(&self) -> SimDuration {
        self.busy.iter().fold(SimDuration::ZERO, |sum, time| sum + *time)
    }
}

/// State of a processor: see the [module](self).
#[derive(Clone, Debug)]
pub struct Cpu {
    costs: CpuCosts,
    used: CpuUse,
    /// Times, after the last packet's arrival, at which preceding packets began to be received.
    begun: VecDeque<SimTime>,
    /// End of the last packet's reception, until which the driver polls.
    polls_until: SimTime,
    /// Number of packets received since the threads last had their turn, and the time of the first one.
    burst: (u32, SimTime),
    /// Runnable threads precede packets until this time.
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

    /// Accounts for work. Returns the time that it takes.
    pub(crate) fn work(&mut self, kind: Work, amount: u64) -> SimDuration {
        let time = self.costs.of(kind).saturating_mul(amount);
        self.used.busy[kind as usize] += time;
        time
    }

    /// The time at which a packet that arrived at `at` is received.
    pub(crate) fn receives(&self, at: SimTime) -> SimTime {
        at.max(self.yields_until)
    }

    /// Restores the precedence of packets over threads.
    pub(crate) fn stop_yielding(&mut self) {
        self.yields_until = SimTime::ZERO;
    }

    /// Begins the reception at `now` of a packet that arrived at `at`. True if the packet interrupts the
    /// core, false if the driver polls, `None` if the packet is dropped because the ring is full.
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

    /// Ends the reception of a packet at `now`.
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

    /// Receives packets that arrive at these times, at a cost of 10 us each. Returns the results of
    /// `begin_packet`.
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
        // The last packet arrives after the end of the third one's reception, at 35.
        assert_eq!(receive(&mut cpu, &[5, 6, 25, 36]), [interrupts, polled, polled, interrupts]);
    }

    #[test]
    fn a_packet_that_finds_the_ring_full_is_lost_and_the_next_one_finds_room() {
        let mut cpu = cpu(2);
        // The first packet begins at once; two wait, until 15 and 25; at 16 the ring has space again.
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
