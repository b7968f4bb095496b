//! `google.protobuf.Any`, `google.rpc.Status` and `p4.v1.Error`: the messages that carry error details.

use super::text::text_message;
use prost::{Message, Name};

text_message! {
    /// `google.protobuf.Any`: an encoded message and the URL that names its type.
    pub struct Any {
        #[prost(string, tag = "1")]
        pub type_url: String,
        #[prost(bytes = "vec", tag = "2")]
        pub value: Vec<u8>,
    }
}

impl Any {
    /// Packs a message, as protobuf's own libraries do.
    pub fn pack<M: Message + Name>(message: &M) -> Self {
        Self { type_url: format!("type.googleapis.com/{}", M::full_name()), value: message.encode_to_vec() }
    }
}

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
