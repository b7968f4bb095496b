//! Guests that trace others, `ptrace(2)`.
//!
//! A thread that is traced stops at certain points on its way (`stops`): it is parked, its tracer can wait for it
//! and look at it, and lets it go on in one of several ways (`resume`). Which requests there are and what they are
//! given is in `syscall::ptrace`.
//!
//! A difference from Linux: a tracer is a process, not one of its threads.

mod attach;
mod registers;
mod resume;
mod stops;
mod wait;

pub use belljar_objects::tracees::{EndedTracee, Resume, Stop, Tracee};
pub(crate) use stops::{end_step, trace_event_block};
