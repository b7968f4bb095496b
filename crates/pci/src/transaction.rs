//! Transactions between a host and a device, and their message format.

use crate::fields::{HEADER, Header, get_u16, get_u64, put};

/// Interrupt kinds for [`ToDevice::Control`].
pub mod enable {
    /// Interrupt line.
    pub const INTX: u64 = 1;
    /// MSI.
    pub const MSI: u64 = 2;
    /// MSI-X.
    pub const MSIX: u64 = 4;
}

/// Transaction from the host to the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToDevice {
    /// Register read; completed by [`ToHost::ReadDone`].
    Read {
        /// Request id, returned in the completion.
        id: u64,
        /// Base address register.
        bar: u8,
        /// Offset in the BAR.
        offset: u64,
        /// Number of bytes.
        len: u16,
    },
    /// Register write; completed by [`ToHost::WriteDone`] unless posted.
    Write {
        /// Request id, returned in the completion.
        id: u64,
        /// Base address register.
        bar: u8,
        /// Offset in the BAR.
        offset: u64,
        /// True if no completion is expected.
        posted: bool,
        /// Data to write.
        data: Vec<u8>,
    },
    /// Completion of [`ToHost::Read`].
    ReadDone {
        /// Request id.
        id: u64,
        /// Data read.
        data: Vec<u8>,
    },
    /// Completion of [`ToHost::Write`].
    WriteDone {
        /// Request id.
        id: u64,
    },
    /// Enables kinds of interrupts; see [`enable`].
    Control {
        /// Enabled kinds.
        interrupts: u64,
    },
}

/// Transaction from the device to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToHost {
    /// Memory read; completed by [`ToDevice::ReadDone`].
    Read {
        /// Request id, returned in the completion.
        id: u64,
        /// Bus address.
        address: u64,
        /// Number of bytes.
        len: u16,
    },
    /// Memory write; completed by [`ToDevice::WriteDone`].
    Write {
        /// Request id, returned in the completion.
        id: u64,
        /// Bus address.
        address: u64,
        /// Data to write.
        data: Vec<u8>,
    },
    /// Interrupt.
    Interrupt(Interrupt),
    /// Completion of [`ToDevice::Read`].
    ReadDone {
        /// Request id.
        id: u64,
        /// Data read.
        data: Vec<u8>,
    },
    /// Completion of [`ToDevice::Write`].
    WriteDone {
        /// Request id.
        id: u64,
    },
}

/// Interrupt of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Level of the interrupt line.
    Line(bool),
    /// MSI message, by vector.
    Msi(u16),
    /// MSI-X message, by vector.
    Msix(u16),
}

mod kind {
    pub const H_READ: u8 = 0x40;
    pub const H_WRITE: u8 = 0x41;
    pub const H_INTERRUPT: u8 = 0x42;
    pub const H_READ_DONE: u8 = 0x43;
    pub const H_WRITE_DONE: u8 = 0x44;
    pub const D_READ: u8 = 0x60;
    pub const D_WRITE: u8 = 0x61;
    pub const D_READ_DONE: u8 = 0x62;
    pub const D_WRITE_DONE: u8 = 0x63;
    pub const D_CONTROL: u8 = 0x64;
    pub const D_WRITE_POSTED: u8 = 0x65;
}

/// Length of a message body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLen {
    /// Number of bytes.
    Bytes(usize),
    /// The length requested by the request with this id.
    OfRequest(u64),
}

/// Message format of a transaction: type, header and body.
pub trait Codec: Sized {
    /// Name of the protocol.
    const NAME: &'static str;
    /// Length of the body of a message.
    ///
    /// # Errors
    /// If the message is not a valid transaction.
    fn body_len(kind: u8, header: &Header) -> Result<BodyLen, String>;
    /// Decodes a message whose body has the length given by [`body_len`](Self::body_len).
    ///
    /// # Errors
    /// If the message is not a valid transaction.
    fn decode(kind: u8, header: &Header, body: Vec<u8>) -> Result<Self, String>;
    /// Encodes the transaction: returns type and body, and writes the fields to the zeroed header.
    fn encode(&self, header: &mut Header) -> (u8, &[u8]);
    /// Id and length of a read request that the other side must complete.
    fn awaits_data(&self) -> Option<(u64, u16)>;

