//! Deficit round robin (Shreedhar and Varghese, 1995) of queues that have packets.

use crate::buffer::Buffer;
use crate::node::{Context, Node};
use std::collections::VecDeque;

/// Queue that takes turns.
#[derive(Debug)]
pub(super) struct Queue {
    /// Bytes per turn.
    pub(super) quantum: u32,
    /// Bytes that are left in the turn.
    pub(super) deficit: i64,
    pub(super) child: Node,
}

/// Result of a queue's turn.
pub(super) enum Turn {
    /// A packet leaves, the last one or not.
    Packet(Buffer, bool),
    /// The deficit is used up.
    Over,
    /// There is no packet.
    Empty,
    /// The packet may not leave yet.
    Held,
}

impl Queue {
    pub(super) fn serve(&mut self, context: &mut Context<'_>) -> Turn {
        let Some(len) = self.child.peek(context).map(|packet| i64::from(packet.len)) else {
            return if self.child.len() == 0 { Turn::Empty } else { Turn::Held };
        };
        if len > self.deficit {
            self.deficit += i64::from(self.quantum);
            return Turn::Over;
        }
        self.deficit -= len;
        match self.child.dequeue(context) {
            Some(packet) => Turn::Packet(packet, self.child.len() == 0),
            None => Turn::Held,
        }
    }
}

/// Next packet of the `active` queues, of which `serve` serves one, unless it is gone.
pub(super) fn next<K: Copy>(
    active: &mut VecDeque<K>,
    mut serve: impl FnMut(K) -> Option<Turn>,
) -> Option<Buffer> {
    loop {
        match serve(*active.front()?) {
            Some(Turn::Packet(packet, is_last)) => {
                if is_last {
                    active.pop_front();
                }
                return Some(packet);
            }
            Some(Turn::Over) => active.rotate_left(1),
            Some(Turn::Empty) | None => drop(active.pop_front()),
            Some(Turn::Held) => return None,
        }
    }
}
