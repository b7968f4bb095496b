//! Causes of interrupts, their mask, the throttle, and the timers that delay them.

use super::{Device, Direction, Event, bits, cause, reg};
use crate::transaction::{Interrupt, ToHost, enable};
use belljar_base::{SimDuration, SimTime};

/// Unit of the interrupt throttle, in nanoseconds.
const THROTTLE_NANOS: u64 = 256;
/// Unit of the delays, in nanoseconds.
const DELAY_NANOS: u64 = 1_024;

/// The interrupts' state.
#[derive(Debug)]
pub struct Interrupts {
    /// The kinds that the host has enabled, for [`Device::enable_interrupts`]. A host that says nothing has the line, as PCI has it
    /// after a reset.
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
    /// When the earliest event for it is to happen.
    planned: Option<SimTime>,
}

/// A kind of interrupt that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Line,
    Msi,
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

/// The kind in use, of those that are enabled.
fn kind(enabled: u64) -> Option<Kind> {
    match enabled {
        _ if enabled & enable::MSI != 0 => Some(Kind::Msi),
        _ if enabled & enable::INTX != 0 => Some(Kind::Line),
        _ => None,
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
    /// The host enables kinds of interrupts. With a new one in use, causes that are up interrupt by it, and the line goes down.
    pub(super) fn enable_interrupts(&mut self, now: SimTime, enabled: u64) {
        let is_new = kind(enabled) != kind(self.interrupts.enabled);
        if is_new && std::mem::take(&mut self.interrupts.asserted) {
            self.lower_line();
        }
        self.interrupts.enabled = enabled;
        if is_new {
            self.check_interrupt(now);
        }
    }

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
        let state = &mut self.interrupts.delays[direction as usize];
        if delay == SimDuration::ZERO {
            (state.due, state.latest) = (None, None);
            return self.interrupt(now, direction.cause());
        }
        state.latest = (bound > SimDuration::ZERO).then(|| state.latest.unwrap_or(now + bound));
        let due = state.latest.map_or(now + delay, |latest| latest.min(now + delay));
        state.due = Some(due);
        self.plan_delay(direction, due);
    }

    /// Plans an event for a delay, unless there is one that is not later.
    fn plan_delay(&mut self, direction: Direction, due: SimTime) {
        let planned = &mut self.interrupts.delays[direction as usize].planned;
        if planned.is_none_or(|at| at > due) {
            *planned = Some(due);
            self.schedule(due, Event::Delayed(direction));
        }
    }

    /// The time of a delay has come, unless it was put off.
    pub(super) fn delay_passed(&mut self, now: SimTime, direction: Direction) {
        let state = &mut self.interrupts.delays[direction as usize];
        // An earlier one may have been planned after it.
        if state.planned.is_none_or(|at| at > now) {
            return;
        }
        state.planned = None;
        match state.due {
            Some(due) if due > now => self.plan_delay(direction, due),
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
        let interrupt = match kind(state.enabled) {
            Some(Kind::Msi) => Interrupt::Msi(0),
            Some(Kind::Line) => Interrupt::Line(true),
            None => return,
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
        if kind(self.interrupts.enabled) == Some(Kind::Line) {
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
