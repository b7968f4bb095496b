//! Link set: link sensing (RFC 3626, sections 4.2 and 7), hysteresis (14) and link-layer notification (13).

use super::packet::{Hello, LinkType};
use super::{Hysteresis, Olsr};
use crate::{InterfaceId, Time};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Upper bound on the link tuples of a node; further neighbours' interfaces are ignored.
pub(super) const MOST_LINKS: usize = 4096;

/// Link tuple: the link between a local interface and a neighbour's.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Main address of the neighbour, the originator of its HELLO messages.
    pub main: Ipv4Addr,
    /// `L_SYM_time`: time until which the link is symmetric.
    pub sym_until: Time,
    /// `L_ASYM_time`: time until which the neighbour is heard.
    pub asym_until: Time,
    /// `L_time`: expiry time of the tuple.
    pub until: Time,
    /// `L_LOST_LINK_time`: time until which the link is lost.
    pub lost_until: Time,
    /// `L_link_pending`: hysteresis has not established the link.
    pub pending: bool,
    /// `L_link_quality`.
    pub quality: f64,
    /// HELLO interval of the neighbour.
    pub interval: Duration,
    /// Latest arrival of the neighbour's next HELLO if none is lost.
    pub due_until: Time,
    /// Time at which another interval without a HELLO counts as a lost packet; only with hysteresis.
    pub silent_at: Time,
    /// Sequence number of the last packet.
    pub packet_seq: Option<u16>,
    /// True if the link was symmetric when the sets were last updated.
    pub was_symmetric: bool,
    /// True if a HELLO was overdue when the sets were last updated.
    pub was_overdue: bool,
}

impl Link {
    /// A new tuple, valid until `until`.
    fn new(main: Ipv4Addr, until: Time, pending: bool) -> Link {
        Link {
            main,
            sym_until: Time::ZERO,
            asym_until: Time::ZERO,
            until,
            lost_until: Time::ZERO,
            pending,
            quality: 0.0,
            interval: Duration::ZERO,
            due_until: Time::MAX,
            silent_at: Time::MAX,
            packet_seq: None,
            was_symmetric: false,
            was_overdue: false,
        }
    }
    /// Section 14.2: `L_LOST_LINK_time` has expired, the link is not pending, and `L_SYM_time` has not expired.
    pub fn is_symmetric(&self, now: Time) -> bool {
        self.lost_until <= now && !self.pending && self.sym_until > now
    }
    /// True if a HELLO of the neighbour is overdue: the neighbour may be out of range.
    pub fn is_overdue(&self, now: Time) -> bool {
        self.due_until <= now
    }
    /// Link type in HELLO messages (sections 6.2 and 14.2); `None` if the link is not advertised.
    pub fn advertised(&self, now: Time) -> Option<LinkType> {
        match () {
            () if self.lost_until > now => Some(LinkType::Lost),
            () if self.pending => None,
            () if self.sym_until > now => Some(LinkType::Symmetric),
            () if self.asym_until > now => Some(LinkType::Asymmetric),
            () => Some(LinkType::Lost),
        }
    }
    /// The next time at which a timer of the tuple changes its state.
    pub fn next_change(&self, now: Time) -> Time {
        let times = [self.sym_until, self.asym_until, self.lost_until, self.due_until, self.silent_at];
        times.into_iter().filter(|&time| time > now).fold(self.until, Time::min)
    }
    /// Applies the rules of section 14.3 for a packet that arrived or was lost.
    fn measure(&mut self, rule: Hysteresis, came: bool, now: Time, hold: Duration) {
        self.quality *= 1.0 - rule.scaling;
        if came {
            self.quality += rule.scaling;
        }
        if self.quality > rule.high {
            // "L_link_pending is set to false, L_LOST_LINK_time is set to current time - 1"
            (self.pending, self.lost_until) = (false, Time::ZERO);
        } else if self.quality < rule.low && !self.pending {
            // "L_LOST_LINK_time is set to min(L_time, current time + NEIGHB_HOLD_TIME)"
            (self.pending, self.lost_until) = (true, self.until.min(now + hold));
        }
    }
}

