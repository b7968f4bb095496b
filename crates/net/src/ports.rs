//! Ports of a device, with an index of those that have events.

use crate::nic::{Nic, NicChange, NicConfig, NicEvent};
use crate::switch::EgressFrame;
use crate::{Counters, Packet};
use belljar_base::SimTime;

/// Interfaces of a device by number. Idle ones are not visited. Frames have no cookies: no departures are
/// reported.
#[derive(Debug)]
pub struct Ports {
    nics: Vec<Nic>,
    /// Ports with a future event, and its time, unordered, since there are few.
    busy: Vec<(SimTime, usize)>,
}

impl Ports {
    /// Creates idle interfaces with these configurations.
    pub fn new<'c>(configs: impl Iterator<Item = &'c NicConfig>) -> Ports {
        Ports { nics: configs.map(Nic::new).collect(), busy: Vec::new() }
    }

    /// Number of interfaces.
    #[expect(clippy::len_without_is_empty, reason = "a device has ports")]
    pub fn len(&self) -> usize {
        self.nics.len()
    }

    /// Sends a frame over a port, which counts it if it is lost.
    pub fn send(&mut self, now: SimTime, port: usize, frame: Packet) {
        let _ = self.nics[port].send(now, frame);
        self.note(port);
    }

    /// Counts a frame received over a link.
    pub fn count_received(&mut self, port: usize, bytes: usize) {
        self.nics[port].count_received(bytes);
    }

    /// Sets the carrier of an interface. Without one its queued frames are lost.
    pub fn set_carrier(&mut self, now: SimTime, port: usize, carrier: bool) {
        self.nics[port].set_carrier(now, carrier);
        self.note(port);
    }

    /// Changes the egress of an interface.
    pub fn change(&mut self, now: SimTime, port: usize, change: &NicChange) {
        self.nics[port].change(now, change);
        self.note(port);
    }

    /// Takes the first frame whose transmission begins by `now`, ordered by time, then by port.
    pub fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        loop {
            let (_, port) = self.busy.iter().min().copied().filter(|(at, _)| *at <= now)?;
            let event = self.nics[port].poll(now);
            self.note(port);
            // Frames have no cookie, so that no other events occur.
            if let Some((at, NicEvent::Transmit { packet, departs })) = event {
                return Some(EgressFrame { port, at, departs, packet });
            }
        }
    }

    /// Time of the next [`poll`](Self::poll), if no frame is sent before.
    pub fn next_event(&self) -> Option<SimTime> {
        self.busy.iter().map(|(at, _)| *at).min()
    }

    /// Number of frames queued at an interface.
    pub fn queue_len(&self, port: usize) -> usize {
        self.nics[port].egress_queue_len()
    }

    /// Interface of this number.
    pub fn nic(&self, port: usize) -> &Nic {
        &self.nics[port]
    }

    /// Counters of an interface.
    pub fn counters(&self, port: usize) -> &Counters {
        self.nics[port].counters()
    }

    /// Updates the index after any change of a port's next event.
    fn note(&mut self, port: usize) {
        let place = self.busy.iter().position(|(_, busy)| *busy == port);
        match (place, self.nics[port].next_event()) {
            (Some(place), Some(at)) => self.busy[place].0 = at,
            (Some(place), None) => {
                self.busy.swap_remove(place);
            }
            (None, Some(at)) => self.busy.push((at, port)),
            (None, None) => {}
        }
    }
}
