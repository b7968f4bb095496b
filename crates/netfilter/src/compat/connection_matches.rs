//! Matches on the connection of a packet: conntrack, connmark, connlimit.

use super::field::Fields;
use super::{Extends, Outcome};
use crate::attributes::NetfilterError;
use crate::operation::Passing;
use belljar_conntrack::{Attached, CtStatus, CtZone, Tuple, TupleDirection};
use std::sync::Mutex;

/// `XT_CONNTRACK_*`.
mod flag {
    pub(super) const STATE: u16 = 1;
    pub(super) const PROTO: u16 = 1 << 1;
    pub(super) const ADDRESSES: [u16; 4] = [1 << 2, 1 << 3, 1 << 4, 1 << 5];
    pub(super) const STATUS: u16 = 1 << 6;
    pub(super) const EXPIRES: u16 = 1 << 7;
    pub(super) const PORTS: [u16; 4] = [1 << 8, 1 << 9, 1 << 10, 1 << 11];
    pub(super) const DIRECTION: u16 = 1 << 12;
}

/// `XT_CONNTRACK_STATE_*` beyond the bits of `ct state`.
const STATE_SNAT: u16 = 1 << 6;
const STATE_DNAT: u16 = 1 << 7;
const STATE_UNTRACKED: u16 = 1 << 8;

/// `struct xt_conntrack_mtinfo3`.
#[derive(Debug)]
pub(super) struct Connection {
    /// Addresses and masks: original source and destination, source and destination of replies.
    addresses: [([u8; 16], [u8; 16]); 4],
    expires: (u32, u32),
    protocol: u16,
    ports: [(u16, u16); 4],
    matched: u16,
    inverted: u16,
    states: u16,
    status: u16,
}

impl Connection {
    pub(super) fn read(fields: Fields<'_>) -> Result<Connection, NetfilterError> {
        let mut addresses = [([0; 16], [0; 16]); 4];
        let mut ports = [(0, 0); 4];
        for n in 0..4 {
            addresses[n] = (fields.bytes(32 * n)?, fields.bytes(32 * n + 16)?);
            ports[n] = (fields.u16(138 + 2 * n)?, fields.u16(154 + 2 * n)?);
        }
        Ok(Connection {
            addresses,
            expires: (fields.u32(128)?, fields.u32(132)?),
            protocol: fields.u16(136)?,
            ports,
            matched: fields.u16(146)?,
            inverted: fields.u16(148)?,
            states: fields.u16(150)?,
            status: fields.u16(152)?,
        })
    }
    /// True if a condition holds, or is not asked for.
    fn holds(&self, flag: u16, condition: impl FnOnce() -> bool) -> bool {
        self.matched & flag == 0 || condition() != (self.inverted & flag != 0)
    }
    fn matches(&self, passing: &Passing<'_>) -> bool {
        let conntrack = &passing.tracking.conntrack;
        let found = conntrack.conn(passing.attached);
        let mut state = match passing.attached {
            Attached::Untracked => STATE_UNTRACKED,
            attached => attached.state_bits() as u16,
        };
        if let Some(conn) = found {
            state |= if conn.is(CtStatus::SRC_NAT) { STATE_SNAT } else { 0 };
            state |= if conn.is(CtStatus::DST_NAT) { STATE_DNAT } else { 0 };
        }
        if !self.holds(flag::STATE, || self.states & state != 0) {
            return false;
        }
        let (Some(conn), Some(direction)) = (found, passing.attached.direction()) else {
            return self.matched & flag::STATE != 0;
        };
        let (original, reply) = (conn.original(), conn.reply());
        let ends = [original.source, original.destination, reply.source, reply.destination];
        let ports =
            [original.source_port, original.destination_port, reply.source_port, reply.destination_port];
        let masked = |n: usize| {
            let (address, mask) = &self.addresses[n];
            let bytes = ends[n].0.iter().zip(address).zip(mask);
            bytes.into_iter().all(|((found, wanted), mask)| found & mask == wanted & mask)
        };
        let seconds = || (conn.expires(passing.environment.now()).as_nanos() / 1_000_000_000) as u32;
        self.holds(flag::DIRECTION, || direction == TupleDirection::Original)
            && (0..4).all(|n| self.holds(flag::ADDRESSES[n], || masked(n)))
            && self.holds(flag::PROTO, || u16::from(original.protocol) == self.protocol)
            && (0..4).all(|n| {
                let (low, high) = self.ports[n];
                self.holds(flag::PORTS[n], || (low..=high.max(low)).contains(&ports[n]))
            })
            && self.holds(flag::STATUS, || conn.status().bits() & u32::from(self.status) != 0)
            && self.holds(flag::EXPIRES, || (self.expires.0..=self.expires.1).contains(&seconds()))
    }
}

impl Extends for Connection {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        Outcome::given(self.matches(passing))
    }
    fn tracks(&self) -> bool {
        true
    }
}

/// `struct xt_connmark_mtinfo1`.
#[derive(Debug)]
pub(super) struct ConnectionMark {
    mark: u32,
    mask: u32,
    inverted: bool,
}

impl ConnectionMark {
    pub(super) fn read(fields: Fields<'_>) -> Result<ConnectionMark, NetfilterError> {
        Ok(ConnectionMark { mark: fields.u32(0)?, mask: fields.u32(4)?, inverted: fields.u8(8)? != 0 })
    }
}

impl Extends for ConnectionMark {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        let conn = passing.tracking.conntrack.conn(passing.attached);
        Outcome::given(conn.is_some_and(|conn| (conn.mark() & self.mask == self.mark) != self.inverted))
    }
    fn tracks(&self) -> bool {
        true
    }
}

/// Address and connection that was counted.
type Counted = ([u8; 16], CtZone, Tuple);

/// `struct xt_connlimit_info`.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    mask: [u8; 16],
    limit: u32,
    inverted: bool,
    by_destination: bool,
    counted: Mutex<Vec<Counted>>,
}

impl ConnectionLimit {
    pub(super) fn read(fields: Fields<'_>) -> Result<ConnectionLimit, NetfilterError> {
        let flags = fields.u32(20)?;
        Ok(ConnectionLimit {
            mask: fields.bytes(0)?,
            limit: fields.u32(16)?,
            inverted: flags & 1 != 0,
            by_destination: flags & 2 != 0,
            counted: Mutex::default(),
        })
    }
}

impl Extends for ConnectionLimit {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        let (conntrack, now) = (&passing.tracking.conntrack, passing.environment.now());
        let Some(conn) = conntrack.conn(passing.attached) else { return Outcome::Break };
        let (zone, tuple) = (conn.zone(), *conn.original());
        let address = if self.by_destination { tuple.destination } else { tuple.source };
        let mut key = address.0;
        key.iter_mut().zip(self.mask).for_each(|(byte, mask)| *byte &= mask);
        let Ok(mut counted) = self.counted.lock() else { return Outcome::Break };
        counted.retain(|(_, other_zone, other)| {
            (*other_zone, *other) == (zone, tuple)
                || conntrack.find(*other_zone, other, now).is_some_and(|(key, _)| !conntrack.is_closed(key))
        });
        if !counted.contains(&(key, zone, tuple)) {
            counted.push((key, zone, tuple));
        }
        let connections = counted.iter().filter(|(other, ..)| *other == key).count();
        Outcome::given((connections > self.limit as usize) != self.inverted)
    }
    fn tracks(&self) -> bool {
        true
    }
}
