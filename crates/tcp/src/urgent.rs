//! Urgent data (RFC 9293, section 3.8.5) as Linux does it: the last byte of the marked data is taken out of
//! the stream and delivered by `MSG_OOB`, unless `SO_OOBINLINE` is set. RFC 6093 recommends against its use.

use crate::connection::Connection;
use crate::rcv::Receiver;
use crate::snd::SendQueue;
use crate::{Events, Flags, Repr};

/// State of the byte at the peer's urgent mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Byte {
    /// The byte was announced and has not arrived.
    Awaited,
    /// The byte has arrived.
    Here(u8),
    /// The program has read the byte.
    Taken,
}

/// Urgent data in both directions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Urgent {
    /// Sequence number and state of the peer's last urgent byte.
    pub mark: Option<(u64, Byte)>,
    /// True if the urgent byte remains in the stream: `SO_OOBINLINE`.
    pub inline: bool,
}

/// Result of a read of the urgent byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrgentByte {
    /// There is no urgent byte: none was sent, it was already taken, or it is in the stream.
    None,
    /// The urgent byte was announced and has not arrived.
    Awaited,
    /// The urgent byte.
    Byte(u8),
}

impl Urgent {
    /// Records an urgent mark if it is new and its data is unread (`tcp_check_urg`). True if so.
    fn note_mark(&mut self, at: u64, rcv: &mut Receiver) -> bool {
        let read = rcv.read_seq();
        if at < read || at < rcv.nxt || self.mark.is_some_and(|(before, _)| at <= before) {
            return false;
        }
        // A read has reached the previous urgent byte: drop the byte, so that it does not become part of the
        // stream.
        if self.is_next(rcv) && !self.inline && read != rcv.nxt {
            rcv.drop_front(1);
        }
        self.mark = Some((at, Byte::Awaited));
        true
    }

    /// True if reading has reached the mark.
    fn is_next(&self, rcv: &Receiver) -> bool {
        self.mark.is_some_and(|(at, _)| at == rcv.read_seq())
    }

    /// Number of readable bytes before the mark, or of all if there is none (`SIOCINQ`).
    pub(crate) fn bytes_before_mark(&self, rcv: &Receiver) -> usize {
        let (readable, read) = (rcv.readable(), rcv.read_seq());
        match self.mark {
            Some((at, _)) if !self.inline && at >= read && at < rcv.nxt => (at - read) as usize,
            _ => readable,
        }
    }

    /// Discards a mark that reading has passed.
    pub(crate) fn pass_mark(&mut self, rcv: &Receiver) {
        if self.mark.is_some_and(|(at, _)| rcv.read_seq() > at) {
            self.mark = None;
        }
    }
}

impl SendQueue {
    /// True if urgent data is unacknowledged.
    pub(crate) fn is_urgent(&self) -> bool {
        self.up > self.una
    }

    /// Sets the URG flag and the urgent pointer of a segment that starts at `seq` (`__tcp_transmit_skb`).
    pub(crate) fn point_at_urgent(&self, seq: u64, repr: &mut Repr) {
        if !self.is_urgent() || seq >= self.up {
            return;
        }
        let ahead = self.up - seq;
        if ahead < 0x1_0000 {
            (repr.urgent, repr.flags) = (ahead as u16, repr.flags | Flags::URG);
        } else if seq + 0xffff > self.nxt {
            (repr.urgent, repr.flags) = (0xffff, repr.flags | Flags::URG);
        }
    }
}

impl Connection {
    /// `SO_OOBINLINE`.
    pub fn set_urgent_inline(&mut self, inline: bool) {
        self.urgent.inline = inline;
    }

    /// Marks the end of the most recently written data as urgent (`MSG_OOB`).
    pub fn mark_urgent(&mut self) {
        self.tx.snd.up = self.tx.snd.data_end();
        self.pending.push = true;
    }

    /// Processes the urgent pointer before the text of the segment is queued: "sixth, check the URG bit"
    /// (`tcp_urg`).
    pub(crate) fn process_urgent(&mut self, seq: u64, segment: &Repr, payload: &[u8]) {
        if segment.has(Flags::URG) {
            let at = seq + u64::from(segment.urgent.saturating_sub(1));
            if self.urgent.note_mark(at, &mut self.rcv) {
                self.events |= Events::URGENT_MARK;
            }
        }
        if let Some((at, byte @ Byte::Awaited)) = &mut self.urgent.mark
            && *at >= seq
            && let Some(urgent) = payload.get((*at - seq) as usize)
        {
            *byte = Byte::Here(*urgent);
            self.events |= Events::READABLE | Events::URGENT;
        }
    }

    /// True if reading has reached the mark (`SIOCATMARK`).
    pub fn is_at_mark(&self) -> bool {
        self.urgent.is_next(&self.rcv)
    }

    /// True if urgent data was announced that reading has not passed.
    pub fn has_mark(&self) -> bool {
        self.urgent.mark.is_some()
    }

    /// True if an urgent byte can be read (`EPOLLPRI`).
    pub fn has_urgent(&self) -> bool {
        matches!(self.urgent.mark, Some((_, Byte::Here(_))))
    }

    /// The urgent byte (`MSG_OOB`). Takes it unless `look` is set.
    pub fn take_urgent(&mut self, look: bool) -> UrgentByte {
        match &mut self.urgent.mark {
            _ if self.urgent.inline => UrgentByte::None,
            None | Some((_, Byte::Taken)) => UrgentByte::None,
            Some((_, Byte::Awaited)) => UrgentByte::Awaited,
            Some((_, byte @ Byte::Here(_))) => {
                let Byte::Here(value) = *byte else { return UrgentByte::None };
                if !look {
                    *byte = Byte::Taken;
                }
                UrgentByte::Byte(value)
            }
        }
    }

    /// Number of bytes that a read may take up to the mark. The start of a read skips an urgent byte that is
    /// next, unless it is in the stream. A read that already has bytes (`goes_on`) stops at the mark.
    pub fn readable_to_mark(&mut self, goes_on: bool) -> usize {
        if self.is_at_mark() {
            if goes_on {
                return 0;
            }
            if !self.urgent.inline && self.rcv.drop_front(1) > 0 {
                self.urgent.mark = None;
            }
        }
        let readable = self.rcv.readable();
        match self.urgent.mark {
            Some((at, _)) if at > self.rcv.read_seq() => readable.min((at - self.rcv.read_seq()) as usize),
            _ => readable,
        }
    }
}
