//! Account of the packets of a switch.

use super::{Drop, Notification, Port, Switch};
use belljar_base::PacketAccount;

/// Counters of the account that no other counter of the switch includes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Packets received at the CPU port, which come from controllers.
    pub packet_out: u64,
    /// Copies of multicast groups, without the first of each packet.
    pub multicast: u64,
    /// Clones.
    pub clones: u64,
    /// Packets returned by [`Switch::poll`].
    pub sent: u64,
    /// Packets returned by [`Switch::notification`].
    pub packet_in: u64,
}

impl Switch {
    /// Account of the packets since the switch was created, including those of the programs that it
    /// [took over](Switch::take_over).
    ///
    /// Packets received at the CPU port originate as `packet_out`. The first copy of a `multicast` packet
    /// replaces it, and the others originate, as does each `clone`. A resubmitted or recirculated packet
    /// remains one packet. Packets to the CPU port are consumed as `cpu_port` when their notification is
    /// taken. The drop reasons are those of [`Drop`].
    pub fn packet_account(&self) -> PacketAccount {
        let mut account = PacketAccount {
            received: self.received - self.flow.packet_out,
            sent: self.flow.sent,
            held: self.held(),
            ..PacketAccount::default()
        };
        account.originate("packet_out", self.flow.packet_out);
        account.originate("multicast", self.flow.multicast);
        account.originate("clone", self.flow.clones);
        account.consume("cpu_port", self.flow.packet_in);
        for reason in Drop::ALL {
            account.drop_for(reason.name(), self.dropped(reason));
        }
        account
    }

    /// Number of packets in the switch, including those in notifications.
    pub(super) fn held(&self) -> u64 {
        let queued: usize = self.ports.iter().map(Port::waiting).sum();
        let moving = self.input.len() + self.delayed.len() + self.copies.len() + self.out.len();
        let packet_in = |one: &&Notification| matches!(one, Notification::PacketIn(_));
        (queued + moving + self.notifications.iter().filter(packet_in).count()) as u64
    }
}
