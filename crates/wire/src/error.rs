use thiserror::Error;

/// Error in parsing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The packet is shorter than its header or a length field requires.
    #[error("packet is cut short")]
    Truncated,
    /// A field has a value that the protocol forbids.
    #[error("packet is malformed")]
    Malformed,
    /// The checksum is wrong.
    #[error("checksum is wrong")]
    Checksum,
    /// The packet is valid but of a type that the module does not represent.
    #[error("packet is of a kind that is not supported")]
    Unsupported,
}