    /// Encodes the transaction as one byte string.
    fn to_bytes(&self) -> Vec<u8> {
        let mut header = [0; HEADER];
        let (kind, body) = self.encode(&mut header);
        [&[kind], &header[..], body].concat()
    }
    /// Decodes a byte string written by [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// If the bytes are not a valid transaction.
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (Some((kind, rest)), true) = (bytes.split_first(), bytes.len() > HEADER) else {
            return Err(format!("a message of {} bytes", bytes.len()));
        };
        let (header, body) = rest.split_at(HEADER);
        Self::decode(*kind, &crate::fields::get(header, 0), body.to_vec())
    }
}

pub(crate) fn unknown(kind: u8, of: &str) -> String {
    format!("type {kind:#x} is not one of {of}")
}

impl Codec for ToDevice {
    const NAME: &'static str = "PCIe from the host";

    fn body_len(kind: u8, header: &Header) -> Result<BodyLen, String> {
        match kind {
            kind::D_READ | kind::D_WRITE_DONE | kind::D_CONTROL => Ok(BodyLen::Bytes(0)),
            kind::D_WRITE | kind::D_WRITE_POSTED => Ok(BodyLen::Bytes(get_u16(header, 16).into())),
            kind::D_READ_DONE => Ok(BodyLen::OfRequest(get_u64(header, 0))),
            _ => Err(unknown(kind, Self::NAME)),
        }
    }
    fn decode(kind: u8, header: &Header, data: Vec<u8>) -> Result<ToDevice, String> {
        let (id, offset, bar) = (get_u64(header, 0), get_u64(header, 8), header[18]);
        Ok(match kind {
            kind::D_READ => ToDevice::Read { id, bar, offset, len: get_u16(header, 16) },
            kind::D_WRITE => ToDevice::Write { id, bar, offset, posted: false, data },
            kind::D_WRITE_POSTED => ToDevice::Write { id, bar, offset, posted: true, data },
            kind::D_READ_DONE => ToDevice::ReadDone { id, data },
            kind::D_WRITE_DONE => ToDevice::WriteDone { id },
            kind::D_CONTROL => ToDevice::Control { interrupts: id },
            _ => return Err(unknown(kind, Self::NAME)),
        })
    }
    fn encode(&self, header: &mut Header) -> (u8, &[u8]) {
        let mut access = |id: u64, offset: u64, len: u16, bar: u8| {
            put(header, 0, &id.to_le_bytes());
            put(header, 8, &offset.to_le_bytes());
            put(header, 16, &len.to_le_bytes());
            put(header, 18, &[bar]);
        };
        match self {
            ToDevice::Read { id, bar, offset, len } => {
                access(*id, *offset, *len, *bar);
                (kind::D_READ, &[])
            }
            ToDevice::Write { id, bar, offset, posted, data } => {
                access(*id, *offset, data.len() as u16, *bar);
                (if *posted { kind::D_WRITE_POSTED } else { kind::D_WRITE }, data)
            }
            ToDevice::ReadDone { id, data } => {
                access(*id, 0, 0, 0);
                (kind::D_READ_DONE, data)
            }
            ToDevice::WriteDone { id } => {
                access(*id, 0, 0, 0);
                (kind::D_WRITE_DONE, &[])
            }
            ToDevice::Control { interrupts } => {
                access(*interrupts, 0, 0, 0);
                (kind::D_CONTROL, &[])
            }
        }
    }
    fn awaits_data(&self) -> Option<(u64, u16)> {
        match self {
            ToDevice::Read { id, len, .. } => Some((*id, *len)),
            _ => None,
        }
    }
}

impl Codec for ToHost {
    const NAME: &'static str = "PCIe from the device";

