use belljar_base::{SimDuration, SimTime};
use std::collections::VecDeque;

/// Admission decision for a SYN that arrives at a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Start a connection: [`Connection::accept_syn`](crate::Connection::accept_syn), then
    /// [`Listener::started`].
    Accept,
    /// Drop the SYN silently, because the accept queue is full as in Linux; the peer retransmits it.
    Drop,
    /// The SYN queue is full: answer with a SYN cookie, or drop the SYN.
    Crowded,
}

/// Queues of a listening socket, `listen(2)`: connections in SYN-RECEIVED (SYN queue) and established
/// connections not yet accepted (accept queue). `K` is the caller's key of a connection.
#[derive(Clone, Debug)]
pub struct Listener<K> {
    backlog: usize,
    handshaking: Vec<K>,
    ready: VecDeque<K>,
    /// Time at which the SYN queue was last full.
    overflowed_at: Option<SimTime>,
}

impl<K: Copy + PartialEq> Listener<K> {
    /// Creates a listening socket. `backlog` is the argument of `listen(2)`, already limited to
    /// `net.core.somaxconn` (4096).
    pub fn new(backlog: usize) -> Listener<K> {
        Listener { backlog, handshaking: Vec::new(), ready: VecDeque::new(), overflowed_at: None }
    }

    /// Changes the backlog, for a further `listen(2)` on the socket.
    pub fn set_backlog(&mut self, backlog: usize) {
        self.backlog = backlog;
    }

    /// Decides on a SYN without a connection.
    pub fn on_syn(&self) -> Admission {
        // Linux's `sk_acceptq_is_full` and `inet_csk_reqsk_queue_is_full`.
        if !self.has_room() {
            Admission::Drop
        } else if self.handshaking.len() > self.backlog {
            Admission::Crowded
        } else {
            Admission::Accept
        }
    }

    /// Records that a SYN was answered with a cookie.
    pub fn note_overflow(&mut self, now: SimTime) {
        self.overflowed_at = Some(now);
    }

    /// True if a cookie was sent within `recently`, so that a reply to it may arrive.
    pub fn overflowed_since(&self, now: SimTime, recently: SimDuration) -> bool {
        self.overflowed_at.is_some_and(|at| now.since(at) <= recently)
    }

    /// True if another connection can be established. The accept queue of Linux holds up to `backlog + 1`.
    pub fn has_room(&self) -> bool {
        self.ready.len() <= self.backlog
    }

    /// Records a connection started for an admitted SYN.
    pub fn started(&mut self, connection: K) {
        self.handshaking.push(connection);
    }

    /// Moves a connection that has completed its handshake to the accept queue.
    pub fn established(&mut self, connection: K) {
        self.handshaking.retain(|&other| other != connection);
        self.ready.push_back(connection);
    }

    /// Removes a connection that ended before it was accepted: during the handshake or, at the caller's
    /// choice, after it. Linux keeps a reset connection in the accept queue; `accept(2)` returns it and the
    /// first read fails.
    pub fn abandoned(&mut self, connection: K) {
        self.handshaking.retain(|&other| other != connection);
        self.ready.retain(|&other| other != connection);
    }

    /// Takes the oldest connection in the accept queue.
    pub fn accept(&mut self) -> Option<K> {
        self.ready.pop_front()
    }

    /// True if the accept queue is not empty: `EPOLLIN`.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Lengths of the SYN queue and the accept queue; `ss -l` shows the latter.
    pub fn queue_lengths(&self) -> (usize, usize) {
        (self.handshaking.len(), self.ready.len())
    }

    /// Backlog: the argument of `listen(2)`.
    pub fn backlog(&self) -> usize {
        self.backlog
    }

    /// Removes all connections of a socket that is closed; the caller [aborts](crate::Connection::abort)
    /// each.
    pub fn drain(&mut self) -> impl Iterator<Item = K> {
        std::mem::take(&mut self.handshaking).into_iter().chain(std::mem::take(&mut self.ready))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_queue_holds_backlog_plus_one() {
        let mut listener = Listener::new(1);
        for key in 0..2 {
            assert_eq!(listener.on_syn(), Admission::Accept);
            listener.started(key);
            assert!(listener.has_room());
            listener.established(key);
        }
        assert!(!listener.has_room());
        assert_eq!(listener.on_syn(), Admission::Drop);
        assert_eq!(listener.accept(), Some(0));
        assert_eq!(listener.on_syn(), Admission::Accept);
    }

    #[test]
    fn syn_queue_is_bounded_and_freed() {
        let mut listener = Listener::new(2);
        ['a', 'b', 'c'].into_iter().for_each(|key| listener.started(key));
        assert_eq!(listener.on_syn(), Admission::Crowded);
        listener.abandoned('a');
        assert_eq!(listener.on_syn(), Admission::Accept);
        assert!(!listener.is_ready());
        assert_eq!(listener.drain().collect::<Vec<_>>(), ['b', 'c']);
    }
}
