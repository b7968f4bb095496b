//! Signals: what is pending, what is masked, what happens on delivery.
//!
//! `send` queues a signal and picks the thread that is to take it; `delivery` takes it before that
//! thread returns to guest code; `frame` builds what a handler finds on its stack; `stop` is job
//! control; `timers` are the timers that send signals, `processor` those among them that count processor time.

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
