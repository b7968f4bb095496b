//! Statements of chains of type `nat`: nat, masq, redir.

use crate::attributes::{Attribute, Attributes, NetfilterError, Writer};
use crate::family::{ChainType, FilterHook, TableFamily};
use crate::operation::{DumpScope, Operation, Outcome, Passing, Scope, Surroundings, Verdict};
use crate::packet;
use crate::registers::{Register, Registers};
use crate::tracking::inet_hook;
use belljar_conntrack::{InetAddress, L3, Manip, NatFlags, NatRange, TrackVerdict};
use belljar_linux_abi::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Flags that requests may have.
const FLAGS: u32 = NatFlags::all().bits();

/// Registers of a range of ports.
#[derive(Debug, Default)]
struct Ports {
    low: Option<Register>,
    high: Option<Register>,
}

impl Ports {
    fn read(low: Option<Attribute<'_>>, high: Option<Attribute<'_>>) -> Result<Ports, NetfilterError> {
        let Some(low) = low else { return Ok(Ports::default()) };
        let low = Register::read(low, 2)?;
        let high = high.map(|high| Register::read(high, 2)).transpose()?;
        Ok(Ports { low: Some(low), high: Some(high.unwrap_or(low)) })
    }
    fn dump(&self, low: u16, high: u16, out: &mut Writer) {
        if let (Some(from), Some(to)) = (self.low, self.high) {
            out.u32(low, from.number());
            out.u32(high, to.number());
        }
    }
    /// Adds the ports to a range.
    fn apply(&self, registers: &Registers, range: NatRange) -> NatRange {
        let port = |register| u16::from_be(registers.load_u16(register));
        match (self.low, self.high) {
            (Some(low), Some(high)) => range.with_ports(port(low), port(high)),
            _ => range,
        }
    }
}

fn flags(attribute: Option<u32>) -> Result<NatFlags, NetfilterError> {
    match attribute.unwrap_or(0) {
        flags if flags & !FLAGS != 0 => Err(Errno::EOPNOTSUPP.into()),
        flags => Ok(NatFlags::from_bits_truncate(flags)),
    }
}

/// A range of no address, with flags.
fn range(flags: NatFlags) -> NatRange {
    let unspecified = InetAddress::UNSPECIFIED;
    let (min_address, max_address) = (unspecified, unspecified);
    NatRange { flags, min_address, max_address, min_port: 0, max_port: 0, base_port: 0 }
}

fn outcome(verdict: TrackVerdict) -> Outcome {
    Outcome::Verdict(match verdict {
        TrackVerdict::Accept => Verdict::Accept,
        TrackVerdict::Drop => Verdict::Drop,
    })
}

/// `nat`: translation to given addresses and ports.
#[derive(Debug)]
pub(super) struct Translate {
    manip: Manip,
    family: TableFamily,
    addresses: Option<(Register, Register)>,
    ports: Ports,
    flags: NatFlags,
}

impl Translate {
    pub(super) fn read(attributes: Attributes<'_>, scope: &dyn Scope) -> Result<Translate, NetfilterError> {
        let (low, ports) = (attributes.get(3), attributes.get(5));
        let manip = match attributes.need(1)?.u32()? {
            0 => Manip::Source,
            1 => Manip::Destination,
            _ => return Err(Errno::EOPNOTSUPP.into()),
        };
        if low.is_none() && ports.is_none() {
            return Err(Errno::EINVAL.into());
        }
        let number = attributes.need(2)?.u32()?;
        let family =
            TableFamily::of_request(number as u8).map_err(|_| NetfilterError::from(Errno::EAFNOSUPPORT))?;
        if scope.family() != TableFamily::Inet && family != scope.family() {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let len = match family {
            TableFamily::Ip => 4,
            TableFamily::Ip6 => 16,
            // Without addresses, of both families.
            TableFamily::Inet if low.is_some() => return Err(Errno::EAFNOSUPPORT.into()),
            TableFamily::Inet => 0,
        };
        let addresses = match low {
            None => None,
            Some(low) => {
                let low = Register::read(low, len)?;
                let high = attributes.get(4).map(|high| Register::read(high, len)).transpose()?;
                Some((low, high.unwrap_or(low)))
            }
        };
        let flags = flags(attributes.u32(7)?)?;
        Ok(Translate { manip, family, addresses, ports: Ports::read(ports, attributes.get(6))?, flags })
    }
}

impl Operation for Translate {
    fn name(&self) -> &'static str {
        "nat"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, u32::from(self.manip == Manip::Destination));
        out.u32(2, u32::from(self.family.number()));
        if let Some((low, high)) = self.addresses {
            out.u32(3, low.number());
            out.u32(4, high.number());
        }
        self.ports.dump(5, 6, out);
        if !self.flags.is_empty() {
            out.u32(7, self.flags.bits());
        }
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        if !self.family.sees(passing.headers.v6) {
            return Outcome::Continue;
        }
        let mut wanted = range(self.flags);
        if let Some((low, high)) = self.addresses {
            let (l3, len) = if passing.headers.v6 { (L3::V6, 16) } else { (L3::V4, 4) };
            let address = |register| InetAddress::read(l3, registers.load(register, len));
            let (Some(low), Some(high)) = (address(low), address(high)) else { return Outcome::Break };
            (wanted.min_address, wanted.max_address) = (low, high);
            wanted = wanted.with_flags(self.flags | NatFlags::MAP_IPS);
        }
        wanted = self.ports.apply(registers, wanted);
        let now = passing.environment.now();
        outcome(passing.tracking.conntrack.setup_nat(passing.attached, &wanted, self.manip, now))
    }
    fn validate(&self, surroundings: &Surroundings) -> Result<(), Errno> {
        surroundings.need_type(ChainType::Nat)?;
        match self.manip {
            Manip::Source => surroundings.need_hooks(&[FilterHook::Postrouting, FilterHook::Input]),
            Manip::Destination => surroundings.need_hooks(&[FilterHook::Prerouting, FilterHook::Output]),
        }
    }
    fn tracks(&self) -> bool {
        true
    }
}

