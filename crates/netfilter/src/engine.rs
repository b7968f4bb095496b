//! The netfilter of one network namespace: its ruleset, and the functions that packets pass at each hook.

use crate::contents::Contents;
use crate::environment::{Environment, RuleRequest};
use crate::evaluate;
use crate::expression::translation::is_wanted;
use crate::family::{ChainType, FilterHook};
use crate::operation::Passing;
use crate::packet::{Headers, destination, source};
use crate::ruleset::{Chain, Table};
use crate::tracking::{Tracking, priority};
use belljar_base::Stream;
use belljar_conntrack::{Attached, Conntrack, EventGroups};
use belljar_net::Packet;
use std::net::IpAddr;
use std::sync::Arc;

/// Function at a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Finds or begins the connection of a packet.
    Track,
    /// Translates a packet, after the chains of type `nat` where the translation is not decided.
    Translate,
    /// Enters a new connection in the table.
    Confirm,
    /// A base chain.
    Chain(ChainKey),
}

/// Base chain by the handles of its table and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChainKey {
    table: u64,
    chain: u64,
}

/// Function at a hook with its priority.
#[derive(Clone, Copy, Debug)]
struct Entry {
    priority: i32,
    sequence: u64,
    action: Action,
}

/// Functions of a hook for one version of IP, in the order of their priorities.
#[derive(Debug, Default)]
struct AtHook {
    entries: Vec<Entry>,
    /// Chains of type `nat`, which [`Action::Translate`] calls.
    nat: Vec<Entry>,
}

/// Functions of all hooks, by hook and for IPv4 and IPv6.
type Functions = [[AtHook; 2]; FilterHook::ALL.len()];

/// Decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// False to drop the packet.
    pub accept: bool,
    /// True if a packet of this host must be routed again, because its addresses or its mark have changed.
    pub reroute: bool,
}

/// Position of a packet at a hook.
#[derive(Clone, Copy, Debug)]
pub struct HookState {
    /// The hook.
    pub hook: FilterHook,
    /// Number of the input interface.
    pub input: Option<usize>,
    /// Number of the output interface.
    pub output: Option<usize>,
}

/// The netfilter of one network namespace.
///
/// *Packets*: [`is_active`](Netfilter::is_active) is true while any hook has a function;
/// [`pass`](Netfilter::pass) passes a packet by those of one hook.
///
/// *Administration*: [`answer`](Netfilter::answer) takes what a program sends to a `NETLINK_NETFILTER` socket.
#[derive(Debug)]
pub struct Netfilter {
    pub(crate) tables: Vec<Arc<Table>>,
    pub(crate) generation: u32,
    pub(crate) last_table: u64,
    /// Number of the last set, of the last registration of a base chain, and of the last chain without name.
    pub(crate) last_set: u64,
    pub(crate) last_base: u64,
    pub(crate) last_binding: u64,
    pub(crate) contents: Contents,
    functions: Functions,
    active: bool,
    pub(crate) tracking: Tracking,
    /// Groups of connection tracking that sockets have joined.
    pub(crate) listening: EventGroups,
}

