//! Filtering: passes packets by the hooks and the rules of programs, and carries out what rules ask for.

use super::hooks::{HookPoint, HookVerdict, Passage, Rules};
use super::icmp;
use super::output::Onward;
use crate::account::{DropCause, Origin, PacketDisposition};
use crate::effects::Effect;
use crate::family::RouteQuery;
use crate::interface::Attachment;
use crate::v6::device_for;
use crate::{LO, Stack, StackTimer, buffers, interface_index};
use belljar_base::SimTime;
use belljar_conntrack::Conntrack;
use belljar_linux_abi::c;
use belljar_net::routes::RouteKind;
use belljar_net::{Packet, forward, forward6};
use belljar_netfilter::{
    Answers, Environment, FibAnswer, FibQuestion, FilterHook, HookState, InterfaceFacts, Netfilter,
    NetfilterSender, Rejection, RuleRequest, SocketOwner, reset_answer,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Passes a packet by the hooks of a point, with its input and output interfaces as far as they are known.
/// `None` if it is dropped, which is counted.
#[cold]
#[inline(never)]
pub(super) fn pass(
    stack: &mut Stack,
    point: HookPoint,
    packet: Packet,
    interfaces: (Option<usize>, Option<usize>),
) -> Option<Packet> {
    pass_rules(stack, point, packet, interfaces).map(|(packet, _)| packet)
}

/// Passes a local packet by the hooks of the output, and sends it.
#[cold]
#[inline(never)]
pub(super) fn output(
    stack: &mut Stack,
    to: &IpAddr,
    mut packet: Packet,
    onward: &Onward,
) -> PacketDisposition {
    if let Some(tracking) = stack.hooks.answers.take() {
        packet.set_tracking(tracking);
    }
    let passed = pass_rules(stack, HookPoint::Output, packet, (None, Some(onward.interface)));
    let Some((packet, reroute)) = passed else { return PacketDisposition::dropped(DropCause::Hook) };
    stack.counters.count_sent(to, packet.len());
    if !reroute {
        return stack.ip_finish_output(packet, onward);
    }
    match route_again(stack, &packet, onward) {
        Some(onward) => stack.ip_finish_output(packet, &onward),
        None => {
            buffers::recycle(packet.into_bytes());
            PacketDisposition::dropped(DropCause::NoRoute)
        }
    }
}

/// The new route of a local packet whose addresses or mark have changed (`ip_route_me_harder`).
fn route_again(stack: &Stack, packet: &Packet, onward: &Onward) -> Option<Onward> {
    let (from, to) = addresses(packet.bytes())?;
    let through = super::route::Through { mark: packet.mark(), ..Default::default() };
    let from = Some(from).filter(|from| stack.is_local(*from));
    let route = stack.route(to, from, through).ok()?;
    let mtu = stack.interfaces.mtu(route.interface);
    Some(Onward { interface: route.interface, gateway: route.gateway, station: None, mtu, ..*onward })
}

fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let octets = |at: usize| -> Option<[u8; 4]> { packet.get(at..at + 4)?.try_into().ok() };
    let octets6 = |at: usize| -> Option<[u8; 16]> { packet.get(at..at + 16)?.try_into().ok() };
    match packet.first()? >> 4 {
        4 => Some((octets(12)?.into(), octets(16)?.into())),
        _ => Some((octets6(8)?.into(), octets6(24)?.into())),
    }
}

fn pass_rules(
    stack: &mut Stack,
    point: HookPoint,
    mut packet: Packet,
    (incoming, outgoing): (Option<usize>, Option<usize>),
) -> Option<(Packet, bool)> {
    packet.fill_checksum();
    let v6 = packet.bytes().first().is_some_and(|first| first >> 4 == 6);
    let passage = Passage { point, v6, incoming, outgoing };
    let mut accept = stack.hooks.decide(&mut packet, &passage) == HookVerdict::Accept;
    let mut reroute = false;
    let mut requests = Vec::new();
    if accept && let Some(mut rules) = stack.hooks.take_rules() {
        let state = HookState { hook: FilterHook::ALL[point as usize], input: incoming, output: outgoing };
        let Rules { netfilter, random, .. } = &mut *rules;
        let decision =
            netfilter.pass(&state, &mut packet, &mut StackEnvironment { stack, random }, &mut requests);
        set_timer(stack, &mut rules);
        stack.hooks.put_rules(rules);
        (accept, reroute) = (decision.accept, decision.reroute);
    }
    if !requests.is_empty() {
        carry_out(stack, requests, &packet, &passage);
    }
    if accept {
        return Some((packet, reroute));
    }
    stack.counters.hook_drops[point as usize][usize::from(v6)] += 1;
    buffers::recycle(packet.into_bytes());
    None
}

