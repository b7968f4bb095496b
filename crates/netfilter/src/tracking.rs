//! Connection tracking of a namespace for the rules that use it.
//!
//! The tracker is at the hooks of a family while an expression of one of its tables needs it, and
//! translation while the family has a chain of type `nat`, as in Linux (`nf_ct_netns_get`,
//! `nf_nat_register_fn`).

use crate::family::FilterHook;
use belljar_base::{SimTime, Stream};
use belljar_conntrack::{Attached, Conntrack, InetHook, TrackContext, TrackVerdict};
use belljar_net::{ChecksumState, Packet};

/// Connection tracking of a namespace.
#[derive(Debug)]
pub(crate) struct Tracking {
    pub(crate) conntrack: Box<Conntrack>,
}

/// Priority of a tracking function at the hooks.
pub(crate) mod priority {
    pub(crate) const TRACK: i32 = -200;
    pub(crate) const TRANSLATE_DESTINATION: i32 = -100;
    pub(crate) const TRANSLATE_SOURCE: i32 = 100;
    pub(crate) const CONFIRM: i32 = i32::MAX;
}

impl Tracking {
    /// A tracker without connections, whose random numbers come from a stream.
    pub(crate) fn new(stream: Stream) -> Tracking {
        Tracking { conntrack: Box::new(Conntrack::new(stream)) }
    }
    fn context(hook: FilterHook, now: SimTime, packet: &Packet) -> TrackContext {
        let checksum_verified = packet.checksum() != ChecksumState::Untested;
        TrackContext { hook: inet_hook(hook), now, checksum_verified }
    }
    /// Finds or begins the connection of a packet. False to drop the packet.
    pub(crate) fn track(
        &mut self,
        hook: FilterHook,
        now: SimTime,
        packet: &Packet,
        attached: &mut Attached,
    ) -> bool {
        let context = Tracking::context(hook, now, packet);
        let tracked = self.conntrack.track(packet.bytes(), *attached, &context);
        *attached = tracked.attached;
        tracked.verdict == TrackVerdict::Accept
    }
    /// Enters a new connection in the table. False to drop the packet.
    pub(crate) fn confirm(
        &mut self,
        hook: FilterHook,
        now: SimTime,
        packet: &mut Packet,
        attached: &mut Attached,
    ) -> bool {
        if attached.key().is_none() {
            return true;
        }
        let context = Tracking::context(hook, now, packet);
        let checksum = packet.checksum();
        let before = packet.len();
        let tracked = self.conntrack.confirm(packet.buffer_mut(), *attached, &context);
        if packet.len() == before {
            // Helpers keep checksums right.
            packet.restore_checksum(checksum);
        }
        *attached = tracked.attached;
        tracked.verdict == TrackVerdict::Accept
    }
    /// Translates a packet. False to drop it.
    pub(crate) fn translate(
        &mut self,
        hook: FilterHook,
        now: SimTime,
        packet: &mut Packet,
        attached: Attached,
        outgoing: Option<u32>,
    ) -> bool {
        if attached.key().is_none() {
            return true;
        }
        let checksum = packet.checksum();
        let verdict = self.conntrack.translate(packet.bytes_mut(), attached, inet_hook(hook), outgoing, now);
        packet.restore_checksum(checksum);
        verdict == TrackVerdict::Accept
    }
}

/// The hook in the tracker's numbering, which is the same.
pub(crate) fn inet_hook(hook: FilterHook) -> InetHook {
    match hook {
        FilterHook::Prerouting => InetHook::Prerouting,
        FilterHook::Input => InetHook::Input,
        FilterHook::Forward => InetHook::Forward,
        FilterHook::Output => InetHook::Output,
        FilterHook::Postrouting => InetHook::Postrouting,
    }
}
