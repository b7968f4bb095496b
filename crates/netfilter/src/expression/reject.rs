//! `reject`: drops a packet and answers it with an ICMP error or a TCP reset.

use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::environment::{Rejection, RuleRequest};
use crate::family::{FilterHook, TableFamily};
use crate::operation::{DumpScope, Operation, Outcome, Passing, Scope, Surroundings, Verdict};
use crate::registers::Registers;
use belljar_linux_abi::Errno;

/// `NFT_REJECT_*`.
const ICMP_UNREACH: u32 = 0;
const TCP_RST: u32 = 1;
const ICMPX_UNREACH: u32 = 2;

/// Codes of Destination Unreachable for IPv4 and IPv6, by `NFT_REJECT_ICMPX_*`.
const ICMPX_CODES: [(u8, u8); 4] = [(0, 0), (3, 4), (1, 3), (13, 1)];

/// `reject`.
#[derive(Debug)]
pub(super) struct Reject {
    kind: u32,
    code: u8,
}

impl Reject {
    pub(super) fn read(attributes: Attributes<'_>, scope: &dyn Scope) -> Result<Reject, NetfilterError> {
        let kind = attributes.need(1)?.u32()?;
        let code = || match attributes.need(2)?.value.first() {
            Some(code) => Ok(*code),
            None => Err(NetfilterError::from(Errno::EINVAL)),
        };
        match kind {
            TCP_RST => Ok(Reject { kind, code: 0 }),
            ICMP_UNREACH => Ok(Reject { kind, code: code()? }),
            ICMPX_UNREACH if scope.family() == TableFamily::Inet => match code()? {
                code if usize::from(code) < ICMPX_CODES.len() => Ok(Reject { kind, code }),
                _ => Err(Errno::EINVAL.into()),
            },
            _ => Err(Errno::EINVAL.into()),
        }
    }
}

impl Operation for Reject {
    fn name(&self) -> &'static str {
        "reject"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.kind);
        if self.kind != TCP_RST {
            out.u8(2, self.code);
        }
    }
    fn evaluate(&self, _: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let (v4, v6) = ICMPX_CODES[usize::from(self.code) % ICMPX_CODES.len()];
        let rejection = match self.kind {
            TCP_RST => Rejection::Reset,
            ICMP_UNREACH => Rejection::Unreachable(self.code),
            _ => Rejection::Unreachable(if passing.headers.v6 { v6 } else { v4 }),
        };
        passing.requests.push(RuleRequest::Reject(rejection));
        Outcome::Verdict(Verdict::Drop)
    }
    fn validate(&self, surroundings: &Surroundings) -> Result<(), Errno> {
        let hooks = [FilterHook::Input, FilterHook::Forward, FilterHook::Output];
        match surroundings.family {
            TableFamily::Inet => surroundings.need_hooks(&[
                FilterHook::Input,
                FilterHook::Forward,
                FilterHook::Output,
                FilterHook::Prerouting,
            ]),
            _ => surroundings.need_hooks(&hooks),
        }
    }
}
