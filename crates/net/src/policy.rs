//! Policy routing: rules that select the tables for a packet's route, in order of priority (ip-rule(8)).
//!
//! The main table is kept separately, since most hosts have no other: without further rules it is the only
//! one consulted. A host's own addresses, the `local` table of Linux, precede all rules and are not part of
//! the policy.

use crate::routes::{Ip, NextHop, Prefix, Route, RouteKind, RouteTable, TOS_MASK};
use belljar_base::{Map, Set};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Numbers of routing tables, `RT_TABLE_*` of rtnetlink(7).
pub mod table {
    /// Default table, consulted last in IPv4.
    pub const DEFAULT: u32 = 253;
    /// Main table, for routes without an explicit table.
    pub const MAIN: u32 = 254;
    /// Local table, of the host's own addresses.
    pub const LOCAL: u32 = 255;
}

/// Originator kernel, `RTPROT_KERNEL`.
const KERNEL: u8 = 2;
/// Priorities of the rules for the main and the default table.
const MAIN_PRIORITY: u32 = 32_766;
const DEFAULT_PRIORITY: u32 = 32_767;

/// Selector: the packet attributes that a policy rule matches.
#[derive(Clone, Copy, Debug)]
pub struct RuleSelector<'a, A = Ipv4Addr> {
    /// Destination address.
    pub destination: A,
    /// Source address, if it has been selected.
    pub source: Option<A>,
    /// Name of the incoming interface; `lo` for packets of the host itself.
    pub arrived: &'a str,
    /// Name of the interface to which the socket is bound.
    pub device: Option<&'a str>,
    /// Mark of the socket.
    pub mark: u32,
    /// Type of service.
    pub tos: u8,
    /// IP protocol.
    pub protocol: u8,
    /// Source and destination port; 0 if the protocol has none.
    pub ports: (u16, u16),
    /// User id of the socket's owner; 0 for packets without a socket.
    pub uid: u32,
    /// Table of the VRF of the packet's interface.
    pub l3mdev: Option<u32>,
}

/// Action of a rule, `FR_ACT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Consult a table; without a route there, continue with the next rule.
    Table(u32),
    /// Continue with the rules from this priority on; without a rule of this priority, continue with the
    /// next rule.
    Goto(u32),
    /// Consult the table of the packet's VRF; without one, continue with the next rule.
    L3mdev,
    /// Continue with the next rule.
    Nop,
    /// Drop the packet silently.
    Blackhole,
    /// Drop the packet, and report "network unreachable" to its sender.
    Unreachable,
    /// Drop the packet, and report "administratively prohibited" to its sender.
    Prohibit,
    /// Unknown action, which drops the packet.
    Other(u8),
}

/// First and last port of a range.
pub type PortRange = (u16, u16);

/// Policy rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<A = Ipv4Addr> {
    /// Priority; rules are evaluated in ascending order, those of the same priority in the order of
    /// insertion.
    pub priority: u32,
    /// Source addresses to match.
    pub from: Prefix<A>,
    /// Destination addresses to match.
    pub to: Prefix<A>,
    /// Addresses of `to` and `from` as they were given, with bits behind the prefix.
    pub given: [A; 2],
    /// Incoming interface to match.
    pub arrived: Option<Arc<str>>,
    /// Interface to which the socket is bound, to match.
    pub device: Option<Arc<str>>,
    /// Mark to match under `mask`.
    pub mark: u32,
    /// Mask for `mark`.
    pub mask: u32,
    /// Type of service to match; 0 matches all.
    pub tos: u8,
    /// IP protocol to match; 0 matches all.
    pub ip_protocol: u8,
    /// Ranges of source and destination ports to match, ends included.
    pub ports: (Option<PortRange>, Option<PortRange>),
    /// Range of user ids to match, ends included.
    pub users: Option<(u32, u32)>,
    /// True if the rule applies to the packets that do not match.
    pub inverted: bool,
    /// Prefix length in bits; routes to prefixes of at most this length are ignored
    /// (`suppress_prefixlength`).
    pub suppressed: Option<u32>,
    /// Flags as given by the administrator, `FIB_RULE_*`, other than inversion.
    pub flags: u32,
    /// Action of the rule.
    pub action: Action,
    /// Table that was named with an action other than [`Action::Table`].
    pub table: u32,
    /// Originator, `RTPROT_*`.
    pub protocol: u8,
}

