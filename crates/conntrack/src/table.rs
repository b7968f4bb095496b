//! Table of connections: by key, by tuple and zone, by deadline, and by original source for NAT.
//!
//! # Order
//! Connections lie in a slab and are listed in the order of its slots, which is that of their creation while
//! none has ended. Tuples are found through an ordered set of `(hash, slot, direction)`, which serves as
//! Linux's hash table: bucket `b` of `n` holds the hashes from `b * 2^32 / n` on, so that neighbouring
//! buckets are neighbouring ranges of the set. The eviction of entries from a full table looks at the same
//! number of buckets as Linux (`early_drop`), whatever the number of connections is.
//!
//! # Deadlines
//! A packet renews the timeout of its connection. The set of deadlines is only touched if the new deadline
//! precedes the one under which the connection stands there, and when that one is reached: then the
//! connection is removed or stands under its present deadline. A deadline of the set can therefore be one at
//! which nothing happens.

use crate::conn::{Conn, ConnKey, CtStatus, CtZone, Jiffies};
use crate::tuple::{Tuple, TupleDirection};
use belljar_base::{Set, SimTime};

/// Number of buckets that are searched for an entry to evict (`NF_CT_EVICTION_RANGE`).
const EVICTION_RANGE: u64 = 8;

/// Slot of the slab.
#[derive(Debug, Default)]
struct Slot {
    /// Counts the connections that have used the slot.
    generation: u32,
    conn: Option<Box<Conn>>,
}

/// Table of connections.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Number of connections, those that are not confirmed yet included.
    len: usize,
    /// Confirmed tuples: hash in the upper half, slot and direction in the lower.
    tuples: Set<u64>,
    /// Deadline and slot.
    deadlines: Set<(Jiffies, u32)>,
    /// Creation and slot of connections that are not confirmed.
    unconfirmed: Set<(Jiffies, u32)>,
    /// Slots of connections that have left the table while a packet may still be attached to them.
    dying: Vec<u32>,
    /// Connections whose source translation is decided: hash of the original source, order (the latest first)
    /// and slot.
    sources: Set<(u32, u64, u32)>,
    /// Orders of `sources` that have been given, counted down.
    next_source: u64,
    key: u64,
    serial: u64,
}

/// Mixes a word into a hash.
const fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// Hash of a mixed value, each of whose bits depends on all of them (MurmurHash3's finalizer).
const fn finish(mut hash: u64) -> u32 {
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (hash >> 32) as u32
}

fn mix_address(hash: u64, address: &crate::InetAddress) -> u64 {
    let [a, b, c, d] = address.words();
    mix(mix(hash, u64::from(a) << 32 | u64::from(b)), u64::from(c) << 32 | u64::from(d))
}

const fn entry(hash: u32, slot: u32, direction: TupleDirection) -> u64 {
    (hash as u64) << 32 | (slot as u64) << 1 | direction as u64
}

impl Table {
    /// Empty table whose hashes depend on `key`.
    pub fn new(key: u64) -> Table {
        Table { key, next_source: u64::MAX, ..Table::default() }
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Hash of a tuple in a zone.
    fn hash(&self, zone: u16, tuple: &Tuple) -> u32 {
        let mut hash = mix_address(self.key, &tuple.source);
        hash = mix_address(hash, &tuple.destination);
        let rest = u64::from(tuple.source_port) << 48
            | u64::from(tuple.destination_port) << 32
            | u64::from(zone) << 16
            | u64::from(tuple.protocol) << 8
            | tuple.l3 as u64;
        finish(mix(hash, rest))
    }

    fn source_hash(&self, zone: CtZone, tuple: &Tuple) -> u32 {
        // The zone counts if it distinguishes both directions.
        let id = if zone.directions == CtZone::DEFAULT.directions { zone.id } else { 0 };
        let rest = u64::from(tuple.source_port) << 32 | u64::from(id) << 16 | u64::from(tuple.protocol);
        finish(mix(mix_address(self.key, &tuple.source), rest))
    }

    /// Adds a connection that is not confirmed.
    pub fn add(&mut self, conn: Conn, now: SimTime) -> ConnKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        self.len += 1;
        self.unconfirmed.insert((now.jiffies(), slot));
        let held = &mut self.slots[slot as usize];
        let mut conn = Box::new(conn);
        conn.queued = now.jiffies();
        held.conn = Some(conn);
        ConnKey { slot, generation: held.generation }
    }

