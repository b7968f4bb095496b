//! `fw`: filters by the mark of a packet (`net/sched/cls_fw.c`, tc-fw(8)).

use super::Change;
use crate::action::Actions;
use crate::attributes::Out;
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::filters::{FilterSetup, Match, Target, TargetAttributes};
use crate::node::Context;
use belljar_base::{Map, SimTime};
use belljar_linux_abi::Errno;

const MASK: u16 = 5;
const TARGET: TargetAttributes = TargetAttributes { class: 1, actions: 4, police: 2, device: 3 };

/// Filters by mark.
#[derive(Debug, Default)]
pub(crate) struct Fw {
    filters: Map<u32, Target>,
    mask: u32,
    /// True once a filter has been made: without one, the mark is the class.
    has_filters: bool,
}

impl Fw {
    pub(super) fn classify(&mut self, buffer: &mut Buffer, context: &mut Context<'_>) -> Option<Match> {
        let mark = buffer.packet.mark();
        if !self.has_filters {
            // The old method: the mark is the handle of the class.
            return (mark != 0).then_some(Match { verdict: crate::action::verdict::OK, class: mark });
        }
        let target = self.filters.get(&(mark & self.mask))?;
        target.execute(target.class, buffer, context)
    }
    pub(super) fn has(&self, handle: u32) -> bool {
        self.filters.contains_key(&handle)
    }
    pub(super) fn change(&mut self, change: Change<'_>, setup: &mut FilterSetup<'_>) -> Result<u32, TcError> {
        let Some(options) = change.options else {
            return if change.handle == 0 { Ok(0) } else { Err(Errno::EINVAL.into()) };
        };
        let mask = options.u32(MASK)?;
        if change.handle == 0 {
            return Err(Errno::EINVAL.into());
        }
        match self.has_filters {
            true if mask.unwrap_or(u32::MAX) != self.mask => return Err(Errno::EINVAL.into()),
            true => {}
            false => self.mask = mask.unwrap_or(u32::MAX),
        }
        let target = Target::read(options, TARGET, change.create, setup)?;
        self.has_filters = true;
        if let Some(former) = self.filters.insert(change.handle, target) {
            setup.actions.release(&former.actions, true);
        }
        Ok(change.handle)
    }
    pub(super) fn delete(&mut self, handle: u32, actions: &mut Actions) -> bool {
        if let Some(target) = self.filters.remove(&handle) {
            actions.release(&target.actions, true);
        }
        self.filters.is_empty()
    }
    pub(super) fn clear(&mut self, actions: &mut Actions) {
        self.filters.values().for_each(|target| actions.release(&target.actions, true));
        self.filters.clear();
    }
    pub(super) fn handles(&self) -> Vec<u32> {
        self.filters.keys().copied().collect()
    }
    pub(super) fn dump(&self, handle: u32, actions: &Actions, now: SimTime, out: &mut Out) {
        let Some(target) = self.filters.get(&handle) else { return };
        target.dump(TARGET, actions, now, out);
        if self.mask != u32::MAX {
            out.u32(MASK, self.mask);
        }
    }
    pub(super) fn uses(&self, class: u32) -> bool {
        self.filters.values().any(|target| target.class == class)
    }
}
