//! Network address translation (`nf_nat_core.c`).
//!
//! # Mappings
//! A connection's translation is its reply tuple: the tuple of answers as they arrive. It is decided once for
//! the source and once for the destination, at the first hook of each where the first packet passes while
//! translation is in use. Where no rule applies, a *null binding* is made, which keeps the addresses and
//! changes the source port only if another connection has the tuple.
//!
//! # Ports
//! The choice ([`choose`]) is Linux's: the packet's own port if the tuple is free; else the port that an
//! earlier connection of the same source got; else a search from a random port on, in the range of the port:
//! 1 to 511, 600 to 1023, or 1024 to 65535. So the mapping of one source is independent of the destination
//! while its port is free (RFC 4787, section 4.1).
//!
//! # Packets
//! [`Conntrack::translate`] changes addresses, ports and checksums of later packets by the tuples alone, and
//! of ICMP errors the quoted packet as well ([`packet`]).

mod choose;
mod packet;
#[cfg(test)]
mod tests;

pub(crate) use packet::sctp_checksum;

use crate::conn::{Attached, ConnKey, CtInfo, CtStatus};
use crate::conntrack::{Conntrack, InetHook, TrackVerdict};
use crate::event::Reporter;
use crate::tuple::{InetAddress, L3, TupleDirection};
use belljar_base::SimTime;
use bitflags::bitflags;

bitflags! {
    /// Properties of a range: `NF_NAT_RANGE_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NatFlags: u32 {
        /// The addresses of the range count.
        const MAP_IPS = 1 << 0;
        /// The ports of the range count.
        const PROTO_SPECIFIED = 1 << 1;
        /// The port is drawn (`random`).
        const PROTO_RANDOM = 1 << 2;
        /// A client gets the same address for all destinations.
        const PERSISTENT = 1 << 3;
        /// The port is drawn (`fully-random`).
        const PROTO_RANDOM_FULLY = 1 << 4;
        /// The port keeps its distance from the base port (`xt_DNAT` with a shifted range).
        const PROTO_OFFSET = 1 << 5;
        /// The network part of the address is replaced, the rest is kept.
        const NETMAP = 1 << 6;
        /// Either random choice.
        const PROTO_RANDOM_ALL = 1 << 2 | 1 << 4;
    }
}

/// Addresses and ports that a translation may choose from (`struct nf_nat_range2`). Bounds are included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatRange {
    /// Properties.
    pub flags: NatFlags,
    /// Lowest address.
    pub min_address: InetAddress,
    /// Highest address.
    pub max_address: InetAddress,
    /// Lowest port or ICMP identifier.
    pub min_port: u16,
    /// Highest port or ICMP identifier.
    pub max_port: u16,
    /// Port whose distance to the packet's port is kept, with [`NatFlags::PROTO_OFFSET`].
    pub base_port: u16,
}

impl NatRange {
    /// Range of one address and all ports.
    pub fn address(address: InetAddress) -> NatRange {
        let (min_address, max_address) = (address, address);
        NatRange { flags: NatFlags::MAP_IPS, min_address, max_address, ..NatRange::default() }
    }

    /// The range with these ports.
    #[must_use]
    pub fn with_ports(self, min_port: u16, max_port: u16) -> NatRange {
        NatRange { flags: self.flags | NatFlags::PROTO_SPECIFIED, min_port, max_port, ..self }
    }

    /// The range with further flags.
    #[must_use]
    pub fn with_flags(self, flags: NatFlags) -> NatRange {
        NatRange { flags: self.flags | flags, ..self }
    }

    /// Address that `NETMAP` gives `address`: the bits in which the bounds agree are those of the range.
    fn mapped(&self, address: InetAddress) -> InetAddress {
        let mut mapped = address;
        for (n, byte) in mapped.0.iter_mut().enumerate() {
            let mask = !(self.min_address.0[n] ^ self.max_address.0[n]);
            *byte = *byte & !mask | self.min_address.0[n] & mask;
        }
        mapped
    }
}

/// Part of the original packets that a translation changes (`enum nf_nat_manip_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manip {
    /// Source address and port.
    Source,
    /// Destination address and port.
    Destination,
}

