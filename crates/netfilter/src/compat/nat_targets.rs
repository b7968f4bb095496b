//! Targets of chains of type `nat`: MASQUERADE, SNAT, DNAT, REDIRECT, NETMAP.

use super::field::Fields;
use super::{Extends, Outcome, verdict};
use crate::attributes::NetfilterError;
use crate::expression::translation::{masquerade, redirect};
use crate::family::FilterHook;
use crate::operation::{Passing, Verdict};
use belljar_conntrack::{InetAddress, L3, Manip, NatFlags, NatRange, TrackVerdict};
use belljar_linux_abi::Errno;

/// Kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Masquerade,
    Source,
    Destination,
    Redirect,
    NetMap,
}

/// A target with its range.
#[derive(Debug)]
pub(super) struct Nat {
    kind: Kind,
    range: NatRange,
}

impl Nat {
    /// Reads `struct nf_nat_ipv4_multi_range_compat`, `struct nf_nat_range` or `struct nf_nat_range2`.
    pub(super) fn read(
        name: &str,
        revision: u32,
        fields: Fields<'_>,
        v6: bool,
    ) -> Result<Nat, NetfilterError> {
        let kind = match name {
            "MASQUERADE" => Kind::Masquerade,
            "SNAT" => Kind::Source,
            "DNAT" => Kind::Destination,
            "REDIRECT" => Kind::Redirect,
            _ => Kind::NetMap,
        };
        let l3 = if v6 { L3::V6 } else { L3::V4 };
        let address = |bytes: &[u8]| InetAddress::read(l3, bytes).ok_or(NetfilterError::from(Errno::EINVAL));
        let port = |at| fields.u16(at).map(u16::from_be);
        let range = if revision == 0 && !v6 {
            if fields.u32(0)? != 1 {
                return Err(Errno::EINVAL.into());
            }
            NatRange {
                flags: flags(fields.u32(4)?)?,
                min_address: address(&fields.bytes::<4>(8)?)?,
                max_address: address(&fields.bytes::<4>(12)?)?,
                min_port: port(16)?,
                max_port: port(18)?,
                base_port: 0,
            }
        } else {
            NatRange {
                flags: flags(fields.u32(0)?)?,
                min_address: address(&fields.bytes::<16>(4)?[..if v6 { 16 } else { 4 }])?,
                max_address: address(&fields.bytes::<16>(20)?[..if v6 { 16 } else { 4 }])?,
                min_port: port(36)?,
                max_port: port(38)?,
                base_port: if revision >= 2 { port(40)? } else { 0 },
            }
        };
        Ok(Nat { kind, range })
    }
}

fn flags(bits: u32) -> Result<NatFlags, NetfilterError> {
    NatFlags::from_bits(bits).ok_or(Errno::EINVAL.into())
}

impl Extends for Nat {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        let manip = match (self.kind, passing.hook) {
            (Kind::Source, _) | (Kind::NetMap, FilterHook::Postrouting | FilterHook::Input) => Manip::Source,
            _ => Manip::Destination,
        };
        let now = passing.environment.now();
        let done = match self.kind {
            Kind::Masquerade => masquerade(passing, &self.range),
            Kind::Redirect => redirect(passing, &self.range),
            Kind::Source | Kind::Destination => {
                passing.tracking.conntrack.setup_nat(passing.attached, &self.range, manip, now)
            }
            Kind::NetMap => {
                let range = self.range.with_flags(self.range.flags | NatFlags::NETMAP);
                passing.tracking.conntrack.setup_nat(passing.attached, &range, manip, now)
            }
        };
        verdict(match done {
            TrackVerdict::Accept => Verdict::Accept,
            TrackVerdict::Drop => Verdict::Drop,
        })
    }
    fn hooks(&self) -> &'static [FilterHook] {
        match self.kind {
            Kind::Masquerade => &[FilterHook::Postrouting],
            Kind::Source => &[FilterHook::Postrouting, FilterHook::Input],
            Kind::Destination | Kind::Redirect => &[FilterHook::Prerouting, FilterHook::Output],
            Kind::NetMap => {
                &[FilterHook::Prerouting, FilterHook::Output, FilterHook::Postrouting, FilterHook::Input]
            }
        }
    }
    fn is_nat(&self) -> bool {
        true
    }
    fn tracks(&self) -> bool {
        true
    }
}
