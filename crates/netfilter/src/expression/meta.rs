//! `meta`: attributes of a packet that are not in its bytes.

use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::environment::FibQuestion;
use crate::family::FilterHook;
use crate::operation::{DumpScope, Operation, Outcome, Passing, Scope};
use crate::packet;
use crate::registers::{Register, Registers};
use belljar_linux_abi::Errno;
use std::net::IpAddr;
use std::sync::Arc;

/// Length of interface names in registers, `IFNAMSIZ`.
const NAME_LEN: usize = 16;
/// `RTN_BROADCAST`.
const RTN_BROADCAST: u8 = 3;
/// `PACKET_HOST`, `PACKET_BROADCAST`, `PACKET_MULTICAST`.
const PACKET_HOST: u8 = 0;
const PACKET_BROADCAST: u8 = 1;
const PACKET_MULTICAST: u8 = 2;

/// `NFT_META_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Len,
    Protocol,
    Mark,
    Interface { output: bool, what: InterfaceKey },
    SocketUid,
    NfProto,
    L4Proto,
    PacketType,
    Cpu,
    Random,
    TimeNs,
    TimeDay,
    TimeHour,
}

/// Attribute of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterfaceKey {
    Index,
    Name,
    Hardware,
    Group,
    Kind,
}

use InterfaceKey::{Group, Hardware, Index, Kind, Name};

const fn input(what: InterfaceKey) -> Key {
    Key::Interface { output: false, what }
}
const fn output(what: InterfaceKey) -> Key {
    Key::Interface { output: true, what }
}

/// Keys by number, with their lengths in bytes and names. Those without a key are refused.
const KEYS: [(Option<Key>, usize, &str); 35] = [
    (Some(Key::Len), 4, "length"),
    (Some(Key::Protocol), 2, "protocol"),
    (None, 4, "priority"),
    (Some(Key::Mark), 4, "mark"),
    (Some(input(Index)), 4, "iif"),
    (Some(output(Index)), 4, "oif"),
    (Some(input(Name)), NAME_LEN, "iifname"),
    (Some(output(Name)), NAME_LEN, "oifname"),
    (Some(input(Hardware)), 2, "iiftype"),
    (Some(output(Hardware)), 2, "oiftype"),
    (Some(Key::SocketUid), 4, "skuid"),
    (None, 4, "skgid"),
    (None, 1, "nftrace"),
    (None, 4, "rtclassid"),
    (None, 4, "secmark"),
    (Some(Key::NfProto), 1, "nfproto"),
    (Some(Key::L4Proto), 1, "l4proto"),
    (None, NAME_LEN, "ibrname"),
    (None, NAME_LEN, "obrname"),
    (Some(Key::PacketType), 1, "pkttype"),
    (Some(Key::Cpu), 4, "cpu"),
    (Some(input(Group)), 4, "iifgroup"),
    (Some(output(Group)), 4, "oifgroup"),
    (None, 4, "cgroup"),
    (Some(Key::Random), 4, "random"),
    (None, 1, "ipsec"),
    (Some(input(Kind)), NAME_LEN, "iifkind"),
    (Some(output(Kind)), NAME_LEN, "oifkind"),
    (None, 2, "ibrpvid"),
    (None, 2, "ibrvproto"),
    (Some(Key::TimeNs), 8, "time"),
    (Some(Key::TimeDay), 1, "day"),
    (Some(Key::TimeHour), 4, "hour"),
    (None, 4, "sdif"),
    (None, NAME_LEN, "sdifname"),
];

fn key(number: u32, scope: &mut dyn Scope) -> Result<(Key, usize), NetfilterError> {
    match KEYS.get(number as usize) {
        Some((Some(key), len, _)) => Ok((*key, *len)),
        Some((None, _, name)) => Err(scope.refuse(format!("meta {name} in rules")).into()),
        None => Err(Errno::EOPNOTSUPP.into()),
    }
}

/// Load of an attribute.
#[derive(Debug)]
struct Load {
    to: Register,
    number: u32,
    key: Key,
}

/// Change of the mark.
#[derive(Debug)]
struct SetMark {
    from: Register,
}

