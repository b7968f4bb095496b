//! Strict priority bands: a packet is sent only if all higher bands are empty. Corresponds to Linux's
//! `prio`.

use super::DropReason;
use super::queue::{Queue, QueueActions, QueueConfig, QueueContext};
use crate::Packet;
use crate::ecn::traffic_class;
use belljar_base::{Map, SimTime};

/// Configuration of strict priority: bands, and the assignment of packets to them.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityConfig {
    /// Queue of each band; the first one has the highest priority.
    pub bands: Vec<QueueConfig>,
    /// Band of each DSCP; `None` is Linux's assignment to three bands, by the historical meaning of the TOS
    /// byte.
    pub dscp: Option<Map<u8, usize>>,
    /// Band of all DSCPs that are not listed.
    pub usual: usize,
}

/// Band by bits 1 to 4 of the TOS byte: Linux's `ip_tos2prio`, then `prio2band`.
const TOS_TO_BAND: [usize; 16] = [1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0, 1, 1, 1, 1];

#[derive(Debug)]
pub(super) struct Priority {
    bands: Vec<Queue>,
    dscp: Option<Map<u8, usize>>,
    usual: usize,
    framed: bool,
}

impl Priority {
    pub(super) fn new(config: &PriorityConfig, around: &QueueContext) -> Priority {
        let band = |(n, queue)| Queue::new(queue, &around.of_band(n));
        Priority {
            bands: config.bands.iter().enumerate().map(band).collect(),
            dscp: config.dscp.clone(),
            usual: config.usual,
            framed: around.framed,
        }
    }

    /// Band of a packet; packets other than IP, such as ARP, belong to the first one.
    fn band(&self, packet: &Packet) -> usize {
        let Some(class) = traffic_class(packet.open_bytes(), self.framed) else { return 0 };
        match &self.dscp {
            Some(bands) => bands.get(&(class >> 2)).copied().unwrap_or(self.usual),
            None => TOS_TO_BAND[usize::from(class >> 1 & 0xf)].min(self.bands.len() - 1),
        }
    }

    pub(super) fn push(
        &mut self,
        now: SimTime,
        packet: Packet,
        idle_since: Option<SimTime>,
        dealings: &mut QueueActions,
    ) -> Result<(), (DropReason, Packet)> {
        let band = self.band(&packet);
        self.bands[band].push(now, packet, idle_since, dealings)
    }

    pub(super) fn pop(&mut self, now: SimTime, dealings: &mut QueueActions) -> Option<Packet> {
        self.bands.iter_mut().find_map(|band| band.pop(now, dealings))
    }

    pub(super) fn set_rate(&mut self, rate: Option<u64>) {
        self.bands.iter_mut().for_each(|band| band.set_rate(rate));
    }

    pub(super) fn clear(&mut self) -> Vec<(SimTime, Packet)> {
        let mut all: Vec<_> = self.bands.iter_mut().flat_map(Queue::clear).collect();
        all.sort_by_key(|(queued, _)| *queued);
        all
    }

    pub(super) fn len(&self) -> usize {
        self.bands.iter().map(Queue::len).sum()
    }
}
