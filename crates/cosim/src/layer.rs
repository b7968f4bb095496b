//! The upper layers: what a channel carries.

/// Bytes of a slot's header that belong to the upper layer.
pub const HEADER: usize = 48;
/// The first message type of upper layers.
pub const FIRST_TYPE: u8 = 0x40;

/// An upper layer of the protocol.
pub trait Layer {
    /// Its number in intros.
    const ID: u64;
    /// Its name in messages to people.
    const NAME: &'static str;
    /// Bytes of a slot, unless somebody says otherwise.
    const SLOT_SIZE: usize;
    /// The least length of its part of an intro.
    const INTRO_LEN: usize;
    /// Messages that it exchanges.
    type Message;

    /// The length of a message's body, which follows the slot's header; why not, if the message cannot be.
    fn body_len(kind: u8, header: &[u8; HEADER]) -> Result<usize, String>;
    /// The message of a slot that [`body_len`](Self::body_len) has passed.
    fn decode(kind: u8, header: &[u8; HEADER], body: Vec<u8>) -> Self::Message;
    /// A message's type and body; its fields go into `header`, which is zero.
    fn encode<'m>(message: &'m Self::Message, header: &mut [u8; HEADER]) -> (u8, &'m [u8]);
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
