//! System calls formatted as by strace(1), from the call number, the registers and the program's memory.
//!
//! # Contract
//!
//! [`Signatures`] is created once from the names of all calls. For each call that has ended, the caller
//! creates a [`Formatter`], and the host's [`Phrases`] append name and arguments to a [`Text`];
//! [`push_result`] appends the result. Memory is read through [`Memory`] during formatting: after the call,
//! so that stored values can be shown, or before it where the arguments do not survive (`execve`).

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
