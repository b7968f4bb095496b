//! The contract of all ports.

use crate::{Error, Result};
use belljar_wire::ethernet::Address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A network attachment that frames are received from and sent to, without blocking.
///
/// *To wait*: poll [`fd`](Port::fd) for readability until [`receive`](Port::receive) is due, and for writability
/// after [`Sent::Full`]. The descriptor is level-triggered: it stays readable while frames are left.
///
/// *To receive*: [`receive`](Port::receive) hands every waiting frame to a closure, borrowed from the port.
///
/// *To send*: [`send`](Port::send) queues a frame, [`flush`](Port::flush) gives the queue to the kernel. A queue that
/// fills up is flushed by `send`. Frames that are queued when a port is dropped are lost.
///
/// Everything that a port holds in the kernel ends with it.
pub trait Port: Send {
    /// The name of the interface or socket.
    fn name(&self) -> &str;

    /// The hardware address of the interface; zero where the port has none.
    fn mac(&self) -> Address;

    /// The present maximum transmission unit in bytes, without the Ethernet header.
    fn mtu(&self) -> usize;

    /// The descriptor to poll.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Hands waiting frames to `each`, at most about `limit` of them: the segments of one large segment are not torn
    /// apart. Returns the number of frames; 0 if none is waiting.
    ///
    /// An interface that went down or was deleted is an error here once its frames have been received.
    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(Frame<'_>)) -> Result<usize>;

    /// Frames of usual length that may wait to be received; 0 if nobody knows.
    fn room(&self) -> usize {
        0
    }

    /// Queues a frame. The frame is copied.
    ///
    /// An error says why the frame or the port is unfit; [`Sent::Full`] is no error.
    fn send(&mut self, frame: &[u8]) -> Result<Sent>;

    /// Gives the queued frames to the kernel. Returns true if none is left in the queue; call again once the
    /// descriptor is writable otherwise.
    fn flush(&mut self) -> Result<bool>;

    /// The frames counted since the port was opened.
    fn counters(&mut self) -> Counters;
}

/// A received frame, valid until the closure that it is passed to returns.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The frame from its destination address on, without frame check sequence.
    pub bytes: &'a [u8],
    /// The time of its arrival, where [`Timestamps`] were asked for.
    pub time: Option<Timestamp>,
}

/// Disposition of a frame by [`Port::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a frame that found the queue full was not sent"]
pub enum Sent {
    /// The frame is queued, or sent.
    Queued,
    /// The queue is full and the kernel takes none of it: the frame was not taken. Try again once the descriptor is
    /// writable, or drop the frame.
    Full,
}

/// Arrival time of a frame, in nanoseconds since 1970 of its source's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Nanoseconds.
    pub nanos: u64,
    /// The clock.
    pub source: TimeSource,
}

/// Clock of a [`Timestamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// `CLOCK_REALTIME`, read by the kernel on the frame's arrival.
    Kernel,
    /// The clock of the network card.
    Hardware,
}

/// Timestamps of received frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// None.
    #[default]
    Off,
    /// By the kernel when the driver hands over the frame.
    Kernel,
    /// By the network card. A frame that the card did not stamp has the kernel's stamp.
    Hardware,
}

/// Frames and bytes.
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

/// Frames that a port counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received and handed over.
    pub received: Count,
    /// Frames given to the kernel.
    pub sent: Count,
    /// Received frames that the kernel dropped, because the port was not read in time or had no room for them.
    pub dropped_kernel: u64,
    /// Received frames that the port dropped: cut short, or of a kind whose segments it cannot make.
    pub dropped_port: u64,
    /// Frames that [`Port::send`] did not take because the queue was full. A caller that tries again counts each try.
    pub refused: u64,
    /// Queued frames that the kernel refused: its own queue was full, or the interface went away.
    pub failed: u64,
}

/// Waits until a port has something to be received, at most for `timeout`; a signal ends it early.
pub fn wait_readable(port: &dyn Port, timeout: Duration) -> Result<()> {
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    match poll(&mut [PollFd::from_borrowed_fd(port.fd(), PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(Error::system(format!("waiting for frames of '{}'", port.name()), error)),
    }
}
