//! Causes of interrupts, their mask, the throttle, and the timers that delay them.

use super::{Device, Event, bits, cause, reg};
use crate::transaction::{Interrupt, ToHost, enable};
use belljar_base::{SimDuration, SimTime};

/// Unit of the interrupt throttle, in nanoseconds.
const THROTTLE_NANOS: u64 = 256;
/// Unit of the delays, in nanoseconds.
const DELAY_NANOS: u64 = 1_024;

/// The interrupts' state.
#[derive(Debug)]
pub struct Interrupts {
    /// The kinds that the host has enabled. A host that says nothing has the line, as PCI has it after a reset.
    pub enabled: u64,
    causes: u32,
    mask: u32,
    asserted: bool,
    last: Option<SimTime>,
    throttled: bool,
    /// Of reception and of transmission.
    delays: [Delay; 2],
}

/// A cause that waits for others.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    /// When it is to interrupt.
    due: Option<SimTime>,
    /// When it does at the latest.
    latest: Option<SimTime>,
    /// An event is on its way.
    planned: bool,
}

/// A direction whose interrupts have a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Receive,
    Transmit,
}

impl Direction {
    /// The registers of the delay and of its bound.
    fn registers(self) -> (u64, u64) {
        match self {
            Direction::Receive => (reg::RDTR, reg::RADV),
            Direction::Transmit => (reg::TIDV, reg::TADV),
        }
    }
    fn cause(self) -> u32 {
        match self {
            Direction::Receive => cause::RXT0,
            Direction::Transmit => cause::TXDW,
        }
    }
}

impl Interrupts {
    pub fn new() -> Interrupts {
        Interrupts {
            enabled: enable::INTX,
            causes: 0,
            mask: 0,
            asserted: false,
            last: None,
            throttled: false,
            delays: [Delay::default(); 2],
        }
    }
    /// The line is up, or a message has been sent and not been answered by a read of the causes.
    pub fn is_asserted(&self) -> bool {
        self.asserted
    }
    pub fn mask(&self) -> u32 {
        self.mask
    }
}

impl Device {
    /// ICR is read, which clears it.
    pub(super) fn read_causes(&mut self, now: SimTime) -> u32 {
        let value = self.interrupts.causes | u32::from(self.interrupts.asserted) << 31;
        self.interrupts.causes = 0;
        self.check_interrupt(now);
        value
    }

    /// ICR is written: clears causes.
    pub(super) fn clear_causes(&mut self, now: SimTime, causes: u32) {
        self.interrupts.causes &= !causes;
        self.check_interrupt(now);
    }

    /// The mask gets and loses causes.
    pub(super) fn set_mask(&mut self, now: SimTime, on: u32, off: u32) {
        self.interrupts.mask = (self.interrupts.mask | on & cause::ALL) & !off;
        self.check_interrupt(now);
    }

    /// Causes come up.
    pub(super) fn interrupt(&mut self, now: SimTime, causes: u32) {
        if causes == 0 || self.interrupts.causes & causes == causes {
            return;
        }
        self.interrupts.causes |= causes;
        self.raise(now);
    }

    /// The cause of a direction comes up once its delay has passed, which each further one starts anew.
    pub(super) fn interrupt_later(&mut self, now: SimTime, direction: Direction) {
        let (delay, bound) = direction.registers();
        let units = |register| SimDuration::from_nanos(DELAY_NANOS * u64::from(self.get(register) & 0xffff));
        let (delay, bound) = (units(delay), units(bound));
        if delay == SimDuration::ZERO {
            return self.interrupt(now, direction.cause());
        }
        let state = &mut self.interrupts.delays[direction as usize];
        let latest = (bound > SimDuration::ZERO).then(|| *state.latest.get_or_insert(now + bound));
        let due = latest.map_or(now + delay, |latest| latest.min(now + delay));
        state.due = Some(due);
        if !std::mem::replace(&mut state.planned, true) {
            self.schedule(due, Event::Delayed(direction));
        }
    }

    /// The time of a delay has come, unless it was put off.
    pub(super) fn delay_passed(&mut self, now: SimTime, direction: Direction) {
        let state = &mut self.interrupts.delays[direction as usize];
        state.planned = false;
        match state.due {
            Some(due) if due > now => {
                state.planned = true;
                self.schedule(due, Event::Delayed(direction));
            }
            Some(_) => self.flush_delay(now, direction),
            None => {}
        }
    }

    /// What is delayed interrupts now.
    pub(super) fn flush_delay(&mut self, now: SimTime, direction: Direction) {
        let state = &mut self.interrupts.delays[direction as usize];
        state.latest = None;
        if state.due.take().is_some() {
            self.interrupt(now, direction.cause());
        }
    }

    /// The throttle's time is over.
    pub(super) fn throttle_passed(&mut self, now: SimTime) {
        self.interrupts.throttled = false;
        self.assert_interrupt(now);
    }

    /// Interrupts the host now or once the throttle allows it, if there is something that is not masked.
    fn raise(&mut self, now: SimTime) {
        let state = &self.interrupts;
        if state.causes & state.mask == 0 || state.throttled {
            return;
        }
        let interval = SimDuration::from_nanos(THROTTLE_NANOS * u64::from(self.get(reg::ITR) & 0xffff));
        match self.interrupts.last.map(|last| last + interval).filter(|next| *next > now) {
            Some(next) => {
                self.interrupts.throttled = true;
                self.schedule(next, Event::Throttled);
            }
            None => self.assert_interrupt(now),
        }
    }

    fn assert_interrupt(&mut self, now: SimTime) {
        let state = &mut self.interrupts;
        if state.causes & state.mask == 0 || state.asserted {
            return;
        }
        let interrupt = match state.enabled {
            enabled if enabled & enable::MSI != 0 => Interrupt::Msi(0),
            enabled if enabled & enable::INTX != 0 => Interrupt::Line(true),
            _ => return,
        };
        state.asserted = true;
        state.last = Some(now);
        self.to_host.push_back(ToHost::Interrupt(interrupt));
    }

    fn check_interrupt(&mut self, now: SimTime) {
        if self.interrupts.causes & self.interrupts.mask != 0 {
            return self.raise(now);
        }
        if std::mem::take(&mut self.interrupts.asserted) {
            self.lower_line();
        }
    }

    /// The line goes down, where it is in use.
    pub(super) fn lower_line(&mut self) {
        if self.interrupts.enabled & enable::MSI == 0 {
            self.to_host.push_back(ToHost::Interrupt(Interrupt::Line(false)));
        }
    }

    /// RDTR is written: its upper bit ends the delay.
    pub(super) fn set_receive_delay(&mut self, now: SimTime, value: u32) {
        if value & bits::FLUSH_DELAYED != 0 {
            self.flush_delay(now, Direction::Receive);
        }
    }
}