impl Olsr {
    /// Updates hysteresis for a packet from a neighbour's interface, and for the packets lost before it.
    pub(super) fn measure_link(&mut self, now: Time, key: (InterfaceId, Ipv4Addr), packet_seq: u16) {
        let hold = self.config.neighbor_hold;
        let Some(link) = self.links.get_mut(&key) else { return };
        let missed = link.packet_seq.map_or(0, |last| packet_seq.wrapping_sub(last).wrapping_sub(1));
        link.packet_seq = Some(packet_seq);
        if let Some(rule) = self.config.hysteresis {
            // A lower sequence number indicates a duplicate or a restart, not a gap.
            for _ in 0..if missed < 0x8000 { missed.min(16) } else { 0 } {
                link.measure(rule, false, now, hold);
            }
            link.measure(rule, true, now, hold);
            self.dirty.neighborhood = true;
        }
    }

    /// Section 7.1.1: updates the link tuple for a HELLO from a neighbour's interface.
    pub(super) fn sense_link(
        &mut self,
        now: Time,
        key: (InterfaceId, Ipv4Addr),
        main: Ipv4Addr,
        validity: Duration,
        hello: &Hello,
    ) {
        let Some(own) = self.interfaces.get(&key.0).map(|interface| interface.at.address) else { return };
        let (hold, hysteresis) = (self.config.neighbor_hold, self.config.hysteresis);
        if !self.links.contains_key(&key) {
            // "if there exists no link tuple with L_neighbor_iface_addr == Source Address, a new tuple is created"
            if self.links.len() >= MOST_LINKS {
                self.counts.refused += 1;
                return;
            }
            self.links.insert(key, Link::new(main, now + validity, hysteresis.is_some()));
            self.dirty.hello = true;
            if let Some(rule) = hysteresis {
                self.links.get_mut(&key).expect("just inserted").measure(rule, true, now, hold);
            }
        }
        let link = self.links.get_mut(&key).expect("it is there or was inserted");
        self.dirty.near |= link.main != main;
        link.main = main;
        link.interval = hello.interval;
        // Half an interval of tolerance for the neighbour's jitter.
        link.due_until = now + hello.interval + hello.interval / 2;
        if hysteresis.is_some() {
            link.silent_at = link.due_until;
        }
        // "2. The tuple (existing or new) is then modified: L_ASYM_time = current time + validity time"
        link.asym_until = now + validity;
        let told = hello.links.iter().find(|&&(_, address)| address == own).map(|&(code, _)| code.link);
        match told {
            // "if Link Type is equal to LOST_LINK then L_SYM_time = current time - 1 (i.e., expired)"
            Some(LinkType::Lost) => link.sym_until = Time::ZERO,
            // "else if Link Type is equal to SYM_LINK or ASYM_LINK then L_SYM_time = current time + validity time,
            // L_time = L_SYM_time + NEIGHB_HOLD_TIME"
            Some(LinkType::Symmetric | LinkType::Asymmetric) => {
                link.sym_until = now + validity;
                link.until = link.sym_until + hold;
            }
            Some(LinkType::Unspecified) | None => {}
        }
        // "L_time = max(L_time, L_ASYM_time)"
        link.until = link.until.max(link.asym_until);
        self.dirty.neighborhood = true;
        self.expire_at = self.expire_at.min(self.links[&key].next_change(now));
    }

    /// Section 13: handles the link layer's notification that a link is broken, or works.
    pub(super) fn link_layer(&mut self, now: Time, key: (InterfaceId, Ipv4Addr), works: bool) {
        let hold = self.config.neighbor_hold;
        let Some(link) = self.links.get_mut(&key) else { return };
        match (works, link.pending) {
            // A link pending by hysteresis is established by hysteresis alone.
            (true, true) => return,
            (true, false) => link.lost_until = Time::ZERO,
            (false, _) => link.lost_until = now + hold,
        }
        self.expire_at = self.expire_at.min(link.next_change(now));
        (self.dirty.neighborhood, self.dirty.hello) = (true, true);
    }

    /// Removes expired tuples and counts intervals of silence. Returns the time of the next change.
    pub(super) fn expire_links(&mut self, now: Time) -> Time {
        let (hold, hysteresis) = (self.config.neighbor_hold, self.config.hysteresis);
        let before = self.links.len();
        let mut next = Time::MAX;
        let mut changed = false;
        self.links.retain(|_, link| {
            if let Some(rule) = hysteresis
                && link.silent_at <= now
            {
                link.measure(rule, false, now, hold);
                link.silent_at = now + link.interval.max(Duration::from_millis(10));
                changed = true;
            }
            changed |=
                link.was_symmetric != link.is_symmetric(now) || link.was_overdue != link.is_overdue(now);
            let alive = link.until > now;
            if alive {
                next = next.min(link.next_change(now));
            }
            alive
        });
        self.dirty.near |= self.links.len() != before;
        self.dirty.neighborhood |= changed || self.links.len() != before;
        next
    }
}
