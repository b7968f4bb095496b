//! Errors of channels: faults of a peer, of addresses and of the system.

use std::io;

/// A channel that cannot be set up or go on.
#[derive(Debug, thiserror::Error)]
#[error("{peer}: {fault}")]
pub struct Error {
    /// The peer, as it was named when the channel was set up.
    pub peer: String,
    /// Why.
    #[source]
    pub fault: Fault,
}

/// Why a channel cannot be set up or go on.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Nobody connected in time.
    #[error("nobody connected to {socket} within {seconds} s: start the simulator with this socket")]
    NobodyConnected {
        /// The socket that was listened on.
        socket: String,
        /// Time waited, in seconds.
        seconds: u64,
    },
    /// Nobody listened in time.
    #[error("nobody listens on {socket} after {seconds} s: start the simulator with this socket")]
    NobodyListens {
        /// The socket to connect to.
        socket: String,
        /// Time waited, in seconds.
        seconds: u64,
    },
    /// It connected, and said nothing or too little.
    #[error("it sent {received} bytes of its intro within {seconds} s: is this a SimBricks simulator?")]
    NoIntro {
        /// Bytes of its intro that came.
        received: usize,
        /// Time waited, in seconds.
        seconds: u64,
    },
    /// It went away before it had said enough.
    #[error(
        "it closed the connection after {0} bytes of its intro: has it found something wrong, or crashed?"
    )]
    ClosedEarly(usize),
    /// The socket is in use.
    #[error("{0} is already in use by another program: choose another socket")]
    SocketInUse(String),
    /// The protocol of another version.
    #[error("it speaks version {0} of the channel protocol, not 1")]
    Version(u64),
    /// Another upper layer.
    #[error("it speaks {theirs} where {ours} is expected: connect ports of the same kind")]
    Layer {
        /// The peer's.
        theirs: String,
        /// Ours.
        ours: &'static str,
    },
    /// The peer insists on synchronisation.
    #[error("it requires synchronisation, which is off here: set sync to true")]
    SyncForced,
    /// The peer doesn't synchronise.
    #[error(
        "it does not synchronise, which is required here: start it with synchronisation, or set sync to false"
    )]
    SyncMissing,
    /// Its intro is not valid.
    #[error("its intro is not valid: {0}")]
    Intro(String),
    /// A message that cannot be.
    #[error("message {number} is not valid: {reason}")]
    Message {
        /// Number of messages before it, synchronisation included.
        number: u64,
        /// Why.
        reason: String,
    },
    /// A message that doesn't fit into its queue.
    #[error(
        "a message of {len} bytes does not fit into the peer's slots, which hold {room}: start it with larger slots"
    )]
    TooLarge {
        /// The message.
        len: usize,
        /// The room in a slot.
        room: usize,
    },
    /// It sends without end.
    #[error("{0} frames of it wait: it sends, and the clock of another of its ports does not go on")]
    Flood(usize),
    /// It has gone.
    #[error("it closed the channel without TERMINATE: has it ended, or crashed?")]
    Closed,
    /// The system refused something.
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
