//! Operation: an expression of a rule. The essay of evaluation is in `evaluate.rs`; this file has what all
//! kinds of expressions share.

use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::contents::Contents;
use crate::environment::{Environment, RuleRequest};
use crate::family::{ChainType, FilterHook, TableFamily};
use crate::packet::Headers;
use crate::registers::Registers;
use crate::set::Set;
use crate::stateful::Object;
use crate::tracking::Tracking;
use belljar_base::SimTime;
use belljar_conntrack::Attached;
use belljar_linux_abi::Errno;
use belljar_net::Packet;
use std::fmt::Debug;
use std::sync::Arc;

/// Verdict on a packet, `NF_*` and `NFT_*`. Chains are named by their handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Drop,
    Accept,
    Continue,
    Break,
    Jump(u64),
    Goto(u64),
    Return,
}

/// Data of an expression or of a set's element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    Value(Vec<u8>),
    Verdict(Verdict),
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Continue with the next expression.
    Continue,
    /// The rule does not match.
    Break,
    /// The rule ends with a verdict.
    Verdict(Verdict),
}

impl Outcome {
    /// Continue if the condition holds, else end the rule.
    pub(crate) fn given(condition: bool) -> Outcome {
        if condition { Outcome::Continue } else { Outcome::Break }
    }
}

/// Object that an operation refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A chain, by handle.
    Chain(u64),
    /// A set, by its number in [`Contents`].
    Set(u64),
    /// An object, by handle.
    Object(u64),
}

/// Position of a chain in the ruleset, for the check of its rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// Family of the table.
    pub(crate) family: TableFamily,
    /// Type and hook of the base chain from which the chain is reached.
    pub(crate) base: Option<(ChainType, FilterHook)>,
}

impl Surroundings {
    /// Fails with `EOPNOTSUPP` unless the base chain is at one of these hooks (`nft_chain_validate_hooks`).
    pub(crate) fn need_hooks(&self, hooks: &[FilterHook]) -> Result<(), Errno> {
        match self.base {
            Some((_, hook)) if !hooks.contains(&hook) => Err(Errno::EOPNOTSUPP),
            _ => Ok(()),
        }
    }
    /// Fails with `EOPNOTSUPP` unless the base chain is of this type (`nft_chain_validate_dependency`).
    pub(crate) fn need_type(&self, kind: ChainType) -> Result<(), Errno> {
        match self.base {
            Some((other, _)) if other != kind => Err(Errno::EOPNOTSUPP),
            _ => Ok(()),
        }
    }
}

/// Context of a dump.
pub(crate) trait DumpScope {
    /// The name of a chain; empty if it is not there.
    fn chain_name(&self, handle: u64) -> &str;
    /// The time.
    fn now(&self) -> SimTime;
}

/// Ruleset as the parser of an expression sees it.
pub(crate) trait Scope {
    /// Family of the table.
    fn family(&self) -> TableFamily;
    /// The time.
    fn now(&self) -> SimTime;
    /// A random number.
    fn draw(&mut self) -> u32;
    /// Handle of a chain to which rules may jump, by name.
    fn chain(&self, name: &str) -> Result<u64, Errno>;
    /// Handle of a chain of the same batch, by its identifier.
    fn chain_by_id(&self, id: u32) -> Result<u64, Errno>;
    /// Set by name, or by its identifier in the batch.
    fn set(&self, name: Option<&str>, id: Option<u32>) -> Result<Arc<Set>, Errno>;
    /// Object by name and type.
    fn object(&self, name: &str, kind: u32) -> Result<Arc<Object>, Errno>;
    /// Reports a feature that is refused.
    fn refuse(&mut self, what: String) -> Errno;
}

/// A packet at a hook, with the parts of the host that expressions use.
pub(crate) struct Passing<'a> {
    pub(crate) packet: &'a mut Packet,
    pub(crate) headers: Headers,
    pub(crate) hook: FilterHook,
    /// Number of the input interface.
    pub(crate) input: Option<usize>,
    /// Number of the output interface.
    pub(crate) output: Option<usize>,
    pub(crate) contents: &'a mut Contents,
    pub(crate) environment: &'a mut dyn Environment,
    pub(crate) requests: &'a mut Vec<RuleRequest>,
    pub(crate) tracking: &'a mut Tracking,
    /// The connection of the packet.
    pub(crate) attached: Attached,
}

impl Passing<'_> {
    /// The bytes of the packet.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.packet.bytes()
    }
}

