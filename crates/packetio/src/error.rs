//! Errors of opening and using ports. Each names the interface and, where possible, the remedy.

use std::io;
use thiserror::Error;

/// The result of an operation on a port.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a port. [`Error::is_fatal`] classifies the errors of an open port.
#[derive(Debug, Error)]
pub enum Error {
    /// No interface of this name exists in the network namespace.
    #[error("there is no interface '{name}' in this network namespace: `ip link` lists the interfaces")]
    NoInterface {
        /// Requested name.
        name: String,
    },
    /// Linux does not accept the name for an interface.
    #[error("'{name}' is no interface name: use 1 to 15 bytes without '/', ':', '%' or white space")]
    BadName {
        /// Requested name.
        name: String,
    },
    /// An interface of this name exists already.
    #[error(
        "interface '{name}' exists already: choose another name, attach to it, or remove it with `ip link del {name}`"
    )]
    NameInUse {
        /// Requested name.
        name: String,
    },
    /// The interface is in use.
    #[error("interface '{name}' is busy: {why}")]
    Busy {
        /// The interface.
        name: String,
        /// User of the interface, and how to end the use.
        why: String,
    },
    /// The process lacks a capability.
    #[error("{doing} needs {capability} in the user namespace of the network namespace: {remedy}")]
    Permission {
        /// Refused operation.
        doing: String,
        /// Required capability.
        capability: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The interface is administratively down. The port works again once the interface is up.
    #[error("interface '{name}' is down: `ip link set dev {name} up`")]
    Down {
        /// The interface.
        name: String,
    },
    /// The interface was deleted, or moved to another network namespace.
    #[error("interface '{name}' is gone: it was deleted or moved to another network namespace")]
    Gone {
        /// The interface.
        name: String,
    },
    /// The peer of a socket port closed its end.
    #[error("the peer of '{name}' closed its end")]
    PeerClosed {
        /// The port.
        name: String,
    },
    /// A frame to be sent is too short or too long for the port.
    #[error("a frame of {len} bytes does not fit '{name}': it takes {min} to {max} bytes")]
    FrameSize {
        /// The port.
        name: String,
        /// Length of the frame, without the frame check sequence.
        len: usize,
        /// Minimum length: an Ethernet header.
        min: usize,
        /// Maximum length: MTU and Ethernet header, plus the VLAN tag of a tagged frame.
        max: usize,
    },
    /// An option has an invalid value for the port.
    #[error("'{name}': {what}")]
    Invalid {
        /// The port.
        name: String,
        /// The option, its value and the valid values.
        what: String,
    },
    /// The kernel or the driver lacks a facility.
    #[error("'{name}': {what}")]
    Unsupported {
        /// The port.
        name: String,
        /// The missing facility and an alternative.
        what: String,
    },
    /// Any other failure of a system call.
    #[error("{doing}: {source}")]
    System {
        /// The operation and its object.
        doing: String,
        /// The error of the system call.
        source: io::Error,
    },
}

impl Error {
    /// True if the port cannot be used again, because its interface or peer is gone. After any other error
    /// the port remains usable.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Error::Gone { .. } | Error::PeerClosed { .. })
    }

    /// Error of a system call, with the operation and its object.
    pub(crate) fn system(doing: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::System { doing: doing.into(), source: source.into() }
    }

    /// Error of a system call, like [`Error::system`]; refused permission becomes an error that names `capability`
    /// and `remedy`.
    pub(crate) fn privileged(
        doing: impl Into<String>,
        capability: &'static str,
        remedy: &'static str,
        source: impl Into<io::Error>,
    ) -> Error {
        let (doing, source) = (doing.into(), source.into());
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::Permission { doing, capability, remedy },
            _ => Error::System { doing, source },
        }
    }
}
