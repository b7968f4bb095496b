//! Errors of requests, with Linux's message for the extended ack.

use belljar_linux_abi::Errno;

/// Error of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcError {
    /// Error number.
    pub errno: Errno,
    /// Message for sockets with `NETLINK_EXT_ACK`.
    pub words: Option<&'static str>,
}

impl From<Errno> for TcError {
    fn from(errno: Errno) -> TcError {
        TcError { errno, words: None }
    }
}

/// Error with a message.
pub(crate) const fn error(errno: Errno, words: &'static str) -> TcError {
    TcError { errno, words: Some(words) }
}

/// `EINVAL` with a message.
pub(crate) const fn invalid(words: &'static str) -> TcError {
    error(Errno::EINVAL, words)
}

/// Error of an attribute that is too short.
pub(crate) const SHORT: TcError = error(Errno::ERANGE, "Attribute failed policy validation");
