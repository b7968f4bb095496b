//! Policy routing rules in rtnetlink: `RTM_NEWRULE`, `RTM_GETRULE` (`net/core/fib_rules.c` in Linux).

use super::Announced;
use super::message::{MULTI, Message, Request, To};
use super::refusal::{Refusal, refusal};
use super::requests::{ip_bytes, parse_ip};
use super::routes::short_table;
use crate::Admin;
use belljar_linux_abi::{Errno, c};
use belljar_net::Prefix;
use belljar_net::policy::{Action, PortRange, Rule, table};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Length of `struct fib_rule_hdr` in bytes.
const RULE: usize = 12;
/// `FRA_*`.
const DST: u16 = 1;
const SRC: u16 = 2;
const IIFNAME: u16 = 3;
const GOTO: u16 = 4;
const PRIORITY: u16 = 6;
const FWMARK: u16 = 10;
const SUPPRESS_PREFIXLEN: u16 = 14;
const TABLE: u16 = 15;
const FWMASK: u16 = 16;
const OIFNAME: u16 = 17;
const PROTOCOL: u16 = 21;
const UID_RANGE: u16 = 20;
const IP_PROTO: u16 = 22;
const SPORT_RANGE: u16 = 23;
const DPORT_RANGE: u16 = 24;
/// `FRA_FLOW`: realms, for which there are no statistics here.
const FLOW: u16 = 11;
/// Unsupported selectors: tunnels, interface groups, VRFs, port masks, flow labels.
const UNKNOWN: [(u16, &str); 7] = [
    (12, "tunnels"),
    (13, "suppress_ifgroup"),
    (19, "l3mdev"),
    (26, "flowlabel"),
    (27, "flowlabel"),
    (28, "a mask of sport"),
    (29, "a mask of dport"),
];
/// `FR_ACT_*`.
const TO_TABLE: u8 = 1;
const ACT_GOTO: u8 = 2;
const ACT_NOP: u8 = 3;
const ACT_BLACKHOLE: u8 = 6;
const ACT_UNREACHABLE: u8 = 7;
const ACT_PROHIBIT: u8 = 8;
/// `FIB_RULE_*`.
const INVERT: u32 = 2;
const UNRESOLVED: u32 = 4;
const IIF_DETACHED: u32 = 8;
const OIF_DETACHED: u32 = 16;

