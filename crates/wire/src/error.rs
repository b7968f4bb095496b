use thiserror::Error;

/// Why bytes are not a packet of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// Fewer bytes than the header, or than a length field, says.
    #[error("packet is cut short")]
    Truncated,
    /// A field has a value that the protocol forbids.
    #[error("packet is malformed")]
    Malformed,
    /// The checksum is wrong.
    #[error("checksum is wrong")]
    Checksum,
    /// A valid packet of a kind that this module does not represent.
    #[error("packet is of a kind that is not supported")]
    Unsupported,
}
