//! Interrupts: causes, mask, throttle, and delay timers.

use super::{Device, Direction, Event, bits, cause, reg};
use crate::transaction::{Interrupt, ToHost, enable};
use belljar_base::{SimDuration, SimTime};

/// Unit of the interrupt throttle register in nanoseconds.
const THROTTLE_NANOS: u64 = 256;
/// Unit of the delay registers in nanoseconds.
const DELAY_NANOS: u64 = 1_024;

/// Interrupt state.
#[derive(Debug)]
pub struct Interrupts {
    /// Interrupt kinds enabled by the host, see [`Device::enable_interrupts`]. The initial value is the line,
    /// as after a PCI reset.
    pub enabled: u64,
    causes: u32,
    mask: u32,
    asserted: bool,
    last: Option<SimTime>,
    throttled: bool,
    /// Delays of reception and of transmission.
    delays: [Delay; 2],
}

/// Delayed interrupt cause.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    /// Expiry of the delay.
    due: Option<SimTime>,
    /// Expiry of the absolute delay.
    latest: Option<SimTime>,
    /// Time of the earliest scheduled event for the delay.
    planned: Option<SimTime>,
}

/// Kind of interrupt in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Line,
    Msi,
}

impl Direction {
    /// Registers of the delay and the absolute delay.
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
    /// True while the line is asserted, or after a message until the causes are read.
    pub fn is_asserted(&self) -> bool {
        self.asserted
    }
    pub fn mask(&self) -> u32 {
        self.mask
    }
}

impl Device {
    /// Enables kinds of interrupts. On a change, the line is deasserted and pending causes interrupt by the
    /// new kind.
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

    /// Read of ICR, which clears it.
    pub(super) fn read_causes(&mut self, now: SimTime) -> u32 {
        let value = self.interrupts.causes | u32::from(self.interrupts.asserted) << 31;
        self.interrupts.causes = 0;
        self.check_interrupt(now);
        value
    }

    /// Write of ICR: clears causes.
    pub(super) fn clear_causes(&mut self, now: SimTime, causes: u32) {
        self.interrupts.causes &= !causes;
        self.check_interrupt(now);
    }

    /// Sets and clears bits of the mask.
    pub(super) fn set_mask(&mut self, now: SimTime, on: u32, off: u32) {
        self.interrupts.mask = (self.interrupts.mask | on & cause::ALL) & !off;
        self.check_interrupt(now);
    }

    /// Raises causes.
    pub(super) fn interrupt(&mut self, now: SimTime, causes: u32) {
        if causes == 0 || self.interrupts.causes & causes == causes {
            return;
        }
        self.interrupts.causes |= causes;
        self.raise(now);
    }

    /// Raises the cause of a direction after its delay, which is restarted by each call.
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

    /// Schedules an event for a delay, unless one is scheduled no later.
    fn plan_delay(&mut self, direction: Direction, due: SimTime) {
        let planned = &mut self.interrupts.delays[direction as usize].planned;
        if planned.is_none_or(|at| at > due) {
            *planned = Some(due);
            self.schedule(due, Event::Delayed(direction));
        }
    }

    /// Event of a delay, which expires unless it was restarted.
    pub(super) fn delay_passed(&mut self, now: SimTime, direction: Direction) {
        let state = &mut self.interrupts.delays[direction as usize];
        // An earlier event may have been scheduled later.
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

    /// Expires a delay immediately.
    pub(super) fn flush_delay(&mut self, now: SimTime, direction: Direction) {
        let state = &mut self.interrupts.delays[direction as usize];
        state.latest = None;
        if state.due.take().is_some() {
            self.interrupt(now, direction.cause());
        }
    }

    /// End of the throttle interval.
    pub(super) fn throttle_passed(&mut self, now: SimTime) {
        self.interrupts.throttled = false;
        self.assert_interrupt(now);
    }

    /// Interrupts the host, now or at the end of the throttle interval, if an unmasked cause is pending.
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

    /// Deasserts the line, if in use.
    pub(super) fn lower_line(&mut self) {
        if kind(self.interrupts.enabled) == Some(Kind::Line) {
            self.to_host.push_back(ToHost::Interrupt(Interrupt::Line(false)));
        }
    }

    /// Write of RDTR: the top bit flushes the delay.
    pub(super) fn set_receive_delay(&mut self, now: SimTime, value: u32) {
        if value & bits::FLUSH_DELAYED != 0 {
            self.flush_delay(now, Direction::Receive);
        }
    }
}
