//! Network layer: Ethernet frames without their frame check sequence.

use crate::layer::{HEADER, Layer};

/// Type of the layer's only message.
const PACKET: u8 = 0x40;

/// The network layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Net;

/// An Ethernet frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Port number that some simulators use to distinguish ports; usually 0.
    pub port: u8,
    /// The frame from the destination address to the end of the payload.
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
        // A frame that exceeds the length field exceeds the slot as well: `Channel::capacity`.
        header[..2].copy_from_slice(&(frame.bytes.len() as u16).to_le_bytes());
        header[2] = frame.port;
        (PACKET, &frame.bytes)
    }
}
