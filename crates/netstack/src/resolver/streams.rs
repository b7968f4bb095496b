//! DNS over TCP (RFC 7766): the name server's endpoints of its connections with this host.

use super::Resolver;
use crate::ip::IpHeader;
use crate::{StackTimer, TimerId, TimerQueue};
use belljar_base::{Map, Seed, SimDuration, SimTime, Stream};
use belljar_net::dns;
use belljar_tcp::{Config, Connection, Disposition, Ecn, Flags, Repr, reset_for};
use belljar_wire::tcp::fill_checksum;
use belljar_wire::{ipv4, protocol, tcp};
use std::net::{IpAddr, SocketAddr};

/// Idle timeout of a connection (RFC 7766, section 6.2.3, recommends "a few seconds").
const PATIENCE: SimDuration = SimDuration::from_secs(10);

/// TCP state of the name server.
#[derive(Default)]
pub struct Streams {
    connections: Map<SocketAddr, Answering>,
    /// Packets in transit to the name server, by time of arrival and order of transmission.
    inbox: Map<(SimTime, u64), Vec<u8>>,
    sent: u64,
    timer: Option<TimerId>,
    isns: Option<Stream>,
}

/// A connection with its partial queries and unsent answers.
struct Answering {
    connection: Connection,
    /// Bytes of incomplete queries.
    received: Vec<u8>,
    /// Bytes of answers not yet accepted by the connection.
    unsent: Vec<u8>,
    idle_until: SimTime,
}

/// What a name server's endpoints need of their host's configuration.
pub struct Serving<'a> {
    /// The name server.
    pub resolver: &'a Resolver,
    /// The experiment's seed, and the host's name.
    pub host: (Seed, &'a str),
}

impl Streams {
    /// Queues a TCP segment that reaches the name server at `at`. The caller then invokes
    /// [`set_timer`](Self::set_timer).
    pub fn push(&mut self, at: SimTime, packet: &[u8]) {
        self.sent += 1;
        self.inbox.insert((at, self.sent), packet.to_vec());
    }

    /// Schedules the next timeout.
    pub fn set_timer(&mut self, timers: &mut TimerQueue<StackTimer>) {
        let arrival = self.inbox.first_key_value().map(|((at, _), _)| *at);
        let of_connections = self.connections.values().flat_map(|answering| {
            [answering.connection.next_timer(), Some(answering.idle_until).filter(|at| *at < SimTime::MAX)]
        });
        let next = of_connections.flatten().chain(arrival).min();
        timers.set(&mut self.timer, next, StackTimer::Resolver);
    }

    /// Handles the timer. Returns the packets that the name server sends, in order.
    pub fn on_timeout(&mut self, now: SimTime, serving: &Serving<'_>) -> Vec<Vec<u8>> {
        self.timer = None;
        let mut out = Vec::new();
        while let Some(entry) = self.inbox.first_entry().filter(|entry| entry.key().0 <= now) {
            let packet = entry.remove();
            self.receive(now, &packet, serving, &mut out);
        }
        let ends: Vec<SocketAddr> = self.connections.keys().copied().collect();
        for client in ends {
            let Some(answering) = self.connections.get_mut(&client) else { continue };
            let connection = &mut answering.connection;
            if connection.next_timer().is_some_and(|at| at <= now) {
                connection.on_timer(now);
                self.pump(now, client, serving, &mut out);
            } else if answering.idle_until <= now {
                answering.idle_until = SimTime::MAX;
                connection.close(now);
                self.pump(now, client, serving, &mut out);
            }
        }
        out
    }

