//! Account of the frames of a channel.
//!
//! A unicast frame is one packet, however often it is transmitted. It ends when it is delivered for the first
//! time, or when its sender drops it undelivered; later receptions are duplicates, which are no packets. A
//! broadcast frame becomes one copy for each station in reach at the end of its transmission.

use super::{Content, Medium, Receiver};
use belljar_base::PacketAccount;
use belljar_net::Packet;
use belljar_wire::ethernet::Frame as EthernetFrame;

/// Counters of the account.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Frames passed to [`Medium::send`].
    pub received: u64,
    /// Outputs returned by [`Medium::poll`].
    pub sent: u64,
    /// Copies of broadcasts, without the first of each frame.
    pub broadcast: u64,
    /// Frames returned to their sender after the last retransmission.
    pub returned: u64,
    /// Second deliveries of frames whose sender lost its carrier during a retransmission.
    pub duplicates: u64,
    /// Frames dropped because their station had no carrier, undelivered.
    pub link_down: u64,
    /// Unicast frames dropped after the last retransmission, undelivered.
    pub given_up: u64,
    /// Broadcasts without a station in reach, and unicast frames given up whose address no station has.
    pub out_of_range: u64,
    /// Copies of broadcasts lost because another frame overlapped them.
    pub collided: u64,
    /// Copies of broadcasts lost because their station was sending or down.
    pub deaf: u64,
    /// Copies of broadcasts lost by random loss.
    pub lost: u64,
}

impl Medium {
    /// Account of the frames of the channel.
    ///
    /// Copies of a `broadcast` beyond the first originate, as do frames `returned` to their sender as
    /// [`Failed`](super::Output::Failed), and `duplicates`: second deliveries of frames whose sender lost its
    /// carrier during a retransmission.
    ///
    /// Drop reasons: `link_down`, the sender has no carrier; `queue_full`; `given_up`, undelivered after the
    /// last retransmission; `out_of_range`, a broadcast with no station in reach, or a unicast frame given up
    /// whose address no station has; and of copies of broadcasts `collided`, `deaf` and `lost`, as in
    /// [`StationCounters`](crate::StationCounters).
    pub fn packet_account(&self) -> PacketAccount {
        let flow = &self.flow;
        let mut account = PacketAccount {
            received: flow.received,
            sent: flow.sent,
            held: self.held(),
            ..PacketAccount::default()
        };
        account.originate("broadcast", flow.broadcast);
        account.originate("returned", flow.returned);
        account.originate("duplicates", flow.duplicates);
        account.drop_for("queue_full", self.stations.iter().map(|one| one.counters.queue_full).sum());
        for (reason, count) in [
            ("link_down", flow.link_down),
            ("given_up", flow.given_up),
            ("out_of_range", flow.out_of_range),
            ("collided", flow.collided),
            ("deaf", flow.deaf),
            ("lost", flow.lost),
        ] {
            account.drop_for(reason, count);
        }
        account
    }

    /// Counts the copies of a broadcast that has ended.
    pub(super) fn count_broadcast(&mut self, copies: u64) {
        match copies {
            0 => self.flow.out_of_range += 1,
            // The first copy is the frame itself.
            copies => self.flow.broadcast += copies - 1,
        }
    }

    /// Counts a transmission of a unicast frame that has ended, if its sender has lost the frame meanwhile.
    /// `delivered` concerns earlier attempts.
    pub(super) fn count_unicast(&mut self, from: usize, attempt: u64, delivered: bool, receivers: &[usize]) {
        if self.stations[from].attempt == attempt {
            return;
        }
        match (delivered, receivers.is_empty()) {
            (false, true) => self.flow.link_down += 1,
            // The channel no longer knows of the first delivery.
            (true, false) => self.flow.duplicates += 1,
            (false, false) | (true, true) => {}
        }
    }

    /// Counts a unicast frame that its sender has given up.
    pub(super) fn count_given_up(&mut self, packet: &Packet, delivered: bool) {
        self.flow.returned += 1;
        let to = EthernetFrame::new_checked(packet.open_bytes()).map(|frame| frame.dst());
        let is_known = to.is_ok_and(|address| self.addresses.contains_key(&address));
        match (delivered, is_known) {
            (true, _) => {}
            (false, true) => self.flow.given_up += 1,
            (false, false) => self.flow.out_of_range += 1,
        }
    }

    /// Number of frames that wait or are on the air, undelivered, and of outputs.
    fn held(&self) -> u64 {
        let at_stations: u64 = self.stations.iter().map(|one| one.undelivered()).sum();
        let is_packet = |content: &Content| match content {
            Content::Data { to: Receiver::All, .. } => true,
            Content::Data { delivered, .. } => !delivered,
            Content::Acknowledgement { .. } => false,
        };
        let on_air = self.on_air.values().filter(|frame| is_packet(&frame.content)).count();
        at_stations + (on_air + self.outputs.len()) as u64
    }
}
