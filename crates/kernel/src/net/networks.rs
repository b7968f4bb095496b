//! Network namespaces of a host. `Host::net` is the stack of the first; further stacks are held here by
//! namespace number.
//!
//! A socket's key identifies the stack that holds it, and a process holds the number of its namespace; code
//! addresses the intended stack ([`Host::stack_of_mut`], [`Host::stack_mut`]). Sockets of the host's own
//! families are held by the first stack and carry their namespace number ([`Socket::network`]).
//!
//! The host's clock and the numbering of its timers belong to the first stack. A further stack borrows both
//! for a turn. The turn begins when the stack is addressed and ends when another stack is addressed, a timer
//! is set or effects are carried out.

use crate::host::Host;
use crate::ids::InodeKey;
use belljar_netstack::account::{DropCause, PacketDisposition};
use belljar_netstack::interface::{Attachment, Interface};
use belljar_netstack::keyed::FURTHER;
use belljar_netstack::socket::Socket;
use belljar_netstack::veth::PeerNews;
use belljar_netstack::{SocketKey, Stack};
use belljar_objects::inode::{Inode, NAMESPACE};
use belljar_objects::namespaces::NamespaceKind;

impl Host {
    /// Stack that holds a socket, read-only.
    #[inline]
    pub(crate) fn stack_of(&self, key: SocketKey) -> &Stack {
        self.networks.stack_of(&self.net, self.turn, key)
    }
    /// Stack that holds a socket.
    #[inline(always)]
    pub(crate) fn stack_of_mut(&mut self, key: SocketKey) -> &mut Stack {
        if key.0 < FURTHER { &mut self.net } else { self.further_of(key) }
    }
    /// The stack's state of a socket.
    #[inline(always)]
    pub(crate) fn socket(&mut self, key: SocketKey) -> &mut Socket {
        self.stack_of_mut(key).socket(key)
    }
    /// Stack of a network, read-only. The clock of a further stack is that of its last turn.
    pub(crate) fn stack(&self, network: u32) -> &Stack {
        if network == 0 { &self.net } else { self.networks.stack(&self.net, network) }
    }
    /// Stack of a network.
    #[inline]
    pub(crate) fn stack_mut(&mut self, network: u32) -> &mut Stack {
        if network == 0 { &mut self.net } else { self.further(network) }
    }
    /// Network number of an open `/dev/net/tun` file.
    #[inline]
    pub(crate) fn network_of_tun(&self, tun: usize) -> u32 {
        self.stack(self.turn).tuns.stack_of(tun)
    }
    /// Network number of the process whose system call is being executed.
    pub(crate) fn network_of_caller(&self) -> u32 {
        self.caller.map_or(0, |(_, process)| self.processes.namespace(process, NamespaceKind::Net))
    }

    #[cold]
    #[inline(never)]
    fn further_of(&mut self, key: SocketKey) -> &mut Stack {
        self.further(self.stack(self.turn).sockets.stack_of(key.0))
    }
    /// Begins the turn of a further stack and returns it.
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
    /// Ends the turn of a further stack, if one has it: its clock and its effects return to the first stack.
    #[cold]
    pub(crate) fn end_turn(&mut self) {
        let number = std::mem::take(&mut self.turn);
        if let Some(stack) = self.networks.further.get_mut(&number) {
            stack.end_turn(&mut self.net);
        }
    }

    /// Creates the stack of a new network namespace.
    pub(crate) fn make_network(&mut self, number: u32) {
        let stack = self.net.another(number);
        self.networks.further.insert(number, Box::new(stack));
        self.has_networks = true;
    }
    /// End of a system call: ends the turn of a further stack and removes unused networks.
    #[inline(never)]
    pub(crate) fn leave_networks(&mut self) {
        if self.turn != 0 {
            self.stack_mut(self.turn).flush_network();
        }
        self.carry_out_effects();
        if std::mem::take(&mut self.networks.left) {
            self.drop_unused_networks();
        }
    }

    /// Removes the networks without references, together with the veth peers of their interfaces in other
    /// networks.
    #[cold]
    fn drop_unused_networks(&mut self) {
        let numbers: Vec<u32> = self.networks.further.keys().copied().collect();
        for number in numbers {
            if self.network_is_used(number) {
                continue;
            }
            self.end_turn();
            let Some(stack) = self.networks.further.remove(&number) else { continue };
            let held = stack.packet_account().held;
            self.net.account.absorb(&stack.account, held, DropCause::InterfaceDown);
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

    /// Delivers a veth event of network `from` to the peer interface in another network.
    pub(crate) fn tell_interface(&mut self, from: u32, (network, interface): (u32, usize), news: PeerNews) {
        if !self.networks.has(network) {
            if let PeerNews::Frame(_) = news {
                self.net.account.receive_from_peer(PacketDisposition::dropped(DropCause::InterfaceDown));
            }
            return;
        }
        match news {
            PeerNews::Frame(frame) => {
                self.end_turn();
                let timer = self.net.timers.name(self.net.clock.now());
                // The frame is received when the timer fires, so the stack needs no turn now.
                return self.networks.of(network, &mut self.net).receive_from_peer(interface, frame, timer);
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
        // Neighbours that are gone are reported, and packets that waited for them dropped.
        self.stack_mut(network).flush_network();
        self.carry_out_effects();
    }

    /// Moves an interface into this network and links it with its veth peer again.
    fn receive_interface(&mut self, network: u32, former: (u32, usize), mut moved: Interface) {
        let mut far = None;
        if let Attachment::Veth { network: of_peer, peer } = moved.attachment {
            // The peer may have moved as well.
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

    /// True if a further network is in use: by a process, a socket, an open `/dev/net/tun` file, or an open
    /// or mounted namespace file.
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
