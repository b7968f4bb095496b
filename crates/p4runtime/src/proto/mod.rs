//! Messages of P4Runtime. Their fields are documented by its specification.

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
