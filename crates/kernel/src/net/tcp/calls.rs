//! `shutdown(2)` of TCP sockets, and `SIGURG`.

use super::Role;
use crate::call::Call;
use crate::host::Host;
use crate::ids::SocketKey;
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::{EPOLLHUP, EPOLLRDHUP, READABLE, WRITABLE};
use belljar_tcp::State;

pub fn shutdown(call: &mut Call<'_>, key: SocketKey, how: i32) -> Result<(), Errno> {
    let now = call.host.stack_of_mut(key).clock.local();
    match &mut call.host.stack_of_mut(key).sockets.tcp(key).role {
        Role::Idle => {
            let shut = &mut call.host.stack_of_mut(key).sockets.tcp(key).shut;
            shut.0 |= how != c::SHUT_WR;
            shut.1 |= how != c::SHUT_RD;
            call.host
                .stack_of_mut(key)
                .effects
                .notify_socket(key, READABLE | WRITABLE | EPOLLHUP | EPOLLRDHUP);
            return Err(Errno::ENOTCONN);
        }
        // The socket stops listening; `accept(2)` returns `EINVAL` from now on.
        Role::Listening(_) if how != c::SHUT_WR => call.host.stack_of_mut(key).tcp_stop_listening(key),
        Role::Listening(_) => {}
        Role::Connection(connection) => {
            if connection.state() == State::Closed {
                let tcp = call.host.stack_of_mut(key).sockets.tcp(key);
                tcp.disconnecting |= tcp.connecting;
                return Err(Errno::ENOTCONN);
            }
            if how != c::SHUT_WR {
                connection.shutdown_read();
            }
            if how != c::SHUT_RD {
                connection.shutdown_write(now);
            }
            // Shutting down an established connection counts as observing that `connect(2)` has completed.
            let opening = matches!(connection.state(), State::SynSent | State::SynReceived);
            let tcp = call.host.stack_of_mut(key).sockets.tcp(key);
            tcp.connecting &= opening;
            call.host.stack_of_mut(key).tcp_pump(key);
            call.host.stack_of_mut(key).effects.notify_socket(key, READABLE | WRITABLE | EPOLLHUP);
        }
    }
    call.host.stack_of_mut(key).flush_network();
    Ok(())
}

impl Host {
    /// Sends `SIGURG` to the owner of a socket when urgent data arrives (`sk_send_sigurg`).
    pub(crate) fn tcp_signal_owner(&mut self, key: SocketKey) {
        let owner = self.socket(key).options.owner;
        let targets = match owner {
            0 => return,
            group if group < 0 => self.processes.group_members(group.saturating_neg()),
            pid => self.processes.by_pid.get(&pid).copied().into_iter().collect(),
        };
        for process in targets {
            self.send_signal(process, SigInfo::kernel(c::SIGURG));
        }
    }
}