    fn receive(&mut self, now: SimTime, packet: &[u8], serving: &Serving<'_>, out: &mut Vec<Vec<u8>>) {
        let Ok(packet) = ipv4::Packet::new_checked(packet) else { return };
        let (client, server) = (IpAddr::V4(packet.src()), IpAddr::V4(packet.dst()));
        let Ok(segment) = tcp::Packet::new_checked(packet.payload()) else { return };
        if !segment.verify_checksum(client, server) {
            return;
        }
        let (repr, payload) = (Repr::parse(&segment), segment.payload());
        let (client, server) =
            (SocketAddr::new(client, repr.src_port), SocketAddr::new(server, repr.dst_port));
        if let Some(answering) = self.connections.get_mut(&client)
            && server.port() == dns::PORT
        {
            let taken = answering.connection.on_segment(&repr, payload, Ecn::NotEct, now);
            if matches!(taken, Disposition::Consumed) {
                return self.pump(now, client, serving, out);
            }
            self.connections.remove(&client);
        }
        let opens = repr.has(Flags::SYN) && !repr.flags.intersects(Flags::ACK | Flags::RST);
        if opens && server.port() == dns::PORT {
            let (seed, name) = serving.host;
            let isns = self.isns.get_or_insert_with(|| seed.stream(&["net", name, "name server"]));
            let connection =
                Connection::accept_syn(Config::default(), server, client, &repr, isns.next_u32(), now);
            let idle_until = now + PATIENCE;
            let answering = Answering { connection, received: Vec::new(), unsent: Vec::new(), idle_until };
            self.connections.insert(client, answering);
            self.pump(now, client, serving, out);
        } else if let Some(reset) = reset_for(&repr, payload.len()) {
            let header = IpHeader::new(server.ip(), client.ip(), protocol::TCP);
            let mut bytes = vec![0; header.len()];
            reset.append(server.ip(), client.ip(), (&[], &[]), &mut bytes);
            send(header, bytes, serving, out);
        }
    }

    /// Answers the complete queries of a connection and transmits the segments that may be sent.
    fn pump(&mut self, now: SimTime, client: SocketAddr, serving: &Serving<'_>, out: &mut Vec<Vec<u8>>) {
        let Some(answering) = self.connections.get_mut(&client) else { return };
        answering.answer(serving.resolver, now);
        let connection = &mut answering.connection;
        connection.take_events();
        let header = IpHeader {
            dont_fragment: true,
            ..IpHeader::new(connection.local().ip(), client.ip(), protocol::TCP)
        };
        loop {
            let mut packet = vec![0; header.len()];
            if connection.poll_transmit(now, 0, &mut packet).is_none() {
                break;
            }
            fill_checksum(header.src, header.dst, &mut packet[header.len()..]);
            send(header, packet, serving, out);
        }
        if connection.is_finished() {
            self.connections.remove(&client);
        }
    }
}

/// Completes the header of a packet and sends it, unless the name server does not respond.
fn send(header: IpHeader, mut packet: Vec<u8>, serving: &Serving<'_>, out: &mut Vec<Vec<u8>>) {
    if !serving.resolver.down {
        header.emit(&mut packet);
        out.push(packet);
    }
}

impl Answering {
    fn answer(&mut self, resolver: &Resolver, now: SimTime) {
        let mut chunk = [0; 2_048];
        loop {
            let count = self.connection.recv(&mut chunk, now);
            if count == 0 {
                break;
            }
            self.received.extend_from_slice(&chunk[..count]);
            self.idle_until = now + PATIENCE;
        }
        while let Some((query, rest)) = split_query(&self.received) {
            if let Some(answer) = resolver.zone.faulty_answer(query, true, &resolver.faults) {
                self.unsent.extend_from_slice(&(answer.len() as u16).to_be_bytes());
                self.unsent.extend_from_slice(&answer);
            }
            self.received = rest.to_vec();
        }
        while !self.unsent.is_empty() {
            match self.connection.send(&self.unsent, now) {
                0 => break,
                sent => drop(self.unsent.drain(..sent)),
            }
        }
        // A client that has closed its sending direction is closed in turn, once all answers are sent.
        if self.connection.is_read_closed() && self.unsent.is_empty() && self.idle_until < SimTime::MAX {
            self.idle_until = SimTime::MAX;
            self.connection.close(now);
        }
    }
}

/// Splits the first length-prefixed query from a stream; `None` if it is incomplete.
fn split_query(stream: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = stream.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}
