//! Network namespaces: several stacks of one owner, each with interfaces, routes, ports and settings of its own.
//!
//! One stack is at work at a time. What is the owner's and not a network's goes from one to the next as they take turns
//! ([`Stack::exchange`]): the clock, the names of timers, all sockets, and programs' ends of interfaces. So keys are an owner's, and say the same
//! whichever stack is at work; a socket knows which one it belongs to ([`Socket::network`]), and that one must be at work when it sends, is
//! bound or is closed. A stack that is not at work keeps its timers: the owner asks for the first of all.

use crate::socket::Socket;
use crate::{LO, Stack, StackConfig};

impl Stack {
    /// A further stack of the same owner that has nothing but `lo`, which is down. Its draws are its own.
    pub fn another(&self, number: u32) -> Stack {
        let label = format!("{}/network/{number}", self.config.name);
        let mut config = StackConfig::new(self.config.id, &label, self.config.seed);
        (config.prefetch, config.ipv6) = (self.prefetch, self.config.ipv6);
        config.buffers = self.config.buffers;
        let mut made = Stack::new(config, self.clock.clone());
        made.config.name.clone_from(&self.config.name);
        made.number = number;
        let lo = &mut made.interfaces[LO];
        lo.up = false;
        lo.addresses.clear();
        lo.addresses6.clear();
        made
    }
    /// Puts another stack to work in this one's place, which goes to the other's.
    pub fn exchange(&mut self, other: &mut Stack) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.clock, &mut other.clock);
        std::mem::swap(&mut self.sockets, &mut other.sockets);
        std::mem::swap(&mut self.next_serial, &mut other.next_serial);
        std::mem::swap(&mut self.tuns, &mut other.tuns);
        self.timers.exchange_names(&mut other.timers);
    }
    /// The sockets that belong to it, by their keys.
    pub fn own_sockets(&self) -> impl Iterator<Item = (usize, &Socket)> {
        self.sockets.iter().filter(|(_, socket)| socket.network == self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, CpuModel, DEFAULT_EPOCH_SECS};
    use crate::socket::SocketKind;
    use crate::timers::StackTimer;
    use belljar_base::{HostId, Seed, SimTime};

    #[test]
    fn sockets_and_the_clock_are_the_owners() {
        let clock = Clock::new(DEFAULT_EPOCH_SECS, CpuModel::default());
        let mut first = Stack::new(StackConfig::new(HostId(0), "host", Seed(1)), clock);
        let mut second = first.another(1);
        assert!(first.interfaces[LO].up && !second.interfaces[LO].up);
        let key = first.add_socket(2, 1, 0, SocketKind::Other);
        first.clock.advance(SimTime::from_secs(5));
        let before = first.timers.add(SimTime::from_secs(9), StackTimer::Igmp);
        first.exchange(&mut second);
        assert_eq!((first.number, second.number), (1, 0));
        assert_eq!(first.clock.now(), SimTime::from_secs(5));
        assert_eq!((first.own_sockets().count(), first.socket(key).network), (0, 0));
        let inside = first.add_socket(2, 1, 0, SocketKind::Other);
        let after = first.timers.add(SimTime::from_secs(9), StackTimer::Igmp);
        assert!(before < after);
        first.exchange(&mut second);
        assert_eq!(first.own_sockets().map(|(key, _)| key).collect::<Vec<_>>(), [key.0]);
        assert_eq!(first.socket(inside).network, 1);
        assert_eq!((first.next_timer(), second.next_timer()), (Some(before), Some(after)));
    }
}
