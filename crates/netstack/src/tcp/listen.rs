//! TCP listeners: `listen` and `accept`.

use super::{Role, TcpSocket};
use crate::SocketKey;
use crate::Stack;
use crate::account::{DropCause, PacketDisposition, Receiver};
use crate::devices::vrf;
use crate::endpoint::{Bound, Reach};
use crate::ip::IpOptions;
use crate::readiness::{EPOLLHUP, READABLE};
use crate::socket::SocketKind;
use belljar_linux_abi::{Errno, c};
use belljar_tcp::{Admission, Connection, Listener, Repr};
use std::net::SocketAddr;

impl Stack {
    /// Makes a socket listen, or changes the backlog of a listener.
    pub fn tcp_listen(&mut self, key: SocketKey, backlog: usize) -> Result<(), Errno> {
        let tcp = self.sockets.tcp(key);
        match &mut tcp.role {
            Role::Listening(listener) => {
                listener.set_backlog(backlog);
                return Ok(());
            }
            Role::Connection(_) => return Err(Errno::EINVAL),
            Role::Idle => {}
        }
        let bound = tcp.bound;
        match bound {
            None => self.tcp_bind(key, None, 0)?,
            Some(bound) if !self.tcp.is_free(&self.sockets, key, &bound.reach, bound.port, true) => {
                return Err(Errno::EADDRINUSE);
            }
            Some(_) => {}
        }
        self.sockets.tcp(key).role = Role::Listening(Listener::new(backlog));
        self.tcp_listen_fast_open(key, backlog);
        Ok(())
    }

    /// Removes the next connection from a listener's accept queue, if there is one.
    pub fn tcp_accept(&mut self, key: SocketKey) -> Result<Option<SocketKey>, Errno> {
        let Role::Listening(listener) = &mut self.sockets.tcp(key).role else { return Err(Errno::EINVAL) };
        let Some(child) = listener.accept() else { return Ok(None) };
        let tcp = self.sockets.tcp(child);
        tcp.parent = None;
        tcp.queued_for_accept = false;
        Ok(Some(child))
    }

    /// Processes a SYN for a listener: creates a connection if the queues have space.
    pub(crate) fn tcp_admit(
        &mut self,
        listener: SocketKey,
        interface: usize,
        (local, remote): (SocketAddr, SocketAddr),
        syn: &Repr,
        payload: &[u8],
    ) -> PacketDisposition {
        let (consumed, overflow) = (
            PacketDisposition::consumed(Receiver::Tcp),
            PacketDisposition::dropped(DropCause::ListenOverflow),
        );
        let mode = self.sysctls.syncookies;
        let Role::Listening(queues) = &self.sockets.tcp(listener).role else { return consumed };
        match queues.on_syn() {
            Admission::Drop => {
                self.counters.listen_overflows += 1;
                self.counters.listen_drops += 1;
                return overflow;
            }
            Admission::Crowded if mode == 0 => {
                self.counters.listen_drops += 1;
                return overflow;
            }
            Admission::Accept if mode != 2 => {}
            Admission::Crowded | Admission::Accept => {
                self.tcp_send_cookie(listener, interface, local, remote, syn);
                return consumed;
            }
        }
        let fast = self.tcp_try_fast_open(listener, (local, remote), syn, payload.len());
        let child = self.tcp_child(listener, local);
        if let Some(device) = vrf::answer_device(self, remote.ip(), interface) {
            self.socket(child).options.bound_device = Some(device);
        }
        let (isn, offset) = (self.isns.next_u32(), self.isns.next_u32());
        let now = self.clock.local();
        let path = self.tcp_path_back(interface, (local, remote), self.clock.now());
        let socket = &mut self.sockets[child.0];
        let SocketKind::Tcp(tcp) = &mut socket.kind else { return consumed };
        let settings = &self.sysctls.tcp;
        let config = tcp.options.config(settings, &socket.options, path, remote.ip(), offset);
        let connection = if fast.take {
            Connection::accept_fast_open(config, local, remote, syn, payload, fast.option, isn, now)
        } else {
            let mut connection = Connection::accept_syn(config, local, remote, syn, isn, now);
            if let Some(option) = fast.option {
                connection.give_cookie(option);
            }
            connection
        };
        tcp.role = Role::Connection(Box::new(connection));
        self.counters.tcp_passive_opens += 1;
        self.tcp.add_connection(local, remote, child);
        if let Role::Listening(queues) = &mut self.sockets.tcp(listener).role {
            queues.started(child);
        }
        if fast.take {
            self.tcp_opened_fast(child, listener);
        }
        self.tcp_apply_options(child);
        self.tcp_pump(child);
        consumed
    }

    /// Creates the socket of a new connection, with the options of its listener.
    pub fn tcp_child(&mut self, listener: SocketKey, local: SocketAddr) -> SocketKey {
        let parent = self.socket(listener);
        let (domain, options) = (parent.domain, parent.options.clone());
        let tcp = self.sockets.tcp(listener);
        let reach = Reach::new(domain, tcp.ip.v6_only, Some(local.ip()));
        let address_chosen = tcp.bound.is_some_and(|bound| bound.address_chosen);
        let child = TcpSocket {
            bound: Some(Bound {
                reach,
                port: local.port(),
                address_chosen,
                port_chosen: true,
                port_named: false,
            }),
            options: tcp.options.clone(),
            // Multicast memberships are not inherited.
            ip: IpOptions { ident: None, groups: Vec::new(), groups6: Vec::new(), ..tcp.ip.clone() },
            parent: Some(listener),
            ..TcpSocket::default()
        };
        let kind = SocketKind::Tcp(Box::new(child));
        let key = self.add_socket(domain, c::SOCK_STREAM, c::IPPROTO_TCP, kind);
        self.socket(key).options = options;
        key
    }

    /// Closes a listener: connections not yet accepted are reset.
    pub fn tcp_stop_listening(&mut self, key: SocketKey) {
        let now = self.clock.local();
        let tcp = self.sockets.tcp(key);
        if !matches!(tcp.role, Role::Listening(_)) {
            return;
        }
        let Role::Listening(mut listener) = std::mem::take(&mut tcp.role) else { return };
        for child in listener.drain() {
            let tcp = self.sockets.tcp(child);
            tcp.parent = None;
            tcp.orphan = true;
            if let Some(connection) = tcp.connection() {
                connection.abort(now);
            }
            self.tcp_pump(child);
        }
        self.tcp_give_up_name(key);
        self.effects.notify_socket(key, READABLE | EPOLLHUP);
    }
}
