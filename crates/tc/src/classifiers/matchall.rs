//! `matchall`: a filter that matches every packet (`net/sched/cls_matchall.c`).

use super::{Change, flags};
use crate::action::Actions;
use crate::attributes::Out;
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::filters::{FilterSetup, Match, Target, TargetAttributes};
use crate::node::Context;
use belljar_base::SimTime;
use belljar_linux_abi::Errno;

const FLAGS: u16 = 3;
const PCNT: u16 = 4;
const TARGET: TargetAttributes = TargetAttributes { class: 1, actions: 2, police: 0, device: 0 };

/// The only filter of the classifier.
#[derive(Debug, Default)]
pub(crate) struct Matchall(Option<Filter>);

#[derive(Debug)]
struct Filter {
    handle: u32,
    flags: u32,
    hits: u64,
    target: Target,
}

impl Matchall {
    pub(super) fn classify(&mut self, buffer: &mut Buffer, context: &mut Context<'_>) -> Option<Match> {
        let filter = self.0.as_mut()?;
        filter.hits += 1;
        filter.target.execute(filter.target.class, buffer, context)
    }
    pub(super) fn has(&self, handle: u32) -> bool {
        self.0.as_ref().is_some_and(|filter| filter.handle == handle)
    }
    pub(super) fn change(&mut self, change: Change<'_>, setup: &mut FilterSetup<'_>) -> Result<u32, TcError> {
        let options = change.options.ok_or(Errno::EINVAL)?;
        if self.0.is_some() {
            return Err(Errno::EEXIST.into());
        }
        let handle = if change.handle == 0 { 1 } else { change.handle };
        let flags = flags(options.u32(FLAGS)?)?;
        let target = Target::read(options, TARGET, change.create, setup)?;
        self.0 = Some(Filter { handle, flags, hits: 0, target });
        Ok(handle)
    }
    pub(super) fn delete(&mut self, actions: &mut Actions) -> bool {
        if let Some(filter) = self.0.take() {
            actions.release(&filter.target.actions, true);
        }
        true
    }
    pub(super) fn handles(&self) -> Vec<u32> {
        self.0.iter().map(|filter| filter.handle).collect()
    }
    pub(super) fn dump(&self, actions: &Actions, now: SimTime, out: &mut Out) {
        let Some(filter) = &self.0 else { return };
        filter.target.dump(TARGET, actions, now, out);
        out.u32(FLAGS, filter.flags);
        out.u64(PCNT, filter.hits);
    }
    pub(super) fn uses(&self, class: u32) -> bool {
        self.0.as_ref().is_some_and(|filter| filter.target.class == class)
    }
}
