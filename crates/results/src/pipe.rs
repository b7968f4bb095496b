//! Live capture: the packets of an interface as a stream in pcap format, while the run goes on.

use crate::capture::{file_header, record_header};
use belljar_base::SimTime;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Bytes kept of each packet.
const KEPT: usize = 65_535;

/// Stream of the packets of one interface. A reader that leaves does not end the run.
pub struct PacketPipe {
    node: String,
    interface: String,
    epoch: Duration,
    /// The stream; `None` after its reader has left.
    out: Mutex<Option<Box<dyn Write + Send>>>,
}

impl PacketPipe {
    /// Begins a stream for an interface of a host or device. Simulated time 0 is `epoch_secs` after 1970; `ethernet` is false for
    /// an interface with raw IP packets.
    ///
    /// # Errors
    /// Errors of the first write.
    pub fn new(
        node: &str,
        interface: &str,
        ethernet: bool,
        epoch_secs: u64,
        mut out: Box<dyn Write + Send>,
    ) -> io::Result<PacketPipe> {
        out.write_all(&file_header(KEPT, ethernet))?;
        out.flush()?;
        let (node, interface) = (node.to_owned(), interface.to_owned());
        Ok(PacketPipe { node, interface, epoch: Duration::from_secs(epoch_secs), out: Mutex::new(Some(out)) })
    }

    /// True if the stream has the packets of this host or device.
    pub fn is_of(&self, node: &str) -> bool {
        self.node == node
    }

    /// True if the stream has the packets of this interface of its node.
    pub fn is_at(&self, interface: &str) -> bool {
        self.interface == interface
    }

    /// Writes packets, in the order of time.
    pub fn write<'a>(&self, packets: impl Iterator<Item = (SimTime, &'a [u8])>) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stream) = out.as_mut() else { return };
        let mut bytes = Vec::new();
        for (at, packet) in packets {
            bytes.extend(record_header(self.epoch, KEPT, at, packet.len()));
            bytes.extend(&packet[..packet.len().min(KEPT)]);
        }
        if stream.write_all(&bytes).and_then(|()| stream.flush()).is_err() {
            *out = None;
        }
    }

    /// True if the reader has left before the end.
    pub fn is_abandoned(&self) -> bool {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl fmt::Debug for PacketPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketPipe({}:{})", self.node, self.interface)
    }
}