    fn body_len(kind: u8, header: &Header) -> Result<BodyLen, String> {
        match kind {
            kind::H_READ | kind::H_INTERRUPT | kind::H_WRITE_DONE => Ok(BodyLen::Bytes(0)),
            kind::H_WRITE => Ok(BodyLen::Bytes(get_u16(header, 16).into())),
            kind::H_READ_DONE => Ok(BodyLen::OfRequest(get_u64(header, 0))),
            _ => Err(unknown(kind, Self::NAME)),
        }
    }
    fn decode(kind: u8, header: &Header, data: Vec<u8>) -> Result<ToHost, String> {
        let (id, address) = (get_u64(header, 0), get_u64(header, 8));
        Ok(match kind {
            kind::H_READ => ToHost::Read { id, address, len: get_u16(header, 16) },
            kind::H_WRITE => ToHost::Write { id, address, data },
            kind::H_READ_DONE => ToHost::ReadDone { id, data },
            kind::H_WRITE_DONE => ToHost::WriteDone { id },
            kind::H_INTERRUPT => {
                let vector = get_u16(header, 0);
                ToHost::Interrupt(match header[2] {
                    0 => Interrupt::Line(true),
                    1 => Interrupt::Line(false),
                    2 => Interrupt::Msi(vector),
                    3 => Interrupt::Msix(vector),
                    other => return Err(format!("an interrupt of the unknown kind {other}")),
                })
            }
            _ => return Err(unknown(kind, Self::NAME)),
        })
    }
    fn encode(&self, header: &mut Header) -> (u8, &[u8]) {
        let mut access = |id: u64, address: u64, len: u16| {
            put(header, 0, &id.to_le_bytes());
            put(header, 8, &address.to_le_bytes());
            put(header, 16, &len.to_le_bytes());
        };
        match self {
            ToHost::Read { id, address, len } => {
                access(*id, *address, *len);
                (kind::H_READ, &[])
            }
            ToHost::Write { id, address, data } => {
                access(*id, *address, data.len() as u16);
                (kind::H_WRITE, data)
            }
            ToHost::ReadDone { id, data } => {
                access(*id, 0, 0);
                (kind::H_READ_DONE, data)
            }
            ToHost::WriteDone { id } => {
                access(*id, 0, 0);
                (kind::H_WRITE_DONE, &[])
            }
            ToHost::Interrupt(interrupt) => {
                let (vector, what) = match interrupt {
                    Interrupt::Line(up) => (0, u8::from(!up)),
                    Interrupt::Msi(vector) => (*vector, 2),
                    Interrupt::Msix(vector) => (*vector, 3),
                };
                put(header, 0, &vector.to_le_bytes());
                put(header, 2, &[what]);
                (kind::H_INTERRUPT, &[])
            }
        }
    }
    fn awaits_data(&self) -> Option<(u64, u16)> {
        match self {
            ToHost::Read { id, len, .. } => Some((*id, *len)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same<T: Codec + PartialEq + std::fmt::Debug>(all: Vec<T>) {
        for one in all {
            assert_eq!(T::from_bytes(&one.to_bytes()).unwrap(), one);
        }
    }

    #[test]
    fn transactions_are_read_as_they_were_written() {
        let data = vec![1, 2, 3, 4];
        let write = |posted| ToDevice::Write { id: 7, bar: 2, offset: 8, posted, data: data.clone() };
        same(vec![
            ToDevice::Read { id: 1 << 40, bar: 5, offset: 1 << 33, len: 4 },
            write(false),
            write(true),
            ToDevice::ReadDone { id: 3, data: data.clone() },
            ToDevice::WriteDone { id: 4 },
            ToDevice::Control { interrupts: enable::MSI | enable::INTX },
        ]);
        let interrupts =
            [Interrupt::Line(true), Interrupt::Line(false), Interrupt::Msi(3), Interrupt::Msix(9)];
        same(interrupts.map(ToHost::Interrupt).into());
        same(vec![
            ToHost::Read { id: 1, address: 1 << 45, len: 9_000 },
            ToHost::Write { id: 2, address: 64, data: data.clone() },
            ToHost::ReadDone { id: 3, data },
            ToHost::WriteDone { id: 4 },
        ]);
    }

    #[test]
    fn fields_lie_where_the_protocol_has_them() {
        let mut header = [0; HEADER];
        let read = ToDevice::Read { id: 1, bar: 3, offset: 0x100, len: 4 };
        assert_eq!(read.encode(&mut header), (0x60, &[][..]));
        assert_eq!((header[0], header[9], header[16], header[18]), (1, 1, 4, 3));
        let mut header = [0; HEADER];
        assert_eq!(ToHost::Interrupt(Interrupt::Msi(5)).encode(&mut header).0, 0x42);
        assert_eq!((header[0], header[2]), (5, 2));
    }

    #[test]
    fn messages_that_are_none_are_refused() {
        assert_eq!(
            ToHost::body_len(0x60, &[0; HEADER]).unwrap_err(),
            "type 0x60 is not one of PCIe from the device"
        );
        assert!(ToDevice::body_len(0x40, &[0; HEADER]).is_err());
        let mut header = [0; HEADER];
        header[2] = 4;
        assert!(ToHost::decode(0x42, &header, Vec::new()).unwrap_err().contains("unknown kind 4"));
        assert!(ToHost::from_bytes(&[0x42; HEADER]).is_err() && ToHost::from_bytes(&[]).is_err());
    }
}
