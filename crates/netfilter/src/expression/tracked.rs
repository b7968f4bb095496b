//! Expressions on the connection of a packet: ct, notrack, connlimit, and the object ct helper.

use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::family::{FilterHook, TableFamily};
use crate::operation::{DumpScope, Operation, Outcome, Passing, Scope, Surroundings};
use crate::registers::{Register, Registers};
use belljar_conntrack::{Attached, Conn, CtZone, Helper, L3, Template, Tuple, TupleDirection};
use belljar_linux_abi::Errno;
use std::sync::{Arc, Mutex};

/// `NFT_CT_*`.
mod key {
    pub(super) const STATE: u32 = 0;
    pub(super) const DIRECTION: u32 = 1;
    pub(super) const STATUS: u32 = 2;
    pub(super) const MARK: u32 = 3;
    pub(super) const SECMARK: u32 = 4;
    pub(super) const EXPIRATION: u32 = 5;
    pub(super) const HELPER: u32 = 6;
    pub(super) const L3PROTOCOL: u32 = 7;
    pub(super) const SRC: u32 = 8;
    pub(super) const DST: u32 = 9;
    pub(super) const PROTOCOL: u32 = 10;
    pub(super) const PROTO_SRC: u32 = 11;
    pub(super) const PROTO_DST: u32 = 12;
    pub(super) const LABELS: u32 = 13;
    pub(super) const PKTS: u32 = 14;
    pub(super) const BYTES: u32 = 15;
    pub(super) const AVGPKT: u32 = 16;
    pub(super) const ZONE: u32 = 17;
    pub(super) const EVENTMASK: u32 = 18;
    pub(super) const SRC_IP: u32 = 19;
    pub(super) const DST_IP: u32 = 20;
    pub(super) const SRC_IP6: u32 = 21;
    pub(super) const DST_IP6: u32 = 22;
    pub(super) const ID: u32 = 23;
}

/// Load of an attribute of the connection.
#[derive(Debug)]
struct Load {
    to: Register,
    key: u32,
    direction: Option<TupleDirection>,
}

/// Change of an attribute of the connection.
#[derive(Debug)]
struct Store {
    from: Register,
    key: u32,
    direction: Option<TupleDirection>,
}

/// Reads a load or a change.
pub(super) fn read(
    attributes: Attributes<'_>,
    scope: &mut dyn Scope,
) -> Result<Arc<dyn Operation>, NetfilterError> {
    let number = attributes.need(2)?.u32()?;
    let direction = match attributes.get(3).and_then(|found| found.value.first().copied()) {
        None => None,
        Some(0) => Some(TupleDirection::Original),
        Some(1) => Some(TupleDirection::Reply),
        Some(_) => return Err(Errno::EINVAL.into()),
    };
    match (attributes.get(1), attributes.get(4)) {
        (Some(_), Some(_)) => Err(Errno::EINVAL.into()),
        (Some(to), None) => {
            let len = load_len(number, direction, scope)?;
            Ok(Arc::new(Load { to: Register::read(to, len)?, key: number, direction }))
        }
        (None, Some(from)) => {
            let len = match number {
                key::MARK => 4,
                key::LABELS => 16,
                key::EVENTMASK | key::ZONE => 2,
                key::SECMARK => return Err(scope.refuse("ct secmark in rules".into()).into()),
                _ => return Err(Errno::EOPNOTSUPP.into()),
            };
            if direction.is_some() && number != key::ZONE {
                return Err(Errno::EINVAL.into());
            }
            Ok(Arc::new(Store { from: Register::read(from, len)?, key: number, direction }))
        }
        (None, None) => Err(Errno::EOPNOTSUPP.into()),
    }
}

