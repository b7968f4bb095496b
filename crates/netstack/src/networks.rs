//! Network namespaces: several stacks of one owner, each with its own interfaces, routes, ports, sockets and
//! settings.
//!
//! The keys of sockets and of program ends of TUN and TAP interfaces are unique per owner and identify their
//! stack ([`keyed`](crate::keyed)). The time, the identifiers of timers, the serial numbers of sockets and
//! the table of keys are also per owner. The first stack holds them, and lends them to another stack for its
//! turn ([`Stack::begin_turn`], [`Stack::end_turn`]). The timers of a stack stay with it between its turns;
//! the owner selects the earliest over all stacks.

use crate::keyed::Keyed;
use crate::socket::Socket;
use crate::{LO, Stack, StackConfig};

impl Stack {
    /// Creates a further stack of the same owner, with `lo` alone, which is down. Its random numbers are
    /// independent.
    pub fn another(&self, number: u32) -> Stack {
        let label = format!("{}/network/{number}", self.config.name);
        let mut config = StackConfig::new(self.config.id, &label, self.config.seed);
        (config.prefetch, config.ipv6) = (self.prefetch, self.config.ipv6);
        config.buffers = self.config.buffers;
        let mut made = Stack::new(config, self.clock.clone());
        made.config.name.clone_from(&self.config.name);
        made.number = number;
        made.sockets = Keyed::of_further(number);
        made.tuns = Keyed::of_further(number);
        let lo = &mut made.interfaces[LO];
        lo.up = false;
        lo.addresses.clear();
        lo.addresses6.clear();
        made
    }
    /// Takes the time, the identifiers and the keys from the owner's first stack. The owner invokes it before
    /// every turn of a further stack.
    pub fn begin_turn(&mut self, first: &mut Stack) {
        self.clock.clone_from(&first.clock);
        self.continue_names(first);
    }
    /// Returns this state to the first stack, with this stack's effects
    /// ([`Effect::Further`](crate::Effect::Further)). The first stack's clock is not set back.
    pub fn end_turn(&mut self, first: &mut Stack) {
        first.clock.catch_up(&self.clock);
        first.continue_names(self);
        first.effects.take_over(self.number, &mut self.effects);
    }
    fn continue_names(&mut self, from: &mut Stack) {
        self.timers.name_after(&from.timers);
        self.next_serial = self.next_serial.max(from.next_serial);
        self.sockets.take_keys(&mut from.sockets);
        self.tuns.take_keys(&mut from.tuns);
    }
    /// The sockets of this stack's network namespace, with their keys. The first stack also stores the
    /// sockets of other families for all namespaces.
    pub fn own_sockets(&self) -> impl Iterator<Item = (usize, &Socket)> {
        self.sockets.of_network(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketKey;
    use crate::clock::{Clock, CpuModel, DEFAULT_EPOCH_SECS};
    use crate::socket::SocketKind;
    use crate::timers::StackTimer;
    use belljar_base::{HostId, Seed, SimTime};

    #[test]
    fn the_clock_and_names_are_lent() {
        let clock = Clock::new(DEFAULT_EPOCH_SECS, CpuModel::default());
        let mut first = Stack::new(StackConfig::new(HostId(0), "host", Seed(1)), clock);
        let mut second = first.another(1);
        assert!(first.interfaces[LO].up && !second.interfaces[LO].up);
        let key = first.add_socket(2, 1, 0, SocketKind::Other);
        first.clock.advance(SimTime::from_secs(5));
        let before = first.timers.add(SimTime::from_secs(9), StackTimer::Igmp);
        second.begin_turn(&mut first);
        assert_eq!((first.number, second.number), (0, 1));
        assert_eq!(second.clock.now(), SimTime::from_secs(5));
        let inside = second.add_socket(2, 1, 0, SocketKind::Other);
        assert!(second.socket(inside).serial > first.socket(key).serial);
        assert_eq!([key, inside].map(|SocketKey(key)| second.sockets.stack_of(key)), [0, 1]);
        let after = second.timers.add(SimTime::from_secs(9), StackTimer::Igmp);
        second.clock.advance(SimTime::from_secs(6));
        second.end_turn(&mut first);
        assert_eq!(first.clock.now(), SimTime::from_secs(6));
        assert!(before < after && after < first.timers.name(SimTime::from_secs(9)));
        assert_eq!(first.own_sockets().map(|(key, _)| key).collect::<Vec<_>>(), [key.0]);
        assert_eq!(second.socket(inside).network, 1);
        assert_eq!((first.next_timer(), second.next_timer()), (Some(before), Some(after)));
    }
}