impl<A: Ip> Rule<A> {
    /// Creates a rule that matches all packets.
    pub fn all(priority: u32, action: Action) -> Rule<A> {
        Rule {
            priority,
            from: Prefix::ALL,
            to: Prefix::ALL,
            given: [A::LEAST; 2],
            arrived: None,
            device: None,
            mark: 0,
            mask: 0,
            tos: 0,
            ip_protocol: 0,
            ports: (None, None),
            users: None,
            inverted: false,
            suppressed: None,
            flags: 0,
            table: 0,
            action,
            protocol: KERNEL,
        }
    }
    /// True if the rule applies to a packet.
    pub fn is_for(&self, flow: &RuleSelector<'_, A>) -> bool {
        let within = |port: u16, range: Option<PortRange>| {
            range.is_none_or(|(first, last)| (first..=last).contains(&port))
        };
        let tos_mask = if A::BITS == 32 { TOS_MASK } else { u8::MAX };
        // A source that has not been selected is the unspecified address.
        let source = flow.source.unwrap_or(A::LEAST);
        let is_for = self.to.contains(flow.destination)
            && self.from.contains(source)
            && self.arrived.as_deref().is_none_or(|name| name == flow.arrived)
            && self.device.as_deref().is_none_or(|name| Some(name) == flow.device)
            && (flow.mark ^ self.mark) & self.mask == 0
            && (self.tos == 0 || self.tos == flow.tos & tos_mask)
            && (self.ip_protocol == 0 || self.ip_protocol == flow.protocol)
            && within(flow.ports.0, self.ports.0)
            && within(flow.ports.1, self.ports.1)
            && self.users.is_none_or(|(first, last)| (first..=last).contains(&flow.uid));
        is_for != self.inverted
    }
}

/// Result of a lookup: route, next hop for the flow, and table.
#[derive(Clone, Copy, Debug)]
pub struct FoundRoute<'a, A = Ipv4Addr> {
    /// Best route.
    pub route: &'a Route<A>,
    /// Next hop; `None` if the route does not forward packets.
    pub hop: Option<NextHop<A>>,
    /// Number of the route's table.
    pub table: u32,
}

/// Policy rules of one family, and the tables other than the main one.
#[derive(Clone, Debug)]
pub struct Policy<A = Ipv4Addr> {
    rules: Vec<Rule<A>>,
    tables: Map<u32, RouteTable<A>>,
    /// True if lookups need the main table alone.
    plain: bool,
    /// True once a rule was added. Until then, Linux's IPv6 ignores that an initial rule was deleted
    /// (`fib6_has_custom_rules`).
    customised: bool,
    /// Tables that have been used, which exist even without routes.
    created: Set<u32>,
    /// True if the rule of the local table was deleted. The host's own addresses precede all rules even then.
    pub without_local: bool,
}

impl<A: Ip> Default for Policy<A> {
    fn default() -> Policy<A> {
        let main = Rule::all(MAIN_PRIORITY, Action::Table(table::MAIN));
        let default = Rule::all(DEFAULT_PRIORITY, Action::Table(table::DEFAULT));
        let rules = if A::BITS == 32 { vec![main, default] } else { vec![main] };
        Policy {
            rules,
            tables: Map::new(),
            plain: true,
            customised: false,
            created: Set::new(),
            without_local: false,
        }
    }
}

