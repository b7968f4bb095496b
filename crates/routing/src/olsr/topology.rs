//! Information from flooded messages: topology (RFC 3626, section 9), interfaces (5) and networks (12).

use super::packet::{self, Message, Tc};
use super::{Olsr, is_node};
use crate::contract::DecodeError;
use crate::reader::Reader;
use crate::{Prefix, Time};
use belljar_base::Set;
use std::net::Ipv4Addr;

/// Upper bound on the topology tuples of a node.
const MOST_TOPOLOGY: usize = 131_072;
/// Upper bound on the interface association tuples of a node.
const MOST_ASSOCIATIONS: usize = 65_536;
/// Upper bound on the HNA tuples of a node.
const MOST_NETWORKS: usize = 65_536;

/// A topology tuple: `T_dest_addr` is reachable in one hop from `T_last_addr`, the keys of its set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Topology {
    /// `T_seq`: ANSN of the message.
    pub seq: u16,
    /// `T_time`.
    pub until: Time,
    /// Node numbers of `T_last_addr` and `T_dest_addr`.
    pub ends: [u32; 2],
}

/// Key of a topology tuple, ordered by `T_last_addr`.
pub(super) fn tuple_key(last: Ipv4Addr, destination: Ipv4Addr) -> u64 {
    u64::from(last.to_bits()) << 32 | u64::from(destination.to_bits())
}

/// The addresses in a key: `T_last_addr` and `T_dest_addr`.
pub(super) fn tuple_ends(key: u64) -> (Ipv4Addr, Ipv4Addr) {
    (Ipv4Addr::from_bits((key >> 32) as u32), Ipv4Addr::from_bits(key as u32))
}

/// Section 19: true if sequence number `a` is more recent than `b`, with wrap-around.
pub(super) fn newer(a: u16, b: u16) -> bool {
    a != b && a.wrapping_sub(b) < 0x8000
}

impl Olsr {
    /// Section 9.5.
    pub(super) fn on_tc(&mut self, now: Time, message: &Message<'_>) -> Result<(), DecodeError> {
        let tc = Tc::decode(message.body)?;
        let last = message.originator;
        let known = || tuple_key(last, Ipv4Addr::UNSPECIFIED)..=tuple_key(last, Ipv4Addr::BROADCAST);
        // "2. If there exist some tuple in the topology set where T_last_addr == originator address AND T_seq > ANSN, then
        // further processing of this TC message MUST NOT be performed"
        if self.topology.range(known()).any(|(_, tuple)| newer(tuple.seq, tc.ansn)) {
            return Ok(());
        }
        // "3. All tuples in the topology set where T_last_addr == originator address AND T_seq < ANSN MUST be
        // removed" Tuples advertised again by this message stay and get its ANSN.
        let told: Set<Ipv4Addr> = tc.neighbors.iter().copied().collect();
        let is_old = |(key, tuple): &(&u64, &Topology)| {
            newer(tc.ansn, tuple.seq) && !told.contains(&tuple_ends(**key).1)
        };
        let old: Vec<_> = self.topology.range(known()).filter(is_old).map(|(key, _)| *key).collect();
        for key in old {
            if let Some(tuple) = self.topology.remove(&key) {
                self.dirty.routes |= self.tree.is_used(tuple.ends);
                self.nodes.release_all(tuple.ends);
            }
        }
        let until = now + message.validity;
        for destination in tc.neighbors {
            let key = tuple_key(last, destination);
            if let Some(known) = self.topology.get_mut(&key) {
                (known.seq, known.until) = (tc.ansn, until);
                continue;
            }
            if self.topology.len() >= MOST_TOPOLOGY {
                self.counts.refused += 1;
                continue;
            }
            let ends = [last, destination].map(|address| {
                let (number, is_new) = self.nodes.take(address);
                if is_new {
                    self.tree.forget(number as usize);
                }
                number
            });
            self.topology.insert(key, Topology { seq: tc.ansn, until, ends });
            self.dirty.routes |= self.tree.is_shorter(ends);
        }
        self.expire_at = self.expire_at.min(until);
        Ok(())
    }

