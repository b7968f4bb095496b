//! `fib` and `rt`: answers of the routing tables.

use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::environment::{FibAnswer, FibQuestion};
use crate::family::FilterHook;
use crate::operation::{DumpScope, Operation, Outcome, Passing, Scope, Surroundings};
use crate::packet;
use crate::registers::{Register, Registers};
use belljar_linux_abi::Errno;
use std::net::IpAddr;

/// `NFTA_FIB_F_*`.
const SADDR: u32 = 1;
const DADDR: u32 = 2;
const MARK: u32 = 4;
const IIF: u32 = 8;
const OIF: u32 = 16;
const PRESENT: u32 = 32;

/// `NFT_FIB_RESULT_*`.
const RESULT_OIF: u32 = 1;
const RESULT_OIFNAME: u32 = 2;
const RESULT_ADDRTYPE: u32 = 3;

/// `RTN_UNICAST`, `RTN_LOCAL`.
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;

/// `fib`.
#[derive(Debug)]
pub(super) struct Fib {
    to: Register,
    result: u32,
    flags: u32,
}

impl Fib {
    pub(super) fn read(attributes: Attributes<'_>) -> Result<Fib, NetfilterError> {
        let (result, flags) = (attributes.need(2)?.u32()?, attributes.need(3)?.u32()?);
        let one_address = matches!(flags & (SADDR | DADDR), SADDR | DADDR);
        if flags == 0 || flags > 63 || !one_address || flags & (IIF | OIF) == IIF | OIF {
            return Err(Errno::EINVAL.into());
        }
        let len = match result {
            RESULT_OIF if flags & OIF == 0 => 4,
            RESULT_OIFNAME if flags & OIF == 0 => 16,
            RESULT_ADDRTYPE => 4,
            _ => return Err(Errno::EINVAL.into()),
        };
        let len = if flags & PRESENT != 0 { 1 } else { len };
        Ok(Fib { to: Register::read(attributes.need(1)?, len)?, result, flags })
    }
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
    fn ask(&self, passing: &mut Passing<'_>) -> FibAnswer {
        let bytes = passing.bytes();
        let (source, destination) = (packet::source(bytes), packet::destination(bytes));
        let (to, from) = if self.has(SADDR) { (source, destination) } else { (destination, source) };
        let interface = match () {
            () if self.has(IIF) => passing.input,
            () if self.has(OIF) => passing.output,
            () => None,
        };
        let question = FibQuestion {
            to,
            from: Some(from).filter(|_| self.result != RESULT_ADDRTYPE),
            mark: if self.has(MARK) { passing.packet.mark() } else { 0 },
            tos: if passing.headers.v6 { 0 } else { bytes[1] },
            interface,
        };
        passing.environment.fib(&question)
    }
}

impl Operation for Fib {
    fn name(&self) -> &'static str {
        "fib"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.to.number());
        out.u32(2, self.result);
        out.u32(3, self.flags);
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let mut answer = self.ask(passing);
        if self.result == RESULT_ADDRTYPE {
            registers.store_u32(self.to, u32::from(answer.kind));
            return Outcome::Continue;
        }
        // A packet over `lo` and a source of this host come by the right interface.
        let loops = passing.input.is_some_and(|number| passing.environment.interface(number).index == 1);
        let usable = [RTN_UNICAST, RTN_LOCAL].contains(&answer.kind);
        if self.has(SADDR) && loops {
            answer.interface = passing.input;
        } else if !usable {
            answer.interface = None;
        }
        if self.has(PRESENT) {
            registers.store(self.to, &[u8::from(answer.interface.is_some())]);
            return Outcome::Continue;
        }
        let facts = answer.interface.map(|number| passing.environment.interface(number)).unwrap_or_default();
        if self.result == RESULT_OIFNAME {
            let mut name = facts.name.into_bytes();
            name.resize(16, 0);
            registers.store(self.to, &name);
        } else {
            registers.store_u32(self.to, facts.index);
        }
        Outcome::Continue
    }
    fn validate(&self, surroundings: &Surroundings) -> Result<(), Errno> {
        if self.result == RESULT_ADDRTYPE {
            return match () {
                () if self.has(IIF) => {
                    surroundings.need_hooks(&[FilterHook::Prerouting, FilterHook::Input, FilterHook::Forward])
                }
                () if self.has(OIF) => surroundings.need_hooks(&[
                    FilterHook::Forward,
                    FilterHook::Output,
                    FilterHook::Postrouting,
                ]),
                () => Ok(()),
            };
        }
        surroundings.need_hooks(&[FilterHook::Prerouting, FilterHook::Input, FilterHook::Forward])
    }
}

/// `rt`: an attribute of the packet's route.
#[derive(Debug)]
pub(super) struct Route {
    to: Register,
    key: u32,
}

/// `NFT_RT_*`.
const NEXTHOP4: u32 = 1;
const NEXTHOP6: u32 = 2;
const TCPMSS: u32 = 3;

impl Route {
    pub(super) fn read(attributes: Attributes<'_>, scope: &mut dyn Scope) -> Result<Route, NetfilterError> {
        let key = attributes.need(2)?.u32()?;
        let len = match key {
            NEXTHOP4 => 4,
            NEXTHOP6 => 16,
            TCPMSS => 2,
            0 | 4 => return Err(scope.refuse("rt classid and rt ipsec in rules".into()).into()),
            _ => return Err(Errno::EOPNOTSUPP.into()),
        };
        Ok(Route { to: Register::read(attributes.need(1)?, len)?, key })
    }
}

impl Operation for Route {
    fn name(&self) -> &'static str {
        "rt"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(2, self.key);
        out.u32(1, self.to.number());
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let Some(output) = passing.output else { return Outcome::Break };
        let to = packet::destination(passing.bytes());
        let question = FibQuestion { to, from: None, mark: passing.packet.mark(), tos: 0, interface: None };
        match (self.key, to) {
            (TCPMSS, _) => {
                let mtu = passing.environment.mtu(output);
                let headers = if to.is_ipv6() { 60 } else { 40 };
                registers.store(self.to, &(mtu.saturating_sub(headers) as u16).to_ne_bytes());
            }
            (NEXTHOP4, IpAddr::V4(v4)) => {
                let hop = match passing.environment.fib(&question).gateway {
                    Some(IpAddr::V4(gateway)) => gateway,
                    _ => v4,
                };
                registers.store(self.to, &hop.octets());
            }
            (NEXTHOP6, IpAddr::V6(v6)) => {
                let hop = match passing.environment.fib(&question).gateway {
                    Some(IpAddr::V6(gateway)) => gateway,
                    _ => v6,
                };
                registers.store(self.to, &hop.octets());
            }
            _ => return Outcome::Break,
        }
        Outcome::Continue
    }
    fn validate(&self, surroundings: &Surroundings) -> Result<(), Errno> {
        match self.key {
            TCPMSS => {
                surroundings.need_hooks(&[FilterHook::Forward, FilterHook::Output, FilterHook::Postrouting])
            }
            _ => Ok(()),
        }
    }
}
