//! `basic`: filters by expressions of extended matches (`net/sched/cls_basic.c`, tc-basic(8)).

use super::Change;
use super::ematch::Expression;
use crate::action::Actions;
use crate::attributes::Out;
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::filters::{FilterSetup, Match, Target, TargetAttributes};
use crate::node::Context;
use belljar_base::SimTime;
use belljar_linux_abi::Errno;

const EMATCHES: u16 = 2;
const PCNT: u16 = 5;
const TARGET: TargetAttributes = TargetAttributes { class: 1, actions: 3, police: 4, device: 0 };

/// Filters by handle; the order of their creation is that of their tests.
#[derive(Debug, Default)]
pub(crate) struct Basic {
    filters: Vec<(u32, Filter)>,
}

#[derive(Debug)]
struct Filter {
    expression: Expression,
    target: Target,
    tried: u64,
    hits: u64,
}

impl Basic {
    pub(super) fn classify(&mut self, buffer: &mut Buffer, context: &mut Context<'_>) -> Option<Match> {
        for (_, filter) in &mut self.filters {
            filter.tried += 1;
            if !filter.expression.matches(buffer) {
                continue;
            }
            filter.hits += 1;
            let matched = filter.target.execute(filter.target.class, buffer, context);
            if matched.is_some() {
                return matched;
            }
        }
        None
    }
    fn find(&self, handle: u32) -> Option<&Filter> {
        self.filters.iter().find(|(number, _)| *number == handle).map(|(_, filter)| filter)
    }
    pub(super) fn has(&self, handle: u32) -> bool {
        self.find(handle).is_some()
    }
    pub(super) fn change(&mut self, change: Change<'_>, setup: &mut FilterSetup<'_>) -> Result<u32, TcError> {
        let options = change.options.ok_or(Errno::EINVAL)?;
        let expression = Expression::read(options.nested(EMATCHES))?;
        let target = Target::read(options, TARGET, change.create, setup)?;
        let made = Filter { expression, target, tried: 0, hits: 0 };
        let free = || (1..).find(|handle| !self.has(*handle)).unwrap_or(1);
        let handle = if change.handle == 0 { free() } else { change.handle };
        match self.filters.iter_mut().find(|(number, _)| *number == handle) {
            Some((_, filter)) => {
                let former = std::mem::replace(filter, made);
                setup.actions.release(&former.target.actions, true);
            }
            None => self.filters.push((handle, made)),
        }
        Ok(handle)
    }
    pub(super) fn delete(&mut self, handle: u32, actions: &mut Actions) -> bool {
        self.filters.retain(|(number, filter)| {
            if *number == handle {
                actions.release(&filter.target.actions, true);
            }
            *number != handle
        });
        self.filters.is_empty()
    }
    pub(super) fn clear(&mut self, actions: &mut Actions) {
        self.filters.iter().for_each(|(_, filter)| actions.release(&filter.target.actions, true));
        self.filters.clear();
    }
    pub(super) fn handles(&self) -> Vec<u32> {
        self.filters.iter().map(|(handle, _)| *handle).collect()
    }
    pub(super) fn dump(&self, handle: u32, actions: &Actions, now: SimTime, out: &mut Out) {
        let Some(filter) = self.find(handle) else { return };
        let counts = [filter.tried, filter.hits];
        out.put(PCNT, &counts.into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<u8>>());
        filter.expression.dump(EMATCHES, out);
        filter.target.dump(TARGET, actions, now, out);
    }
    pub(super) fn uses(&self, class: u32) -> bool {
        self.filters.iter().any(|(_, filter)| filter.target.class == class)
    }
}