    /// Section 5.4.
    pub(super) fn on_mid(&mut self, now: Time, message: &Message<'_>) -> Result<(), DecodeError> {
        let until = now + message.validity;
        for address in packet::decode_addresses(message.body)? {
            // Other nodes cannot claim this node's interfaces.
            let ours = self.interfaces.values().any(|interface| interface.at.address == address);
            if ours
                || address == self.config.main_address
                || address == message.originator
                || !is_node(address)
            {
                continue;
            }
            if self.associations.len() >= MOST_ASSOCIATIONS && !self.associations.contains_key(&address) {
                self.counts.refused += 1;
                continue;
            }
            let before = self.associations.insert(address, (message.originator, until));
            if before.map(|(main, _)| main) != Some(message.originator) {
                (self.dirty.routes, self.dirty.relays) = (true, true);
                self.rename_two_hop(address, message.originator);
            }
        }
        self.expire_at = self.expire_at.min(until);
        Ok(())
    }

    /// Renames 2-hop tuples, which hold main addresses: a HELLO may have arrived before the MID that
    /// associates its address.
    fn rename_two_hop(&mut self, address: Ipv4Addr, main: Ipv4Addr) {
        let named: Vec<_> = self.two_hop.keys().filter(|key| key.1 == address).copied().collect();
        for key in named {
            if let Some(tuple) = self.two_hop.remove(&key)
                && main != self.config.main_address
            {
                self.two_hop.insert((key.0, main), tuple);
            }
        }
    }

    /// Section 12.5.
    pub(super) fn on_hna(&mut self, now: Time, message: &Message<'_>) -> Result<(), DecodeError> {
        let mut reader = Reader::new(message.body);
        let until = now + message.validity;
        while !reader.is_empty() {
            let (network, netmask) = (reader.ipv4()?, reader.ipv4()?);
            let prefix = Prefix::from_netmask(network, netmask).ok_or(DecodeError::Value)?;
            let key = (message.originator, prefix);
            if self.networks.len() >= MOST_NETWORKS && !self.networks.contains_key(&key) {
                self.counts.refused += 1;
                continue;
            }
            self.dirty.routes |= self.networks.insert(key, until).is_none();
        }
        self.expire_at = self.expire_at.min(until);
        Ok(())
    }

    /// Main address of the node that has an interface with this address (section 5.5).
    pub(super) fn main_address_of(&self, address: Ipv4Addr) -> Ipv4Addr {
        if self.interfaces.values().any(|interface| interface.at.address == address) {
            return self.config.main_address;
        }
        if let Some((main, _)) = self.associations.get(&address) {
            return *main;
        }
        // A neighbour's HELLO contains its main address before its MID arrives.
        self.links.iter().find(|((_, at), _)| *at == address).map_or(address, |(_, link)| link.main)
    }

    /// Removes expired tuples. Returns the time of the next expiry.
    pub(super) fn expire_topology(&mut self, now: Time) -> Time {
        let sizes = |olsr: &Olsr| (olsr.associations.len(), olsr.networks.len());
        let before = sizes(self);
        let (nodes, tree) = (&mut self.nodes, &self.tree);
        let mut used = false;
        self.topology.retain(|_, tuple| {
            let stays = tuple.until > now;
            if !stays {
                used |= tree.is_used(tuple.ends);
                nodes.release_all(tuple.ends);
            }
            stays
        });
        self.associations.retain(|_, (_, until)| *until > now);
        self.networks.retain(|_, until| *until > now);
        self.dirty.routes |= used || sizes(self) != before;
        let topology = self.topology.values().map(|tuple| tuple.until);
        let associations = self.associations.values().map(|(_, until)| *until);
        topology.chain(associations).chain(self.networks.values().copied()).min().unwrap_or(Time::MAX)
    }
}
