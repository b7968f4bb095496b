//! Network namespaces of a host: its stacks, of which `Host::net` is the one at work.
//!
//! Between calls and events it is the first one, which the experiment knows. A call is made with the stack of its process at work, or with that of
//! the socket that it is about; a timer fires in its own. Whoever puts another stack to work than was, outside a call, puts back what was.

use crate::files::tree::{Inode, NAMESPACE};
use crate::host::Host;
use crate::ids::InodeKey;
use belljar_base::{Map, SimTime};
use belljar_netstack::interface::{Attachment, Interface};
use belljar_netstack::veth::PeerNews;
use belljar_netstack::{SocketKey, Stack, TimerId};
use belljar_objects::namespaces::NamespaceKind;

/// The stacks that are not at work.
#[derive(Default)]
pub(crate) struct Networks {
    /// The number of the one that is.
    current: u32,
    /// Where interfaces that have moved are, by the numbers of network and interface that they had.
    moved: Map<(u32, usize), (u32, usize)>,
    /// Somebody has left one: it may be out of reach.
    pub(crate) left: bool,
    /// The later ones by their numbers; in the place of the one at work is the first one.
    others: Map<u32, Box<Stack>>,
}

impl Networks {
    /// The first timer of all of them, and whose it is. For when the first stack is at work.
    pub(crate) fn next_timer(&self) -> Option<(TimerId, u32)> {
        let timers = self.others.iter().filter_map(|(number, stack)| Some((stack.next_timer()?, *number)));
        timers.min()
    }
    /// When it fires.
    pub(crate) fn next(&self) -> Option<SimTime> {
        self.next_timer().map(|(timer, _)| timer.at())
    }
    /// True if there is a network of this number.
    pub(crate) fn has(&self, number: u32) -> bool {
        number == 0 || self.others.contains_key(&number)
    }
    /// The stack of a network that is not at work.
    pub(crate) fn resting(&self, number: u32) -> Option<&Stack> {
        let at = if number == 0 { self.current } else { number };
        self.others.get(&at).filter(|_| number != self.current).map(|stack| &**stack)
    }
    /// The numbers of all.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        std::iter::once(0).chain(self.others.keys().copied()).collect()
    }
}

impl Host {
    /// Makes the stack of a new network namespace.
    pub(crate) fn make_network(&mut self, number: u32) {
        let stack = self.net.another(number);
        self.networks.others.insert(number, Box::new(stack));
        self.has_networks = true;
    }

    /// Lets go of networks that nobody can reach any more; with them go other ends of their interfaces.
    #[cold]
    fn drop_unused_networks(&mut self) {
        for number in self.networks.numbers() {
            if self.network_is_used(number) {
                continue;
            }
            let Some(stack) = self.networks.others.remove(&number) else { continue };
            for interface in &stack.interfaces {
                if let Attachment::Veth { network, peer } = interface.attachment
                    && network != number
                {
                    self.tell_interface(network, peer, PeerNews::Gone);
                }
            }
        }
        self.has_networks = !self.networks.others.is_empty();
    }

    /// Tells an interface of another network of something that concerns it.
    pub(crate) fn tell_interface(&mut self, network: u32, interface: usize, news: PeerNews) {
        if !self.networks.has(network) {
            return;
        }
        if let PeerNews::Frame(frame) = news {
            let timer = self.net.timers.name(self.net.clock.now());
            let current = self.networks.current;
            let stack = match network {
                _ if network == current => Some(&mut self.net),
                0 => self.networks.others.get_mut(&current).map(|stack| &mut **stack),
                _ => self.networks.others.get_mut(&network).map(|stack| &mut **stack),
            };
            if let Some(stack) = stack {
                stack.cross(interface, frame, timer);
            }
            return;
        }
        let before = self.use_network(network);
        match news {
            PeerNews::Frame(_) => {}
            PeerNews::Carrier(up) => self.administer(|admin| admin.set_peer_carrier(interface, up)),
            PeerNews::Gone if self.net.interfaces[interface].exists() => {
                self.administer(|admin| admin.withdraw_interface(interface));
            }
            PeerNews::Gone => {}
            PeerNews::Moved(former, moved) => self.receive_interface((before, former), *moved),
        }
        self.use_network(before);
    }

    /// An interface of another network comes into the one at work: it and its other end find each other.
    fn receive_interface(&mut self, former: (u32, usize), mut moved: Interface) {
        let network = self.networks.current;
        let mut far = None;
        if let Attachment::Veth { network: of_peer, peer } = moved.attachment {
            // The other end may have moved meanwhile.
            let (of_peer, peer) =
                self.networks.moved.get(&(of_peer, peer)).copied().unwrap_or((of_peer, peer));
            moved.attachment = Attachment::Veth { network: of_peer, peer };
            far = Some((of_peer, peer)).filter(|_| self.networks.has(of_peer));
        }
        let number = self.administer(|admin| admin.receive_interface(&moved));
        self.networks.moved.insert(former, (network, number));
        if let Some((of_peer, peer)) = far {
            self.use_network(of_peer);
            let attachment = &mut self.net.interfaces[peer].attachment;
            if matches!(attachment, Attachment::Veth { .. }) {
                *attachment = Attachment::Veth { network, peer: number };
            }
        }
    }

    /// True if a process is in a network, a socket belongs to it, or a file holds it.
    fn network_is_used(&self, number: u32) -> bool {
        let shown = u64::from(NamespaceKind::Net.shown(number));
        let holds = |(n, inode): (usize, &Inode)| {
            let used = inode.opens > 0 || self.files.mounts.uses(InodeKey(n));
            inode.identity() == (NAMESPACE, shown) && used
        };
        [0, self.networks.current].contains(&number)
            || self
                .processes
                .iter()
                .any(|(_, process)| process.attributes.namespaces.net == number && process.ended.is_none())
            || self.net.sockets.iter().any(|(_, socket)| socket.network == number)
            || self.files.inodes.iter().any(holds)
    }

    /// Puts the stack of a network to work, and gives the number of the one that was.
    #[inline]
    pub(crate) fn use_network(&mut self, number: u32) -> u32 {
        let before = self.networks.current;
        if before != number {
            self.change_network(number);
        }
        before
    }
    /// The same for the one that a socket belongs to.
    #[inline]
    pub(crate) fn use_network_of(&mut self, key: SocketKey) -> u32 {
        if self.has_networks { self.use_network(self.net.sockets[key.0].network) } else { 0 }
    }
    /// The same for the one that a TUN interface is in.
    pub(crate) fn use_network_of_tun(&mut self, tun: usize) -> u32 {
        self.use_network(self.net.tuns[tun].network)
    }
    /// A call is over: the first stack is at work again.
    #[inline(never)]
    pub(crate) fn leave_network(&mut self) {
        self.use_network(0);
        if std::mem::take(&mut self.networks.left) {
            self.drop_unused_networks();
        }
    }
    #[cold]
    fn change_network(&mut self, number: u32) {
        // What is left to be done is about the one that is at work.
        self.net.flush_network();
        self.carry_out_effects();
        let Networks { current, others, .. } = &mut self.networks;
        if let Some(stack) = others.get_mut(current).filter(|_| *current != 0) {
            self.net.exchange(stack);
        }
        *current = 0;
        if let Some(stack) = others.get_mut(&number) {
            self.net.exchange(stack);
            *current = number;
        }
    }
}