/// Carries out the requests of rules about a packet.
fn carry_out(stack: &mut Stack, requests: Vec<RuleRequest>, packet: &Packet, passage: &Passage) {
    for request in requests {
        match request {
            RuleRequest::Log(level, line) => stack.effects.push(Effect::KernelLog(level, line.into())),
            RuleRequest::Announce(group, message) => stack.effects.push(Effect::Netfilter(group, message)),
            RuleRequest::Reject(rejection) => {
                // The answer belongs to the packet's connection.
                let tracking =
                    stack.hooks.rules().map_or(0, |rules| rules.netfilter.reply_tracking(packet.tracking()));
                stack.hooks.answers = Some(tracking);
                match rejection {
                    Rejection::Reset => send_reset(stack, packet.bytes()),
                    Rejection::Unreachable(code) => send_unreachable(stack, packet.bytes(), code, passage),
                }
                stack.hooks.answers = None;
            }
        }
    }
}

/// Answers a TCP segment with a reset.
fn send_reset(stack: &mut Stack, packet: &[u8]) {
    let Some(reset) = reset_answer(packet) else { return };
    let Some((from, to)) = addresses(&reset) else { return };
    let Ok(route) = stack.route(to, Some(from), None) else { return };
    let onward = Onward::by(route.interface, route.gateway);
    stack.ip_local_out(Origin::Tcp, &to, Packet::new(reset), &onward);
}

/// Answers a packet with an ICMP or ICMPv6 error.
fn send_unreachable(stack: &mut Stack, packet: &[u8], code: u8, passage: &Passage) {
    let Some((sender, receiver)) = addresses(packet) else { return };
    let (message, tos) = match passage.v6 {
        false => (forward::unreachable_message(packet, code), icmp::ERROR_TOS),
        true => (forward6::unreachable_message(packet, code), icmp::ERROR_TOS_V6),
    };
    let Some(mut message) = message else { return };
    let own = Some(receiver).filter(|ip| stack.is_local(*ip) && !stack.interfaces.is_multipoint(*ip));
    let device = passage.incoming.and_then(|interface| device_for(sender, interface));
    let Ok(mut route) = stack.route(sender, own, device) else { return };
    if route.source.is_unspecified() && !passage.v6 {
        route.source = forward::NO_ADDRESS.into();
    }
    stack.send_icmp_by(route, passage.incoming == Some(LO), tos, &mut message);
}

/// Ends the connections that are masqueraded by an interface which has gone down.
pub fn interface_down(stack: &mut Stack, number: usize) {
    let now = stack.clock.now();
    let Some(mut rules) = stack.hooks.take_rules() else { return };
    rules.netfilter.conntrack_mut().interface_down(interface_index(number), now);
    stack.hooks.put_rules(rules);
}

/// Sets the timer of connection tracking for the next connection that ends, while a program listens.
fn set_timer(stack: &mut Stack, rules: &mut Rules) {
    if rules.netfilter.is_listening() || rules.timer.is_some() {
        let next = rules.netfilter.conntrack().next_deadline().filter(|_| rules.netfilter.is_listening());
        stack.timers.set(&mut rules.timer, next, StackTimer::Conntrack);
    }
}

/// Removes connections that have ended, and reports them.
pub(crate) fn conntrack_timer(stack: &mut Stack) {
    let now = stack.clock.now();
    let Some(mut rules) = stack.hooks.take_rules() else { return };
    rules.timer = None;
    for (group, message) in rules.netfilter.expire(now) {
        stack.effects.push(Effect::Netfilter(group, message));
    }
    set_timer(stack, &mut rules);
    stack.hooks.put_rules(rules);
}

