//! An established channel.

use crate::error::{Error, Fault};
use crate::layer::{FIRST_TYPE, HEADER, Layer};
use crate::setup::Parameters;
use crate::watch::Watch;
use belljar_base::{SimDuration, SimTime};
use belljar_channel::SlotRing;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The header of a slot; the upper layer's body follows.
const SLOT_HEADER: usize = 64;
/// Where the time stamp stands, after what belongs to the upper layer.
const STAMP: usize = HEADER;
/// Where owner and type stand.
const OWNER: usize = 63;
/// The slot is the consumer's.
const CONSUMER: u8 = 0x80;
pub(crate) const SYNC: u8 = 0x00;
const TERMINATE: u8 = 0x01;

/// The result of a set-up: rings, socket and agreed settings.
pub(crate) struct Ends {
    pub incoming: SlotRing,
    pub outgoing: SlotRing,
    pub socket: UnixStream,
    pub sync: bool,
}

/// A channel to a peer.
///
/// * Receiving: [`poll`](Self::poll) with the time up to which one wants to know; [`horizon`](Self::horizon) says up to
///   where one knows all. Nothing arrives before the horizon any more; messages at the horizon may still come.
/// * Sending: [`send`](Self::send) in the order of time, and [`sync`](Self::sync) whenever [`sync_due`](Self::sync_due)
///   has been reached, that is when everything before that time has been done. This is no event: at an interval as long as the
///   latency it falls on the horizon itself, and two peers that did only what lies before it would wait for each other.
/// * Nothing blocks and nothing wakes: who has to wait polls again, see [`Backoff`](crate::Backoff), and looks with
///   [`check_peer`](Self::check_peer) now and then whether there is still somebody.
///
/// A channel that is dropped is closed without TERMINATE, which some simulators cannot bear.
pub struct Channel<L> {
    peer: String,
    incoming: SlotRing,
    next_in: usize,
    outgoing: SlotRing,
    next_out: usize,
    socket: UnixStream,
    sync: bool,
    latency: SimDuration,
    interval: SimDuration,
    horizon: SimTime,
    last_sent: Option<SimTime>,
    ended: bool,
    last_heard: SimTime,
    counts: Counts,
    watch: Arc<Watch>,
    layer: L,
}

/// A message as its slot has it, for who passes it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// Its type, of the base protocol or of the upper layer.
    pub kind: u8,
    /// Its stamp, in picoseconds.
    pub stamp: u64,
    /// The upper layer's part of the header.
    pub header: [u8; HEADER],
    /// The upper layer's body.
    pub body: Vec<u8>,
}

/// Counts of messages of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages received, without those of the base protocol.
    pub received: u64,
    /// Messages sent, without those of the base protocol.
    pub sent: u64,
    /// SYNCs received.
    pub syncs_received: u64,
    /// SYNCs sent.
    pub syncs_sent: u64,
    /// Messages whose stamp was below that of one before them. They arrive at the horizon.
    pub late: u64,
}

impl<L: Layer> Channel<L> {
    pub(crate) fn new(parameters: &Parameters, ends: Ends, layer: L) -> Channel<L> {
        Channel {
            peer: parameters.peer.clone(),
            watch: Arc::new(Watch::new(ends.outgoing.clone(), (OWNER, CONSUMER))),
            incoming: ends.incoming,
            next_in: 0,
            outgoing: ends.outgoing,
            next_out: 0,
            socket: ends.socket,
            sync: ends.sync,
            latency: parameters.latency,
            interval: parameters.sync_interval,
            horizon: SimTime::ZERO,
            last_sent: None,
            ended: false,
            last_heard: SimTime::ZERO,
            counts: Counts::default(),
            layer,
        }
    }

