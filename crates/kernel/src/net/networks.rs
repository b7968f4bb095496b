//! Network namespaces of a host: the stack of the first is `Host::net`, those of the others are here by the numbers of their namespaces.
//!
//! The key of a socket names the stack that keeps it, and a process has the number of its namespace: code addresses the stack that it
//! means ([`Host::stack_of_mut`], [`Host::stack_mut`]). Sockets of the host's own families are kept by the first stack, and have the
//! number of their namespace in them ([`Socket::network`]).
//!
//! The host's time and the names of its timers are those of the first stack. A further stack has its turn, and with it both, from the
//! moment at which it is addressed until the host ends the turn: when another one is addressed, a timer is set, effects are carried out.

use crate::files::tree::{Inode, NAMESPACE};
use crate::host::Host;
use crate::ids::InodeKey;
use belljar_base::{Map, SimTime};
use belljar_netstack::interface::{Attachment, Interface};
use belljar_netstack::keyed::FURTHER;
use belljar_netstack::socket::Socket;
use belljar_netstack::veth::PeerNews;
use belljar_netstack::{SocketKey, Stack, TimerId};
use belljar_objects::namespaces::NamespaceKind;

/// The stacks of the network namespaces beside the first.
#[derive(Default)]
pub(crate) struct Networks {
    /// Where interfaces that have moved are, by the numbers of network and interface that they had.
    moved: Map<(u32, usize), (u32, usize)>,
    /// A reference to a network is gone: one may be out of reach.
    pub(crate) left: bool,
    /// The stacks by the numbers of their namespaces.
    pub(crate) further: Map<u32, Box<Stack>>,
}

impl Networks {
    /// The first timer of all of them, and the number of its stack.
    pub(crate) fn next_timer(&self) -> Option<(TimerId, u32)> {
        let timers = self.further.iter().filter_map(|(number, stack)| Some((stack.next_timer()?, *number)));
        timers.min()
    }
    /// The time at which it fires.
    pub(crate) fn next(&self) -> Option<SimTime> {
        self.next_timer().map(|(timer, _)| timer.at())
    }
    /// True if there is a network of this number.
    pub(crate) fn has(&self, number: u32) -> bool {
        number == 0 || self.further.contains_key(&number)
    }
    /// The stack that keeps a socket, to look at, if the stack of number `turn` has its turn.
    #[inline]
    pub(crate) fn stack_of<'a>(&'a self, first: &'a Stack, turn: u32, key: SocketKey) -> &'a Stack {
        if key.0 < FURTHER {
            first
        } else {
            self.stack(first, self.stack(first, turn).sockets.stack_of(key.0))
        }
    }
    #[cold]
    fn stack<'a>(&'a self, first: &'a Stack, network: u32) -> &'a Stack {
        self.further.get(&network).map_or(first, |stack| &**stack)
    }
    /// The stack that has its turn, to change.
    #[cold]
    pub(crate) fn in_turn<'a>(&'a mut self, turn: u32, first: &'a mut Stack) -> &'a mut Stack {
        self.further.get_mut(&turn).map_or(first, |stack| &mut **stack)
    }
}

impl Host {
    /// The stack that keeps a socket, to look at.
    #[inline]
    pub(crate) fn stack_of(&self, key: SocketKey) -> &Stack {
        self.networks.stack_of(&self.net, self.turn, key)
    }
    /// The stack that keeps a socket.
    #[inline(always)]
    pub(crate) fn stack_of_mut(&mut self, key: SocketKey) -> &mut Stack {
        if key.0 < FURTHER { &mut self.net } else { self.further_of(key) }
    }
    /// What the stack keeps of a socket.
    #[inline(always)]
    pub(crate) fn socket(&mut self, key: SocketKey) -> &mut Socket {
        self.stack_of_mut(key).socket(key)
    }
    /// The stack of a network, to look at. A further one has the time of its last turn.
    pub(crate) fn stack(&self, network: u32) -> &Stack {
        if network == 0 { &self.net } else { self.networks.stack(&self.net, network) }
    }
    /// The stack of a network.
    #[inline]
    pub(crate) fn stack_mut(&mut self, network: u32) -> &mut Stack {
        if network == 0 { &mut self.net } else { self.further(network) }
    }
    /// The number of the network of a program's end of an interface.
    #[inline]
    pub(crate) fn network_of_tun(&self, tun: usize) -> u32 {
        self.stack(self.turn).tuns.stack_of(tun)
    }
    /// The number of the network of the process whose call is being made.
    pub(crate) fn network_of_caller(&self) -> u32 {
        self.caller.map_or(0, |(_, process)| self.processes[process.0].attributes.namespaces.net)
    }

    /// Number of the sockets of all families that are in a network.
    pub(crate) fn sockets_in(&self, network: u32) -> usize {
        // Those of the host's own families are kept by the first stack.
        let in_first = self.net.sockets.iter().filter(|(_, socket)| socket.network == network).count();
        in_first + self.networks.further.get(&network).map_or(0, |stack| stack.sockets.len())
    }

