//! Classifiers by kind: `u32`, `matchall`, `fw`, `flower` and `basic`.

mod basic;
mod ematch;
mod flower;
mod fw;
mod matchall;
mod u32_table;

use crate::action::Actions;
use crate::attributes::{Attributes, Out};
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::filters::{FilterSetup, Match};
use crate::node::Context;
use belljar_base::SimTime;
pub(crate) use u32_table::Tables;

/// `TCA_CLS_FLAGS_*`: not in hardware, not in software, in the message of a filter.
const SKIP_HW: u32 = 1;
const SKIP_SW: u32 = 2;
const NOT_IN_HW: u32 = 8;

/// Flags of a new filter, which no hardware executes. Fails if the software is to skip it.
fn flags(given: Option<u32>) -> Result<u32, TcError> {
    let given = given.unwrap_or(0);
    if given & !(SKIP_HW | SKIP_SW | 16) != 0 || given & (SKIP_HW | SKIP_SW) == SKIP_HW | SKIP_SW {
        return Err(crate::error::invalid("Invalid filter flags"));
    }
    if given & SKIP_SW != 0 {
        return Err(crate::error::error(
            belljar_linux_abi::Errno::EOPNOTSUPP,
            "TC offload is disabled on net device",
        ));
    }
    Ok(given | NOT_IN_HW)
}

/// Change of a filter by a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// Handle that the request names, or 0.
    pub(crate) handle: u32,
    /// True if there is a filter of this handle.
    pub(crate) exists: bool,
    pub(crate) create: bool,
    pub(crate) priority: u32,
    pub(crate) options: Option<Attributes<'a>>,
}

/// Classifier of one kind.
#[derive(Debug)]
pub(crate) enum Classifier {
    /// `u32`, by its root table.
    U32(u32),
    Matchall(matchall::Matchall),
    Fw(fw::Fw),
    Flower(flower::Flower),
    Basic(basic::Basic),
}

impl Classifier {
    /// Empty classifier of a kind; `None` if there is no such kind.
    pub(crate) fn new(kind: &[u8], tables: &mut Tables, priority: u32) -> Option<Classifier> {
        Some(match kind {
            b"u32" => Classifier::U32(tables.add_root(priority)),
            b"matchall" => Classifier::Matchall(matchall::Matchall::default()),
            b"fw" => Classifier::Fw(fw::Fw::default()),
            b"flower" => Classifier::Flower(flower::Flower::default()),
            b"basic" => Classifier::Basic(basic::Basic::default()),
            _ => return None,
        })
    }
    /// `TCA_KIND`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Classifier::U32(_) => "u32",
            Classifier::Matchall(_) => "matchall",
            Classifier::Fw(_) => "fw",
            Classifier::Flower(_) => "flower",
            Classifier::Basic(_) => "basic",
        }
    }
    /// Match of a packet, if there is one.
    pub(crate) fn classify(
        &mut self,
        tables: &mut Tables,
        buffer: &mut Buffer,
        context: &mut Context<'_>,
    ) -> Option<Match> {
        match self {
            Classifier::U32(root) => tables.classify(*root, buffer, context),
            Classifier::Matchall(matchall) => matchall.classify(buffer, context),
            Classifier::Fw(fw) => fw.classify(buffer, context),
            Classifier::Flower(flower) => flower.classify(buffer, context),
            Classifier::Basic(basic) => basic.classify(buffer, context),
        }
    }
    /// True if there is a filter of this handle.
    pub(crate) fn has(&self, tables: &Tables, handle: u32) -> bool {
        match self {
            Classifier::U32(root) => tables.has(*root, handle),
            Classifier::Matchall(matchall) => matchall.has(handle),
            Classifier::Fw(fw) => fw.has(handle),
            Classifier::Flower(flower) => flower.has(handle),
            Classifier::Basic(basic) => basic.has(handle),
        }
    }
    /// Makes or changes a filter; returns its handle, or 0 if there is none.
    pub(crate) fn change(
        &mut self,
        tables: &mut Tables,
        change: Change<'_>,
        setup: &mut FilterSetup<'_>,
    ) -> Result<u32, TcError> {
        match self {
            Classifier::U32(root) => tables.change(*root, change, setup),
            Classifier::Matchall(matchall) => matchall.change(change, setup),
            Classifier::Fw(fw) => fw.change(change, setup),
            Classifier::Flower(flower) => flower.change(change, setup),
            Classifier::Basic(basic) => basic.change(change, setup),
        }
    }
    /// Deletes a filter; true if it was the last one.
    pub(crate) fn delete(
        &mut self,
        tables: &mut Tables,
        handle: u32,
        actions: &mut Actions,
    ) -> Result<bool, TcError> {
        match self {
            Classifier::U32(root) => tables.delete(*root, handle, actions),
            Classifier::Matchall(matchall) => Ok(matchall.delete(actions)),
            Classifier::Fw(fw) => Ok(fw.delete(handle, actions)),
            Classifier::Flower(flower) => Ok(flower.delete(handle, actions)),
            Classifier::Basic(basic) => Ok(basic.delete(handle, actions)),
        }
    }
    /// Handles of all filters in the order of listings.
    pub(crate) fn handles(&self, tables: &Tables, priority: u32) -> Vec<u32> {
        match self {
            Classifier::U32(_) => tables.handles(priority),
            Classifier::Matchall(matchall) => matchall.handles(),
            Classifier::Fw(fw) => fw.handles(),
            Classifier::Flower(flower) => flower.handles(),
            Classifier::Basic(basic) => basic.handles(),
        }
    }
    /// Appends the options of a filter.
    pub(crate) fn dump(&self, tables: &Tables, handle: u32, actions: &Actions, now: SimTime, out: &mut Out) {
        match self {
            Classifier::U32(root) => tables.dump(*root, handle, actions, now, out),
            Classifier::Matchall(matchall) => matchall.dump(actions, now, out),
            Classifier::Fw(fw) => fw.dump(handle, actions, now, out),
            Classifier::Flower(flower) => flower.dump(handle, actions, now, out),
            Classifier::Basic(basic) => basic.dump(handle, actions, now, out),
        }
    }
    /// True if a filter leads to a class.
    pub(crate) fn uses(&self, tables: &Tables, priority: u32, class: u32) -> bool {
        match self {
            Classifier::U32(_) => tables.uses(priority, class),
            Classifier::Matchall(matchall) => matchall.uses(class),
            Classifier::Fw(fw) => fw.uses(class),
            Classifier::Flower(flower) => flower.uses(class),
            Classifier::Basic(basic) => basic.uses(class),
        }
    }
    /// Deletes all filters.
    pub(crate) fn clear(&mut self, tables: &mut Tables, priority: u32, actions: &mut Actions) {
        match self {
            Classifier::U32(_) => tables.clear(priority, actions),
            Classifier::Matchall(matchall) => drop(matchall.delete(actions)),
            Classifier::Fw(fw) => fw.clear(actions),
            Classifier::Flower(flower) => flower.clear(actions),
            Classifier::Basic(basic) => basic.clear(actions),
        }
    }
}