    /// The next message that arrives at `now` or before, with its time. Without synchronisation what is there arrives
    /// at `now`.
    ///
    /// # Errors
    /// If the peer has sent something that cannot be.
    pub fn poll(&mut self, now: SimTime) -> Result<Option<(SimTime, L::Received)>, Error> {
        // A peer that fills slots as fast as they are emptied keeps nobody here.
        for _ in 0..self.incoming.count() {
            let owner = self.incoming.owner(self.next_in, OWNER);
            if self.ended || owner & CONSUMER == 0 {
                return Ok(None);
            }
            let kind = owner & !CONSUMER;
            if kind == TERMINATE {
                self.end();
                self.release(owner);
                return Ok(None);
            }
            let mut stamp = [0; 8];
            self.incoming.read(self.next_in, STAMP, &mut stamp);
            let stamp = SimTime::from_picos(u64::from_le_bytes(stamp));
            if self.sync {
                let late = stamp < self.horizon;
                self.horizon = self.horizon.max(stamp);
                self.watch.heard(self.horizon);
                if self.horizon > now {
                    return Ok(None);
                }
                self.counts.late += u64::from(late && kind != SYNC);
            }
            if kind == SYNC {
                self.counts.syncs_received += 1;
                self.release(owner);
                continue;
            }
            let message = self.read(kind).map_err(|reason| {
                let number = self.counts.received + self.counts.syncs_received;
                Fault::Message { number, reason }.of(&self.peer)
            })?;
            self.counts.received += 1;
            self.release(owner);
            return Ok(Some((if self.sync { self.horizon } else { now }, message)));
        }
        Ok(None)
    }

    fn read(&mut self, kind: u8) -> Result<L::Received, String> {
        if kind < FIRST_TYPE {
            return Err(format!("type {kind:#x} is not one of the base protocol"));
        }
        let mut header = [0; HEADER];
        self.incoming.read(self.next_in, 0, &mut header);
        let body = self.read_body(kind, &header)?;
        self.layer.decode(kind, &header, body)
    }

    fn read_body(&self, kind: u8, header: &[u8; HEADER]) -> Result<Vec<u8>, String> {
        let len = self.layer.body_len(kind, header)?;
        let room = self.incoming.slot_size() - SLOT_HEADER;
        if len > room {
            return Err(format!("it says that it has {len} bytes, in a slot for {room}"));
        }
        let mut body = vec![0; len];
        self.incoming.read(self.next_in, SLOT_HEADER, &mut body);
        Ok(body)
    }

    /// The next message of either layer, whatever its time.
    ///
    /// # Errors
    /// If the peer has sent something that cannot be.
    pub fn poll_raw(&mut self) -> Result<Option<Raw>, Error> {
        let owner = self.incoming.owner(self.next_in, OWNER);
        if self.ended || owner & CONSUMER == 0 {
            return Ok(None);
        }
        let kind = owner & !CONSUMER;
        let (mut stamp, mut header, mut body) = ([0; 8], [0; HEADER], Vec::new());
        self.incoming.read(self.next_in, STAMP, &mut stamp);
        if kind != SYNC && kind != TERMINATE {
            self.incoming.read(self.next_in, 0, &mut header);
            body = self.read_body(kind, &header).map_err(|reason| {
                Fault::Message { number: self.counts.received + self.counts.syncs_received, reason }
                    .of(&self.peer)
            })?;
            self.counts.received += 1;
        }
        self.release(owner);
        if kind == TERMINATE {
            self.end();
        }
        Ok(Some(Raw { kind, stamp: u64::from_le_bytes(stamp), header, body }))
    }

    /// Sends a message as it is. False if the queue is full. After the peer's end it is dropped.
    ///
    /// # Errors
    /// If it doesn't fit into a slot.
    pub fn send_whole(&mut self, Raw { kind, stamp, header, body }: &Raw) -> Result<bool, Error> {
        if body.len() > self.capacity() {
            return Err(Fault::TooLarge { len: body.len(), room: self.capacity() }.of(&self.peer));
        }
        Ok(self.ended || self.put_stamped(*stamp, kind & !CONSUMER, header, body))
    }

    /// Gives the slot back to the peer.
    fn release(&mut self, owner: u8) {
        self.incoming.give(self.next_in, OWNER, owner & !CONSUMER);
        self.next_in = (self.next_in + 1) % self.incoming.count();
    }

    /// Nothing arrives before this time any more: the stamp of the latest message seen. [`SimTime::MAX`] without
    /// synchronisation and after the peer's end.
    pub fn horizon(&self) -> SimTime {
        if self.sync { self.horizon } else { SimTime::MAX }
    }

    /// Sends a message at `at`, not before what has been sent before. False if the queue is full. After the
    /// peer's end it is dropped.
    ///
    /// # Errors
    /// If it doesn't fit into a slot, see [`capacity`](Self::capacity).
    pub fn send(&mut self, at: SimTime, message: &L::Sent) -> Result<bool, Error> {
        if self.ended {
            return Ok(true);
        }
        let mut header = [0; HEADER];
        let (kind, body) = self.layer.encode(message, &mut header);
        if body.len() > self.capacity() {
            return Err(Fault::TooLarge { len: body.len(), room: self.capacity() }.of(&self.peer));
        }
        let sent = self.put(at, kind, &header, body);
        self.counts.sent += u64::from(sent);
        Ok(sent)
    }

