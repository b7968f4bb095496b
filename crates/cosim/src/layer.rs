//! The upper layers: what a channel carries.

/// Bytes of a slot's header that belong to the upper layer.
pub const HEADER: usize = 48;
/// The first message type of upper layers.
pub const FIRST_TYPE: u8 = 0x40;

/// One end of an upper layer of the protocol. Where the two ends differ, as a host and a device do, each is a type of its own.
pub trait Layer {
    /// Messages that come from the peer.
    type Received;
    /// Messages that are sent to it.
    type Sent;

    /// Its number in intros.
    fn id(&self) -> u64;
    /// Its name in messages to people.
    fn name(&self) -> &'static str;
    /// Bytes of a slot, unless somebody says otherwise.
    fn slot_size(&self) -> usize;
    /// Its part of our intro.
    fn intro(&self) -> Vec<u8> {
        vec![0; 4]
    }
    /// The least length of its part of the peer's intro.
    fn peer_intro_len(&self) -> usize {
        4
    }
    /// Takes its part of the peer's intro.
    ///
    /// # Errors
    /// If there is something in it that cannot be.
    fn take_intro(&mut self, _intro: &[u8]) -> Result<(), String> {
        Ok(())
    }
    /// The length of a received message's body, which follows the slot's header.
    ///
    /// # Errors
    /// If the message cannot be.
    fn body_len(&self, kind: u8, header: &[u8; HEADER]) -> Result<usize, String>;
    /// The message of a slot that [`body_len`](Self::body_len) has passed.
    ///
    /// # Errors
    /// If the message cannot be.
    fn decode(&mut self, kind: u8, header: &[u8; HEADER], body: Vec<u8>) -> Result<Self::Received, String>;
    /// A message's type and body; its fields go into `header`, which is zero. One that finds no room is encoded again.
    fn encode<'m>(&mut self, message: &'m Self::Sent, header: &mut [u8; HEADER]) -> (u8, &'m [u8]);
}

/// The name of a layer by its number.
pub fn name(id: u64) -> String {
    match id {
        0 => "the base protocol".into(),
        1 => "Ethernet".into(),
        2 => "PCIe".into(),
        3 => "memory".into(),
        other => format!("protocol {other}"),
    }
}