    #[cold]
    #[inline(never)]
    fn further_of(&mut self, key: SocketKey) -> &mut Stack {
        self.further(self.stack(self.turn).sockets.stack_of(key.0))
    }
    /// A stack beside the first, whose turn it is from now on.
    #[cold]
    #[inline(never)]
    fn further(&mut self, network: u32) -> &mut Stack {
        if self.turn != network {
            self.end_turn();
        }
        match self.networks.further.get_mut(&network) {
            Some(stack) => {
                if self.turn != network {
                    stack.begin_turn(&mut self.net);
                    self.turn = network;
                }
                stack
            }
            None => &mut self.net,
        }
    }
    /// Ends the turn of a stack beside the first, if one has it: the time goes on where it has come to, and its effects are the first's.
    #[cold]
    pub(crate) fn end_turn(&mut self) {
        let number = std::mem::take(&mut self.turn);
        if let Some(stack) = self.networks.further.get_mut(&number) {
            stack.end_turn(&mut self.net);
        }
    }

    /// Makes the stack of a new network namespace.
    pub(crate) fn make_network(&mut self, number: u32) {
        let stack = self.net.another(number);
        self.networks.further.insert(number, Box::new(stack));
        self.has_networks = true;
    }
    /// A call is over: the turn of a stack that it has addressed ends, and networks that are out of reach go.
    #[inline(never)]
    pub(crate) fn leave_networks(&mut self) {
        self.carry_out_effects();
        if std::mem::take(&mut self.networks.left) {
            self.drop_unused_networks();
        }
    }

    /// Removes the networks that nothing refers to; with them go other ends of their interfaces.
    #[cold]
    fn drop_unused_networks(&mut self) {
        let numbers: Vec<u32> = self.networks.further.keys().copied().collect();
        for number in numbers {
            if self.network_is_used(number) {
                continue;
            }
            self.end_turn();
            let Some(stack) = self.networks.further.remove(&number) else { continue };
            for interface in stack.interfaces.iter() {
                if let Attachment::Veth { network, peer } = interface.attachment
                    && network != number
                {
                    self.tell_interface(number, (network, peer), PeerNews::Gone);
                }
            }
        }
        self.carry_out_effects();
        self.has_networks = !self.networks.further.is_empty();
    }

    /// Hands news of network `from` to an interface of another network.
    pub(crate) fn tell_interface(&mut self, from: u32, (network, interface): (u32, usize), news: PeerNews) {
        if !self.networks.has(network) {
            return;
        }
        match news {
            PeerNews::Frame(frame) => {
                self.end_turn();
                let timer = self.net.timers.name(self.net.clock.now());
                // It is received when the timer fires, so the stack needs no turn now.
                let stack =
                    self.networks.further.get_mut(&network).map_or(&mut self.net, |stack| &mut **stack);
                return stack.cross(interface, frame, timer);
            }
            PeerNews::Carrier(up) => {
                self.administer(network, |admin| admin.set_peer_carrier(interface, up));
            }
            PeerNews::Gone if self.stack(network).interfaces[interface].exists() => {
                self.administer(network, |admin| admin.withdraw_interface(interface));
            }
            PeerNews::Gone => {}
            PeerNews::Moved(former, moved) => self.receive_interface(network, (from, former), *moved),
        }
        self.carry_out_effects();
    }

    /// An interface of another network comes into this one: it and its other end find each other.
    fn receive_interface(&mut self, network: u32, former: (u32, usize), mut moved: Interface) {
        let mut far = None;
        if let Attachment::Veth { network: of_peer, peer } = moved.attachment {
            // The other end may have moved meanwhile.
            let (of_peer, peer) =
                self.networks.moved.get(&(of_peer, peer)).copied().unwrap_or((of_peer, peer));
            moved.attachment = Attachment::Veth { network: of_peer, peer };
            far = Some((of_peer, peer)).filter(|_| self.networks.has(of_peer));
        }
        let number = self.administer(network, |admin| admin.receive_interface(&moved));
        self.networks.moved.insert(former, (network, number));
        if let Some((of_peer, peer)) = far {
            let attachment = &mut self.stack_mut(of_peer).interfaces[peer].attachment;
            if matches!(attachment, Attachment::Veth { .. }) {
                *attachment = Attachment::Veth { network, peer: number };
            }
        }
    }

    /// True if a process is in a network beside the first, a socket or a program's end belongs to it, or a file refers to it.
    fn network_is_used(&self, number: u32) -> bool {
        let shown = u64::from(NamespaceKind::Net.shown(number));
        let holds = |(n, inode): (usize, &Inode)| {
            let used = inode.opens > 0 || self.files.mounts.uses(InodeKey(n));
            inode.identity() == (NAMESPACE, shown) && used
        };
        let stack = &self.networks.further[&number];
        !stack.sockets.is_empty()
            || !stack.tuns.is_empty()
            || self
                .processes
                .iter()
                .any(|(_, process)| process.attributes.namespaces.net == number && process.ended.is_none())
            || self.net.sockets.iter().any(|(_, socket)| socket.network == number)
            || self.files.inodes.iter().any(holds)
    }
}
