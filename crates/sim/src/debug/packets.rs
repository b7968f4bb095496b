//! Connection to a debugger.

use gdbstub::conn::Connection;
use std::io::{Result, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// Connection that sends whole packets.
pub struct Packets {
    stream: UnixStream,
    pending: Vec<u8>,
    /// Content of a packet that replaces the next one.
    instead: Option<String>,
}

impl Packets {
    pub fn new(stream: UnixStream) -> Packets {
        Packets { stream, pending: Vec::new(), instead: None }
    }

    /// Replaces the next packet by this one: the protocol library does not support all stop reasons.
    pub fn send_instead(&mut self, content: String) {
        self.instead = Some(content);
    }

    /// Closes the connection in both directions.
    pub fn close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Connection for Packets {
    type Error = std::io::Error;

    fn write(&mut self, byte: u8) -> Result<()> {
        self.pending.push(byte);
        Ok(())
    }
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.pending.extend_from_slice(bytes);
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        if let Some(content) = self.instead.take() {
            let acknowledged =
                self.pending.iter().position(|byte| *byte == b'$').unwrap_or(self.pending.len());
            self.pending.truncate(acknowledged);
            let sum = content.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
            self.pending.extend_from_slice(format!("${content}#{sum:02x}").as_bytes());
        }
        let pending = std::mem::take(&mut self.pending);
        Write::write_all(&mut self.stream, &pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_packet_takes_the_place_of_the_next_one() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut packets = Packets::new(ours);
        packets.send_instead("T05exec:2f;".into());
        packets.write_all(b"+$T05#b9").unwrap();
        packets.flush().unwrap();
        packets.write_all(b"$OK#9a").unwrap();
        packets.flush().unwrap();
        packets.close();
        let mut got = String::new();
        theirs.read_to_string(&mut got).unwrap();
        assert_eq!(got, "+$T05exec:2f;#6b$OK#9a");
    }
}
