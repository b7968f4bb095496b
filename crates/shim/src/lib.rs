//! Code that runs in the address space of guests: no standard library, no dependencies, no heap.
//!
//! * [`layout`]: addresses of guests, the simulator and this code
//! * [`context`]: saved registers; [`xstate`]: layout of vector state
//! * [`worker`]: the block addressed by GS; [`entry`]: entry to guest code and exit from it, in assembly
//! * [`frame`]: signal frames; [`system`]: native system calls; [`copy`]: access to memory that may be
//!   unmapped
//! * [`protocol`]: the protocol between the simulator and a far guest's process
//! * [`far`]: the program of a far guest's process; [`pieces`], [`staging`]: guest memory in the channel
//! * [`dilate`]: the code in processes of an emulation with dilated time
//!
//! The near platform uses the first four in the simulator itself; the far platform starts `program/main.rs`,
//! a static binary made from this crate alone. Dilated processes execute `program/dilate.rs`.
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