/// Calls a function of the connection tracking of a stack, which is made at its first use.
pub fn with_conntrack<T>(stack: &mut Stack, function: impl FnOnce(&mut Conntrack) -> T) -> T {
    let mut rules = take_or_make(stack);
    let result = function(rules.netfilter.conntrack_mut());
    stack.hooks.put_rules(rules);
    result
}

/// True if connection tracking of IPv4 is on, which reassembles fragments first.
#[cold]
pub(super) fn tracks(stack: &Stack) -> bool {
    stack.hooks.rules().is_some_and(|rules| rules.netfilter.tracks_v4())
}

/// Answers the messages that a program has sent to a `NETLINK_NETFILTER` socket.
pub fn answer(stack: &mut Stack, messages: &[u8], requester: &NetfilterSender) -> Answers {
    let mut rules = take_or_make(stack);
    let Rules { netfilter, random, .. } = &mut *rules;
    let answers = netfilter.answer(messages, requester, &mut StackEnvironment { stack, random });
    stack.hooks.put_rules(rules);
    answers
}

/// Sets the multicast groups of `NETLINK_NETFILTER` that sockets have joined, a bit each.
pub fn listen(stack: &mut Stack, groups: u32) {
    let mut rules = take_or_make(stack);
    rules.netfilter.listen(groups);
    set_timer(stack, &mut rules);
    stack.hooks.put_rules(rules);
}

/// The rules of a stack, which are made at the first request.
fn take_or_make(stack: &mut Stack) -> Box<Rules> {
    stack.hooks.take_rules().unwrap_or_else(|| {
        let stream = |what| stack.config.seed.stream(&["host", &stack.config.name, what]);
        let netfilter = Netfilter::new(stream("conntrack"));
        Box::new(Rules { netfilter, random: stream("netfilter"), timer: None })
    })
}

/// A stack as the environment of its rules.
struct StackEnvironment<'a> {
    stack: &'a mut Stack,
    random: &'a mut belljar_base::Stream,
}

impl Environment for StackEnvironment<'_> {
    fn now(&self) -> SimTime {
        self.stack.clock.now()
    }
    fn realtime(&self) -> u64 {
        self.stack.clock.realtime_ns()
    }
    fn interface(&self, number: usize) -> InterfaceFacts {
        let Some(interface) = self.stack.interfaces.get(number) else { return InterfaceFacts::default() };
        InterfaceFacts {
            index: interface_index(number),
            name: interface.name.to_string(),
            hardware: interface.hardware_type(),
            group: interface.settings.group,
            kind: match interface.attachment {
                Attachment::Veth { .. } => "veth",
                Attachment::Vlan { .. } => "vlan",
                Attachment::Dummy => "dummy",
                Attachment::Tun { .. } => "tun",
                Attachment::Made(kind) => kind.name(),
                _ => "",
            },
        }
    }
    fn random(&mut self) -> u32 {
        self.random.next_u32()
    }
    fn fib(&mut self, question: &FibQuestion) -> FibAnswer {
        match (question.to, question.from) {
            (IpAddr::V4(to), from) => {
                let from = match from {
                    Some(IpAddr::V4(from)) => Some(from),
                    _ => None,
                };
                self.fib_v4(to, from, question)
            }
            (IpAddr::V6(to), from) => {
                let from = match from {
                    Some(IpAddr::V6(from)) => Some(from),
                    _ => None,
                };
                self.fib_v6(to, from, question)
            }
        }
    }
    fn masquerade_address(&mut self, interface: usize, to: IpAddr) -> Option<IpAddr> {
        match to {
            IpAddr::V4(_) => {
                let next =
                    self.stack.route(to, None, None).ok().and_then(|route| route.gateway).unwrap_or(to);
                let IpAddr::V4(next) = next else { return None };
                let scope = c::RT_SCOPE_UNIVERSE;
                self.stack.interfaces.source_on(interface, Some(next), scope).map(IpAddr::V4)
            }
            IpAddr::V6(_) => {
                let route = self.stack.route(to, None, Some(interface_index(interface))).ok()?;
                Some(route.source)
            }
        }
    }
    fn redirect_address(&mut self, interface: usize, v6: bool) -> Option<IpAddr> {
        let interface = self.stack.interfaces.get(interface)?;
        match v6 {
            false => interface.addresses.first().map(|own| own.ip.into()),
            true => interface.addresses6.first().map(|own| own.ip.into()),
        }
    }
    fn mtu(&self, interface: usize) -> usize {
        self.stack.interfaces.mtu(interface)
    }
    fn socket_owner(&self, cookie: u64) -> Option<SocketOwner> {
        if cookie == 0 {
            return None;
        }
        let key = self.stack.sockets.of_cookie(cookie)?;
        Some(SocketOwner { uid: self.stack.sockets[key.0].uid })
    }
}

