//! The network layer: Ethernet frames without their check sequence.

use crate::layer::{HEADER, Layer};

/// The type of the layer's only message.
const PACKET: u8 = 0x40;

/// The network layer.
#[derive(Clone, Copy, Debug)]
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
    const ID: u64 = 1;
    const NAME: &'static str = "Ethernet";
    const SLOT_SIZE: usize = 1600;
    const INTRO_LEN: usize = 4;
    type Message = Frame;

    fn body_len(kind: u8, header: &[u8; HEADER]) -> Result<usize, String> {
        match kind {
            PACKET => Ok(usize::from(u16::from_le_bytes([header[0], header[1]]))),
            _ => Err(format!("type {kind:#x} is not one of the network layer")),
        }
    }
    fn decode(_: u8, header: &[u8; HEADER], body: Vec<u8>) -> Frame {
        Frame { port: header[2], bytes: body }
    }
    fn encode<'m>(frame: &'m Frame, header: &mut [u8; HEADER]) -> (u8, &'m [u8]) {
        // What doesn't fit into the field doesn't fit into a slot either: `Channel::capacity`.
        header[..2].copy_from_slice(&(frame.bytes.len() as u16).to_le_bytes());
        header[2] = frame.port;
        (PACKET, &frame.bytes)
    }
}
