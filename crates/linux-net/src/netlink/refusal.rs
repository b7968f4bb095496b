//! Errors of requests, with Linux's message where it has one (`NLMSGERR_ATTR_MSG`, netlink(7)).

use belljar_linux_abi::Errno;

/// Error of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Error number.
    pub errno: Errno,
    /// Message for sockets with `NETLINK_EXT_ACK`.
    pub words: Option<&'static str>,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal { errno, words: None }
    }
}

/// Error with a message.
pub const fn refusal(errno: Errno, words: &'static str) -> Refusal {
    Refusal { errno, words: Some(words) }
}
