//! Delayed writes. Each waits for the preceding writes, then for its own processing time.

use super::arbitration::SessionId;
use super::calls::Method;
use crate::proto::WriteRequest;
use belljar_base::{SimDuration, SimTime};
use bytes::Bytes;
use prost::Message;
use std::collections::VecDeque;

struct Waiting {
    done: SimTime,
    of: SessionId,
    method: Method,
    message: Bytes,
}

/// Pending writes of a device in order.
#[derive(Default)]
pub struct Writes {
    /// Processing time per update.
    pub time: SimDuration,
    waiting: VecDeque<Waiting>,
    /// Completion time of the last write.
    busy_until: SimTime,
}

impl Writes {
    /// Queues a write until its completion time; returns requests that take no time.
    pub fn delay(
        &mut self,
        now: SimTime,
        of: SessionId,
        method: Method,
        message: Bytes,
    ) -> Option<(Method, Bytes)> {
        let updates = match method {
            Method::Write => {
                // A write that cannot be decoded takes the time of one update before it is refused.
                WriteRequest::decode(message.clone()).map_or(1, |request| request.updates.len().max(1))
            }
            Method::SetConfig => 1,
            _ => return Some((method, message)),
        };
        if self.time.is_zero() {
            return Some((method, message));
        }
        let time = SimDuration::from_picos(self.time.as_picos().saturating_mul(updates as u64));
        self.busy_until = self.busy_until.max(now) + time;
        self.waiting.push_back(Waiting { done: self.busy_until, of, method, message });
        None
    }

    /// Next completed write.
    pub fn pop(&mut self, now: SimTime) -> Option<(SessionId, Method, Bytes)> {
        self.waiting.front().filter(|first| first.done <= now)?;
        let first = self.waiting.pop_front()?;
        Some((first.of, first.method, first.message))
    }

    /// Completion time of the next write.
    pub fn next(&self) -> Option<SimTime> {
        self.waiting.front().map(|first| first.done)
    }

    /// Removes the writes of ended calls.
    pub fn forget(&mut self, gone: impl Fn(SessionId) -> bool) {
        self.waiting.retain(|waiting| !gone(waiting.of));
    }
}
