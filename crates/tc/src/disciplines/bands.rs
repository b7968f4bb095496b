//! `pfifo_fast`: three bands by `skb->priority` (`net/sched/sch_generic.c`).

use crate::attributes::Out;
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::node::{Context, Discipline, Own, Setup, Verdict};
use std::collections::VecDeque;

/// `sch_default_prio2band`.
pub(crate) const PRIORITY_MAP: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/// Three queues, the first of which is served first.
#[derive(Debug)]
pub(super) struct Bands {
    limit: usize,
    bands: [VecDeque<Buffer>; 3],
}

impl Bands {
    pub(super) fn new(setup: &Setup<'_>) -> Result<Bands, TcError> {
        if setup.device.queue_len == 0 {
            return Err(belljar_linux_abi::Errno::EINVAL.into());
        }
        Ok(Bands { limit: setup.device.queue_len as usize, bands: Default::default() })
    }
}

/// `struct tc_prio_qopt`.
pub(crate) fn options(bands: u32, map: &[u8; 16]) -> Vec<u8> {
    [bands.to_ne_bytes().as_slice(), map].concat()
}

impl Discipline for Bands {
    fn kind(&self) -> &'static str {
        "pfifo_fast"
    }
    fn enqueue(&mut self, buffer: Buffer, _: &mut Own, context: &mut Context<'_>) -> Verdict {
        let band = &mut self.bands[usize::from(PRIORITY_MAP[(buffer.priority & 15) as usize])];
        if band.len() >= self.limit {
            context.drop(buffer);
            return Verdict::Dropped;
        }
        band.push_back(buffer);
        Verdict::Queued
    }
    fn dequeue(&mut self, _: &mut Own, _: &mut Context<'_>) -> Option<Buffer> {
        self.bands.iter_mut().find_map(VecDeque::pop_front)
    }
    fn dump(&self, out: &mut Out) {
        out.put(2, &options(3, &PRIORITY_MAP));
    }
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        self.bands.iter_mut().for_each(|band| out.extend(band.drain(..)));
    }
}
