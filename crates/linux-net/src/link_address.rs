//! `struct sockaddr_ll`: link-layer source or destination of a frame.

use belljar_linux_abi::{Errno, c};
use belljar_netstack::address::{self, RawAddress};

/// Length of `struct sockaddr_ll` in bytes.
pub const LEN: usize = 20;

/// Link-layer address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkAddress {
    /// Ethertype.
    pub protocol: u16,
    /// Interface index; 0 for none.
    pub index: u32,
    /// `ARPHRD_*`.
    pub hardware_type: u16,
    /// Packet type, `PACKET_HOST` and others.
    pub packet_type: u8,
    /// Length of the hardware address in bytes.
    pub halen: u8,
    /// Hardware address.
    pub address: [u8; 8],
}

impl LinkAddress {
    /// Decodes a `struct sockaddr_ll`: `EINVAL` if it is too short or of another family.
    pub fn parse(raw: &[u8]) -> Result<LinkAddress, Errno> {
        if raw.len() < LEN || address::family(raw)? != c::AF_PACKET {
            return Err(Errno::EINVAL);
        }
        let mut address = [0; 8];
        address.copy_from_slice(&raw[12..20]);
        Ok(LinkAddress {
            protocol: u16::from_be_bytes([raw[2], raw[3]]),
            index: u32::from_ne_bytes([raw[4], raw[5], raw[6], raw[7]]),
            hardware_type: u16::from_ne_bytes([raw[8], raw[9]]),
            packet_type: raw[10],
            halen: raw[11],
            address,
        })
    }
    /// Encodes the `struct sockaddr_ll`.
    pub fn emit(&self) -> RawAddress {
        let mut raw = RawAddress::new();
        raw.extend_from_slice(&(c::AF_PACKET as u16).to_ne_bytes());
        raw.extend_from_slice(&self.protocol.to_be_bytes());
        raw.extend_from_slice(&self.index.to_ne_bytes());
        raw.extend_from_slice(&self.hardware_type.to_ne_bytes());
        raw.extend_from_slice(&[self.packet_type, self.halen]);
        raw.extend_from_slice(&self.address);
        raw
    }
    /// Sets the hardware address.
    pub fn set_address(&mut self, address: &[u8]) {
        self.halen = address.len() as u8;
        self.address = [0; 8];
        self.address[..address.len()].copy_from_slice(address);
    }
    /// First six bytes of the hardware address.
    pub fn mac(&self) -> [u8; 6] {
        self.address[..6].try_into().expect("six bytes")
    }
}