impl Netfilter {
    /// The netfilter of a new namespace: no tables, generation 1. Random numbers of connection tracking come
    /// from a stream.
    pub fn new(stream: Stream) -> Netfilter {
        Netfilter {
            tables: Vec::new(),
            generation: 1,
            last_table: 0,
            last_set: 0,
            last_base: 0,
            last_binding: 0,
            contents: Contents::default(),
            functions: Default::default(),
            active: false,
            tracking: Tracking::new(stream),
            listening: EventGroups::empty(),
        }
    }
    /// True while packets pass any function.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active
    }
    /// True if there is no state that would be lost.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
    /// Lists the functions of all hooks again, after a change of the ruleset.
    pub(crate) fn list_functions(&mut self) {
        let mut functions = Functions::default();
        for v6 in [false, true] {
            let tables = || self.tables.iter().filter(|table| table.is_awake() && table.family.sees(v6));
            let (mut tracks, mut translates) = (false, false);
            for table in tables() {
                for chain in table.chains.values() {
                    tracks |= chain.rules.iter().any(|rule| rule.tracks());
                    let Some(base) = &chain.base else { continue };
                    let action = Action::Chain(ChainKey { table: table.handle, chain: chain.handle });
                    let entry = Entry { priority: base.priority, sequence: base.sequence, action };
                    let at = &mut functions[base.hook as usize][usize::from(v6)];
                    if base.kind == ChainType::Nat {
                        translates = true;
                        at.nat.push(entry);
                    } else {
                        at.entries.push(entry);
                    }
                }
            }
            for hook in FilterHook::ALL {
                let at = &mut functions[hook as usize][usize::from(v6)];
                at.entries.extend(tracking_entries(hook, tracks || translates, translates));
                let order = |entry: &Entry| (entry.priority, std::cmp::Reverse(entry.sequence));
                at.entries.sort_by_key(order);
                at.nat.sort_by_key(order);
            }
        }
        self.active = functions.iter().flatten().any(|at| !at.entries.is_empty());
        self.functions = functions;
    }

    /// True if connection tracking of IPv4 is at the hooks.
    pub fn tracks_v4(&self) -> bool {
        let at = &self.functions[FilterHook::Prerouting as usize][0];
        at.entries.iter().any(|entry| entry.action == Action::Track)
    }
    /// Connection tracking.
    pub fn conntrack(&self) -> &Conntrack {
        &self.tracking.conntrack
    }
    /// Connection tracking, for changes of settings and reports of lost addresses.
    pub fn conntrack_mut(&mut self) -> &mut Conntrack {
        &mut self.tracking.conntrack
    }

    /// Passes a packet by the functions of a hook. The requests of rules are appended to `requests`.
    pub fn pass(
        &mut self,
        state: &HookState,
        packet: &mut Packet,
        environment: &mut dyn Environment,
        requests: &mut Vec<RuleRequest>,
    ) -> Decision {
        let decision = self.decide(state, packet, environment, requests);
        let events = self.take_events();
        requests.extend(events.into_iter().map(|(group, message)| RuleRequest::Announce(group, message)));
        decision
    }

    fn decide(
        &mut self,
        state: &HookState,
        packet: &mut Packet,
        environment: &mut dyn Environment,
        requests: &mut Vec<RuleRequest>,
    ) -> Decision {
        let headers = Headers::of(packet.bytes());
        let HookState { hook, input, output } = *state;
        let at = &self.functions[hook as usize][usize::from(headers.v6)];
        let before = (hook == FilterHook::Output).then(|| RouteKey::of(packet));
        let attached = Attached::from_bits(packet.tracking());
        let (contents, tracking) = (&mut self.contents, &mut self.tracking);
        let mut passing = Passing {
            packet,
            headers,
            hook,
            input,
            output,
            contents,
            environment,
            requests,
            tracking,
            attached,
        };
        let tables = &self.tables;
        let accept = at.entries.iter().all(|entry| match entry.action {
            Action::Chain(key) => accepts(tables, key, &mut passing),
            Action::Track => track(&mut passing),
            Action::Translate => translate(tables, &at.nat, &mut passing),
            Action::Confirm => confirm(&mut passing),
        });
        if !accept {
            passing.tracking.conntrack.release(passing.attached);
            return Decision { accept, reroute: false };
        }
        // The attachment accompanies packets over the loopback interface alone.
        let leaves = hook == FilterHook::Postrouting && output.is_some_and(|output| output != LOOPBACK);
        let attached = if leaves { Attached::None } else { passing.attached };
        passing.packet.set_tracking(attached.to_bits());
        let reroute = before.is_some_and(|before| self.is_rerouted(&before, packet));
        Decision { accept, reroute }
    }

    /// True if a packet of this host that has passed the output hook must be routed again: a translation has
    /// changed its destination, or a chain of type `route` any attribute of its route.
    fn is_rerouted(&self, before: &RouteKey, packet: &Packet) -> bool {
        let after = RouteKey::of(packet);
        if *before == after {
            return false;
        }
        let at = &self.functions[FilterHook::Output as usize][usize::from(packet.bytes()[0] >> 4 == 6)];
        let routes = |entry: &Entry| match entry.action {
            Action::Chain(key) => find(&self.tables, key)
                .and_then(|(_, chain)| chain.base.as_ref())
                .is_some_and(|base| base.kind == ChainType::Route),
            _ => false,
        };
        before.destination() != after.destination() || at.entries.iter().any(routes)
    }

    /// The attachment of an answer to a packet with this attachment (`nf_ct_attach`).
    pub fn reply_tracking(&self, tracking: u64) -> u64 {
        self.tracking.conntrack.attach_reply(Attached::from_bits(tracking)).to_bits()
    }
}

