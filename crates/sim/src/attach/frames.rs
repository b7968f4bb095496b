//! Frames between the client of an attached program and the simulation: a kind, a length, a payload.

use std::io::{self, Read, Write};

/// Length of a frame's header: its kind, and the length of the payload in little-endian order.
const HEADER: usize = 5;
/// Longest payload.
const LONGEST: usize = 1 << 20;

/// Frame on the connection of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Input for the program.
    Input(Vec<u8>),
    /// End of the input.
    EndOfInput,
    /// Window size of the terminal: rows and columns.
    Size(u16, u16),
    /// Output of the program.
    Output(Vec<u8>),
    /// Error output of the program.
    Error(Vec<u8>),
    /// Exit status of the program, as shells have it, and a remark for the user, which may be empty.
    Ended(u8, String),
}

impl Frame {
    /// Writes the frame.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        to.write_all(&self.to_bytes())
    }

    /// The frame as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (kind, payload) = match self {
            Frame::Input(data) => (b'i', data.clone()),
            Frame::EndOfInput => (b'c', Vec::new()),
            Frame::Size(rows, columns) => (b'r', [rows.to_le_bytes(), columns.to_le_bytes()].concat()),
            Frame::Output(data) => (b'o', data.clone()),
            Frame::Error(data) => (b'e', data.clone()),
            Frame::Ended(status, remark) => (b'x', [&[*status], remark.as_bytes()].concat()),
        };
        let mut bytes = vec![kind];
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    /// Reads the next frame; `None` at the end of the stream.
    pub fn read(mut from: impl Read) -> io::Result<Option<Frame>> {
        let mut header = [0; HEADER];
        match from.read(&mut header[..1])? {
            0 => return Ok(None),
            _ => from.read_exact(&mut header[1..])?,
        }
        let [kind, len @ ..] = header;
        let len = u32::from_le_bytes(len) as usize;
        if len > LONGEST {
            return Err(io::Error::other("a frame is too long"));
        }
        let mut payload = vec![0; len];
        from.read_exact(&mut payload)?;
        let frame = match (kind, &payload[..]) {
            (b'i', _) => Frame::Input(payload),
            (b'c', []) => Frame::EndOfInput,
            (b'r', &[r0, r1, c0, c1]) => {
                Frame::Size(u16::from_le_bytes([r0, r1]), u16::from_le_bytes([c0, c1]))
            }
            (b'o', _) => Frame::Output(payload),
            (b'e', _) => Frame::Error(payload),
            (b'x', [status, remark @ ..]) => {
                Frame::Ended(*status, String::from_utf8_lossy(remark).into_owned())
            }
            _ => return Err(io::Error::other("no frame of an attached program")),
        };
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let all = [
            Frame::Input(b"ls\r".to_vec()),
            Frame::EndOfInput,
            Frame::Size(24, 300),
            Frame::Output(Vec::new()),
            Frame::Error(vec![0, 255]),
            Frame::Ended(137, "killed".into()),
        ];
        let bytes: Vec<u8> = all.iter().flat_map(Frame::to_bytes).collect();
        let mut from = &bytes[..];
        let read: Vec<Frame> = std::iter::from_fn(|| Frame::read(&mut from).unwrap()).collect();
        assert_eq!(read, all);
    }

    #[test]
    fn anything_else_is_refused() {
        for bytes in
            [&b"q\0\0\0\0"[..], b"r\x01\0\0\0x", b"o\xff\xff\xff\xff", b"i\x05\0\0\0ab", b"x\0\0\0\0"]
        {
            assert!(Frame::read(bytes).is_err(), "{bytes:?}");
        }
    }
}
