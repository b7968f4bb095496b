//! The messages of P4Runtime, field for field those of its specification, where they are documented.

#![allow(missing_docs, reason = "the fields are those of the P4Runtime specification, which documents them")]

mod data;
mod entities;
mod service;
mod status;

pub use belljar_p4info::proto::Any;
pub use data::*;
pub use entities::*;
pub use service::*;
pub use status::{Error, Status};
