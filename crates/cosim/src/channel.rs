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

/// Length of a slot's header; the upper layer's body follows.
const SLOT_HEADER: usize = 64;
/// Offset of the timestamp, behind the upper layer's part of the header.
const STAMP: usize = HEADER;
/// Offset of the byte that combines owner and type.
const OWNER: usize = 63;
/// Flag in the owner byte: the consumer owns the slot.
const CONSUMER: u8 = 0x80;
pub(crate) const SYNC: u8 = 0x00;
const TERMINATE: u8 = 0x01;

/// Result of a set-up: rings, socket and agreed settings.
pub(crate) struct Ends {
    pub incoming: SlotRing,
    pub outgoing: SlotRing,
    pub socket: UnixStream,
    pub sync: bool,
}

/// A channel to a peer.
///
/// * Receiving: call [`poll`](Self::poll) with the time up to which messages are wanted;
///   [`horizon`](Self::horizon) is the lower bound on the timestamps of future messages. No message arrives
///   before the horizon any more; messages at the horizon may still arrive.
/// * Sending: call [`send`](Self::send) in the order of time, and [`sync`](Self::sync) whenever
///   [`sync_due`](Self::sync_due) has been reached, that is when all work before that time is done. It must
///   not be treated as an event: with an interval as long as the latency it coincides with the horizon, and
///   two peers that process only events before the horizon would deadlock.
/// * No method blocks or is woken. To wait, poll again, see [`Backoff`](crate::Backoff), and call
///   [`check_peer`](Self::check_peer) now and then to detect the end of the peer.
///
/// Dropping a channel closes it without TERMINATE, which some simulators do not tolerate.
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

/// A message in the form of its slot, for forwarding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// Message type, of the base protocol or of the upper layer.
    pub kind: u8,
    /// Timestamp in picoseconds.
    pub stamp: u64,
    /// The upper layer's part of the header.
    pub header: [u8; HEADER],
    /// The upper layer's body.
    pub body: Vec<u8>,
}

/// Message counters of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages received, excluding those of the base protocol.
    pub received: u64,
    /// Messages sent, excluding those of the base protocol.
    pub sent: u64,
    /// SYNCs received.
    pub syncs_received: u64,
    /// SYNCs sent.
    pub syncs_sent: u64,
    /// Messages with a timestamp below that of an earlier message. They arrive at the horizon.
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

    /// The next message that arrives at `now` or before, with its time. Without synchronisation a queued
    /// message arrives at `now`.
    ///
    /// # Errors
    /// If the peer has sent an invalid message.
    pub fn poll(&mut self, now: SimTime) -> Result<Option<(SimTime, L::Received)>, Error> {
        // Bounded, so that a peer that refills slots as fast as they are emptied cannot keep this loop
        // running.
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

    /// The next message of either layer, regardless of its time.
    ///
    /// # Errors
    /// If the peer has sent an invalid message.
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

    /// Sends a message unchanged. False if the queue is full. After the peer's end the message is dropped.
    ///
    /// # Errors
    /// If the message does not fit into a slot.
    pub fn send_whole(&mut self, Raw { kind, stamp, header, body }: &Raw) -> Result<bool, Error> {
        if body.len() > self.capacity() {
            return Err(Fault::TooLarge { len: body.len(), room: self.capacity() }.of(&self.peer));
        }
        Ok(self.ended || self.put_stamped(*stamp, kind & !CONSUMER, header, body))
    }

    /// Returns the slot to the peer.
    fn release(&mut self, owner: u8) {
        self.incoming.give(self.next_in, OWNER, owner & !CONSUMER);
        self.next_in = (self.next_in + 1) % self.incoming.count();
    }

    /// Lower bound on the arrival times of future messages: the timestamp of the latest message seen.
    /// [`SimTime::MAX`] without synchronisation and after the peer's end.
    pub fn horizon(&self) -> SimTime {
        if self.sync { self.horizon } else { SimTime::MAX }
    }

    /// Sends a message at `at`, or at the time of the last message sent if that is later. False if the queue
    /// is full. After the peer's end the message is dropped.
    ///
    /// # Errors
    /// If the message does not fit into a slot, see [`capacity`](Self::capacity).
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

    /// Time by which the peer needs the next message: all work before it must be done first. [`SimTime::MAX`]
    /// without synchronisation.
    pub fn sync_due(&self) -> SimTime {
        match self.last_sent {
            _ if !self.sync => SimTime::MAX,
            None => SimTime::ZERO,
            Some(last) => last + self.interval,
        }
    }

    /// Promises that no message is sent before `now` any more, with a SYNC if one is due by then. False if
    /// the queue is full.
    pub fn sync(&mut self, now: SimTime) -> bool {
        if self.sync_due() > now {
            return true;
        }
        let sent = self.put(now, SYNC, &[0; HEADER], &[]);
        self.counts.syncs_sent += u64::from(sent);
        sent
    }

    /// Promises that no message is sent before `now` any more, whether a SYNC is due or not: the peer then knows
    /// exactly when this end has ended. False if the queue is full.
    pub fn finish(&mut self, now: SimTime) -> bool {
        !self.sync || self.last_sent.is_some_and(|last| last >= now) || self.put(now, SYNC, &[0; HEADER], &[])
    }

    /// Sends TERMINATE: no further message follows. Not all simulators tolerate it: SimBricks' switch, wire
    /// and packet generator abort. False if the queue is full.
    pub fn terminate(&mut self) -> bool {
        // The time wraps around to the latency, so that the message is due at once.
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

    /// Fills the next slot with a raw type, timestamp in picoseconds and header, for tests of peers. False if
    /// the queue is full.
    pub fn send_raw(&mut self, stamp: u64, kind: u8, header: &[u8; HEADER]) -> bool {
        self.put_stamped(stamp, kind, header, &[])
    }

    /// Checks that the peer still exists. This costs a system call, so call it only after a longer wait. The
    /// end of a peer is reported only after all its messages have been polled.
    ///
    /// # Errors
    /// If the peer has closed the channel without TERMINATE. The channel has then ended.
    pub fn check_peer(&mut self) -> Result<(), Error> {
        if self.ended {
            return Ok(());
        }
        let mut socket = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let gone = poll(&mut socket, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0);
        // In this order: messages written before the end are visible now.
        if gone && self.incoming.owner(self.next_in, OWNER) & CONSUMER == 0 {
            self.end();
            return Err(Fault::Closed.of(&self.peer));
        }
        Ok(())
    }

    /// Closes the channel without a message to the peer, and ignores further messages.
    pub fn close(&mut self) {
        self.end();
        // The drop closes the socket for good; an error means that it is closed already.
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

    /// True if the peer has ended, by TERMINATE or by closing the socket.
    pub fn has_ended(&self) -> bool {
        self.ended
    }
    /// The last timestamp of a synchronised peer that has ended; zero otherwise.
    pub fn last_heard(&self) -> SimTime {
        self.last_heard
    }
    /// True if both sides synchronise.
    pub fn is_synchronised(&self) -> bool {
        self.sync
    }
    /// Length of the longest body that the peer's slots can hold.
    pub fn capacity(&self) -> usize {
        (self.outgoing.slot_size() - SLOT_HEADER).min(usize::from(u16::MAX))
    }
    /// The upper layer, including the content of the peer's intro.
    pub fn layer(&self) -> &L {
        &self.layer
    }
    /// Name of the peer.
    pub fn peer(&self) -> &str {
        &self.peer
    }
    /// State of the channel for other threads.
    pub fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }
    /// Message counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
