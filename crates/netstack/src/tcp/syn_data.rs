//! TCP Fast Open (RFC 7413) of connections and listeners: data in a SYN, and its results.

use super::Role;
use super::fast_open::{KEY_LEN, Keys, RESET_COUNTS, Verdict, bit};
use crate::socket::SocketKind;
use crate::{SocketKey, Stack};
use belljar_tcp::{FastOpen, FastOpenFailure, Repr};
use std::net::SocketAddr;

impl Stack {
    /// The keys of a listener, or else those of the host, which are generated at first use.
    pub fn fast_open_keys(&mut self, key: SocketKey) -> Keys {
        let own = self.sockets.tcp(key).options.fast_open_keys;
        own.unwrap_or_else(|| {
            let (seed, name) = (self.config.seed, &self.config.name);
            *self.sysctls.fast_open_keys.get_or_insert_with(|| {
                let mut primary = [0; KEY_LEN];
                seed.stream(&["net", name, "fast-open-key"]).fill(&mut primary);
                Keys { primary, backup: None }
            })
        })
    }

    /// Enables Fast Open on a listener if `net.ipv4.tcp_fastopen` does so for all of them.
    pub fn tcp_listen_fast_open(&mut self, key: SocketKey, backlog: usize) {
        let all = bit::SERVER | bit::EVERY_LISTENER;
        if self.sysctls.fast_open & all == all && self.sockets.tcp(key).options.fast_open == 0 {
            self.sockets.tcp(key).options.fast_open = backlog as i32;
        }
    }

    /// Makes the SYN of a new connection carry `data`, or wait for it. Returns the number of bytes taken.
    pub fn tcp_prepare_fast_open(&mut self, key: SocketKey, data: Option<&[u8]>) -> usize {
        let now = self.clock.local();
        let wanted = data.is_some() || self.sockets.tcp(key).options.fast_open_connect;
        let pauses = self.fast_open_servers.pauses(self.clock.now(), self.sysctls.fast_open_pause);
        let Some(connection) = self.sockets.tcp(key).connection().filter(|_| wanted && !pauses) else {
            return 0;
        };
        let ends = (connection.local().ip(), connection.remote().ip());
        let no_cookie = self.sysctls.fast_open & bit::CLIENT_NO_COOKIE != 0;
        let no_cookie = no_cookie || self.sockets.tcp(key).options.fast_open_no_cookie;
        let (usable, option, mss) = self.fast_open_servers.properties(ends, no_cookie);
        let Some(connection) = self.sockets.tcp(key).connection() else { return 0 };
        match data {
            None if usable => {
                connection.defer();
                0
            }
            data => connection.fast_open(option, mss, data.unwrap_or_default(), now),
        }
    }

    /// Records the Fast Open results of a connection (cookie, failure, black hole) after a change of its
    /// state.
    pub fn tcp_settle_fast_open(&mut self, key: SocketKey) {
        let tcp = self.sockets.tcp(key);
        let listener = tcp.fast_open_listener;
        let accepted = tcp.parent.is_none();
        let Some(connection) = tcp.connection() else { return };
        if connection.take_fast_open_black_hole() && self.sysctls.fast_open_pause > 0 {
            self.fast_open_servers.black_hole_found(self.clock.now());
            self.counters.fast_open.black_holes += 1;
        }
        let Some(connection) = self.sockets.tcp(key).connection() else { return };
        if let Some(answer) = connection.take_fast_open_answer() {
            let ends = (connection.local().ip(), connection.remote().ip());
            let taken = connection.syn_data_taken();
            let failed = connection.fast_open_failure();
            let counters = &mut self.counters.fast_open;
            counters.active += u64::from(taken);
            if taken {
                self.fast_open_servers.data_arrived();
            }
            counters.active_fail += u64::from(matches!(
                failed,
                FastOpenFailure::DataNotAcknowledged | FastOpenFailure::SynRetransmitted
            ));
            self.fast_open_servers.note(ends, &answer);
            return;
        }
        if let Some(listener) = listener
            && !connection.is_unconfirmed()
        {
            let reset = connection.error() == Some(belljar_tcp::TcpError::Reset);
            self.sockets.tcp(key).fast_open_listener = None;
            let until = (accepted && reset).then(|| self.clock.now() + RESET_COUNTS);
            let (listener, serial) = listener;
            let socket = self.sockets.get_mut(listener.0).filter(|socket| socket.serial == serial);
            if let Some(SocketKind::Tcp(tcp)) = socket.map(|socket| &mut socket.kind)
                && matches!(tcp.role, Role::Listening(_))
            {
                tcp.fast_open_queue.ended(until);
            }
        }
    }

    /// Accounts for a connection opened by a SYN with a cookie.
    pub fn tcp_opened_fast(&mut self, child: SocketKey, listener: SocketKey) {
        let serial = self.socket(listener).serial;
        self.sockets.tcp(listener).fast_open_queue.started();
        self.sockets.tcp(child).fast_open_listener = Some((listener, serial));
        self.counters.fast_open.passive += 1;
    }

    /// Decides on a SYN: `tcp_try_fastopen` of Linux.
    pub fn tcp_try_fast_open(
        &mut self,
        listener: SocketKey,
        (local, remote): (SocketAddr, SocketAddr),
        syn: &Repr,
        payload_len: usize,
    ) -> Verdict {
        let (bits, now) = (self.sysctls.fast_open, self.clock.now());
        let option = syn.options.fast_open;
        if option.is_some_and(|option| option.is_request()) {
            self.counters.fast_open.cookie_requests += 1;
        }
        let concerned = payload_len > 0 || option.is_some();
        if bits & bit::SERVER == 0 || !concerned {
            return Verdict::default();
        }
        let SocketKind::Tcp(tcp) = &mut self.sockets[listener.0].kind else { return Verdict::default() };
        let most = tcp.options.fast_open as usize;
        if !tcp.fast_open_queue.has_room(most, now, &mut self.counters.fast_open) {
            return Verdict::default();
        }
        if bits & bit::SERVER_NO_COOKIE != 0 || self.sockets.tcp(listener).options.fast_open_no_cookie {
            return Verdict { take: true, option: None };
        }
        let Some(given) = option else { return Verdict::default() };
        let keys = self.fast_open_keys(listener);
        let cookie = |key| Keys::cookie(key, remote.ip(), local.ip());
        let present = cookie(&keys.primary).map(|made| made.in_form(given.experimental));
        let same = |made: Option<FastOpen>| made.is_some_and(|made| made.cookie() == given.cookie());
        if given.is_request() {
            Verdict { take: false, option: present }
        } else if same(present) {
            Verdict { take: true, option: None }
        } else if keys.backup.as_ref().is_some_and(|key| same(cookie(key))) {
            self.counters.fast_open.alternate_key += 1;
            Verdict { take: true, option: present }
        } else {
            self.counters.fast_open.passive_fail += 1;
            Verdict { take: false, option: present }
        }
    }
}
