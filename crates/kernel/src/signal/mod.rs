//! Signals: pending sets, masks and delivery.
//!
//! `send` queues a signal and selects the thread that takes it; `delivery` delivers it before that thread
//! returns to guest code; `frame` builds the signal frame; `stop` implements job control; `timers` holds the
//! timers that send signals, and `processor` those that count processor time.

mod altstack;
pub(crate) mod delivery;
mod frame;
mod mask;
mod processor;
mod send;
mod stop;
#[cfg(test)]
mod tests;
mod timers;

pub(crate) use belljar_objects::signals::UNBLOCKABLE;
pub use belljar_objects::signals::{ProcessSignals, ThreadSignals};
pub(crate) use processor::{ProcessorAlarm, ProcessorClock, user_part};
pub(crate) use timers::TimerNotice;
