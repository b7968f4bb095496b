//! Disciplines with one class, below which there is a FIFO unless another discipline replaces it.

use super::Fifo;
use crate::error::TcError;
use crate::node::{ClassShown, Classful, Node, Setup};
use belljar_base::SimTime;

/// Discipline with one class.
pub(super) trait OneClass {
    /// Discipline below the class.
    fn below(&self) -> &Node;
    /// The same, to be changed.
    fn below_mut(&mut self) -> &mut Node;
    /// Length of the default FIFO in bytes.
    fn limit(&self) -> u32;
}

impl<D: OneClass> Classful for D {
    fn classes(&self) -> Vec<u16> {
        vec![1]
    }
    fn has(&self, _: u16) -> bool {
        true
    }
    fn child(&self, _: u16) -> Option<&Node> {
        Some(self.below())
    }
    fn children(&self) -> Vec<&Node> {
        vec![self.below()]
    }
    fn children_mut(&mut self) -> Vec<&mut Node> {
        vec![self.below_mut()]
    }
    fn graft(&mut self, _: u16, node: Option<Node>, setup: &mut Setup<'_>) -> Result<Option<Node>, TcError> {
        let fifo = || Node::hidden(setup.handle | 1, Box::new(Fifo::bytes(self.limit())));
        let node = node.unwrap_or_else(fifo);
        Ok(Some(std::mem::replace(self.below_mut(), node)))
    }
    fn show(&self, _: u16, handle: u32, _: SimTime) -> ClassShown {
        ClassShown { parent: handle, leaf: self.below().handle(), ..ClassShown::default() }
    }
    fn has_filters(&self) -> bool {
        false
    }
}
