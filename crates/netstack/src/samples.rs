//! Samples of a host's network for time series.

use super::socket::SocketKind;
use super::tcp::Role;
use crate::Stack;
use belljar_net::Counters;
use std::net::SocketAddr;

/// A TCP connection at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSample {
    /// Its own end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The content of `TCP_INFO`.
    pub info: belljar_tcp::Info,
    /// Bytes sent and not acknowledged.
    pub unacknowledged: usize,
    /// Bytes that the program has written and that have not been sent.
    pub unsent: usize,
    /// Bytes received that the program has not read.
    pub unread: usize,
}

impl Stack {
    /// Every TCP connection that is not over, by its ends.
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

    /// Packets that wait to leave the host's interfaces but `lo`.
    pub fn egress_queue_len(&self) -> usize {
        let links = self.links.iter().map(|link| link.nic.egress_queue_len());
        self.eth0.nic.egress_queue_len() + links.sum::<usize>()
    }
    /// Counters of its interfaces but `lo`, all together.
    pub fn interface_counters(&self) -> Counters {
        let mut all = *self.eth0.nic.counters();
        self.links.iter().for_each(|link| all.add(link.nic.counters()));
        all
    }
    /// Counters of the interface at a link.
    pub fn link_counters(&self, link: usize) -> Counters {
        *self.links[link].nic.counters()
    }
    /// Frames that wait to leave by a link.
    pub fn link_queue_len(&self, link: usize) -> usize {
        self.links[link].nic.egress_queue_len()
    }
}
