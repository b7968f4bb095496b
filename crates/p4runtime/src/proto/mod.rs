//! The messages of P4Runtime, field for field those of its specification, where they are documented.

#![allow(missing_docs, reason = "the fields are those of the P4Runtime specification, which documents them")]

mod data;
mod entities;
pub mod p4info;
mod service;
mod status;
mod text;
mod types;

pub use data::*;
pub use entities::*;
pub use service::*;
pub use status::{Any, Error, Status};
pub use text::TextError;
pub use types::*;
