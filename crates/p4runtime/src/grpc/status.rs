//! Final status of a call and its encoding in HTTP/2 trailers.

use crate::proto;
use base64::Engine as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;

/// Canonical gRPC status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The caller cancelled the call.
    Cancelled = 1,
    /// An element of a batch failed; the details contain one code per element.
    Unknown = 2,
    /// The request is invalid in any state.
    InvalidArgument = 3,
    /// The object does not exist.
    NotFound = 5,
    /// The object to be created exists already.
    AlreadyExists = 6,
    /// The caller lacks the permission.
    PermissionDenied = 7,
    /// A limit or a budget is exhausted.
    ResourceExhausted = 8,
    /// The current state does not allow the request.
    FailedPrecondition = 9,
    /// Rolled back or not attempted, because another element of the batch failed.
    Aborted = 10,
    /// A value or index is out of range.
    OutOfRange = 11,
    /// Not implemented by this server.
    Unimplemented = 12,
    /// The peer or this server violated an invariant.
    Internal = 13,
}

/// Final status of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Canonical code.
    pub code: Code,
    /// Human-readable message.
    pub message: String,
    /// Details of a batch: one status per element.
    pub details: Vec<proto::Error>,
}

impl Status {
    /// Successful status.
    pub fn ok() -> Self {
        Self::new(Code::Ok, "")
    }

    /// Creates a status without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Vec::new() }
    }

    /// The status as a protobuf message, without details.
    pub fn to_proto(&self) -> proto::Status {
        proto::Status {
            code: self.code as i32,
            message: self.message.clone(),
            details: self.details.iter().map(proto::Any::pack).collect(),
        }
    }

    /// HTTP/2 trailers of the status: `grpc-status`, `grpc-message` and, with details,
    /// `grpc-status-details-bin`.
    pub fn trailers(&self) -> HeaderMap {
        /// gRPC leaves printable ASCII except '%' unescaped.
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