/// `masq`: translation to the address of the output interface.
#[derive(Debug)]
pub(super) struct Masquerade {
    ports: Ports,
    flags: NatFlags,
}

impl Masquerade {
    pub(super) fn read(attributes: Attributes<'_>) -> Result<Masquerade, NetfilterError> {
        let flags = flags(attributes.u32(1)?)?;
        Ok(Masquerade { ports: Ports::read(attributes.get(2), attributes.get(3))?, flags })
    }
}

impl Operation for Masquerade {
    fn name(&self) -> &'static str {
        "masq"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        if !self.flags.is_empty() {
            out.u32(1, self.flags.bits());
        }
        self.ports.dump(2, 3, out);
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let wanted = self.ports.apply(registers, range(self.flags));
        outcome(masquerade(passing, &wanted))
    }
    fn validate(&self, surroundings: &Surroundings) -> Result<(), Errno> {
        surroundings.need_type(ChainType::Nat)?;
        surroundings.need_hooks(&[FilterHook::Postrouting])
    }
    fn tracks(&self) -> bool {
        true
    }
}

/// Masquerades the connection of a packet.
pub(crate) fn masquerade(passing: &mut Passing<'_>, wanted: &NatRange) -> TrackVerdict {
    let Some(output) = passing.output else { return TrackVerdict::Drop };
    let to = packet::destination(passing.bytes());
    let address = passing.environment.masquerade_address(output, to);
    let address = address.map_or(InetAddress::UNSPECIFIED, InetAddress::from);
    let (index, now) = (passing.environment.interface(output).index, passing.environment.now());
    passing.tracking.conntrack.setup_masquerade(passing.attached, address, index, wanted, now)
}

/// `redir`: translation to this host.
#[derive(Debug)]
pub(super) struct Redirect {
    ports: Ports,
    flags: NatFlags,
}

impl Redirect {
    pub(super) fn read(attributes: Attributes<'_>) -> Result<Redirect, NetfilterError> {
        let flags = flags(attributes.u32(3)?)?;
        Ok(Redirect { ports: Ports::read(attributes.get(1), attributes.get(2))?, flags })
    }
}

impl Operation for Redirect {
    fn name(&self) -> &'static str {
        "redir"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        self.ports.dump(1, 2, out);
        if !self.flags.is_empty() {
            out.u32(3, self.flags.bits());
        }
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let wanted = self.ports.apply(registers, range(self.flags));
        outcome(redirect(passing, &wanted))
    }
    fn validate(&self, surroundings: &Surroundings) -> Result<(), Errno> {
        surroundings.need_type(ChainType::Nat)?;
        surroundings.need_hooks(&[FilterHook::Prerouting, FilterHook::Output])
    }
    fn tracks(&self) -> bool {
        true
    }
}

/// Redirects the connection of a packet to this host.
pub(crate) fn redirect(passing: &mut Passing<'_>, wanted: &NatRange) -> TrackVerdict {
    let v6 = passing.headers.v6;
    let address = match (passing.hook, passing.input) {
        (FilterHook::Output, _) if v6 => Some(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        (FilterHook::Output, _) => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        (_, Some(input)) => passing.environment.redirect_address(input, v6),
        (_, None) => None,
    };
    let address = address.map_or(InetAddress::UNSPECIFIED, InetAddress::from);
    let now = passing.environment.now();
    passing.tracking.conntrack.setup_redirect(passing.attached, address, wanted, now)
}

/// True if the rules of a NAT hook decide on a packet.
pub(crate) fn is_wanted(passing: &Passing<'_>) -> bool {
    let conntrack = &passing.tracking.conntrack;
    conntrack.nat_wanted(passing.bytes(), passing.attached, inet_hook(passing.hook))
}