impl Manip {
    /// Translation of a hook: the source at `Postrouting` and `Input`, else the destination.
    pub const fn of(hook: InetHook) -> Manip {
        match hook {
            InetHook::Postrouting | InetHook::Input => Manip::Source,
            InetHook::Prerouting | InetHook::Forward | InetHook::Output => Manip::Destination,
        }
    }

    const fn other(self) -> Manip {
        match self {
            Manip::Source => Manip::Destination,
            Manip::Destination => Manip::Source,
        }
    }

    const fn done(self) -> CtStatus {
        match self {
            Manip::Source => CtStatus::SRC_NAT_DONE,
            Manip::Destination => CtStatus::DST_NAT_DONE,
        }
    }

    const fn changes(self) -> CtStatus {
        match self {
            Manip::Source => CtStatus::SRC_NAT,
            Manip::Destination => CtStatus::DST_NAT,
        }
    }

    /// Status bit by which packets of a direction are changed in this part.
    const fn changes_in(self, direction: TupleDirection) -> CtStatus {
        match direction {
            TupleDirection::Original => self.changes(),
            TupleDirection::Reply => self.other().changes(),
        }
    }
}

/// True if a packet is an ICMP error about its connection.
fn is_error(packet: &[u8], info: CtInfo) -> bool {
    matches!(info, CtInfo::Related | CtInfo::RelatedReply) && packet::is_icmp(packet)
}

impl Conntrack {
    /// True if the translation of a hook is not decided for a packet's connection, so that the rules of that
    /// hook are to be asked.
    pub fn nat_wanted(&self, packet: &[u8], attached: Attached, hook: InetHook) -> bool {
        let Some(info) = attached.info() else { return false };
        matches!(info, CtInfo::New | CtInfo::Related | CtInfo::RelatedReply)
            && self.conn(attached).is_some_and(|conn| !conn.is(Manip::of(hook).done()))
            && !is_error(packet, info)
    }

    /// Decides a translation of a packet's connection (`nf_nat_setup_info`). A confirmed connection, and one
    /// whose translation is decided, stays as it is.
    pub fn setup_nat(
        &mut self,
        attached: Attached,
        range: &NatRange,
        manip: Manip,
        now: SimTime,
    ) -> TrackVerdict {
        let Some(key) = attached.key() else { return TrackVerdict::Accept };
        self.setup_nat_of(key, range, manip, now)
    }

    pub(crate) fn setup_nat_of(
        &mut self,
        key: ConnKey,
        range: &NatRange,
        manip: Manip,
        now: SimTime,
    ) -> TrackVerdict {
        let Some(conn) = self.table.get(key) else { return TrackVerdict::Accept };
        if conn.is(CtStatus::CONFIRMED) {
            return TrackVerdict::Accept;
        }
        if conn.is(manip.done()) {
            return TrackVerdict::Drop;
        }
        let helped = conn.helper.is_some();
        // The tuple as earlier translations have made it.
        let Some(current) = conn.reply().inverse() else { return TrackVerdict::Accept };
        let range = match range.flags.contains(NatFlags::NETMAP) {
            false => *range,
            true => {
                let address = match manip {
                    Manip::Source => current.source,
                    Manip::Destination => current.destination,
                };
                let mapped = range.mapped(address);
                NatRange { min_address: mapped, max_address: mapped, ..*range }.with_flags(NatFlags::MAP_IPS)
            }
        };
        let chosen = self.unique_tuple(key, &current, &range, manip, now);
        let Some(reply) = chosen.inverse() else { return TrackVerdict::Accept };
        let Some(conn) = self.table.get_mut(key) else { return TrackVerdict::Accept };
        conn.status.insert(manip.done());
        if chosen != current {
            conn.tuples[TupleDirection::Reply as usize] = reply;
            conn.status.insert(manip.changes());
            if helped {
                conn.extra_mut();
            }
        }
        if manip == Manip::Source {
            self.table.list_source(key);
        }
        TrackVerdict::Accept
    }

