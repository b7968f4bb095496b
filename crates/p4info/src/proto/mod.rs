//! The messages of P4Info, field for field those of P4Runtime's specification, where they are documented.

#![allow(missing_docs, reason = "the fields are those of the P4Runtime specification, which documents them")]

mod any;
mod p4info;
mod text;
mod types;

pub use any::Any;
pub use p4info::*;
pub use text::TextError;
pub use types::*;
