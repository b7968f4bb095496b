//! Actions by kind: `gact`, `mirred`, `police`, `skbedit`, `vlan`, `csum` and `pedit`.

mod csum;
mod gact;
mod mirred;
mod pedit;
mod police;
mod skbedit;
mod vlan;

use crate::action::verdict;
use crate::attributes::{Attributes, Out, word, words};
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::node::Redirected;
use belljar_base::{SimTime, Stream};
use belljar_linux_abi::Errno;

/// Result of an action.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// `TC_ACT_*`.
    pub(crate) verdict: i32,
    /// Packet for another interface.
    pub(crate) redirected: Option<Redirected>,
    /// True if the packet exceeded a rate.
    pub(crate) overlimit: bool,
}

impl Outcome {
    fn of(verdict: i32) -> Outcome {
        Outcome { verdict, redirected: None, overlimit: false }
    }
}

/// Surroundings of the making of an action.
pub(crate) struct Making<'a> {
    pub(crate) former: Option<&'a Kind>,
    pub(crate) now: SimTime,
    pub(crate) devices: &'a dyn Fn(u32) -> Option<usize>,
    pub(crate) stream: Stream,
}

/// Counts of an action in its listing: its index, its references and the filters that are bound to it.
pub(crate) type Counts = (u32, u32, u32);

/// Action of one kind.
#[derive(Debug)]
pub(crate) enum Kind {
    Gact(gact::Gact),
    Mirred(mirred::Mirred),
    Police(Box<police::Police>),
    Skbedit(skbedit::Skbedit),
    Vlan(vlan::Vlan),
    Csum(csum::Csum),
    Pedit(pedit::Pedit),
}

/// Kinds, with the attribute that begins with `tc_gen`, the fields of all kinds.
const KINDS: [(&str, u16); 7] =
    [("gact", 2), ("mirred", 2), ("police", 1), ("skbedit", 2), ("vlan", 2), ("csum", 1), ("pedit", 2)];
/// `TCA_PEDIT_PARMS_EX`.
const PEDIT_PARMS_EX: u16 = 4;

/// `tc_gen`: the fields with which the parameters of an action begin. `police` has the first two alone.
fn general((index, references, bindings): Counts, action: i32) -> Vec<u8> {
    words([index, 0, action as u32, references, bindings])
}

/// Verdict field of parameters that begin with `tc_gen` (`tcf_action_check_ctrlact`).
fn checked(action: u32) -> Result<i32, TcError> {
    let action = action as i32;
    let known = (verdict::UNSPEC..=verdict::TRAP).contains(&action)
        || [verdict::JUMP, verdict::GOTO_CHAIN].contains(&(action & !verdict::OPERAND));
    if known { Ok(action) } else { Err(crate::error::invalid("invalid control action")) }
}

impl Kind {
    /// Name of a kind that exists.
    pub(crate) fn name(kind: &[u8]) -> Option<&'static str> {
        KINDS.iter().map(|(name, _)| *name).find(|name| name.as_bytes() == kind)
    }
    /// Index that the parameters give, or 0.
    pub(crate) fn index(name: &'static str, options: Attributes<'_>) -> u32 {
        let parms = KINDS.iter().find(|(kind, _)| *kind == name).and_then(|(_, parms)| options.get(*parms));
        let parms = parms.or_else(|| options.get(PEDIT_PARMS_EX).filter(|_| name == "pedit"));
        parms.map_or(0, |parms| word(parms, 0))
    }
    /// Makes an action, or the new state of one that exists.
    pub(crate) fn new(
        name: &'static str,
        options: Option<Attributes<'_>>,
        former: Option<&Kind>,
        now: SimTime,
        devices: &dyn Fn(u32) -> Option<usize>,
        stream: Stream,
    ) -> Result<Kind, TcError> {
        let options = options.ok_or(Errno::EINVAL)?;
        let making = Making { former, now, devices, stream };
        Ok(match name {
            "gact" => Kind::Gact(gact::Gact::new(options, making)?),
            "mirred" => Kind::Mirred(mirred::Mirred::new(options, making)?),
            "police" => Kind::Police(Box::new(police::Police::new(options, making)?)),
            "skbedit" => Kind::Skbedit(skbedit::Skbedit::new(options)?),
            "vlan" => Kind::Vlan(vlan::Vlan::new(options)?),
            "csum" => Kind::Csum(csum::Csum::new(options)?),
            _ => Kind::Pedit(pedit::Pedit::new(options)?),
        })
    }
    /// Executes the action on a packet at an interface, and true at the ingress.
    pub(crate) fn execute(&mut self, buffer: &mut Buffer, now: SimTime, interface: (usize, bool)) -> Outcome {
        match self {
            Kind::Gact(gact) => Outcome::of(gact.execute()),
            Kind::Mirred(mirred) => mirred.execute(buffer, interface),
            Kind::Police(police) => police.execute(buffer, now),
            Kind::Skbedit(skbedit) => Outcome::of(skbedit.execute(buffer)),
            Kind::Vlan(vlan) => Outcome::of(vlan.execute(buffer)),
            Kind::Csum(csum) => Outcome::of(csum.execute(buffer)),
            Kind::Pedit(pedit) => Outcome::of(pedit.execute(buffer)),
        }
    }
    /// Appends the options, with `struct tcf_t` as `times`.
    pub(crate) fn dump(&self, counts: Counts, times: &[u8], out: &mut Out) {
        match self {
            Kind::Gact(gact) => gact.dump(counts, times, out),
            Kind::Mirred(mirred) => mirred.dump(counts, times, out),
            Kind::Police(police) => police.dump(counts, times, out),
            Kind::Skbedit(skbedit) => skbedit.dump(counts, times, out),
            Kind::Vlan(vlan) => vlan.dump(counts, times, out),
            Kind::Csum(csum) => csum.dump(counts, times, out),
            Kind::Pedit(pedit) => pedit.dump(counts, times, out),
        }
    }
}
