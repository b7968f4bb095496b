//! Stacks of a host's network namespaces other than the first, by namespace number. The first stack is passed in.

use belljar_base::{Map, SimTime};
use belljar_netstack::keyed::FURTHER;
use belljar_netstack::{SocketKey, Stack, TimerId};

/// Stacks of the network namespaces other than the first.
#[derive(Default)]
pub struct Networks {
    /// Present network and index of interfaces that have moved, by their former network and index.
    pub moved: Map<(u32, usize), (u32, usize)>,
    /// True if a reference to a network was dropped: an unused network may have to be removed.
    pub left: bool,
    /// Stacks by namespace number.
    pub further: Map<u32, Box<Stack>>,
}

impl Networks {
    /// Stacks of the network namespaces other than the first.
    pub fn stacks(&self) -> impl Iterator<Item = &Stack> {
        self.further.values().map(|stack| &**stack)
    }
    /// Earliest timer of the further stacks, and the namespace number of its stack.
    pub fn next_timer(&self) -> Option<(TimerId, u32)> {
        let timers = self.further.iter().filter_map(|(number, stack)| Some((stack.next_timer()?, *number)));
        timers.min()
    }
    /// Expiration of the earliest timer.
    pub fn next(&self) -> Option<SimTime> {
        self.next_timer().map(|(timer, _)| timer.at())
    }
    /// True if a network with this number exists.
    pub fn has(&self, number: u32) -> bool {
        number == 0 || self.further.contains_key(&number)
    }
    /// Stack that holds a socket, read-only. `turn` is the number of the stack that has its turn.
    #[inline]
    pub fn stack_of<'a>(&'a self, first: &'a Stack, turn: u32, key: SocketKey) -> &'a Stack {
        if key.0 < FURTHER {
            first
        } else {
            self.stack(first, self.stack(first, turn).sockets.stack_of(key.0))
        }
    }
    /// Stack of a network, read-only.
    #[cold]
    pub fn stack<'a>(&'a self, first: &'a Stack, network: u32) -> &'a Stack {
        self.further.get(&network).map_or(first, |stack| &**stack)
    }
    /// Stack of a network, without beginning its turn.
    #[cold]
    pub fn of<'a>(&'a mut self, network: u32, first: &'a mut Stack) -> &'a mut Stack {
        self.further.get_mut(&network).map_or(first, |stack| &mut **stack)
    }
    /// Number of sockets of all families in a network. Sockets of the host's own families are held by the
    /// first stack.
    pub fn sockets_in(&self, first: &Stack, network: u32) -> usize {
        let in_first = first.sockets.iter().filter(|(_, socket)| socket.network == network).count();
        in_first + self.further.get(&network).map_or(0, |stack| stack.sockets.len())
    }
}
