//! Errors of requests, with Linux's message where it has one (`NLMSGERR_ATTR_MSG`, netlink(7)).

use super::policy::Attribute;
use belljar_linux_abi::Errno;

/// Error of a request.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Error number.
    pub errno: Errno,
    /// Message for sockets with `NETLINK_EXT_ACK`.
    pub words: Option<&'static str>,
    /// Offset in the request of the attribute that caused the error (`NLMSGERR_ATTR_OFFS`).
    pub at: Option<u32>,
    /// Policy that the attribute breaks (`NLMSGERR_ATTR_POLICY`).
    pub(super) policy: Option<&'static Attribute>,
    /// Type of an attribute that is missing (`NLMSGERR_ATTR_MISS_TYPE`).
    pub missing: Option<u16>,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal { errno, words: None, at: None, policy: None, missing: None }
    }
}

/// Error with a message.
pub const fn refusal(errno: Errno, words: &'static str) -> Refusal {
    Refusal { errno, words: Some(words), at: None, policy: None, missing: None }
}

/// `EINVAL` with a message.
pub fn invalid<T>(words: &'static str) -> Result<T, Refusal> {
    Err(refusal(Errno::EINVAL, words))
}