    /// Connection of a key.
    pub fn get(&self, key: ConnKey) -> Option<&Conn> {
        let slot = self.slots.get(key.slot as usize)?;
        slot.conn.as_deref().filter(|_| slot.generation == key.generation)
    }

    /// Connection of a key.
    pub fn get_mut(&mut self, key: ConnKey) -> Option<&mut Conn> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        let same = slot.generation == key.generation;
        slot.conn.as_deref_mut().filter(|_| same)
    }

    fn key_of(&self, slot: u32) -> ConnKey {
        ConnKey { slot, generation: self.slots[slot as usize].generation }
    }

    fn conn_at(&self, slot: u32) -> Option<&Conn> {
        self.slots[slot as usize].conn.as_deref()
    }

    /// Connection with a tuple in a zone, and the direction of the tuple (`nf_conntrack_find_get`).
    pub fn find(&self, zone: CtZone, tuple: &Tuple, now: SimTime) -> Option<(ConnKey, TupleDirection)> {
        let original = zone.id_in(TupleDirection::Original);
        let reply = zone.id_in(TupleDirection::Reply);
        self.find_as(original, zone, tuple, now).or_else(|| {
            let differs = original != reply;
            differs.then(|| self.find_as(reply, zone, tuple, now)).flatten()
        })
    }

    fn find_as(
        &self,
        id: u16,
        zone: CtZone,
        tuple: &Tuple,
        now: SimTime,
    ) -> Option<(ConnKey, TupleDirection)> {
        self.with_tuple(id, zone, tuple, now).next()
    }

    /// Connections with a tuple; several only if one of them is an entry that lost a clash.
    fn with_tuple<'a>(
        &'a self,
        id: u16,
        zone: CtZone,
        tuple: &'a Tuple,
        now: SimTime,
    ) -> impl Iterator<Item = (ConnKey, TupleDirection)> + 'a {
        let hash = self.hash(id, tuple);
        let first = u64::from(hash) << 32;
        self.tuples.range(first..=first | 0xffff_ffff).filter_map(move |entry| {
            let (slot, direction) = unpack(*entry);
            let conn = self.conn_at(slot)?;
            let same = conn.tuple(direction) == tuple
                && conn.zone.id_in(direction) == zone.id_in(direction)
                && !conn.is_expired(now);
            same.then(|| (self.key_of(slot), direction))
        })
    }

    /// True if another connection than `ignored` would get the packets of a reply tuple
    /// (`nf_conntrack_tuple_taken`). A connection with the same original tuple is of the same flow, and
    /// counts as free.
    pub fn is_taken(&self, ignored: ConnKey, reply: &Tuple, now: SimTime) -> bool {
        let Some(own) = self.get(ignored) else { return false };
        let id = own.zone.id_in(TupleDirection::Reply);
        self.with_tuple(id, own.zone, reply, now).any(|(key, _)| {
            let Some(other) = self.get(key).filter(|_| key != ignored) else { return false };
            let direction = TupleDirection::Original;
            other.original() != own.original() || other.zone.id_in(direction) != own.zone.id_in(direction)
        })
    }

    /// Confirms a connection: its tuples are found from now on, and its timeout runs. With `reply_only`, its
    /// original tuple is not found.
    pub fn confirm(&mut self, key: ConnKey, reply_only: bool, now: SimTime) {
        let Some(conn) = self.get(key) else { return };
        let (created, zone, tuples) = (conn.queued, conn.zone, conn.tuples);
        self.unconfirmed.remove(&(created, key.slot));
        for direction in TupleDirection::BOTH {
            if direction == TupleDirection::Reply || !reply_only {
                let hash = self.hash(zone.id_in(direction), &tuples[direction as usize]);
                self.tuples.insert(entry(hash, key.slot, direction));
            }
        }
        self.serial += 1;
        let serial = self.serial;
        let Some(conn) = self.get_mut(key) else { return };
        conn.status.insert(CtStatus::CONFIRMED);
        conn.serial = serial;
        conn.timeout = conn.timeout.saturating_add(now.jiffies());
        conn.queued = conn.timeout;
        let deadline = (conn.timeout, key.slot);
        self.deadlines.insert(deadline);
    }

    /// Sets the time that a connection has left.
    pub fn set_timeout(&mut self, key: ConnKey, left: Jiffies, now: SimTime) {
        let Some(conn) = self.get_mut(key) else { return };
        if !conn.is(CtStatus::CONFIRMED) {
            conn.timeout = left;
            return;
        }
        conn.timeout = now.jiffies().saturating_add(left);
        if conn.timeout < conn.queued {
            let (old, new) = (conn.queued, conn.timeout);
            conn.queued = new;
            self.deadlines.remove(&(old, key.slot));
            self.deadlines.insert((new, key.slot));
        }
    }

    /// Lists a connection by its original source, so that later connections of the source get the same
    /// translation.
    pub fn list_source(&mut self, key: ConnKey) {
        let Some(conn) = self.get(key) else { return };
        let hash = self.source_hash(conn.zone, conn.original());
        self.sources.insert((hash, self.next_source, key.slot));
        self.next_source -= 1;
    }

    /// Connections from the source of a tuple whose source translation is decided, the latest first.
    pub fn same_source<'a>(&'a self, zone: CtZone, tuple: &'a Tuple) -> impl Iterator<Item = &'a Conn> + 'a {
        let hash = self.source_hash(zone, tuple);
        self.sources.range((hash, 0, 0)..=(hash, u64::MAX, u32::MAX)).filter_map(move |(.., slot)| {
            let conn = self.conn_at(*slot)?;
            let other = conn.original();
            let same = other.protocol == tuple.protocol
                && other.source == tuple.source
                && other.source_port == tuple.source_port
                && conn.zone.id_in(TupleDirection::Original) == zone.id_in(TupleDirection::Original);
            same.then_some(conn)
        })
    }

    /// Removes a connection from the table. Its key stays valid until [`bury`](Self::bury), for the packet
    /// that caused the removal. False if it has been removed before.
    pub fn remove(&mut self, key: ConnKey) -> bool {
        let Some(conn) = self.get_mut(key) else { return false };
        if conn.is(CtStatus::DYING) {
            return false;
        }
        conn.status.insert(CtStatus::DYING);
        let (status, queued, zone, tuples) = (conn.status, conn.queued, conn.zone, conn.tuples);
        self.len -= 1;
        self.dying.push(key.slot);
        match status.contains(CtStatus::CONFIRMED) {
            true => {
                self.deadlines.remove(&(queued, key.slot));
                for direction in TupleDirection::BOTH {
                    let hash = self.hash(zone.id_in(direction), &tuples[direction as usize]);
                    self.tuples.remove(&entry(hash, key.slot, direction));
                }
            }
            false => {
                self.unconfirmed.remove(&(queued, key.slot));
            }
        }
        if status.contains(CtStatus::SRC_NAT_DONE) {
            let hash = self.source_hash(zone, &tuples[0]);
            let listed = self.sources.range((hash, 0, 0)..=(hash, u64::MAX, u32::MAX));
            if let Some(listed) = listed.filter(|(.., slot)| *slot == key.slot).copied().next() {
                self.sources.remove(&listed);
            }
        }
        true
    }

    /// Frees the connections that have been removed.
    pub fn bury(&mut self) {
        for slot in std::mem::take(&mut self.dying) {
            let held = &mut self.slots[slot as usize];
            held.conn = None;
            held.generation = held.generation.wrapping_add(1);
            self.free.push(slot);
        }
    }

    /// Connection whose deadline has been reached, the earliest first.
    pub fn next_expired(&mut self, now: SimTime) -> Option<ConnKey> {
        while let Some(&(deadline, slot)) = self.deadlines.first() {
            if deadline > now.jiffies() {
                return None;
            }
            let key = self.key_of(slot);
            let Some(conn) = self.get_mut(key) else {
                self.deadlines.pop_first();
                continue;
            };
            if conn.timeout <= now.jiffies() {
                return Some(key);
            }
            let later = conn.timeout;
            conn.queued = later;
            self.deadlines.pop_first();
            self.deadlines.insert((later, slot));
        }
        None
    }

    /// Connection that has not been confirmed since `created`.
    pub fn next_stale(&self, created: Jiffies) -> Option<ConnKey> {
        let (at, slot) = self.unconfirmed.first()?;
        (*at <= created).then(|| self.key_of(*slot))
    }

    /// Time of the earliest deadline, in ticks.
    pub fn next_deadline(&self) -> Option<Jiffies> {
        Some(self.deadlines.first()?.0)
    }

    /// Connections that may be evicted in favour of one with `tuple`: those that are not assured, of the
    /// first bucket with any, among the buckets from the tuple's on (`early_drop`).
    pub fn evictable(&self, zone: CtZone, tuple: &Tuple, buckets: u32, now: SimTime) -> Vec<ConnKey> {
        let hash = self.hash(zone.id_in(TupleDirection::Original), tuple);
        let size = u64::from(buckets.max(1));
        let bucket = (u64::from(hash) * size) >> 32;
        for n in 0..EVICTION_RANGE.min(size) {
            let bucket = (bucket + n) % size;
            let first = (bucket << 32).div_ceil(size) << 32;
            let after = ((bucket + 1) << 32).div_ceil(size);
            let last = after.saturating_sub(1) << 32 | 0xffff_ffff;
            if last < first {
                continue;
            }
            let mut found = Vec::new();
            for entry in self.tuples.range(first..=last) {
                let (slot, _) = unpack(*entry);
                let Some(conn) = self.conn_at(slot) else { continue };
                let key = self.key_of(slot);
                if !conn.is(CtStatus::ASSURED) && !conn.is_expired(now) && !found.contains(&key) {
                    found.push(key);
                }
            }
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// Confirmed connections from a slot on.
    pub fn confirmed_from(&self, slot: u32) -> impl Iterator<Item = (ConnKey, &Conn)> {
        let slots = self.slots.get(slot as usize..).unwrap_or_default();
        slots.iter().enumerate().filter_map(move |(n, held)| {
            let conn = held.conn.as_deref()?;
            let listed = conn.is(CtStatus::CONFIRMED)
                && !conn.status.intersects(CtStatus::DYING | CtStatus::NAT_CLASH);
            listed.then(|| (ConnKey { slot: slot + n as u32, generation: held.generation }, conn))
        })
    }

    /// Connections that are not confirmed.
    pub fn unconfirmed(&self) -> impl Iterator<Item = (ConnKey, &Conn)> {
        self.unconfirmed.iter().filter_map(|(_, slot)| Some((self.key_of(*slot), self.conn_at(*slot)?)))
    }

    /// Connections that have been removed and not freed.
    pub fn dying(&self) -> impl Iterator<Item = (ConnKey, &Conn)> {
        self.dying.iter().filter_map(|slot| Some((self.key_of(*slot), self.conn_at(*slot)?)))
    }
}

/// Slot and direction of an entry of the tuples.
const fn unpack(entry: u64) -> (u32, TupleDirection) {
    let direction = if entry & 1 == 0 { TupleDirection::Original } else { TupleDirection::Reply };
    ((entry as u32) >> 1, direction)
}
