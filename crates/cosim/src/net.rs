//! The network layer: Ethernet frames without their check sequence.

use crate::layer::{HEADER, Layer};

/// The type of the layer's only message.
const PACKET: u8 = 0x40;

/// The network layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Net;

/// An Ethernet frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// A number that some simulators use to tell ports apart; mostly 0.
    pub port: u8,
    /// From the destination's address to the end of the payload.
    pub bytes: Vec<u8>,
}

impl Layer for Net {
    type Received = Frame;
    type Sent = Frame;

    fn id(&self) -> u64 {
        1
    }
    fn name(&self) -> &'static str {
        "Ethernet"
    }
    fn slot_size(&self) -> usize {
        1600
    }
    fn body_len(&self, kind: u8, header: &[u8; HEADER]) -> Result<usize, String> {
        match kind {
            PACKET => Ok(usize::from(u16::from_le_bytes([header[0], header[1]]))),
            _ => Err(format!("type {kind:#x} is not one of the network layer")),
        }
    }
    fn decode(&mut self, _: u8, header: &[u8; HEADER], body: Vec<u8>) -> Result<Frame, String> {
        Ok(Frame { port: header[2], bytes: body })
    }
    fn encode<'m>(&mut self, frame: &'m Frame, header: &mut [u8; HEADER]) -> (u8, &'m [u8]) {
        // What doesn't fit into the field doesn't fit into a slot either: `Channel::capacity`.
        header[..2].copy_from_slice(&(frame.bytes.len() as u16).to_le_bytes());
        header[2] = frame.port;
        (PACKET, &frame.bytes)
    }
}