/// Length of an attribute in bytes.
fn load_len(
    number: u32,
    direction: Option<TupleDirection>,
    scope: &mut dyn Scope,
) -> Result<usize, NetfilterError> {
    let of_direction = |len| if direction.is_some() { Ok(len) } else { Err(Errno::EINVAL.into()) };
    let of_neither = |len| if direction.is_none() { Ok(len) } else { Err(Errno::EINVAL.into()) };
    match number {
        key::STATE | key::STATUS | key::MARK | key::EXPIRATION => of_neither(4),
        key::DIRECTION => of_neither(1),
        key::HELPER | key::LABELS => of_neither(16),
        key::SECMARK => Err(scope.refuse("ct secmark in rules".into()).into()),
        key::L3PROTOCOL | key::PROTOCOL => Ok(1),
        key::SRC | key::DST if scope.family() == TableFamily::Ip => of_direction(4),
        key::SRC | key::DST => of_direction(16),
        key::PROTO_SRC | key::PROTO_DST => of_direction(2),
        key::PKTS | key::BYTES | key::AVGPKT => Ok(8),
        key::ZONE => Ok(2),
        key::SRC_IP | key::DST_IP => of_direction(4),
        key::SRC_IP6 | key::DST_IP6 => of_direction(16),
        key::ID => of_neither(4),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

fn dump_key(key: u32, direction: Option<TupleDirection>, out: &mut Writer) {
    out.u32(2, key);
    if let Some(direction) = direction {
        out.u8(3, direction as u8);
    }
}

impl Operation for Load {
    fn name(&self) -> &'static str {
        "ct"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.to.number());
        dump_key(self.key, self.direction, out);
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        if self.key == key::STATE {
            registers.store_u32(self.to, passing.attached.state_bits());
            return Outcome::Continue;
        }
        let template_zone = match passing.attached {
            Attached::Template(template) if self.key == key::ZONE => Some(template.zone.id),
            _ => None,
        };
        let value = match (template_zone, passing.tracking.conntrack.conn(passing.attached)) {
            (Some(zone), _) => Some(zone.to_ne_bytes().to_vec()),
            (None, Some(conn)) => self.value(conn, passing),
            (None, None) => None,
        };
        match value {
            Some(value) => {
                registers.store(self.to, &value);
                Outcome::Continue
            }
            None => Outcome::Break,
        }
    }
    fn tracks(&self) -> bool {
        true
    }
}

impl Load {
    /// The value of the attribute in the form of registers.
    fn value(&self, conn: &Conn, passing: &Passing<'_>) -> Option<Vec<u8>> {
        let word = |value: u32| Some(value.to_ne_bytes().to_vec());
        let long = |value: u64| Some(value.to_ne_bytes().to_vec());
        let tuple = conn.tuple(self.direction.unwrap_or(TupleDirection::Original));
        let counters = match self.direction {
            Some(direction) => conn.counters(direction),
            None => {
                let mut sum = conn.counters(TupleDirection::Original);
                let other = conn.counters(TupleDirection::Reply);
                (sum.packets, sum.bytes) = (sum.packets + other.packets, sum.bytes + other.bytes);
                sum
            }
        };
        let v4 = tuple.l3 == L3::V4;
        match self.key {
            key::DIRECTION => passing.attached.direction().map(|direction| vec![direction as u8]),
            key::STATUS => word(conn.status().bits()),
            key::MARK => word(conn.mark()),
            key::EXPIRATION => word((conn.expires(passing.environment.now()).as_nanos() / 1_000_000) as u32),
            key::HELPER => conn.helper().map(|helper| {
                let mut name = helper.name().as_bytes().to_vec();
                name.resize(16, 0);
                name
            }),
            key::LABELS => Some(conn.labels().to_vec()),
            key::L3PROTOCOL => Some(vec![if v4 { 2 } else { 10 }]),
            key::PROTOCOL => Some(vec![tuple.protocol]),
            key::SRC => Some(tuple.source.bytes(tuple.l3).to_vec()),
            key::DST => Some(tuple.destination.bytes(tuple.l3).to_vec()),
            key::SRC_IP | key::SRC_IP6 if v4 == (self.key == key::SRC_IP) => {
                Some(tuple.source.bytes(tuple.l3).to_vec())
            }
            key::DST_IP | key::DST_IP6 if v4 == (self.key == key::DST_IP) => {
                Some(tuple.destination.bytes(tuple.l3).to_vec())
            }
            key::PROTO_SRC => Some(tuple.source_port.to_be_bytes().to_vec()),
            key::PROTO_DST => Some(tuple.destination_port.to_be_bytes().to_vec()),
            key::PKTS => long(counters.packets),
            key::BYTES => long(counters.bytes),
            key::AVGPKT => long(counters.bytes.checked_div(counters.packets).unwrap_or(0)),
            key::ZONE => {
                let id = self.direction.map_or(conn.zone().id, |direction| conn.zone().id_in(direction));
                Some(id.to_ne_bytes().to_vec())
            }
            key::ID => word(conn.id()),
            _ => None,
        }
    }
}

