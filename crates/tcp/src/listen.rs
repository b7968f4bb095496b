use belljar_base::{SimDuration, SimTime};
use std::collections::VecDeque;

/// Admission: the answer to a SYN that arrives at a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Start a connection for it: [`Connection::accept_syn`](crate::Connection::accept_syn), then
    /// [`Listener::started`].
    Accept,
    /// Drop it silently; the peer tries again. Linux: the accept queue is full.
    Drop,
    /// The SYN queue is full: answer with a cookie, or drop it as well.
    Crowded,
}

/// The two queues of a listening socket, `listen(2)`: connections in SYN-RECEIVED (the SYN queue)
/// and established ones that nobody accepted yet (the accept queue). `K` is how the caller names
/// connections.
#[derive(Clone, Debug)]
pub struct Listener<K> {
    backlog: usize,
    handshaking: Vec<K>,
    ready: VecDeque<K>,
    /// Time at which the SYN queue was last full.
    overflowed_at: Option<SimTime>,
}

impl<K: Copy + PartialEq> Listener<K> {
    /// A listening socket. `backlog` is the argument of `listen(2)`, already cut to
    /// `net.core.somaxconn` (4096).
    pub fn new(backlog: usize) -> Listener<K> {
        Listener { backlog, handshaking: Vec::new(), ready: VecDeque::new(), overflowed_at: None }
    }

    /// A second `listen(2)` on the same socket.
    pub fn set_backlog(&mut self, backlog: usize) {
        self.backlog = backlog;
    }

    /// The answer to a SYN for no connection yet.
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

    /// A SYN was answered with a cookie.
    pub fn note_overflow(&mut self, now: SimTime) {
        self.overflowed_at = Some(now);
    }

    /// True if that was so recently that an answer may come.
    pub fn overflowed_since(&self, now: SimTime, recently: SimDuration) -> bool {
        self.overflowed_at.is_some_and(|at| now.since(at) <= recently)
    }

    /// True if one more connection may be established. Linux lets the accept queue grow to
    /// `backlog + 1`.
    pub fn has_room(&self) -> bool {
        self.ready.len() <= self.backlog
    }

    /// `connection` was started for an accepted SYN.
    pub fn started(&mut self, connection: K) {
        self.handshaking.push(connection);
    }

    /// `connection` completed its handshake and waits for `accept(2)`.
    pub fn established(&mut self, connection: K) {
        self.handshaking.retain(|&other| other != connection);
        self.ready.push_back(connection);
    }

    /// `connection` ended before it was accepted: before the handshake was complete, or (by the
    /// caller's choice) after. Linux keeps a connection that was reset in the accept queue;
    /// `accept(2)` gives it and the first read fails.
    pub fn abandoned(&mut self, connection: K) {
        self.handshaking.retain(|&other| other != connection);
        self.ready.retain(|&other| other != connection);
    }

    /// The oldest connection to accept.
    pub fn accept(&mut self) -> Option<K> {
        self.ready.pop_front()
    }

    /// `EPOLLIN` of the listening socket.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The lengths of SYN queue and accept queue, as `ss -l` shows the latter.
    pub fn queue_lengths(&self) -> (usize, usize) {
        (self.handshaking.len(), self.ready.len())
    }

    /// Connections that may wait: the argument of `listen(2)`.
    pub fn backlog(&self) -> usize {
        self.backlog
    }

    /// All connections of a socket that is being closed; each is to be
    /// [aborted](crate::Connection::abort).
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