/// Reads a load or a change.
pub(super) fn read(
    attributes: Attributes<'_>,
    scope: &mut dyn Scope,
) -> Result<Arc<dyn Operation>, NetfilterError> {
    let number = attributes.need(2)?.u32()?;
    match (attributes.get(1), attributes.get(3)) {
        (Some(register), None) => {
            let (key, len) = key(number, scope)?;
            Ok(Arc::new(Load { to: Register::read(register, len)?, number, key }))
        }
        (None, Some(register)) => {
            let name = KEYS.get(number as usize).map_or("", |(_, _, name)| name);
            match key(number, scope)?.0 {
                Key::Mark => Ok(Arc::new(SetMark { from: Register::read(register, 4)? })),
                Key::PacketType => Err(scope.refuse(format!("changes of meta {name} by rules")).into()),
                _ => Err(Errno::EOPNOTSUPP.into()),
            }
        }
        (Some(_), Some(_)) => Err(Errno::EINVAL.into()),
        (None, None) => Err(Errno::EOPNOTSUPP.into()),
    }
}

impl Operation for SetMark {
    fn name(&self) -> &'static str {
        "meta"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(2, 3);
        out.u32(3, self.from.number());
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        passing.packet.set_mark(registers.load_u32(self.from));
        Outcome::Continue
    }
}

impl Operation for Load {
    fn name(&self) -> &'static str {
        "meta"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(2, self.number);
        out.u32(1, self.to.number());
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        match value(self.key, passing) {
            Some(bytes) => {
                registers.store(self.to, &bytes);
                Outcome::Continue
            }
            None => Outcome::Break,
        }
    }
}

/// The value of a key for a packet, in the form of registers.
fn value(key: Key, passing: &mut Passing<'_>) -> Option<Vec<u8>> {
    let word = |value: u32| Some(value.to_ne_bytes().to_vec());
    let v6 = passing.headers.v6;
    match key {
        Key::Len => word(passing.headers.end as u32),
        Key::Protocol => Some(if v6 { vec![0x86, 0xdd] } else { vec![8, 0] }),
        Key::Mark => word(passing.packet.mark()),
        Key::Interface { output, what } => {
            let number = if output { passing.output } else { passing.input };
            interface_value(number, what, passing)
        }
        Key::SocketUid => word(passing.environment.socket_owner(passing.packet.cookie())?.uid),
        Key::NfProto => Some(vec![if v6 { 10 } else { 2 }]),
        Key::L4Proto => passing.headers.protocol.map(|protocol| vec![protocol]),
        Key::PacketType => Some(vec![packet_type(passing)]),
        Key::Cpu => word(0),
        Key::Random => word(passing.environment.random()),
        Key::TimeNs => Some(passing.environment.realtime().to_ne_bytes().to_vec()),
        // 1 January 1970 was a Thursday, and Sunday is 0.
        Key::TimeDay => Some(vec![((passing.environment.realtime() / 1_000_000_000 / 86_400 + 4) % 7) as u8]),
        Key::TimeHour => word((passing.environment.realtime() / 1_000_000_000 % 86_400) as u32),
    }
}

fn interface_value(number: Option<usize>, what: InterfaceKey, passing: &Passing<'_>) -> Option<Vec<u8>> {
    let facts = number.map(|number| passing.environment.interface(number));
    let text = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(NAME_LEN, 0);
        bytes
    };
    match (what, facts) {
        (Index, facts) => Some(facts.map_or(0, |facts| facts.index).to_ne_bytes().to_vec()),
        (Name, facts) => Some(text(&facts.unwrap_or_default().name)),
        (_, None) => None,
        (Hardware, Some(facts)) => Some(facts.hardware.to_ne_bytes().to_vec()),
        (Group, Some(facts)) => Some(facts.group.to_ne_bytes().to_vec()),
        (Kind, Some(facts)) => (!facts.kind.is_empty()).then(|| text(facts.kind)),
    }
}

/// Type of a packet by its destination address.
pub(crate) fn packet_type(passing: &mut Passing<'_>) -> u8 {
    if passing.hook == FilterHook::Output
        || passing.hook == FilterHook::Postrouting && passing.input.is_none()
    {
        return PACKET_HOST;
    }
    let to = packet::destination(passing.bytes());
    if to.is_multicast() {
        return PACKET_MULTICAST;
    }
    let question = FibQuestion { to, from: None, mark: 0, tos: 0, interface: None };
    match to {
        IpAddr::V4(_) if passing.environment.fib(&question).kind == RTN_BROADCAST => PACKET_BROADCAST,
        _ => PACKET_HOST,
    }
}
