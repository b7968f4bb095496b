//! Contract of all ports.

use crate::{Error, Result};
use belljar_wire::ethernet::Address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Port: a network attachment that sends and receives frames without blocking.
///
/// *Waiting*: poll [`fd`](Port::fd) for readability until [`receive`](Port::receive) is due, and for
/// writability after [`Sent::Full`]. The descriptor is level-triggered: it stays readable while frames are
/// left.
///
/// *Receiving*: [`receive`](Port::receive) passes every waiting frame, borrowed from the port, to a closure.
///
/// *Sending*: [`send`](Port::send) queues a frame, [`flush`](Port::flush) passes the queue to the kernel.
/// `send` flushes a full queue. Frames still queued when a port is dropped are lost.
///
/// Dropping a port releases its kernel resources.
pub trait Port: Send {
    /// Name of the interface or socket.
    fn name(&self) -> &str;

    /// Hardware address of the interface; zero if the port has none.
    fn mac(&self) -> Address;

    /// Current maximum transmission unit in bytes, without the Ethernet header.
    fn mtu(&self) -> usize;

    /// Descriptor to poll.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Passes waiting frames to `each`, approximately at most `limit`: the segments of a large segment are
    /// delivered together. Returns the number of frames; 0 if none is waiting.
    ///
    /// If the interface went down or was deleted, its remaining frames are delivered before the error is
    /// returned.
    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(Frame<'_>)) -> Result<usize>;

    /// Receive capacity in frames of usual length; 0 if unknown.
    fn room(&self) -> usize {
        0
    }

    /// Queues a copy of a frame.
    ///
    /// An error means that the frame or the port is unfit; [`Sent::Full`] is not an error.
    fn send(&mut self, frame: &[u8]) -> Result<Sent>;

    /// Passes queued frames to the kernel. Returns true if the queue is empty; otherwise call again once the
    /// descriptor is writable.
    fn flush(&mut self) -> Result<bool>;

    /// Counters since the port was opened.
    fn counters(&mut self) -> Counters;

    /// Ends reception: the kernel passes no further packets to the port. Returns the packets that are left
    /// in it, for an account of all packets.
    fn finish(&mut self) -> Remainder {
        Remainder::default()
    }
}

/// Packets in a port at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remainder {
    /// Packets that the kernel passed to the port since its start by its own count, including those that it
    /// dropped for lack of room; `None` if the kernel does not count them.
    pub offered: Option<u64>,
    /// Packets that the kernel passed to the port, and that were not delivered.
    pub unread: u64,
    /// Frames that were queued and not passed to the kernel.
    pub unsent: u64,
}

/// Received frame, valid until the closure that gets it returns.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Bytes of the frame from the destination address on, without frame check sequence.
    pub bytes: &'a [u8],
    /// Arrival time, if [`Timestamps`] are enabled.
    pub time: Option<Timestamp>,
}

/// Result of [`Port::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a frame that found the queue full was not sent"]
pub enum Sent {
    /// The frame is queued or sent.
    Queued,
    /// The frame was not accepted, because the queue is full and the kernel accepts no frame. Retry once the
    /// descriptor is writable, or drop the frame.
    Full,
}

/// Arrival time of a frame, in nanoseconds since 1970 on the clock of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Nanoseconds.
    pub nanos: u64,
    /// Clock that took the timestamp.
    pub source: TimeSource,
}

/// Clock of a [`Timestamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// `CLOCK_REALTIME`, read by the kernel on arrival of the frame.
    Kernel,
    /// Clock of the network card.
    Hardware,
}

/// Timestamps of received frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// None.
    #[default]
    Off,
    /// By the kernel, when it receives the frame from the driver.
    Kernel,
    /// By the network card; frames without a hardware timestamp get the kernel's.
    Hardware,
}

/// Number of frames and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Frames.
    pub frames: u64,
    /// Bytes, from the destination address on, without frame check sequence.
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }
}

/// Frame counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received and delivered.
    pub received: Count,
    /// Packets of the kernel in which the received frames arrived: a large segment is one packet.
    pub packets: u64,
    /// Frames passed to the kernel.
    pub sent: Count,
    /// Received frames dropped by the kernel, because the port was not read in time or the ring was full.
    pub dropped_kernel: u64,
    /// Received frames dropped by the port: truncated, or of a kind that it cannot segment.
    pub dropped_port: u64,
    /// Frames rejected by [`Port::send`] because the queue was full; retries count again.
    pub refused: u64,
    /// Frames accepted by [`Port::send`] and rejected by the kernel later: its queue was full, or the interface was down or gone.
    pub failed: u64,
    /// Part of `failed`: frames for an interface that was down or gone.
    pub failed_down: u64,
}

/// Waits until a port is readable, at most for `timeout`; a signal ends the wait early.
pub fn wait_readable(port: &dyn Port, timeout: Duration) -> Result<()> {
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    match poll(&mut [PollFd::from_borrowed_fd(port.fd(), PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(Error::system(format!("waiting for frames of '{}'", port.name()), error)),
    }
}
