//! What the stack asks its owner to do, in the order in which it came to be.

use super::Stack;
use crate::ids::SocketKey;

/// Something that follows from what the stack has done and that only its owner can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A socket has changed in a way that brings these `EPOLL*` bits.
    Ready(SocketKey, u32),
    /// A program's end of an interface has changed in a way that brings these bits.
    ProgramReady(usize, u32),
    /// A socket is no more; its key may be given to another one.
    Closed(SocketKey),
}

impl Stack {
    /// Whether there is anything for its owner to do.
    #[inline]
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }
    /// Puts what its owner is to do into `out`, which is empty, in order.
    pub fn take_effects(&mut self, out: &mut Vec<Effect>) {
        std::mem::swap(&mut self.effects, out);
    }
    /// Tells those who wait for a socket of `EPOLL*` bits that have come up.
    pub(crate) fn notify_socket(&mut self, key: SocketKey, events: u32) {
        self.effects.push(Effect::Ready(key, events));
    }
}