impl StackEnvironment<'_> {
    fn fib_v4(&self, to: Ipv4Addr, from: Option<Ipv4Addr>, question: &FibQuestion) -> FibAnswer {
        let stack = &*self.stack;
        let local = |kind: i32, interface| FibAnswer { kind: kind as u8, interface, gateway: None };
        if to.is_multicast() {
            return local(c::RTN_MULTICAST.into(), None);
        }
        if to.is_broadcast() || to.is_unspecified() {
            return local(c::RTN_BROADCAST.into(), None);
        }
        let own = stack.interfaces.with_address(to);
        if to.is_loopback() || own.is_some() || stack.is_of_local_network(to) {
            let interface = own.or(Some(LO));
            let elsewhere = question.interface.is_some() && question.interface != interface;
            let kind = if elsewhere { c::RTN_UNICAST } else { c::RTN_LOCAL };
            return local(kind.into(), interface.filter(|_| !elsewhere));
        }
        if stack.interfaces.is_multipoint(to.into()) {
            return local(c::RTN_BROADCAST.into(), None);
        }
        let asked = RouteQuery {
            device: question.interface,
            mark: question.mark,
            tos: question.tos,
            ..RouteQuery::own(to, from)
        };
        match stack.lookup(&asked, || 0) {
            Ok(Some(found)) => FibAnswer {
                kind: kind_number(found.route.kind),
                interface: found.hop.map(|hop| hop.interface),
                gateway: found.hop.and_then(|hop| hop.next()),
            },
            Ok(None) => local(c::RTN_UNICAST.into(), None),
            Err(_) => local(c::RTN_UNREACHABLE.into(), None),
        }
    }
    fn fib_v6(&self, to: Ipv6Addr, from: Option<Ipv6Addr>, question: &FibQuestion) -> FibAnswer {
        let stack = &*self.stack;
        let local = |kind: i32, interface| FibAnswer { kind: kind as u8, interface, gateway: None };
        if to.is_multicast() {
            return local(c::RTN_MULTICAST.into(), None);
        }
        if let Some(interface) = stack.v6.interface_of(&stack.interfaces, to) {
            return local(c::RTN_LOCAL.into(), Some(interface));
        }
        if to.is_loopback() || stack.is_local(to.into()) {
            return local(c::RTN_LOCAL.into(), Some(LO));
        }
        let asked =
            RouteQuery { device: question.interface, mark: question.mark, ..RouteQuery::own(to, from) };
        match stack.lookup(&asked, || 0) {
            Ok(Some(found)) => FibAnswer {
                kind: kind_number(found.route.kind),
                interface: found.hop.map(|hop| hop.interface),
                gateway: found.hop.and_then(|hop| hop.gateway.map(IpAddr::V6)),
            },
            _ => local(c::RTN_UNREACHABLE.into(), None),
        }
    }
}

/// `RTN_*` of a route.
fn kind_number(kind: RouteKind) -> u8 {
    match kind {
        RouteKind::Unicast => c::RTN_UNICAST,
        RouteKind::Blackhole => c::RTN_BLACKHOLE,
        RouteKind::Prohibit => c::RTN_PROHIBIT,
        _ => c::RTN_UNREACHABLE,
    }
}

#[cfg(test)]
mod tests;