impl<A: Ip> Policy<A> {
    /// Returns the best route for a flow with this type of service, as Linux's `fib_lookup`; `None` if no
    /// rule leads to one. `hash` returns the hash of the flow, and is called only for multipath routes;
    /// next hops must be `usable`.
    ///
    /// # Errors
    /// Action of a rule that refuses the packet.
    pub fn lookup<'a>(
        &'a self,
        main: &'a RouteTable<A>,
        flow: impl FnOnce() -> RuleSelector<'a, A>,
        destination: A,
        tos: u8,
        hash: impl Fn() -> u64,
        usable: impl Fn(&NextHop<A>) -> bool,
    ) -> Result<Option<FoundRoute<'a, A>>, Action> {
        if self.plain {
            let found = main.lookup_entry(destination, tos, hash, usable);
            let found = found.filter(|(_, route, _)| route.kind != RouteKind::Throw);
            return Ok(found.map(|(_, route, hop)| FoundRoute { route, hop, table: table::MAIN }));
        }
        let flow = flow();
        let mut from = 0;
        for rule in &self.rules {
            if rule.priority < from || !rule.is_for(&flow) {
                continue;
            }
            let number = match rule.action {
                Action::Table(number) => number,
                Action::L3mdev => match flow.l3mdev {
                    Some(number) => number,
                    None => continue,
                },
                Action::Nop => continue,
                Action::Goto(priority) => {
                    // Without a rule of exactly this priority the jump has no effect.
                    if self.rules.iter().any(|rule| rule.priority == priority) {
                        from = priority;
                    }
                    continue;
                }
                refusal => return Err(refusal),
            };
            let Some(routes) = self.table(main, number) else { continue };
            let Some((prefix, route, hop)) = routes.lookup_entry(destination, tos, &hash, &usable) else {
                continue;
            };
            let suppressed = rule.suppressed.is_some_and(|bits| u32::from(prefix.bits()) <= bits);
            if route.kind == RouteKind::Throw || suppressed {
                continue;
            }
            return Ok(Some(FoundRoute { route, hop, table: number }));
        }
        Ok(None)
    }

    /// True if only the main table is consulted.
    pub fn is_plain(&self) -> bool {
        self.plain
    }
    /// True if there are rules other than the initial ones.
    pub fn has_further_rules(&self) -> bool {
        self.rules.len() > if A::BITS == 32 { 2 } else { 1 }
    }
    /// Rules in order of evaluation.
    pub fn rules(&self) -> &[Rule<A>] {
        &self.rules
    }
    /// Default priority of a new rule: just before the second rule, the first being that of the local table.
    pub fn next_priority(&self) -> u32 {
        let second = if self.without_local { 1 } else { 0 };
        self.rules.get(second).map_or(0, |rule| rule.priority.saturating_sub(1))
    }
    /// Inserts a rule after those of the same priority.
    pub fn add(&mut self, rule: Rule<A>) {
        let at = self.rules.partition_point(|other| other.priority <= rule.priority);
        self.rules.insert(at, rule);
        self.customised = true;
        self.changed();
    }
    /// Removes the first rule for which `is_meant` returns true.
    pub fn remove(&mut self, is_meant: impl FnMut(&Rule<A>) -> bool) -> Option<Rule<A>> {
        let at = self.rules.iter().position(is_meant)?;
        let rule = self.rules.remove(at);
        self.changed();
        Some(rule)
    }
    /// Returns a table by number, if it has routes.
    pub fn table<'a>(&'a self, main: &'a RouteTable<A>, number: u32) -> Option<&'a RouteTable<A>> {
        if number == table::MAIN { Some(main) } else { self.tables.get(&number) }
    }
    /// True if a table exists: it has been used, even if it has no routes now.
    pub fn has_table(&self, number: u32) -> bool {
        matches!(number, table::MAIN | table::LOCAL) || self.created.contains(&number)
    }
    /// Creates a table without routes.
    pub fn create_table(&mut self, number: u32) {
        self.created.insert(number);
    }
    /// Iterates over the tables other than the main one that have routes, by number.
    pub fn tables(&self) -> impl Iterator<Item = (u32, &RouteTable<A>)> {
        self.tables.iter().map(|(number, routes)| (*number, routes))
    }
    /// Changes a table other than the main one; an empty table is removed.
    pub fn change<T>(&mut self, number: u32, change: impl FnOnce(&mut RouteTable<A>) -> T) -> T {
        self.created.insert(number);
        let result = change(self.tables.entry(number).or_default());
        self.tables.retain(|_, routes| !routes.is_empty());
        self.changed();
        result
    }
    /// Removes the routes of all tables other than the main one for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut Route<A>) -> bool) {
        self.tables.values_mut().for_each(|routes| routes.retain(|_, _, route| keep(route)));
        self.tables.retain(|_, routes| !routes.is_empty());
        self.changed();
    }
    fn changed(&mut self) {
        let initial = self.tables.is_empty() && self.rules == Policy::default().rules;
        self.plain = initial || A::BITS == 128 && !self.customised;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::{InterfaceAddress, protocol};

    fn net(text: &str) -> Prefix {
        text.parse::<InterfaceAddress>().unwrap().network()
    }
    fn by(interface: usize) -> Route {
        Route::by(interface, None, protocol::STATIC)
    }
    fn flow_to(destination: Ipv4Addr) -> RuleSelector<'static> {
        RuleSelector {
            destination,
            source: None,
            arrived: "lo",
            device: None,
            mark: 0,
            tos: 0,
            protocol: 0,
            ports: (0, 0),
            uid: 0,
            l3mdev: None,
        }
    }
    /// Interface and table for a packet from `source`, or the action of a rule that refuses it.
    fn way(
        policy: &Policy,
        main: &RouteTable,
        source: &str,
        arrived: &str,
        mark: u32,
    ) -> Result<Option<(usize, u32)>, Action> {
        let (destination, source) = (Ipv4Addr::new(10, 9, 0, 1), source.parse().ok());
        let flow = || RuleSelector { source, arrived, mark, ..flow_to(destination) };
        let found = policy.lookup(main, flow, destination, 0, || 0, |_| true)?;
        Ok(found.map(|found| (found.hop.map_or(0, |hop| hop.interface), found.table)))
    }

    #[test]
    fn rules_are_asked_in_order_until_a_table_knows_the_way() {
        let mut main = RouteTable::default();
        main.insert(Prefix::ALL, 0, by(1));
        let mut policy = Policy::default();
        assert!(policy.is_plain());
        assert_eq!(way(&policy, &main, "", "lo", 0), Ok(Some((1, table::MAIN))));
        policy.change(100, |routes| routes.insert(net("10.9.0.0/16"), 0, by(2)));
        assert_eq!(way(&policy, &main, "", "lo", 0), Ok(Some((1, table::MAIN))), "no rule asks for it");
        let rule = |priority, number| Rule::all(priority, Action::Table(number));
        assert_eq!(policy.next_priority(), 32_765);
        policy.add(Rule { from: net("10.1.0.0/16"), ..rule(1_000, 100) });
        policy.add(Rule { mark: 7, mask: 0xff, ..rule(900, 100) });
        policy.add(Rule { arrived: Some("eth3".into()), action: Action::Prohibit, ..rule(800, 0) });
        policy.add(rule(700, 99));
        assert_eq!(way(&policy, &main, "10.1.2.3", "lo", 0), Ok(Some((2, 100))));
        assert_eq!(way(&policy, &main, "10.2.2.3", "lo", 0), Ok(Some((1, table::MAIN))));
        assert_eq!(way(&policy, &main, "10.2.2.3", "lo", 0x107), Ok(Some((2, 100))));
        assert_eq!(way(&policy, &main, "10.1.2.3", "eth3", 0), Err(Action::Prohibit));
        // Skips the rules about marks and about sources.
        policy.add(rule(850, 0));
        assert!(policy.remove(|rule| rule.priority == 850).is_some());
        policy.add(Rule { action: Action::Goto(2_000), ..rule(850, 0) });
        assert_eq!(way(&policy, &main, "10.1.2.3", "lo", 7), Ok(Some((2, 100))), "there is no rule 2,000");
        policy.add(Rule { action: Action::Nop, ..rule(2_000, 0) });
        assert_eq!(way(&policy, &main, "10.1.2.3", "lo", 7), Ok(Some((1, table::MAIN))));
        for priority in [700, 800, 850, 900, 1_000, 2_000] {
            assert!(policy.remove(|rule| rule.priority == priority).is_some());
        }
        assert!(!policy.is_plain());
        policy.retain(|_| false);
        assert!(policy.is_plain());
    }

    #[test]
    fn a_route_can_send_to_the_next_rule_and_a_rule_can_ask_for_longer_prefixes_only() {
        let mut main = RouteTable::default();
        main.insert(Prefix::ALL, 0, by(1));
        let mut policy = Policy::default();
        policy.change(50, |routes| routes.insert(Prefix::ALL, 0, by(5)));
        policy.add(Rule { suppressed: Some(0), ..Rule::all(10, Action::Table(table::MAIN)) });
        policy.add(Rule::all(20, Action::Table(50)));
        assert_eq!(way(&policy, &main, "", "lo", 0), Ok(Some((5, 50))));
        main.insert(net("10.9.0.0/24"), 0, by(2));
        assert_eq!(way(&policy, &main, "", "lo", 0), Ok(Some((2, table::MAIN))));
        let throw = Route { kind: RouteKind::Throw, hops: Vec::new(), ..by(0) };
        policy.change(50, |routes| routes.insert(net("10.9.0.0/30"), 0, throw.clone()));
        main.remove(net("10.9.0.0/24"), 0);
        assert_eq!(way(&policy, &main, "", "lo", 0), Ok(Some((1, table::MAIN))));
        main.insert(net("10.9.0.1"), 0, throw);
        assert_eq!(way(&Policy::default(), &main, "", "lo", 0).unwrap(), None);
    }

    #[test]
    fn rules_tell_packets_by_protocol_ports_and_users() {
        let rule = Rule::all(10, Action::Blackhole);
        let flow =
            RuleSelector { protocol: 6, ports: (40_000, 80), uid: 1_000, ..flow_to(Ipv4Addr::LOCALHOST) };
        let is_for = |rule: Rule| rule.is_for(&flow);
        assert!(is_for(Rule { ip_protocol: 6, ..rule.clone() }));
        assert!(!is_for(Rule { ip_protocol: 17, ..rule.clone() }));
        let ports = |from, to| Rule { ports: (from, to), ..rule.clone() };
        assert!(is_for(ports(None, Some((80, 80)))) && is_for(ports(Some((1, 40_000)), Some((79, 81)))));
        assert!(!is_for(ports(None, Some((81, 90)))) && !is_for(ports(Some((1, 39_999)), None)));
        assert!(is_for(Rule { users: Some((1_000, 1_000)), ..rule.clone() }));
        assert!(!is_for(Rule { users: Some((0, 999)), ..rule.clone() }));
        assert!(!is_for(Rule { users: Some((1_000, 1_000)), inverted: true, ..rule.clone() }));
    }

    #[test]
    fn an_inverted_rule_is_for_all_others() {
        let main = RouteTable::default();
        let mut policy = Policy::default();
        let rule = Rule::all(10, Action::Blackhole);
        policy.add(Rule { inverted: true, from: net("10.1.0.0/16"), ..rule });
        assert_eq!(way(&policy, &main, "10.1.0.1", "lo", 0), Ok(None));
        assert_eq!(way(&policy, &main, "10.2.0.1", "lo", 0), Err(Action::Blackhole));
    }
}