impl Admin<'_> {
    /// Handles `ip rule`: lists the rules.
    pub(crate) fn rules(&self, family: i32, sequence: u32, port: u32) -> Vec<Vec<u8>> {
        let to = (sequence, MULTI, port);
        let mut all = Vec::new();
        if family != c::AF_INET6 {
            all.extend(self.shown_rules::<Ipv4Addr>(to));
        }
        if family != c::AF_INET && self.net.v6.on {
            all.extend(self.shown_rules::<Ipv6Addr>(to));
        }
        all
    }

    /// Messages for the rules, preceded by the rule of the local table, which is always first.
    fn shown_rules<A: Announced>(&self, to: To) -> Vec<Vec<u8>> {
        let local = Rule::all(0, Action::Table(table::LOCAL));
        let rules = std::iter::once(&local).chain(A::policy(self.net).rules());
        rules.map(|rule| self.rule_message::<A>(rule, c::RTM_NEWRULE, to)).collect()
    }

    fn rule_message<A: Announced>(&self, rule: &Rule<A>, kind: u16, to: To) -> Vec<u8> {
        let (sequence, flags, port) = to;
        let (action, number) = match rule.action {
            Action::Table(number) => (TO_TABLE, number),
            Action::Goto(_) => (ACT_GOTO, 0),
            Action::Nop => (ACT_NOP, 0),
            Action::Blackhole => (ACT_BLACKHOLE, 0),
            Action::Unreachable => (ACT_UNREACHABLE, 0),
            Action::Prohibit => (ACT_PROHIBIT, 0),
        };
        let mut how = if rule.inverted { INVERT } else { 0 };
        let missing = |name: &Option<Arc<str>>| {
            name.as_ref().is_some_and(|name| self.net.interfaces.by_name(name.as_bytes()).is_none())
        };
        how |= if missing(&rule.arrived) { IIF_DETACHED } else { 0 };
        how |= if missing(&rule.device) { OIF_DETACHED } else { 0 };
        let unresolved = |target| A::policy(self.net).rules().iter().all(|rule| rule.priority != target);
        how |= if matches!(rule.action, Action::Goto(to) if unresolved(to)) { UNRESOLVED } else { 0 };
        let header = [A::AF as u8, rule.to.bits(), rule.from.bits(), rule.tos];
        let suppressed = rule.suppressed.map_or(u32::MAX, u32::from);
        let mut message = Message::new(kind, flags, sequence, port)
            .put(&header)
            .put(&[short_table(number), 0, 0, action])
            .put(&how.to_ne_bytes())
            .attribute(TABLE, &number.to_ne_bytes())
            .attribute(SUPPRESS_PREFIXLEN, &suppressed.to_ne_bytes())
            .attribute(PROTOCOL, &[rule.protocol]);
        for (kind, name) in [(IIFNAME, &rule.arrived), (OIFNAME, &rule.device)] {
            if let Some(name) = name {
                message = message.attribute(kind, &[name.as_bytes(), &[0]].concat());
            }
        }
        if rule.priority != 0 {
            message = message.attribute(PRIORITY, &rule.priority.to_ne_bytes());
        }
        if rule.mark != 0 || rule.mask != 0 {
            message = message
                .attribute(FWMARK, &rule.mark.to_ne_bytes())
                .attribute(FWMASK, &rule.mask.to_ne_bytes());
        }
        if let Some((first, last)) = rule.users {
            message = message.attribute(UID_RANGE, [first.to_ne_bytes(), last.to_ne_bytes()].as_flattened());
        }
        if rule.ip_protocol != 0 {
            message = message.attribute(IP_PROTO, &[rule.ip_protocol]);
        }
        for (kind, range) in [(SPORT_RANGE, rule.ports.0), (DPORT_RANGE, rule.ports.1)] {
            if let Some((first, last)) = range {
                message = message.attribute(kind, [first.to_ne_bytes(), last.to_ne_bytes()].as_flattened());
            }
        }
        if let Action::Goto(target) = rule.action {
            message = message.attribute(GOTO, &target.to_ne_bytes());
        }
        for (kind, prefix) in [(DST, rule.to), (SRC, rule.from)] {
            if !prefix.is_all() {
                message = message.attribute(kind, &ip_bytes(prefix.address().into()));
            }
        }
        message.finish()
    }

    /// Handles `ip rule add`.
    pub(crate) fn add_rule<A: Announced>(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let wanted = self.wanted_rule::<A>(request)?;
        let policy = A::policy(self.net);
        let action = match wanted.action.ok_or(Errno::EINVAL)? {
            // Without a table number, IPv4 takes an unused table and IPv6 refuses.
            Action::Table(0) if A::AF == c::AF_INET6 => return Err(Errno::EINVAL.into()),
            Action::Table(0) => {
                let free = (1..table::DEFAULT).find(|n| policy.table(A::routes(self.net), *n).is_none());
                Action::Table(free.ok_or(Errno::ENOBUFS)?)
            }
            other => other,
        };
        let rule = Rule {
            priority: wanted.priority.unwrap_or_else(|| policy.next_priority()),
            from: wanted.from.unwrap_or(Prefix::ALL),
            to: wanted.to.unwrap_or(Prefix::ALL),
            arrived: wanted.arrived,
            device: wanted.device,
            mark: wanted.mark.unwrap_or(0),
            mask: wanted.mask.unwrap_or(if wanted.mark.is_some() { u32::MAX } else { 0 }),
            tos: wanted.tos,
            ip_protocol: wanted.ip_protocol.unwrap_or(0),
            ports: wanted.ports,
            users: wanted.users,
            inverted: wanted.inverted,
            suppressed: wanted.suppressed,
            action,
            protocol: wanted.protocol.unwrap_or(c::RTPROT_UNSPEC),
        };
        if matches!(rule.action, Action::Goto(target) if target <= rule.priority) {
            return Err(refusal(Errno::EINVAL, "Backward goto not supported"));
        }
        if i32::from(request.flags) & c::NLM_F_EXCL != 0 && policy.rules().contains(&rule) {
            return Err(Errno::EEXIST.into());
        }
        let message = self.rule_message::<A>(&rule, c::RTM_NEWRULE, (0, 0, 0));
        A::policy_mut(self.net).add(rule);
        self.announce(A::RULE_GROUP, &message);
        Ok(())
    }

    /// Handles `ip rule del`: deletes the first rule that matches.
    pub(crate) fn remove_rule<A: Announced>(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let wanted = self.wanted_rule::<A>(request)?;
        let removed = A::policy_mut(self.net).remove(|rule| wanted.means(rule)).ok_or(Errno::ENOENT)?;
        let message = self.rule_message::<A>(&removed, c::RTM_DELRULE, (0, 0, 0));
        self.announce(A::RULE_GROUP, &message);
        Ok(())
    }

    fn wanted_rule<A: Announced>(&mut self, request: &Request<'_>) -> Result<Wanted<A>, Refusal> {
        if let Some((_, what)) = UNKNOWN.iter().find(|(kind, _)| request.attribute(RULE, *kind).is_some()) {
            self.warn(format!("netlink: rules that select by {what} are not supported"));
            return Err(Errno::EOPNOTSUPP.into());
        }
        if request.attribute(RULE, FLOW).is_some() {
            self.warn("rtnetlink: FRA_FLOW of rules is accepted without effect");
        }
        Wanted::read(request)
    }
}

