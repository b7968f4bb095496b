//! Errors of channels: faults of a peer, of addresses and of the system.

use std::io;

/// A failure to set up or to use a channel.
#[derive(Debug, thiserror::Error)]
#[error("{peer}: {fault}")]
pub struct Error {
    /// Name of the peer, as given at the set-up.
    pub peer: String,
    /// Reason of the failure.
    #[source]
    pub fault: Fault,
}

/// Reason why a channel failed.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// No peer connected in time.
    #[error("nobody connected to {socket} within {seconds} s: start the simulator with this socket")]
    NobodyConnected {
        /// Path of the listening socket.
        socket: String,
        /// Time waited, in seconds.
        seconds: u64,
    },
    /// No peer listened in time.
    #[error("nobody listens on {socket} after {seconds} s: start the simulator with this socket")]
    NobodyListens {
        /// Path of the socket to connect to.
        socket: String,
        /// Time waited, in seconds.
        seconds: u64,
    },
    /// The peer connected, but sent no complete intro in time.
    #[error("it sent {received} bytes of its intro within {seconds} s: is this a SimBricks simulator?")]
    NoIntro {
        /// Number of bytes received of the intro.
        received: usize,
        /// Time waited, in seconds.
        seconds: u64,
    },
    /// The peer closed the connection before its intro was complete.
    #[error(
        "it closed the connection after {0} bytes of its intro: has it found something wrong, or crashed?"
    )]
    ClosedEarly(usize),
    /// The socket is in use.
    #[error("{0} is already in use by another program: choose another socket")]
    SocketInUse(String),
    /// The peer uses another version of the protocol.
    #[error("it speaks version {0} of the channel protocol, not 1")]
    Version(u64),
    /// The peer uses another upper layer.
    #[error("it speaks {theirs} where {ours} is expected: connect ports of the same kind")]
    Layer {
        /// The peer's layer.
        theirs: String,
        /// This end's layer.
        ours: &'static str,
    },
    /// The peer requires synchronisation.
    #[error("it requires synchronisation, which is off here: set sync to true")]
    SyncForced,
    /// The peer does not synchronise.
    #[error(
        "it does not synchronise, which is required here: start it with synchronisation, or set sync to false"
    )]
    SyncMissing,
    /// The peer's intro is invalid.
    #[error("its intro is not valid: {0}")]
    Intro(String),
    /// The peer sent an invalid message.
    #[error("message {number} is not valid: {reason}")]
    Message {
        /// Number of messages before it, including synchronisation.
        number: u64,
        /// Reason why the message is invalid.
        reason: String,
    },
    /// A message does not fit into the slots of its queue.
    #[error(
        "a message of {len} bytes does not fit into the peer's slots, which hold {room}: start it with larger slots"
    )]
    TooLarge {
        /// Length of the message in bytes.
        len: usize,
        /// Capacity of a slot in bytes.
        room: usize,
    },
    /// The peer sends without limit.
    #[error("{0} frames of it wait: it sends, and the clock of another of its ports does not go on")]
    Flood(usize),
    /// The peer closed the channel.
    #[error("it closed the channel without TERMINATE: has it ended, or crashed?")]
    Closed,
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The operation that failed.
        what: String,
        /// The system's error.
        error: io::Error,
    },
}

impl Fault {
    pub(crate) fn of(self, peer: &str) -> Error {
        Error { peer: peer.to_owned(), fault: self }
    }
    pub(crate) fn system(what: impl Into<String>, error: impl Into<io::Error>) -> Fault {
        Fault::System { what: what.into(), error: error.into() }
    }
}