    /// When the peer must hear from us next: everything before has to be done first. [`SimTime::MAX`] if it needs not.
    pub fn sync_due(&self) -> SimTime {
        match self.last_sent {
            _ if !self.sync => SimTime::MAX,
            None => SimTime::ZERO,
            Some(last) => last + self.interval,
        }
    }

    /// Promises that nothing is sent before `now` any more, with a SYNC if one is due by then. False if the queue
    /// is full.
    pub fn sync(&mut self, now: SimTime) -> bool {
        if self.sync_due() > now {
            return true;
        }
        let sent = self.put(now, SYNC, &[0; HEADER], &[]);
        self.counts.syncs_sent += u64::from(sent);
        sent
    }

    /// Tells the peer that nothing more comes. Not all simulators can bear it: SimBricks' switch, wire and packet
    /// generator abort. False if the queue is full.
    pub fn terminate(&mut self) -> bool {
        // The time wraps around to the latency, so that it is due at once.
        self.put_stamped(self.latency.as_picos().wrapping_sub(1), TERMINATE, &[0; HEADER], &[])
    }

    fn put(&mut self, at: SimTime, kind: u8, header: &[u8; HEADER], body: &[u8]) -> bool {
        let at = self.last_sent.map_or(at, |last| at.max(last));
        let sent = self.put_stamped((at + self.latency).as_picos(), kind, header, body);
        if sent {
            self.last_sent = Some(at);
        }
        sent
    }

    fn put_stamped(&mut self, stamp: u64, kind: u8, header: &[u8; HEADER], body: &[u8]) -> bool {
        let (ring, slot) = (&self.outgoing, self.next_out);
        if ring.owner(slot, OWNER) & CONSUMER != 0 {
            return false;
        }
        ring.write(slot, 0, header);
        ring.write(slot, STAMP, &stamp.to_le_bytes());
        ring.write(slot, SLOT_HEADER, body);
        ring.give(slot, OWNER, kind | CONSUMER);
        self.watch.sent(slot);
        self.next_out = (slot + 1) % ring.count();
        true
    }

    /// Fills the next slot with a type, a stamp in picoseconds and a header as they are, to try peers out. False if the queue
    /// is full.
    pub fn send_raw(&mut self, stamp: u64, kind: u8, header: &[u8; HEADER]) -> bool {
        self.put_stamped(stamp, kind, header, &[])
    }

    /// Looks whether the peer is still there: a system call, for who has waited for a while. A peer that has gone
    /// while there is still something to poll is one only when that has been polled.
    ///
    /// # Errors
    /// If it has gone without TERMINATE. The channel has ended then.
    pub fn check_peer(&mut self) -> Result<(), Error> {
        if self.ended {
            return Ok(());
        }
        let mut socket = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let gone = poll(&mut socket, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0);
        // In this order: what it has written before it went is there now.
        if gone && self.incoming.owner(self.next_in, OWNER) & CONSUMER == 0 {
            self.end();
            return Err(Fault::Closed.of(&self.peer));
        }
        Ok(())
    }

    /// Ends it: the peer is told nothing and heard no more.
    pub fn close(&mut self) {
        self.end();
        // It is closed for good when dropped; that it is closed already does no harm.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    fn end(&mut self) {
        if self.sync {
            self.last_heard = self.horizon;
        }
        self.ended = true;
        self.horizon = SimTime::MAX;
        self.sync = false;
        self.watch.heard(self.horizon);
        self.watch.set_waited_for(false);
    }

    /// True if the peer has ended, by TERMINATE or by going away.
    pub fn has_ended(&self) -> bool {
        self.ended
    }
    /// The last stamp of a peer that has ended and synchronised; zero otherwise.
    pub fn last_heard(&self) -> SimTime {
        self.last_heard
    }
    /// True if both sides synchronise.
    pub fn is_synchronised(&self) -> bool {
        self.sync
    }
    /// The longest body of a message that the peer can be sent.
    pub fn capacity(&self) -> usize {
        (self.outgoing.slot_size() - SLOT_HEADER).min(usize::from(u16::MAX))
    }
    /// Its upper layer, which knows what the peer's intro has said.
    pub fn layer(&self) -> &L {
        &self.layer
    }
    /// The peer's name.
    pub fn peer(&self) -> &str {
        &self.peer
    }
    /// Its state for other threads.
    pub fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }
    /// Counts of its messages.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
