//! Policy routing rules in rtnetlink: `RTM_NEWRULE`, `RTM_GETRULE` (`net/core/fib_rules.c` in Linux).

use super::Announced;
use super::links::bare;
use super::message::{MULTI, Message, Request, To};
use super::policies;
use super::policy::LIBERAL;
use super::refusal::{Refusal, invalid, refusal};
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
const SPORT_MASK: u16 = 28;
const DPORT_MASK: u16 = 29;
/// `FRA_FLOW`: realms, for which there are no statistics here.
const FLOW: u16 = 11;
/// `FRA_L3MDEV`.
const L3MDEV: u16 = 19;
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
const PERMANENT: u32 = 1;
const INVERT: u32 = 2;
const UNRESOLVED: u32 = 4;
const IIF_DETACHED: u32 = 8;
const OIF_DETACHED: u32 = 16;

/// Refuses a rule of a family that has none.
pub(super) fn refuse_rule_family(request: &Request<'_>) -> Refusal {
    match request.body.len() < RULE {
        true => refusal(Errno::EINVAL, "Invalid msg length"),
        false => refusal(Errno::EAFNOSUPPORT, "Rule family not supported"),
    }
}

impl Admin<'_> {
    /// Handles `ip rule`: lists the rules (`fib_nl_dumprule`).
    pub(crate) fn rules(
        &self,
        request: &Request<'_>,
        family: i32,
        port: u32,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        if request.strict {
            let Some(head) = request.body.get(..RULE) else {
                return invalid("Invalid header for fib rule dump request");
            };
            if head[1..].iter().any(|byte| *byte != 0) {
                return invalid("Invalid values in header for fib rule dump request");
            }
            if request.body.len() > RULE {
                return invalid("Invalid data after header in fib rule dump request");
            }
        }
        let to = (request.sequence, MULTI, port);
        Ok(match family {
            c::AF_INET => self.shown_rules::<Ipv4Addr>(to),
            c::AF_INET6 => self.shown_rules::<Ipv6Addr>(to),
            c::AF_UNSPEC => [self.shown_rules::<Ipv4Addr>(to), self.shown_rules::<Ipv6Addr>(to)].concat(),
            _ => return Err(Errno::EAFNOSUPPORT.into()),
        })
    }

    /// Messages for the rules, preceded by the rule of the local table, which is always first.
    fn shown_rules<A: Announced>(&self, to: To) -> Vec<Vec<u8>> {
        let local = Rule::all(0, Action::Table(table::LOCAL));
        let policy = A::policy(self.net);
        let local = Some(&local).filter(|_| !policy.without_local);
        let rules = local.into_iter().chain(policy.rules());
        rules.map(|rule| self.rule_message::<A>(rule, c::RTM_NEWRULE, to)).collect()
    }

    fn rule_message<A: Announced>(&self, rule: &Rule<A>, kind: u16, to: To) -> Vec<u8> {
        let (sequence, flags, port) = to;
        let (action, number) = (action_number(rule.action), table_of(rule));
        let mut how = rule.flags | if rule.inverted { INVERT } else { 0 };
        let missing = |name: &Option<Arc<str>>| {
            name.as_ref().is_some_and(|name| self.net.interfaces.by_name(name.as_bytes()).is_none())
        };
        how |= if missing(&rule.arrived) { IIF_DETACHED } else { 0 };
        how |= if missing(&rule.device) { OIF_DETACHED } else { 0 };
        let unresolved = |target| A::policy(self.net).rules().iter().all(|rule| rule.priority != target);
        how |= if matches!(rule.action, Action::Goto(to) if unresolved(to)) { UNRESOLVED } else { 0 };
        let header = [A::AF as u8, rule.to.bits(), rule.from.bits(), rule.tos];
        let suppressed = rule.suppressed.unwrap_or(u32::MAX);
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
        if rule.mark != 0 {
            message = message.attribute(FWMARK, &rule.mark.to_ne_bytes());
        }
        if rule.mark != 0 || rule.mask != 0 {
            message = message.attribute(FWMASK, &rule.mask.to_ne_bytes());
        }
        if rule.action == Action::L3mdev {
            message = message.attribute(L3MDEV, &[1]);
        }
        if let Action::Goto(target) = rule.action {
            message = message.attribute(GOTO, &target.to_ne_bytes());
        }
        if let Some((first, last)) = rule.users {
            message = message.attribute(UID_RANGE, [first.to_ne_bytes(), last.to_ne_bytes()].as_flattened());
        }
        let ranges = [(SPORT_RANGE, SPORT_MASK, rule.ports.0), (DPORT_RANGE, DPORT_MASK, rule.ports.1)];
        for (kind, mask, range) in ranges {
            if let Some((first, last)) = range {
                message = message.attribute(kind, [first.to_ne_bytes(), last.to_ne_bytes()].as_flattened());
                if first == last {
                    message = message.attribute(mask, &u16::MAX.to_ne_bytes());
                }
            }
        }
        if rule.ip_protocol != 0 {
            message = message.attribute(IP_PROTO, &[rule.ip_protocol]);
        }
        for (kind, prefix, given) in [(DST, rule.to, rule.given[0]), (SRC, rule.from, rule.given[1])] {
            if !prefix.is_all() {
                message = message.attribute(kind, &ip_bytes(given.into()));
            }
        }
        message.finish()
    }

    /// Handles `ip rule add` (`fib_nl_newrule`).
    pub(crate) fn add_rule<A: Announced>(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let wanted = self.wanted_rule::<A>(request)?;
        let policy = A::policy(self.net);
        let mut rule = wanted.rule(policy.next_priority());
        if i32::from(request.flags) & c::NLM_F_EXCL != 0 {
            let local = Rule::all(0, Action::Table(table::LOCAL));
            let local = Some(&local).filter(|_| !policy.without_local);
            if local.into_iter().chain(policy.rules()).any(|other| wanted.equals(&rule, other)) {
                return Err(Errno::EEXIST.into());
            }
        }
        wanted.check_tos()?;
        match rule.action {
            // Without a table number, IPv4 takes an unused table and IPv6 refuses.
            Action::Table(0) if A::AF == c::AF_INET6 => return Err(refusal(Errno::EINVAL, "Invalid table")),
            Action::Table(0) => {
                let free = (1..u32::MAX).find(|number| !policy.has_table(*number));
                let free = free.ok_or(Errno::ENOBUFS)?;
                A::policy_mut(self.net).create_table(free);
                (rule.action, rule.table) = (Action::Table(free), free);
            }
            Action::Table(number) if A::AF == c::AF_INET6 => A::policy_mut(self.net).create_table(number),
            _ => {}
        }
        let message = self.rule_message::<A>(&rule, c::RTM_NEWRULE, (0, 0, 0));
        A::policy_mut(self.net).add(rule);
        self.announce(A::RULE_GROUP, &message);
        Ok(())
    }

    /// Handles `ip rule del`: deletes the first rule that matches (`fib_nl_delrule`).
    pub(crate) fn remove_rule<A: Announced>(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let wanted = self.wanted_rule::<A>(request)?;
        let meant = wanted.rule(0);
        let local = Rule::all(0, Action::Table(table::LOCAL));
        let policy = A::policy(self.net);
        let is_local = !policy.without_local && wanted.means(&meant, &local);
        let found = if is_local {
            Some(&local)
        } else {
            policy.rules().iter().find(|rule| wanted.means(&meant, rule))
        };
        let removed = found.ok_or(Errno::ENOENT)?.clone();
        if removed.flags & PERMANENT != 0 {
            return Err(Errno::EPERM.into());
        }
        if is_local {
            self.warn("netlink: without the rule of the local table, own addresses are still found first");
            A::policy_mut(self.net).without_local = true;
        } else {
            A::policy_mut(self.net).remove(|rule| *rule == removed);
        }
        let message = self.rule_message::<A>(&removed, c::RTM_DELRULE, (0, 0, 0));
        self.announce(A::RULE_GROUP, &message);
        Ok(())
    }

    fn wanted_rule<A: Announced>(&mut self, request: &Request<'_>) -> Result<Wanted<A>, Refusal> {
        if request.body.len() < RULE {
            return Err(refuse_rule_family(request));
        }
        let parsed = request.validate(RULE, &policies::RULE, LIBERAL);
        parsed.map_err(|refusal| Refusal { words: Some("Error parsing msg"), ..refusal })?;
        if let Some((_, what)) = UNKNOWN.iter().find(|(kind, _)| request.attribute(RULE, *kind).is_some()) {
            self.warn(format!("netlink: rules that select by {what} are not supported"));
            return Err(Errno::EOPNOTSUPP.into());
        }
        if request.attribute(RULE, FLOW).is_some() {
            self.warn("rtnetlink: FRA_FLOW of rules is accepted without effect");
        }
        let usual = A::policy(self.net).next_priority();
        Wanted::read(request, usual)
    }
}

