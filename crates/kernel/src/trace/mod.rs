//! Tracing of guests by guests, `ptrace(2)`.
//!
//! A traced thread stops at certain points (`stops`): the thread is parked, and its tracer can wait for it,
//! inspect it and resume it in one of several modes (`resume`). The requests and their arguments are handled
//! in `syscall::ptrace`.
//!
//! Unlike on Linux, a tracer is a process, not one of its threads.

mod attach;
pub(crate) mod breakpoints;
mod registers;
mod resume;
mod stops;
mod wait;

pub(crate) use stops::{end_step, trace_event_block};
