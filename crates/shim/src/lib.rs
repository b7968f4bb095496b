//! Code that runs in the same address space as guests, and nothing else: no standard library, no
//! dependencies, no heap.
//!
//! * [`layout`]: where guests, the simulator and this code lie
//! * [`context`]: saved registers; [`xstate`]: where vector state lies in them
//! * [`worker`]: the block that GS points to; [`entry`]: into the guest and out of it, in assembly
//! * [`frame`]: what a signal's frame says; [`system`]: native system calls; [`copy`]: memory that may not be there
//! * [`protocol`]: what the simulator and a far guest's process tell each other
//! * [`far`]: the program in a far guest's process; [`pieces`], [`staging`]: guest memory that the channel holds
//! * [`dilate`]: the code in processes of an emulation whose time is dilated
//!
//! The near platform uses the first four in the simulator itself; the far platform starts
//! `program/main.rs`, a static binary made from this crate alone. Dilated processes execute `program/dilate.rs`.
#![no_std]

pub mod context;
pub mod copy;
pub mod dilate;
pub mod entry;
pub mod far;
pub mod frame;
pub mod layout;
pub mod pieces;
pub mod protocol;
pub mod staging;
pub mod system;
pub mod worker;
pub mod xstate;