/// Number of the loopback interface.
const LOOPBACK: usize = 0;

/// Functions of connection tracking at a hook.
fn tracking_entries(hook: FilterHook, tracks: bool, translates: bool) -> impl Iterator<Item = Entry> {
    let early = matches!(hook, FilterHook::Prerouting | FilterHook::Output);
    let late = matches!(hook, FilterHook::Postrouting | FilterHook::Input);
    let translation = if early { priority::TRANSLATE_DESTINATION } else { priority::TRANSLATE_SOURCE };
    let all = [
        (tracks && early, priority::TRACK, Action::Track),
        (translates && (early || late), translation, Action::Translate),
        (tracks && late, priority::CONFIRM, Action::Confirm),
    ];
    let present = all.into_iter().filter(|(present, ..)| *present);
    present.map(|(_, priority, action)| Entry { priority, sequence: 0, action })
}

fn accepts(tables: &[Arc<Table>], key: ChainKey, passing: &mut Passing<'_>) -> bool {
    find(tables, key).is_none_or(|(table, chain)| evaluate::accepts(table, chain, passing))
}

fn track(passing: &mut Passing<'_>) -> bool {
    let now = passing.environment.now();
    passing.tracking.track(passing.hook, now, passing.packet, &mut passing.attached)
}

fn confirm(passing: &mut Passing<'_>) -> bool {
    let now = passing.environment.now();
    passing.tracking.confirm(passing.hook, now, passing.packet, &mut passing.attached)
}

/// Asks the chains of type `nat` while the translation is not decided, and translates the packet
/// (`nf_nat_inet_fn`).
fn translate(tables: &[Arc<Table>], chains: &[Entry], passing: &mut Passing<'_>) -> bool {
    for entry in chains {
        if !is_wanted(passing) {
            break;
        }
        if let Action::Chain(key) = entry.action
            && !accepts(tables, key, passing)
        {
            return false;
        }
    }
    let (hook, now) = (passing.hook, passing.environment.now());
    let outgoing = passing.output.map(|output| passing.environment.interface(output).index);
    let done = passing.tracking.translate(hook, now, passing.packet, passing.attached, outgoing);
    passing.headers = Headers::of(passing.packet.bytes());
    done
}

/// A chain by the handles of its table and its own.
fn find(tables: &[Arc<Table>], key: ChainKey) -> Option<(&Table, &Chain)> {
    let table = tables.iter().find(|other| other.handle == key.table)?;
    Some((table, table.chains.get(&key.chain)?))
}

/// Attributes of a packet on which its route depends.
#[derive(PartialEq, Eq)]
struct RouteKey {
    addresses: Option<(IpAddr, IpAddr)>,
    mark: u32,
    tos: Option<(u8, u8)>,
}

impl RouteKey {
    fn destination(&self) -> Option<IpAddr> {
        self.addresses.map(|(_, destination)| destination)
    }
    fn of(packet: &Packet) -> RouteKey {
        let bytes = packet.bytes();
        let whole = bytes.len() >= if bytes.first().is_some_and(|byte| byte >> 4 == 6) { 40 } else { 20 };
        RouteKey {
            addresses: whole.then(|| (source(bytes), destination(bytes))),
            mark: packet.mark(),
            tos: whole.then(|| (bytes[0] & 0xf, bytes[1])),
        }
    }
}
