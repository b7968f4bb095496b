//! Extensions of `iptables`: the expressions `match` and `target` carry the structures of xtables
//! (`nft_compat.c` of Linux). An extension that is not in [`TABLE`] is refused as by a kernel without its
//! module.

mod connection_matches;
mod field;
mod matches;
mod nat_targets;
mod targets;

use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::family::{FilterHook, TableFamily};
use crate::operation::{DumpScope, Operation, Outcome, Passing, Scope, Surroundings, Verdict};
use crate::registers::Registers;
use belljar_linux_abi::Errno;
use std::fmt::Debug;
use std::sync::Arc;

/// Families of an extension.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Both,
    V4,
    V6,
}

/// Extension: name, revision, true for a target, family.
type Extension = (&'static str, u32, bool, Of);

/// The extensions that are supported.
const TABLE: [Extension; 49] = [
    ("addrtype", 1, false, Of::Both),
    ("comment", 0, false, Of::Both),
    ("connlimit", 1, false, Of::Both),
    ("connmark", 1, false, Of::Both),
    ("conntrack", 3, false, Of::Both),
    ("dscp", 0, false, Of::Both),
    ("hl", 0, false, Of::V6),
    ("icmp", 0, false, Of::V4),
    ("icmp6", 0, false, Of::V6),
    ("iprange", 1, false, Of::Both),
    ("length", 0, false, Of::Both),
    ("limit", 0, false, Of::Both),
    ("mark", 1, false, Of::Both),
    ("multiport", 1, false, Of::Both),
    ("owner", 1, false, Of::Both),
    ("pkttype", 0, false, Of::Both),
    ("quota", 0, false, Of::Both),
    ("state", 0, false, Of::Both),
    ("statistic", 0, false, Of::Both),
    ("tcp", 0, false, Of::Both),
    ("tcpmss", 0, false, Of::Both),
    ("tos", 1, false, Of::Both),
    ("ttl", 0, false, Of::V4),
    ("udp", 0, false, Of::Both),
    ("CHECKSUM", 0, true, Of::Both),
    ("CONNMARK", 1, true, Of::Both),
    ("CONNMARK", 2, true, Of::Both),
    ("CT", 0, true, Of::Both),
    ("CT", 1, true, Of::Both),
    ("CT", 2, true, Of::Both),
    ("DNAT", 0, true, Of::V4),
    ("DNAT", 1, true, Of::Both),
    ("DNAT", 2, true, Of::Both),
    ("DSCP", 0, true, Of::Both),
    ("HL", 0, true, Of::V6),
    ("LOG", 0, true, Of::Both),
    ("MARK", 2, true, Of::Both),
    ("MASQUERADE", 0, true, Of::Both),
    ("NFLOG", 0, true, Of::Both),
    ("NETMAP", 0, true, Of::Both),
    ("NOTRACK", 0, true, Of::Both),
    ("REDIRECT", 0, true, Of::Both),
    ("REJECT", 0, true, Of::Both),
    ("SNAT", 0, true, Of::V4),
    ("SNAT", 1, true, Of::Both),
    ("SNAT", 2, true, Of::Both),
    ("TCPMSS", 0, true, Of::Both),
    ("TOS", 1, true, Of::Both),
    ("TTL", 0, true, Of::V4),
];

/// Checks that an extension exists (`xt_find_revision`): `ENOENT` without one of the name,
/// `EPROTONOSUPPORT` without this revision.
pub(crate) fn find(name: &str, revision: u32, is_target: bool, v6: bool) -> Result<(), Errno> {
    let of_name = TABLE.iter().filter(|(other, _, target, of)| {
        let family = match of {
            Of::Both => true,
            Of::V4 => !v6,
            Of::V6 => v6,
        };
        *other == name && *target == is_target && family
    });
    let revisions: Vec<u32> = of_name.map(|(_, revision, ..)| *revision).collect();
    match revisions[..] {
        [] => Err(Errno::ENOENT),
        _ if revisions.contains(&revision) => Ok(()),
        _ => Err(Errno::EPROTONOSUPPORT),
    }
}

/// Effect of an extension on a packet.
trait Extends: Debug + Send + Sync {
    /// Evaluates the extension.
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome;
    /// Hooks at which the extension may be; empty for all.
    fn hooks(&self) -> &'static [FilterHook] {
        &[]
    }
    /// True for an extension of chains of type `nat`.
    fn is_nat(&self) -> bool {
        false
    }
    /// True if the extension needs connection tracking.
    fn tracks(&self) -> bool {
        false
    }
}

/// `match` or `target`.
#[derive(Debug)]
struct Compat {
    is_target: bool,
    extension: String,
    revision: u32,
    info: Vec<u8>,
    effect: Box<dyn Extends>,
}

/// Reads a `match` or a `target`.
pub(crate) fn read(
    attributes: Attributes<'_>,
    is_target: bool,
    scope: &mut dyn Scope,
) -> Result<Arc<dyn Operation>, NetfilterError> {
    let name = attributes.need(1)?.text()?;
    let revision = attributes.need(2)?.u32()?;
    let info = attributes.need(3)?.value;
    let v6 = scope.family() == TableFamily::Ip6;
    if scope.family() == TableFamily::Inet {
        return Err(scope.refuse("extensions of iptables in tables of family inet".into()).into());
    }
    let what = if is_target { "target" } else { "match" };
    if find(name, revision, is_target, v6).is_err() {
        scope.refuse(format!("{what} {name} of iptables"));
        return Err(Errno::ENOENT.into());
    }
    let effect = match is_target {
        false => matches::read(name, info, v6)?,
        true => targets::read(name, revision, info, v6)?,
    };
    let Some(effect) = effect else {
        scope.refuse(format!("these options of {what} {name} of iptables"));
        return Err(Errno::EOPNOTSUPP.into());
    };
    Ok(Arc::new(Compat { is_target, extension: name.into(), revision, info: info.to_vec(), effect }))
}

impl Operation for Compat {
    fn name(&self) -> &'static str {
        if self.is_target { "target" } else { "match" }
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.text(1, &self.extension);
        out.u32(2, self.revision);
        out.bytes(3, &self.info);
    }
    fn evaluate(&self, _: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        self.effect.apply(passing)
    }
    fn validate(&self, surroundings: &Surroundings) -> Result<(), Errno> {
        let hooks = self.effect.hooks();
        if !hooks.is_empty() && surroundings.need_hooks(hooks).is_err() {
            return Err(Errno::EINVAL);
        }
        if self.effect.is_nat() && surroundings.need_type(crate::family::ChainType::Nat).is_err() {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
    fn tracks(&self) -> bool {
        self.effect.tracks()
    }
}

/// Outcome of a target that decides.
fn verdict(verdict: Verdict) -> Outcome {
    Outcome::Verdict(verdict)
}