impl Operation for Store {
    fn name(&self) -> &'static str {
        "ct"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(4, self.from.number());
        dump_key(self.key, self.direction, out);
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let attached = passing.attached;
        let conntrack = &mut passing.tracking.conntrack;
        match self.key {
            key::MARK => conntrack.set_mark(attached, registers.load_u32(self.from)),
            key::LABELS => {
                let value = *registers.load(self.from, 16).first_chunk().unwrap_or(&[0; 16]);
                conntrack.set_labels(attached, value, [0xff; 16]);
            }
            key::EVENTMASK => {
                let mask = registers.load_u16(self.from);
                match attached {
                    Attached::None => {
                        let template = Template { event_mask: Some(mask), ..Template::default() };
                        passing.attached = Attached::Template(template);
                    }
                    _ => conntrack.set_event_mask(attached, mask),
                }
            }
            _ => {
                // A zone is of packets that are not tracked yet.
                let directions = match self.direction {
                    None => CtZone::DEFAULT.directions,
                    Some(TupleDirection::Original) => CtZone::ORIGINAL,
                    Some(TupleDirection::Reply) => CtZone::REPLY,
                };
                let zone = CtZone { id: registers.load_u16(self.from), directions };
                match attached {
                    Attached::None => {
                        passing.attached = Attached::Template(Template { zone, ..Template::default() });
                    }
                    Attached::Template(template) => {
                        passing.attached = Attached::Template(Template { zone, ..template });
                    }
                    _ => {}
                }
            }
        }
        Outcome::Continue
    }
    fn tracks(&self) -> bool {
        true
    }
}

/// `notrack`: exempts a packet from tracking.
#[derive(Debug)]
pub(super) struct NoTrack;

impl Operation for NoTrack {
    fn name(&self) -> &'static str {
        "notrack"
    }
    fn dump(&self, _: &dyn DumpScope, _: &mut Writer) {}
    fn evaluate(&self, _: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        if matches!(passing.attached, Attached::None | Attached::Template(_)) {
            passing.attached = Attached::Untracked;
        }
        Outcome::Continue
    }
}

/// `connlimit`: the number of connections that matched.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    limit: u32,
    over: bool,
    connections: Mutex<Vec<(CtZone, Tuple)>>,
}

impl ConnectionLimit {
    pub(crate) fn read(attributes: Attributes<'_>) -> Result<ConnectionLimit, NetfilterError> {
        let limit = attributes.need(1)?.u32()?;
        match attributes.u32(2)?.unwrap_or(0) {
            flags @ 0..=1 => Ok(ConnectionLimit { limit, over: flags == 1, connections: Mutex::default() }),
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }
}

impl Operation for ConnectionLimit {
    fn name(&self) -> &'static str {
        "connlimit"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.limit);
        out.u32(2, u32::from(self.over));
    }
    fn evaluate(&self, _: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let (conntrack, now) = (&passing.tracking.conntrack, passing.environment.now());
        let Some(conn) = conntrack.conn(passing.attached) else { return Outcome::Break };
        let own = (conn.zone(), *conn.original());
        let Ok(mut connections) = self.connections.lock() else { return Outcome::Break };
        connections.retain(|(zone, tuple)| {
            (*zone, *tuple) == own
                || conntrack.find(*zone, tuple, now).is_some_and(|(key, _)| !conntrack.is_closed(key))
        });
        if !connections.contains(&own) {
            connections.push(own);
        }
        Outcome::given((connections.len() > self.limit as usize) == self.over)
    }
    fn tracks(&self) -> bool {
        true
    }
    fn fresh(&self) -> Option<Arc<dyn Operation>> {
        let (limit, over) = (self.limit, self.over);
        Some(Arc::new(ConnectionLimit { limit, over, connections: Mutex::default() }))
    }
}

/// Object `ct helper`: gives a connection a helper.
#[derive(Debug)]
pub(crate) struct HelperObject {
    helper: Helper,
    l3: u16,
    protocol: u8,
}

impl HelperObject {
    /// Reads `NFTA_CT_HELPER_*`.
    pub(crate) fn read(
        attributes: Attributes<'_>,
        family: TableFamily,
    ) -> Result<HelperObject, NetfilterError> {
        let name = attributes.need(1)?.text()?;
        let protocol = attributes.need(3)?.value.first().copied().unwrap_or(0);
        let l3 = match attributes.get(2).and_then(|found| found.value.first_chunk().copied()) {
            Some(bytes) => u16::from_be_bytes(bytes),
            None => u16::from(family.number()),
        };
        let helper = Helper::by_name(name).ok_or(NetfilterError::from(Errno::ENOENT))?;
        Ok(HelperObject { helper, l3, protocol })
    }
}

impl Operation for HelperObject {
    fn name(&self) -> &'static str {
        "ct_helper"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.text(1, self.helper.name());
        out.u16(2, self.l3);
        out.u8(3, self.protocol);
    }
    fn evaluate(&self, _: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let conntrack = &mut passing.tracking.conntrack;
        if conntrack.conn(passing.attached).is_some_and(|conn| conn.original().protocol == self.protocol) {
            conntrack.set_helper(passing.attached, self.helper);
        }
        Outcome::Continue
    }
    fn validate(&self, surroundings: &Surroundings) -> Result<(), Errno> {
        surroundings.need_hooks(&FilterHook::ALL)
    }
    fn tracks(&self) -> bool {
        true
    }
}
