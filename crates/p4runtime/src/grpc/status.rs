//! The status that ends a call, and its form in HTTP/2 trailers.

use crate::proto;
use base64::Engine as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;

/// gRPC's canonical codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The caller gave the call up.
    Cancelled = 1,
    /// A batch in which something failed; details have the codes of its elements.
    Unknown = 2,
    /// The request makes no sense, whatever the state.
    InvalidArgument = 3,
    /// The thing referred to does not exist.
    NotFound = 5,
    /// The thing to be created exists.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A size or a budget is used up.
    ResourceExhausted = 8,
    /// The state does not allow it now.
    FailedPrecondition = 9,
    /// Undone, or not tried, because another part of the batch failed.
    Aborted = 10,
    /// A value or an index beyond its range.
    OutOfRange = 11,
    /// Not offered here.
    Unimplemented = 12,
    /// The peer, or this server, broke an invariant.
    Internal = 13,
}

/// The status that a call ends with.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The canonical code.
    pub code: Code,
    /// A sentence for people.
    pub message: String,
    /// For batches: one status an element.
    pub details: Vec<proto::Error>,
}

impl Status {
    /// Success.
    pub fn ok() -> Self {
        Self::new(Code::Ok, "")
    }

    /// A status without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Vec::new() }
    }

    /// The same as a message, without details.
    pub fn to_proto(&self) -> proto::Status {
        proto::Status {
            code: self.code as i32,
            message: self.message.clone(),
            details: self.details.iter().map(proto::Any::pack).collect(),
        }
    }

    /// The status as trailers: `grpc-status`, `grpc-message` and, with details, `grpc-status-details-bin`.
    pub fn trailers(&self) -> HeaderMap {
        /// gRPC leaves printable ASCII but '%' as it is.
        const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
        let mut map = HeaderMap::new();
        map.insert(HeaderName::from_static("grpc-status"), HeaderValue::from(self.code as i32));
        let message = utf8_percent_encode(&self.message, ESCAPED).to_string();
        if let (false, Ok(value)) = (message.is_empty(), HeaderValue::from_str(&message)) {
            map.insert(HeaderName::from_static("grpc-message"), value);
        }
        if !self.details.is_empty() {
            let encoded =
                base64::engine::general_purpose::STANDARD_NO_PAD.encode(self.to_proto().encode_to_vec());
            if let Ok(value) = HeaderValue::from_str(&encoded) {
                map.insert(HeaderName::from_static("grpc-status-details-bin"), value);
            }
        }
        map
    }
}