/// An expression of a rule.
pub(crate) trait Operation: Debug + Send + Sync {
    /// Name in netlink messages.
    fn name(&self) -> &'static str;
    /// Writes the attributes.
    fn dump(&self, names: &dyn DumpScope, out: &mut Writer);
    /// Carries the operation out on a packet.
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome;
    /// Checks that the operation may be in a chain.
    fn validate(&self, _surroundings: &Surroundings) -> Result<(), Errno> {
        Ok(())
    }
    /// Visits the objects referred to.
    fn references(&self, _visit: &mut dyn FnMut(Reference)) {}
    /// Resets counters and quotas, after a dump that asks for it.
    fn reset(&self) {}
    /// True if the operation needs connection tracking.
    fn tracks(&self) -> bool {
        false
    }
    /// A fresh copy for a new element of a set, if the operation may be in elements.
    fn fresh(&self) -> Option<Arc<dyn Operation>> {
        None
    }
}

/// Attributes of data, `NFTA_DATA_*`, and of verdicts, `NFTA_VERDICT_*`.
mod data {
    pub(super) const VALUE: u16 = 1;
    pub(super) const VERDICT: u16 = 2;
    pub(super) const CODE: u16 = 1;
    pub(super) const CHAIN: u16 = 2;
    pub(super) const CHAIN_ID: u16 = 3;
}

/// Maximum length of a value in bytes, `NFT_DATA_VALUE_MAXLEN`.
pub(crate) const MAX_VALUE: usize = 64;

impl Data {
    /// Reads data (`nft_data_init`).
    pub(crate) fn read(attributes: Attributes<'_>, scope: &dyn Scope) -> Result<Data, NetfilterError> {
        if let Some(value) = attributes.get(data::VALUE) {
            if value.value.is_empty() {
                return Err(Errno::EINVAL.into());
            }
            if value.value.len() > MAX_VALUE {
                return Err(Errno::EOVERFLOW.into());
            }
            return Ok(Data::Value(value.value.to_vec()));
        }
        let verdict = attributes.need(data::VERDICT)?.nested();
        let chain = || match (verdict.get(data::CHAIN), verdict.u32(data::CHAIN_ID)?) {
            (Some(name), _) => scope.chain(name.text()?).map_err(|errno| name.failure(errno)),
            (None, Some(id)) => Ok(scope.chain_by_id(id)?),
            (None, None) => Err(Errno::EINVAL.into()),
        };
        Ok(Data::Verdict(match verdict.need(data::CODE)?.u32()? as i32 {
            0 => Verdict::Drop,
            1 => Verdict::Accept,
            -1 => Verdict::Continue,
            -2 => Verdict::Break,
            -3 => Verdict::Jump(chain()?),
            -4 => Verdict::Goto(chain()?),
            -5 => Verdict::Return,
            // `NF_QUEUE`: no queues to programs.
            code if code & 0xff == 3 => return Err(Errno::EOPNOTSUPP.into()),
            _ => return Err(Errno::EINVAL.into()),
        }))
    }
    /// Reads a value of this length, or of any length for `None`.
    pub(crate) fn read_value(
        attributes: Attributes<'_>,
        len: Option<usize>,
    ) -> Result<Vec<u8>, NetfilterError> {
        let value = attributes.need(data::VALUE)?.value;
        match value.len() {
            0 => Err(Errno::EINVAL.into()),
            found if found > MAX_VALUE || len.is_some_and(|len| len != found) => Err(Errno::EINVAL.into()),
            _ => Ok(value.to_vec()),
        }
    }
    /// Writes the data within an attribute.
    pub(crate) fn dump(&self, kind: u16, names: &dyn DumpScope, out: &mut Writer) {
        out.nest(kind, |out| match self {
            Data::Value(value) => out.bytes(data::VALUE, value),
            Data::Verdict(verdict) => out.nest(data::VERDICT, |out| verdict.dump(names, out)),
        });
    }
}

impl Verdict {
    fn dump(self, names: &dyn DumpScope, out: &mut Writer) {
        let (code, chain) = match self {
            Verdict::Drop => (0, None),
            Verdict::Accept => (1, None),
            Verdict::Continue => (-1, None),
            Verdict::Break => (-2, None),
            Verdict::Jump(chain) => (-3, Some(chain)),
            Verdict::Goto(chain) => (-4, Some(chain)),
            Verdict::Return => (-5, None),
        };
        out.u32(data::CODE, code as u32);
        if let Some(handle) = chain {
            out.text(data::CHAIN, names.chain_name(handle));
        }
    }
    /// The chain of a jump.
    pub(crate) fn chain(self) -> Option<u64> {
        match self {
            Verdict::Jump(chain) | Verdict::Goto(chain) => Some(chain),
            _ => None,
        }
    }
}

/// Writes a value within an attribute.
pub(crate) fn dump_value(kind: u16, value: &[u8], out: &mut Writer) {
    out.nest(kind, |out| out.bytes(data::VALUE, value));
}
