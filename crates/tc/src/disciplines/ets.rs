//! `ets`: enhanced transmission selection (IEEE 802.1Qaz; `net/sched/sch_ets.c`, tc-ets(8)): strict bands, then bands
//! in deficit round robin.

use super::default_child;
use super::prio::{classify_band, dispose, show_child};
use super::round::{self, Queue};
use crate::attributes::{Attributes, Out};
use crate::buffer::Buffer;
use crate::error::{TcError, invalid};
use crate::node::{ClassShown, Classful, Context, Discipline, Node, Own, ROOT, Setup, Verdict};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use std::collections::VecDeque;

const NBANDS: u16 = 1;
const NSTRICT: u16 = 2;
const QUANTA: u16 = 3;
const QUANTA_BAND: u16 = 4;
const PRIOMAP: u16 = 5;
const PRIOMAP_BAND: u16 = 6;
/// `TCQ_ETS_MAX_BANDS`.
const MAX_BANDS: u8 = 16;

/// Strict bands and bands that take turns.
#[derive(Debug)]
pub(super) struct Ets {
    map: [u8; 16],
    strict: usize,
    /// Bands, of which strict ones have no quantum.
    bands: Vec<Queue>,
    active: VecDeque<usize>,
}

impl Ets {
    pub(super) fn new(options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<Ets, TcError> {
        let mut ets = Ets { map: [0; 16], strict: 0, bands: Vec::new(), active: VecDeque::new() };
        ets.change(options, setup)?;
        Ok(ets)
    }
}

impl Discipline for Ets {
    fn kind(&self) -> &'static str {
        "ets"
    }
    fn enqueue(&mut self, mut buffer: Buffer, own: &mut Own, context: &mut Context<'_>) -> Verdict {
        let map = |band: u32| usize::from(self.map[(band & 15) as usize]);
        let number = match classify_band(&mut buffer, own, context, map, self.bands.len()) {
            Ok(number) => number,
            Err(disposition) => return dispose(buffer, disposition, context),
        };
        let band = &mut self.bands[number];
        let first = band.child.len() == 0;
        let verdict = band.child.enqueue(buffer, context);
        let queued = matches!(verdict, Verdict::Queued | Verdict::Congested);
        if queued && first && band.quantum > 0 && !self.active.contains(&number) {
            band.deficit = i64::from(band.quantum);
            self.active.push_back(number);
        }
        verdict
    }
    fn dequeue(&mut self, _: &mut Own, context: &mut Context<'_>) -> Option<Buffer> {
        for band in &mut self.bands[..self.strict] {
            if let Some(buffer) = band.child.dequeue(context) {
                return Some(buffer);
            }
        }
        round::next(&mut self.active, |number| Some(self.bands.get_mut(number)?.serve(context)))
    }
    fn change(&mut self, options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<(), TcError> {
        let options = options.ok_or(invalid("ETS options are required for this operation"))?;
        let count = options.u8(NBANDS)?.ok_or(invalid("Number of bands is a required argument"))?;
        if !(1..=MAX_BANDS).contains(&count) {
            return Err(invalid("Invalid number of bands"));
        }
        let strict = options.u8(NSTRICT)?.unwrap_or(0);
        if strict > count {
            return Err(invalid("Invalid number of strict bands"));
        }
        // Unless the map says otherwise, packets go to the last band.
        let mut map = [count - 1; 16];
        let given = options.nested(PRIOMAP).unwrap_or_default();
        for ((_, value), place) in given.iter().filter(|(kind, _)| *kind == PRIOMAP_BAND).zip(&mut map) {
            *place = *value.first().ok_or(Errno::ERANGE)?;
            if *place >= count {
                return Err(invalid("Invalid band number in ETS priomap"));
            }
        }
        let usual = setup.device.mtu + setup.device.header;
        let mut quanta = vec![0; usize::from(strict)];
        for (_, value) in
            options.nested(QUANTA).unwrap_or_default().iter().filter(|(kind, _)| *kind == QUANTA_BAND)
        {
            let quantum = value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes)).ok_or(Errno::ERANGE)?;
            if quantum == 0 {
                return Err(invalid("ETS quantum cannot be zero"));
            }
            quanta.push(quantum);
        }
        if quanta.len() > usize::from(count) {
            return Err(invalid("Invalid number of bands in ETS quanta"));
        }
        quanta.resize(usize::from(count), usual);
        (self.map, self.strict) = (map, usize::from(strict));
        for mut band in self.bands.drain(usize::from(count).min(self.bands.len())..) {
            band.child.clear(setup.purged);
        }
        for number in self.bands.len() as u32..u32::from(count) {
            let child = default_child(setup.handle | (number + 1), setup);
            self.bands.push(Queue { quantum: 0, deficit: 0, child });
        }
        self.active.clear();
        for (number, (band, quantum)) in self.bands.iter_mut().zip(quanta).enumerate() {
            band.quantum = quantum;
            if quantum > 0 && band.child.len() > 0 {
                band.deficit = i64::from(quantum);
                self.active.push_back(number);
            }
        }
        Ok(())
    }
    fn dump(&self, out: &mut Out) {
        out.nest(2, |out| {
            out.u8(NBANDS, self.bands.len() as u8);
            if self.strict > 0 {
                out.u8(NSTRICT, self.strict as u8);
            }
            if self.bands.len() > self.strict {
                out.nest(QUANTA, |out| {
                    self.bands[self.strict..].iter().for_each(|band| out.u32(QUANTA_BAND, band.quantum));
                });
            }
            out.nest(PRIOMAP, |out| self.map.iter().for_each(|band| out.u8(PRIOMAP_BAND, *band)));
        });
    }
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        self.bands.iter_mut().for_each(|band| band.child.clear(out));
        self.active.clear();
    }
    fn classful(&self) -> Option<&dyn Classful> {
        Some(self)
    }
    fn classful_mut(&mut self) -> Option<&mut dyn Classful> {
        Some(self)
    }
}

impl Classful for Ets {
    fn classes(&self) -> Vec<u16> {
        (1..=self.bands.len() as u16).collect()
    }
    fn has(&self, class: u16) -> bool {
        (1..=self.bands.len()).contains(&usize::from(class))
    }
    fn child(&self, class: u16) -> Option<&Node> {
        self.bands.get(usize::from(class).checked_sub(1)?).map(|band| &band.child)
    }
    fn children(&self) -> Vec<&Node> {
        self.bands.iter().map(|band| &band.child).collect()
    }
    fn children_mut(&mut self) -> Vec<&mut Node> {
        self.bands.iter_mut().map(|band| &mut band.child).collect()
    }
    fn graft(
        &mut self,
        class: u16,
        node: Option<Node>,
        setup: &mut Setup<'_>,
    ) -> Result<Option<Node>, TcError> {
        let node = node.unwrap_or_else(|| default_child(setup.handle | u32::from(class), setup));
        let number = usize::from(class).wrapping_sub(1);
        let band = self.bands.get_mut(number).ok_or(Errno::ENOENT)?;
        self.active.retain(|active| *active != number);
        Ok(Some(std::mem::replace(&mut band.child, node)))
    }
    fn show(&self, class: u16, handle: u32, now: SimTime) -> ClassShown {
        let mut shown = ClassShown { parent: ROOT, ..show_child(self.child(class), handle, now) };
        let quantum = self.bands.get(usize::from(class).wrapping_sub(1)).map_or(0, |band| band.quantum);
        shown.options.nest(2, |out| {
            if quantum > 0 {
                out.u32(QUANTA_BAND, quantum);
            }
        });
        shown
    }
}
