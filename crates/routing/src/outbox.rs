//! Packets that wait to be sent: the queue that `poll_transmit` drains, and messages held back by jitter.

use crate::Time;
use crate::contract::{InterfaceId, Transmit};
use std::collections::VecDeque;

/// Packets that may wait to be polled. A caller that polls after each call never gets near it.
const MOST_QUEUED: usize = 4096;

/// The queue of packets that `poll_transmit` drains.
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

/// A message that is sent at a time of its own.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub at: Time,
    pub interface: InterfaceId,
    pub message: Vec<u8>,
}

/// The earlier of two times of which each may be missing.
pub(crate) fn earliest(times: impl IntoIterator<Item = Option<Time>>) -> Option<Time> {
    times.into_iter().flatten().min()
}
