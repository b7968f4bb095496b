//! `prio`: strict priority bands (`net/sched/sch_prio.c`, tc-prio(8)).

use super::bands::options as prio_options;
use super::default_child;
use crate::attributes::{Attributes, Out, word};
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::filters::Classified;
use crate::node::{
    ClassShown, Classful, Context, Discipline, MAJOR, Node, Own, Setup, Statistics, TcDrop, Verdict,
};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;

/// `TCQ_PRIO_BANDS` and `TCQ_MIN_PRIO_BANDS`.
const MAX_BANDS: u32 = 16;
const MIN_BANDS: u32 = 2;

/// Bands, of which the first that has a packet is served.
#[derive(Debug)]
pub(super) struct Prio {
    map: [u8; 16],
    bands: Vec<Node>,
}

impl Prio {
    pub(super) fn new(options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<Prio, TcError> {
        let mut prio = Prio { map: [0; 16], bands: Vec::new() };
        prio.change(options, setup)?;
        Ok(prio)
    }
}

/// Number of a band for a packet, or the disposition by a filter (`prio_classify`).
pub(super) fn classify_band(
    buffer: &mut Buffer,
    own: &mut Own,
    context: &mut Context<'_>,
    map: impl Fn(u32) -> usize,
    bands: usize,
) -> Result<usize, Classified> {
    let mut band = buffer.priority;
    if buffer.priority & MAJOR != own.handle {
        match own.filters.classify(buffer, context) {
            Classified::Unmatched => {
                return Ok(map(if band & MAJOR != 0 { 0 } else { band }));
            }
            Classified::Class(class) => band = class,
            disposition => return Err(disposition),
        }
    }
    let band = (band & 0xffff).wrapping_sub(1) as usize;
    Ok(if band < bands { band } else { map(0) })
}

/// Ends a packet that a filter did not pass to a class.
pub(crate) fn dispose(buffer: Buffer, disposition: Classified, context: &mut Context<'_>) -> Verdict {
    if disposition == Classified::Shot {
        context.lost.push((TcDrop::Action, buffer));
        return Verdict::Vanished;
    }
    // A redirected packet has left its buffer.
    if !buffer.packet.is_empty() {
        context.consumed.push(buffer);
    }
    Verdict::Stolen
}

impl Discipline for Prio {
    fn kind(&self) -> &'static str {
        "prio"
    }
    fn enqueue(&mut self, mut buffer: Buffer, own: &mut Own, context: &mut Context<'_>) -> Verdict {
        let map = |band: u32| usize::from(self.map[(band & 15) as usize]);
        match classify_band(&mut buffer, own, context, map, self.bands.len()) {
            Ok(band) => self.bands[band].enqueue(buffer, context),
            Err(disposition) => dispose(buffer, disposition, context),
        }
    }
    fn dequeue(&mut self, _: &mut Own, context: &mut Context<'_>) -> Option<Buffer> {
        self.bands.iter_mut().find_map(|band| band.dequeue(context))
    }
    fn change(&mut self, options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<(), TcError> {
        let bytes = options.filter(|options| options.0.len() >= 20).ok_or(Errno::EINVAL)?.0;
        let bands = word(bytes, 0);
        let map: [u8; 16] = bytes[4..20].try_into().map_err(|_| Errno::EINVAL)?;
        if !(MIN_BANDS..=MAX_BANDS).contains(&bands) || map.iter().any(|band| u32::from(*band) >= bands) {
            return Err(Errno::EINVAL.into());
        }
        self.map = map;
        for mut band in self.bands.drain((bands as usize).min(self.bands.len())..) {
            band.clear(setup.purged);
        }
        for band in self.bands.len() as u32..bands {
            self.bands.push(default_child(setup.handle | (band + 1), setup));
        }
        Ok(())
    }
    fn dump(&self, out: &mut Out) {
        out.put(2, &prio_options(self.bands.len() as u32, &self.map));
    }
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        self.bands.iter_mut().for_each(|band| band.clear(out));
    }
    fn classful(&self) -> Option<&dyn Classful> {
        Some(self)
    }
    fn classful_mut(&mut self) -> Option<&mut dyn Classful> {
        Some(self)
    }
}

impl Classful for Prio {
    fn classes(&self) -> Vec<u16> {
        (1..=self.bands.len() as u16).collect()
    }
    fn has(&self, class: u16) -> bool {
        (1..=self.bands.len()).contains(&usize::from(class))
    }
    fn child(&self, class: u16) -> Option<&Node> {
        self.bands.get(usize::from(class).checked_sub(1)?)
    }
    fn children(&self) -> Vec<&Node> {
        self.bands.iter().collect()
    }
    fn children_mut(&mut self) -> Vec<&mut Node> {
        self.bands.iter_mut().collect()
    }
    fn graft(
        &mut self,
        class: u16,
        node: Option<Node>,
        setup: &mut Setup<'_>,
    ) -> Result<Option<Node>, TcError> {
        let node = node.unwrap_or_else(|| default_child(setup.handle | u32::from(class), setup));
        let band = usize::from(class).checked_sub(1).and_then(|at| self.bands.get_mut(at));
        Ok(Some(std::mem::replace(band.ok_or(Errno::ENOENT)?, node)))
    }
    fn show(&self, class: u16, handle: u32, now: SimTime) -> ClassShown {
        show_child(self.child(class), handle, now)
    }
}

/// Description of a class that only has a discipline below.
pub(super) fn show_child(child: Option<&Node>, handle: u32, now: SimTime) -> ClassShown {
    let statistics = child.map(|child| Statistics { own: None, ..child.statistics(now) });
    let leaf = child.map_or(0, Node::handle);
    ClassShown { parent: handle, leaf, statistics, ..ClassShown::default() }
}
