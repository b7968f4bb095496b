//! `google.rpc.Status` and `p4.v1.Error`: the messages that carry error details.

use super::Any;
use prost::{Message, Name};

/// `google.rpc.Status`: the status of a call with its details.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// `p4.v1.Error`: the status of one element of a batch.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Error {
    #[prost(int32, tag = "1")]
    pub canonical_code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(string, tag = "3")]
    pub space: String,
    #[prost(int32, tag = "4")]
    pub code: i32,
    #[prost(message, optional, tag = "5")]
    pub details: Option<Any>,
}

impl Name for Error {
    const NAME: &'static str = "Error";
    const PACKAGE: &'static str = "p4.v1";
}
