//! Outgoing packets: the queue that `poll_transmit` drains, and messages delayed by jitter.

use crate::Time;
use crate::contract::{InterfaceId, Transmit};
use std::collections::VecDeque;

/// Upper bound on the queued packets. A caller that polls after each call stays far below it.
const MOST_QUEUED: usize = 4096;

/// Queue of packets that `poll_transmit` drains.
#[derive(Debug)]
pub(crate) struct Outbox<A> {
    queue: VecDeque<Transmit<A>>,
}

impl<A> Outbox<A> {
    pub fn new() -> Outbox<A> {
        Outbox { queue: VecDeque::new() }
    }
    pub fn push(&mut self, packet: Transmit<A>) {
        if self.queue.len() < MOST_QUEUED {
            self.queue.push_back(packet);
        }
    }
    pub fn pop(&mut self) -> Option<Transmit<A>> {
        self.queue.pop_front()
    }
}

/// A message scheduled for a later time.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub at: Time,
    pub interface: InterfaceId,
    pub message: Vec<u8>,
}

/// The earliest of the given times, or `None`.
pub(crate) fn earliest(times: impl IntoIterator<Item = Option<Time>>) -> Option<Time> {
    times.into_iter().flatten().min()
}
