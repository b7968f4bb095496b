//! Refusals of requests: an error, with Linux's message for it where there is one (`NLMSGERR_ATTR_MSG`, netlink(7)).

use belljar_linux_abi::Errno;

/// An error with what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error.
    pub errno: Errno,
    /// The kernel's message for sockets with `NETLINK_EXT_ACK`.
    pub words: Option<&'static str>,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal { errno, words: None }
    }
}

/// An error in these words.
pub const fn refusal(errno: Errno, words: &'static str) -> Refusal {
    Refusal { errno, words: Some(words) }
}