/// Rule in a request; absent attributes are `None`.
struct Wanted<A> {
    priority: Option<u32>,
    from: Option<Prefix<A>>,
    to: Option<Prefix<A>>,
    arrived: Option<Arc<str>>,
    device: Option<Arc<str>>,
    mark: Option<u32>,
    mask: Option<u32>,
    tos: u8,
    ip_protocol: Option<u8>,
    ports: (Option<PortRange>, Option<PortRange>),
    users: Option<(u32, u32)>,
    inverted: bool,
    suppressed: Option<u8>,
    action: Option<Action>,
    protocol: Option<u8>,
}

impl<A: Announced> Wanted<A> {
    fn read(request: &Request<'_>) -> Result<Wanted<A>, Refusal> {
        let [_, to_len, from_len, tos, short, _, _, action, ..] = *request.body else {
            return Err(Errno::EINVAL.into());
        };
        let flags = request.word(8)?;
        let number = request.number(RULE, TABLE)?.unwrap_or(u32::from(short));
        let prefix = |kind: u16, len: u8| -> Result<Option<Prefix<A>>, Errno> {
            match (request.attribute(RULE, kind), len) {
                (None, 0) => Ok(None),
                (Some(bytes), 1..) if len <= A::BITS => {
                    Ok(Some(Prefix::new(A::of(parse_ip(bytes)?).ok_or(Errno::EINVAL)?, len)))
                }
                // `from all`, as some programs encode it.
                (Some(_), 0) => Ok(None),
                _ => Err(Errno::EINVAL),
            }
        };
        let name = |kind: u16| -> Result<Option<Arc<str>>, Errno> {
            let Some(bytes) = request.attribute(RULE, kind) else { return Ok(None) };
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            let name = std::str::from_utf8(&bytes[..end]).map_err(|_| Errno::EINVAL)?;
            Ok(Some(name.into()))
        };
        let action = match action {
            0 => None,
            TO_TABLE => Some(Action::Table(number)),
            ACT_GOTO => Some(Action::Goto(request.number(RULE, GOTO)?.ok_or(Errno::EINVAL)?)),
            ACT_NOP => Some(Action::Nop),
            ACT_BLACKHOLE => Some(Action::Blackhole),
            ACT_UNREACHABLE => Some(Action::Unreachable),
            ACT_PROHIBIT => Some(Action::Prohibit),
            _ => return Err(Errno::EINVAL.into()),
        };
        // A deletion request may name the table only.
        let action = action.or((number != 0).then_some(Action::Table(number)));
        let ports = |kind: u16, words: &'static str| -> Result<Option<PortRange>, Refusal> {
            let Some(value) = request.attribute(RULE, kind) else { return Ok(None) };
            let [a, b, x, y] = *value else { return Err(Errno::EINVAL.into()) };
            let (first, last) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([x, y]));
            // As in Linux's `fib_rule_port_range_valid`, port 65535 is invalid.
            let valid = first != 0 && last < u16::MAX && first <= last;
            valid.then_some(Some((first, last))).ok_or(refusal(Errno::EINVAL, words))
        };
        let users = match request.attribute(RULE, UID_RANGE) {
            None => None,
            Some(value) => {
                let [first, last] = *value.as_chunks::<4>().0 else { return Err(Errno::EINVAL.into()) };
                let (first, last) = (u32::from_ne_bytes(first), u32::from_ne_bytes(last));
                // Uid -1 is invalid.
                let valid = first <= last && last != u32::MAX;
                Some(valid.then_some((first, last)).ok_or(refusal(Errno::EINVAL, "Invalid uid range"))?)
            }
        };
        Ok(Wanted {
            priority: request.number(RULE, PRIORITY)?,
            from: prefix(SRC, from_len)?,
            to: prefix(DST, to_len)?,
            arrived: name(IIFNAME)?,
            device: name(OIFNAME)?,
            mark: request.number(RULE, FWMARK)?,
            mask: request.number(RULE, FWMASK)?,
            tos,
            ip_protocol: request.attribute(RULE, IP_PROTO).and_then(|value| value.first().copied()),
            ports: (ports(SPORT_RANGE, "Invalid sport range")?, ports(DPORT_RANGE, "Invalid dport range")?),
            users,
            inverted: flags & INVERT != 0,
            suppressed: request.number(RULE, SUPPRESS_PREFIXLEN)?.and_then(|bits| u8::try_from(bits).ok()),
            action,
            protocol: request.attribute(RULE, PROTOCOL).and_then(|bytes| bytes.first().copied()),
        })
    }

    /// True if the rule matches all attributes that are present.
    fn means(&self, rule: &Rule<A>) -> bool {
        let mask = self.mask.or(self.mark.map(|_| u32::MAX));
        self.priority.is_none_or(|priority| priority == rule.priority)
            && self.from.is_none_or(|from| from == rule.from)
            && self.to.is_none_or(|to| to == rule.to)
            && (self.arrived.is_none() || self.arrived == rule.arrived)
            && (self.device.is_none() || self.device == rule.device)
            && self.mark.is_none_or(|mark| mark == rule.mark)
            && mask.is_none_or(|mask| mask == rule.mask)
            && (self.tos == 0 || self.tos == rule.tos)
            && self.ip_protocol.is_none_or(|protocol| protocol == rule.ip_protocol)
            && (self.ports.0.is_none() || self.ports.0 == rule.ports.0)
            && (self.ports.1.is_none() || self.ports.1 == rule.ports.1)
            && (self.users.is_none() || self.users == rule.users)
            && (!self.inverted || rule.inverted)
            && (self.suppressed.is_none() || self.suppressed == rule.suppressed)
            && self.protocol.is_none_or(|protocol| protocol == 0 || protocol == rule.protocol)
            && self.action.is_none_or(|action| action == rule.action)
    }
}
