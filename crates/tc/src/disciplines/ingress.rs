//! `ingress` and `clsact`: hooks for filters without a queue (`net/sched/sch_ingress.c`).

use crate::attributes::{Attributes, Out};
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::filters::Filters;
use crate::node::{ClassShown, Classful, Context, Discipline, INGRESS, Own, Setup, Verdict};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;

/// `TC_H_MIN_INGRESS` and `TC_H_MIN_EGRESS`.
pub(crate) const MIN_INGRESS: u16 = 0xfff2;
pub(crate) const MIN_EGRESS: u16 = 0xfff3;

/// Filters of received packets and, with `clsact`, of sent ones.
#[derive(Debug)]
pub(super) struct Ingress {
    both: bool,
    ingress: Filters,
    egress: Filters,
}

impl Ingress {
    pub(super) fn new(both: bool, setup: &Setup<'_>) -> Result<Ingress, TcError> {
        if setup.parent != INGRESS {
            return Err(Errno::EOPNOTSUPP.into());
        }
        Ok(Ingress { both, ingress: Filters::default(), egress: Filters::default() })
    }
}

impl Discipline for Ingress {
    fn kind(&self) -> &'static str {
        if self.both { "clsact" } else { "ingress" }
    }
    fn enqueue(&mut self, buffer: Buffer, _: &mut Own, context: &mut Context<'_>) -> Verdict {
        context.drop(buffer);
        Verdict::Dropped
    }
    fn dequeue(&mut self, _: &mut Own, _: &mut Context<'_>) -> Option<Buffer> {
        None
    }
    fn change(&mut self, _: Option<Attributes<'_>>, _: &mut Setup<'_>) -> Result<(), TcError> {
        Ok(())
    }
    fn dump(&self, out: &mut Out) {
        out.put(2, &[]);
    }
    fn clear(&mut self, _: &mut Vec<Buffer>) {}
    fn classful(&self) -> Option<&dyn Classful> {
        Some(self)
    }
    fn classful_mut(&mut self) -> Option<&mut dyn Classful> {
        Some(self)
    }
}

impl Classful for Ingress {
    fn classes(&self) -> Vec<u16> {
        Vec::new()
    }
    fn has(&self, class: u16) -> bool {
        !self.both || [MIN_INGRESS, MIN_EGRESS].contains(&class)
    }
    fn show(&self, _: u16, handle: u32, _: SimTime) -> ClassShown {
        ClassShown { parent: handle, ..ClassShown::default() }
    }
    fn class_filters(&mut self, class: u16) -> Option<&mut Filters> {
        match (self.both, class) {
            (false, _) | (true, MIN_INGRESS) => Some(&mut self.ingress),
            (true, MIN_EGRESS) => Some(&mut self.egress),
            _ => None,
        }
    }
    fn class_filters_ref(&self, class: u16) -> Option<&Filters> {
        match (self.both, class) {
            (false, _) | (true, MIN_INGRESS) => Some(&self.ingress),
            (true, MIN_EGRESS) => Some(&self.egress),
            _ => None,
        }
    }
}
