//! Upper layers: the content of a channel's messages.

/// Bytes of a slot's header that belong to the upper layer.
pub const HEADER: usize = 48;
/// First message type of upper layers.
pub const FIRST_TYPE: u8 = 0x40;

/// One end of an upper layer of the protocol. If the two ends differ, as those of a host and a device do,
/// each is a type of its own.
pub trait Layer {
    /// Messages received from the peer.
    type Received;
    /// Messages sent to the peer.
    type Sent;

    /// Layer id in intros.
    fn id(&self) -> u64;
    /// Layer name in error messages.
    fn name(&self) -> &'static str;
    /// Default size of a slot in bytes.
    fn slot_size(&self) -> usize;
    /// The layer's part of this end's intro.
    fn intro(&self) -> Vec<u8> {
        vec![0; 4]
    }
    /// Minimum length of the layer's part of the peer's intro.
    fn peer_intro_len(&self) -> usize {
        4
    }
    /// Processes the layer's part of the peer's intro.
    ///
    /// # Errors
    /// If the peer's part is invalid.
    fn take_intro(&mut self, _intro: &[u8]) -> Result<(), String> {
        Ok(())
    }
    /// Length of a received message's body, which follows the slot's header.
    ///
    /// # Errors
    /// If the message is invalid.
    fn body_len(&self, kind: u8, header: &[u8; HEADER]) -> Result<usize, String>;
    /// Decodes the message of a slot that [`body_len`](Self::body_len) has accepted.
    ///
    /// # Errors
    /// If the message is invalid.
    fn decode(&mut self, kind: u8, header: &[u8; HEADER], body: Vec<u8>) -> Result<Self::Received, String>;
    /// Type and body of a message; its fields are written to `header`, which is zero before. If the queue is
    /// full, the message is encoded again later.
    fn encode<'m>(&mut self, message: &'m Self::Sent, header: &mut [u8; HEADER]) -> (u8, &'m [u8]);
}

/// Name of a layer by its id.
pub fn name(id: u64) -> String {
    match id {
        0 => "the base protocol".into(),
        1 => "Ethernet".into(),
        2 => "PCIe".into(),
        3 => "memory".into(),
        other => format!("protocol {other}"),
    }
}