    /// Translates the source of a packet's connection to an address of the interface by which it leaves
    /// (`nf_nat_masquerade_ipv4`). `address` is the one that the host would use towards the next hop; of
    /// `range` flags and ports count. The packet is dropped if the interface has no address.
    pub fn setup_masquerade(
        &mut self,
        attached: Attached,
        address: InetAddress,
        interface: u32,
        range: &NatRange,
        now: SimTime,
    ) -> TrackVerdict {
        let Some(key) = attached.key() else { return TrackVerdict::Accept };
        let Some(conn) = self.table.get_mut(key) else { return TrackVerdict::Accept };
        // "Source address is 0.0.0.0 - locally generated packet that is probably not supposed to be
        // masqueraded": DHCP clients send these.
        if conn.original().l3 == L3::V4 && conn.original().source == InetAddress::UNSPECIFIED {
            return TrackVerdict::Accept;
        }
        if address == InetAddress::UNSPECIFIED {
            return TrackVerdict::Drop;
        }
        if !conn.is(CtStatus::CONFIRMED) {
            conn.masquerade = interface;
        }
        let (min_address, max_address) = (address, address);
        let range = NatRange { min_address, max_address, ..*range }.with_flags(NatFlags::MAP_IPS);
        self.setup_nat_of(key, &range, Manip::Source, now)
    }

    /// Translates the destination of a packet's connection to this host (`nf_nat_redirect_ipv4`): `address`
    /// is the first of the input interface, or the loopback address at `Output`; of `range` flags and ports
    /// count. The packet is dropped if the interface has no address.
    pub fn setup_redirect(
        &mut self,
        attached: Attached,
        address: InetAddress,
        range: &NatRange,
        now: SimTime,
    ) -> TrackVerdict {
        if address == InetAddress::UNSPECIFIED {
            return TrackVerdict::Drop;
        }
        let (min_address, max_address) = (address, address);
        let range = NatRange { min_address, max_address, ..*range }.with_flags(NatFlags::MAP_IPS);
        self.setup_nat(attached, &range, Manip::Destination, now)
    }

    /// Makes the binding that keeps the addresses (`nf_nat_alloc_null_binding`).
    pub(crate) fn setup_null(&mut self, key: ConnKey, manip: Manip, now: SimTime) -> TrackVerdict {
        let Some(conn) = self.table.get(key) else { return TrackVerdict::Accept };
        let address = match manip {
            Manip::Source => conn.reply().destination,
            Manip::Destination => conn.reply().source,
        };
        self.setup_nat_of(key, &NatRange::address(address), manip, now)
    }

    /// Translates a packet at a hook of NAT (`nf_nat_inet_fn`), after the rules of that hook had their turn
    /// where [`nat_wanted`](Self::nat_wanted) asked for it. `outgoing` is the index of the output interface,
    /// at `Postrouting`. The length of the packet stays the same.
    pub fn translate(
        &mut self,
        packet: &mut [u8],
        attached: Attached,
        hook: InetHook,
        outgoing: Option<u32>,
        now: SimTime,
    ) -> TrackVerdict {
        let Attached::Conn { key, info } = attached else { return TrackVerdict::Accept };
        let Some(conn) = self.table.get(key) else { return TrackVerdict::Accept };
        let manip = Manip::of(hook);
        if is_error(packet, info) {
            return match packet::translate_error(packet, conn, info.direction(), manip) {
                true => TrackVerdict::Accept,
                false => TrackVerdict::Drop,
            };
        }
        let leaves_elsewhere = hook == InetHook::Postrouting
            && info.direction() == TupleDirection::Original
            && conn.masquerade != 0
            && outgoing.is_some_and(|interface| interface != conn.masquerade);
        if matches!(info, CtInfo::New | CtInfo::Related | CtInfo::RelatedReply) && !conn.is(manip.done()) {
            if self.setup_null(key, manip, now) == TrackVerdict::Drop {
                return TrackVerdict::Drop;
            }
        } else if leaves_elsewhere {
            if let Some(conn) = self.table.get_mut(key) {
                conn.count(info.direction(), packet.len());
            }
            self.kill(key, Reporter::default(), now);
            return TrackVerdict::Drop;
        }
        let Some(conn) = self.table.get(key) else { return TrackVerdict::Accept };
        let direction = info.direction();
        if conn.status.intersects(manip.changes_in(direction)) {
            let Some(target) = conn.tuple(direction.opposite()).inverse() else {
                return TrackVerdict::Accept;
            };
            if !packet::rewrite(packet, &target, manip) {
                return TrackVerdict::Drop;
            }
        }
        TrackVerdict::Accept
    }
}
