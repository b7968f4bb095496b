//! Digest and idle timeouts.

use super::{Notification, Switch};
use crate::bits;
use crate::packet::Packet;
use crate::program::Source;
use belljar_base::{SimDuration, SimTime};

/// Interval of the scans for idle entries.
const SWEEP: SimDuration = SimDuration::from_secs(1);

impl Switch {
    /// Adds the sample that a packet requested.
    pub(super) fn digest(&mut self, at: SimTime, packet: &Packet) {
        let program = self.program.clone();
        let Some(n) = program.learn_lists.iter().position(|list| list.id == u64::from(packet.digest)) else {
            return;
        };
        let list = &program.learn_lists[n];
        let value = |(source, width): (&Source, &u32)| {
            let mut out = vec![0; width.div_ceil(8) as usize];
            match source {
                Source::Field(field) => {
                    bits::get_bytes(&packet.phv.bytes, field.offset, field.width, &mut out)
                }
                Source::Valid(header) => out[0] = u8::from(packet.phv.valid[*header as usize]),
                Source::ValidUnion(union) => {
                    let headers = &program.unions[*union as usize].headers;
                    out[0] = u8::from(headers.iter().any(|header| packet.phv.valid[*header as usize]));
                }
            }
            out
        };
        let sample = list.elements.iter().zip(&list.widths).map(value).collect();
        if let Some(trace) = &mut self.trace {
            trace.line(format!("  digest {}", list.name));
        }
        if let Some((number, samples)) = self.digests[n].add(at, sample) {
            self.notify(Notification::Digest { name: list.name.clone(), list: number, samples });
        }
    }

    pub(super) fn next_timer(&self) -> Option<SimTime> {
        let digest = self.digests.iter().filter_map(|digest| digest.due()).min();
        [digest, self.sweep].into_iter().flatten().min()
    }

    /// Starts the scans for idle entries once a table has an entry with a timeout.
    pub(crate) fn start_sweeping(&mut self) {
        if self.sweep.is_none() && self.state.tables.iter().any(|table| table.timed > 0) {
            let seconds = self.now.as_picos() / SWEEP.as_picos() + 1;
            self.sweep = Some(SimTime::from_picos(seconds.saturating_mul(SWEEP.as_picos())));
        }
    }

    pub(super) fn fire_timers(&mut self, at: SimTime) {
        let program = self.program.clone();
        for (n, list) in program.learn_lists.iter().enumerate() {
            if self.digests[n].due().is_some_and(|due| due <= at)
                && let Some((number, samples)) = self.digests[n].take()
            {
                self.notify(Notification::Digest { name: list.name.clone(), list: number, samples });
            }
        }
        if self.sweep.is_some_and(|due| due <= at) {
            self.sweep = None;
            for table in 0..self.state.tables.len() {
                if self.state.tables[table].timed == 0 {
                    continue;
                }
                let mut entries = Vec::new();
                for (handle, slot) in self.state.tables[table].slots.iter_mut().enumerate() {
                    let idle = slot.timeout.is_some_and(|timeout| at.since(slot.last_hit) >= timeout);
                    if idle && !slot.told {
                        slot.told = true;
                        entries.push(handle as u32);
                    }
                }
                if !entries.is_empty() {
                    self.notify(Notification::IdleTimeout { table: table as u32, entries });
                }
            }
            self.sweep = Some(at + SWEEP).filter(|_| self.state.tables.iter().any(|table| table.timed > 0));
        }
    }
}
