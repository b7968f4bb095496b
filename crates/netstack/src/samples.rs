//! Samples of a host's network state for time series.

use super::socket::SocketKind;
use super::tcp::Role;
use crate::Stack;
use belljar_net::Counters;
use std::net::SocketAddr;

/// State of a TCP connection at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSample {
    /// The local endpoint.
    pub local: SocketAddr,
    /// The remote endpoint.
    pub remote: SocketAddr,
    /// The content of `TCP_INFO`.
    pub info: belljar_tcp::Info,
    /// Bytes sent and not acknowledged.
    pub unacknowledged: usize,
    /// Bytes written by the program and not yet sent.
    pub unsent: usize,
    /// Bytes received and not yet read by the program.
    pub unread: usize,
}

impl Stack {
    /// Samples all TCP connections that are not closed, in the order of their endpoints.
    pub fn tcp_samples(&self) -> Vec<TcpSample> {
        let now = self.clock.local();
        let connections = self.own_sockets().filter_map(|(_, socket)| match &socket.kind {
            SocketKind::Tcp(tcp) => match &tcp.role {
                Role::Connection(connection) if !connection.is_finished() => Some(connection),
                _ => None,
            },
            _ => None,
        });
        let mut samples: Vec<TcpSample> = connections
            .map(|connection| TcpSample {
                local: connection.local(),
                remote: connection.remote(),
                info: connection.info(now),
                unacknowledged: connection.unacknowledged_bytes(),
                unsent: connection.unsent_bytes(),
                unread: connection.readable_bytes(),
            })
            .collect();
        samples.sort_by_key(|sample| (sample.local, sample.remote));
        samples
    }

    /// Number of packets queued for transmission on the host's interfaces, `lo` excluded.
    pub fn egress_queue_len(&self) -> usize {
        let links = self.links.iter().map(|link| link.nic.egress_queue_len());
        self.eth0.nic.egress_queue_len() + links.sum::<usize>()
    }
    /// Sum of the counters of the host's interfaces, `lo` excluded.
    pub fn interface_counters(&self) -> Counters {
        let mut all = *self.eth0.nic.counters();
        self.links.iter().for_each(|link| all.add(link.nic.counters()));
        all
    }
}
