//! The netfilter of one network namespace: its ruleset, and the functions that packets pass at each hook.

use crate::contents::Contents;
use crate::environment::{Environment, Request};
use crate::evaluate;
use crate::family::{ChainType, Hook};
use crate::operation::Passing;
use crate::packet::{Headers, destination, source};
use crate::ruleset::{Chain, Table};
use crate::tracking::Tracking;
use belljar_net::Packet;
use std::net::IpAddr;
use std::sync::Arc;

/// Function at a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A base chain, by the handles of table and chain.
    Chain(u64, u64),
}

/// Function at a hook with its priority.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) priority: i32,
    pub(crate) sequence: u64,
    pub(crate) action: Action,
}

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
    pub hook: Hook,
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
    /// Functions by hook, for IPv4 and IPv6, in the order of their priorities.
    entries: [[Vec<Entry>; 2]; Hook::ALL.len()],
    active: bool,
    pub(crate) tracking: Tracking,
}

impl Default for Netfilter {
    fn default() -> Netfilter {
        Netfilter::new()
    }
}

impl Netfilter {
    /// The netfilter of a new namespace: no tables, generation 1.
    pub fn new() -> Netfilter {
        Netfilter {
            tables: Vec::new(),
            generation: 1,
            last_table: 0,
            last_set: 0,
            last_base: 0,
            last_binding: 0,
            contents: Contents::default(),
            entries: Default::default(),
            active: false,
            tracking: Tracking,
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
    pub(crate) fn list_entries(&mut self) {
        let mut entries: [[Vec<Entry>; 2]; Hook::ALL.len()] = Default::default();
        for table in self.tables.iter().filter(|table| table.is_awake()) {
            for chain in table.chains.values() {
                let Some(base) = &chain.base else { continue };
                let action = Action::Chain(table.handle, chain.handle);
                let entry = Entry { priority: base.priority, sequence: base.sequence, action };
                for v6 in [false, true].into_iter().filter(|v6| table.family.sees(*v6)) {
                    entries[base.hook as usize][usize::from(v6)].push(entry);
                }
            }
        }
        for list in entries.iter_mut().flatten() {
            list.sort_by_key(|entry| (entry.priority, std::cmp::Reverse(entry.sequence)));
        }
        self.active = entries.iter().flatten().any(|list| !list.is_empty());
        self.entries = entries;
    }

    /// Passes a packet by the functions of a hook. The requests of rules are appended to `requests`.
    pub fn pass(
        &mut self,
        state: &HookState,
        packet: &mut Packet,
        environment: &mut dyn Environment,
        requests: &mut Vec<Request>,
    ) -> Decision {
        let headers = Headers::of(packet.bytes());
        let HookState { hook, input, output } = *state;
        let (tables, entries) = (&self.tables, &self.entries[hook as usize][usize::from(headers.v6)]);
        let before = (hook == Hook::Output).then(|| RouteKey::of(packet));
        let (contents, tracking) = (&mut self.contents, &mut self.tracking);
        let mut passing =
            Passing { packet, headers, hook, input, output, contents, environment, requests, tracking };
        let (mut accept, mut routes) = (true, false);
        for entry in entries {
            accept = match entry.action {
                Action::Chain(table, chain) => match find(tables, table, chain) {
                    Some((table, chain)) => {
                        routes |= chain.base.as_ref().is_some_and(|base| base.kind == ChainType::Route);
                        evaluate::accepts(table, chain, &mut passing)
                    }
                    None => true,
                },
            };
            if !accept {
                break;
            }
        }
        let reroute = accept && routes && before.is_some_and(|before| before != RouteKey::of(passing.packet));
        Decision { accept, reroute }
    }
}

/// A chain by the handles of its table and its own.
fn find(tables: &[Arc<Table>], table: u64, chain: u64) -> Option<(&Table, &Chain)> {
    let table = tables.iter().find(|other| other.handle == table)?;
    Some((table, table.chains.get(&chain)?))
}

/// Attributes of a packet on which its route depends.
#[derive(PartialEq, Eq)]
struct RouteKey {
    addresses: Option<(IpAddr, IpAddr)>,
    mark: u32,
    tos: Option<(u8, u8)>,
}

impl RouteKey {
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
