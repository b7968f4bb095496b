//! State of traffic control of a stack: see [`traffic`](crate::traffic).

use crate::timer::TimerId;
use belljar_tc::{Buffer, TrafficControl};
use std::collections::VecDeque;

/// State of traffic control of a stack.
#[derive(Debug)]
pub struct Traffic {
    pub(crate) control: TrafficControl,
    pub(crate) timer: Option<TimerId>,
    /// Interfaces whose medium was busy when a packet was due.
    pub(crate) blocked: Vec<usize>,
    /// Packets to be received at this time, with true for those that have passed the filters.
    pub(crate) received: VecDeque<(usize, Buffer, bool)>,
    /// Number of redirections that are being carried out, one in another.
    pub(crate) nesting: u32,
}

impl Traffic {
    /// Number of packets in queues.
    pub(crate) fn held(&self) -> usize {
        self.control.held() as usize + self.received.len()
    }
    /// Number of packets in the queues of an interface.
    pub(crate) fn queue_len(&self, interface: usize) -> usize {
        self.control.queue_len(interface)
    }
    /// Kind of the discipline that the administrator has set for an interface.
    pub fn root_kind(&self, interface: usize) -> Option<&'static str> {
        self.control.root_kind(interface)
    }
}
