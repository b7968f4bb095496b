//! System calls as text in the manner of strace(1), from a call's number, its registers and its program's memory.
//!
//! # Contract
//!
//! [`Signatures`] is made once from the names of the calls. For each call that has ended, the caller makes a [`Formatter`] of
//! what it was, and a host's [`Phrases`] append name and arguments to a [`Text`], up to the result; [`push_result`] appends that.
//! Memory is read through [`Memory`] while the call's line is made: after the call, so that what it has stored can be shown, or
//! before it where the arguments are gone afterwards (`execve`).

#![forbid(unsafe_code)]

pub mod arity;
mod format;
mod log;
mod names;
mod phrases;
mod signatures;
mod structs;
mod text;

pub use format::{Formatter, Memory, push_result};
pub use log::Strace;
pub use names::signal as signal_name;
pub use phrases::{Phrases, place};
pub use signatures::{Signature, Signatures, is_plain};
pub use text::{Short, Text, push_signed, push_time};