/// Rule in a request (`fib_nl2rule`); zeros and absent attributes stand for any value.
struct Wanted<A> {
    priority: Option<u32>,
    from: Option<(A, Prefix<A>)>,
    to: Option<(A, Prefix<A>)>,
    arrived: Option<Arc<str>>,
    device: Option<Arc<str>>,
    mark: u32,
    mask: u32,
    tos: u8,
    ip_protocol: u8,
    ports: (Option<PortRange>, Option<PortRange>),
    users: Option<(u32, u32)>,
    flags: u32,
    suppressed: Option<u32>,
    action: u8,
    table: u32,
    target: u32,
    protocol: u8,
}

impl<A: Announced> Wanted<A> {
    /// Decodes a request; a rule without a priority would have the `usual` one.
    fn read(request: &Request<'_>, usual: u32) -> Result<Wanted<A>, Refusal> {
        let [_, to_len, from_len, tos, short, _, _, action, ..] = *request.body else {
            return Err(Errno::EINVAL.into());
        };
        let number = |kind| request.number(RULE, kind);
        let prefix = |kind: u16, len: u8, words| -> Result<Option<(A, Prefix<A>)>, Refusal> {
            if len == 0 {
                return Ok(None);
            }
            let value = request.attribute(RULE, kind).filter(|value| value.len() == usize::from(A::BITS) / 8);
            match value.map(parse_ip).transpose()?.and_then(A::of) {
                Some(ip) if len <= A::BITS => Ok(Some((ip, Prefix::new(ip, len)))),
                _ => invalid(words),
            }
        };
        let name = |kind: u16| {
            let name = request.attribute(RULE, kind).map(bare).filter(|name| !name.is_empty())?;
            Some(String::from_utf8_lossy(name).into())
        };
        let from = prefix(SRC, from_len, "Invalid source address")?;
        let to = prefix(DST, to_len, "Invalid dst address")?;
        let priority = number(PRIORITY)?;
        let mark = number(FWMARK)?.unwrap_or(0);
        let target = number(GOTO)?;
        match target {
            Some(_) if action != ACT_GOTO => return invalid("Unexpected goto"),
            None if action == ACT_GOTO => return invalid("Missing goto target for action goto"),
            _ => {}
        }
        let users = match request.attribute(RULE, UID_RANGE) {
            None => None,
            Some(value) => {
                let [first, last, ..] = *value.as_chunks::<4>().0 else { return Err(Errno::EINVAL.into()) };
                let (first, last) = (u32::from_ne_bytes(first), u32::from_ne_bytes(last));
                // Uid -1 is invalid.
                let valid = first <= last && last != u32::MAX;
                Some(valid.then_some((first, last)).ok_or(refusal(Errno::EINVAL, "Invalid uid range"))?)
            }
        };
        let ports = |kind: u16, words: &'static str| -> Result<Option<PortRange>, Refusal> {
            let Some([a, b, x, y, ..]) = request.attribute(RULE, kind) else { return Ok(None) };
            let (first, last) = (u16::from_ne_bytes([*a, *b]), u16::from_ne_bytes([*x, *y]));
            // As in Linux's `fib_rule_port_range_valid`, port 65535 is invalid.
            let valid = first != 0 && last < u16::MAX && first <= last;
            valid.then_some(Some((first, last))).ok_or(refusal(Errno::EINVAL, words))
        };
        let byte = |kind| request.attribute(RULE, kind).map_or(0, |value| value[0]);
        let ports = (ports(SPORT_RANGE, "Invalid sport range")?, ports(DPORT_RANGE, "Invalid dport range")?);
        if target.is_some_and(|target| target <= priority.unwrap_or(usual)) {
            return invalid("Backward goto not supported");
        }
        Ok(Wanted {
            priority,
            from,
            to,
            arrived: name(IIFNAME),
            device: name(OIFNAME),
            mark,
            mask: number(FWMASK)?.unwrap_or(if mark != 0 { u32::MAX } else { 0 }),
            tos,
            ip_protocol: byte(IP_PROTO),
            ports,
            users,
            flags: request.word(8)?,
            suppressed: number(SUPPRESS_PREFIXLEN)?.filter(|bits| *bits != u32::MAX),
            action,
            table: number(TABLE)?.unwrap_or(u32::from(short)),
            target: target.unwrap_or(0),
            protocol: byte(PROTOCOL),
        })
    }

    /// Checks the type of service (`fib4_rule_configure`).
    fn check_tos(&self) -> Result<(), Refusal> {
        const ECN_BITS: u8 = 3;
        const TOS_BITS: u8 = 0x1e;
        if self.tos & ECN_BITS != 0 {
            return Err(refusal(Errno::EINVAL, "Invalid dsfield (tos): ECN bits must be 0"));
        }
        if A::AF == c::AF_INET && self.tos & !TOS_BITS != 0 {
            return Err(refusal(Errno::EINVAL, "Invalid tos"));
        }
        Ok(())
    }

    /// The rule, with this priority unless it has one.
    fn rule(&self, priority: u32) -> Rule<A> {
        let action = match self.action {
            TO_TABLE => Action::Table(self.table),
            ACT_GOTO => Action::Goto(self.target),
            ACT_NOP => Action::Nop,
            ACT_BLACKHOLE => Action::Blackhole,
            ACT_UNREACHABLE => Action::Unreachable,
            ACT_PROHIBIT => Action::Prohibit,
            other => Action::Other(other),
        };
        Rule {
            priority: self.priority.unwrap_or(priority),
            from: self.from.map_or(Prefix::ALL, |(_, prefix)| prefix),
            to: self.to.map_or(Prefix::ALL, |(_, prefix)| prefix),
            given: [self.to, self.from].map(|end| end.map_or(A::LEAST, |(ip, _)| ip)),
            arrived: self.arrived.clone(),
            device: self.device.clone(),
            mark: self.mark,
            mask: self.mask,
            tos: self.tos,
            ip_protocol: self.ip_protocol,
            ports: self.ports,
            users: self.users,
            inverted: self.flags & INVERT != 0,
            flags: self.flags & !INVERT,
            suppressed: self.suppressed,
            action,
            table: self.table,
            protocol: self.protocol,
        }
    }

    /// True if another rule has the prefixes and type of service of the request (`fib4_rule_compare`).
    fn has_selectors(&self, other: &Rule<A>) -> bool {
        self.from.is_none_or(|(ip, from)| from == other.from && ip == other.given[1])
            && self.to.is_none_or(|(ip, to)| to == other.to && ip == other.given[0])
            && (self.tos == 0 || self.tos == other.tos)
    }

    /// True if the new rule exists as `other` (`rule_exists`).
    fn equals(&self, rule: &Rule<A>, other: &Rule<A>) -> bool {
        action_number(rule.action) == action_number(other.action)
            && rule.table == table_of(other)
            && rule.priority == other.priority
            && rule.arrived == other.arrived
            && rule.device == other.device
            && (rule.mark, rule.mask) == (other.mark, other.mask)
            && rule.suppressed == other.suppressed
            && rule.users == other.users
            && rule.ip_protocol == other.ip_protocol
            && rule.protocol == other.protocol
            && rule.ports == other.ports
            && self.has_selectors(other)
    }

    /// True if a rule matches all attributes that a deletion has (`rule_find`).
    fn means(&self, wanted: &Rule<A>, rule: &Rule<A>) -> bool {
        let named = |name: &Option<Arc<str>>| name.as_ref().is_some_and(|name| !name.is_empty());
        (self.action == 0 || self.action == action_number(rule.action))
            && (self.table == 0 || self.table == table_of(rule))
            && self.priority.is_none_or(|priority| priority == rule.priority)
            && (!named(&wanted.arrived) || wanted.arrived == rule.arrived)
            && (!named(&wanted.device) || wanted.device == rule.device)
            && (self.mark == 0 || self.mark == rule.mark)
            && (self.mask == 0 || self.mask == rule.mask)
            && (self.suppressed.is_none() || self.suppressed == rule.suppressed)
            && (self.users.is_none() || self.users == rule.users)
            && (self.ip_protocol == 0 || self.ip_protocol == rule.ip_protocol)
            && (self.protocol == 0 || self.protocol == rule.protocol)
            && (self.ports.0.is_none() || self.ports.0 == rule.ports.0)
            && (self.ports.1.is_none() || self.ports.1 == rule.ports.1)
            && self.has_selectors(rule)
    }
}

/// Table of a rule: that of its action, or the one that its request has named without using it.
fn table_of<A>(rule: &Rule<A>) -> u32 {
    match rule.action {
        Action::Table(number) => number,
        _ => rule.table,
    }
}

/// `FR_ACT_*` of an action.
fn action_number(action: Action) -> u8 {
    match action {
        Action::Table(_) | Action::L3mdev => TO_TABLE,
        Action::Goto(_) => ACT_GOTO,
        Action::Nop => ACT_NOP,
        Action::Blackhole => ACT_BLACKHOLE,
        Action::Unreachable => ACT_UNREACHABLE,
        Action::Prohibit => ACT_PROHIBIT,
        Action::Other(action) => action,
    }
}
