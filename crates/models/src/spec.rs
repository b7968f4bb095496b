//! Specification of a model in an experiment.

use crate::{Draw, Model, Pace, bulk, datagrams, dns, http, sink, source};
use belljar_base::{SimDuration, Stream};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

/// A model of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Name of its flows in the results.
    pub name: String,
    /// Kind of model.
    pub kind: Kind,
}

/// Kind of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Transfers bytes over TCP.
    Bulk(Bulk),
    /// Receives what comes over TCP or UDP and throws it away.
    Sink {
        /// Port to listen on.
        port: u16,
        /// Over UDP.
        udp: bool,
    },
    /// Sends bytes to everyone who connects over TCP.
    Source {
        /// Port to listen on.
        port: u16,
        /// Bytes sent to each client; `None`: until it closes.
        size: Option<Draw>,
    },
    /// Makes HTTP requests.
    Http(Http),
    /// Answers HTTP requests.
    HttpServer(HttpServer),
    /// Sends UDP datagrams at a rate.
    Datagrams(Datagrams),
    /// Asks a DNS server.
    Dns(Dns),
    /// Answers DNS queries over UDP for the names of the network.
    DnsServer {
        /// Port to listen on.
        port: u16,
        /// The time until it answers, in picoseconds.
        delay: Draw,
    },
}

/// A host, by the name that the experiment gives, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A host's name or an address.
    pub host: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// The port.
    pub port: u16,
}

impl Endpoint {
    /// The socket address of the endpoint.
    pub fn socket_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, self.port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// One of several servers, each as likely. One alone draws nothing.
pub(crate) fn pick<'a>(among: &'a [Endpoint], stream: &mut Stream) -> &'a Endpoint {
    match among {
        [one] => one,
        _ => &among[stream.below(among.len() as u64) as usize],
    }
}

/// Direction of a bulk transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the model to its peer.
    Up,
    /// From the peer, until it closes.
    Down,
}

/// A client that transfers bytes over TCP, each time over a new connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Bulk {
    /// The servers, of which each transfer takes one.
    pub to: Vec<Endpoint>,
    /// Direction of the transfer.
    pub direction: Direction,
    /// Bytes sent; `None`: without end, or as the peer decides.
    pub size: Option<Draw>,
    /// Number and times of transfers.
    pub pace: Pace,
}

/// A client that makes HTTP requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// The servers, of which each request takes one.
    pub to: Vec<Endpoint>,
    /// Path of the request.
    pub path: String,
    /// Bytes of the request's body: with any, it is a POST.
    pub request_size: Draw,
    /// True if connections are reused.
    pub keep_alive: bool,
    /// Time after which a request that has not ended is given up.
    pub timeout: SimDuration,
    /// Number and times of requests.
    pub pace: Pace,
}

/// A server that answers every HTTP request with a body of some length.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpServer {
    /// Port to listen on.
    pub port: u16,
    /// Bytes of the body.
    pub response_size: Draw,
    /// The time until it answers, in picoseconds.
    pub delay: Draw,
}

/// A sender of UDP datagrams of one length at a constant rate, all the time or on and off.
#[derive(Clone, Debug, PartialEq)]
pub struct Datagrams {
    /// Destination.
    pub to: Endpoint,
    /// Bits of payload per second while it sends.
    pub rate: u64,
    /// Bytes of payload of each datagram.
    pub datagram_size: u64,
    /// Durations of bursts and of pauses, in picoseconds; `None`: it sends all the time.
    pub bursts: Option<(Draw, Draw)>,
    /// Duration of the stream; `None`: without end.
    pub duration: Option<SimDuration>,
}

/// A client that asks a DNS server over UDP for addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Dns {
    /// The server.
    pub to: Endpoint,
    /// The names, of which each query takes one.
    pub names: Vec<String>,
    /// Time without an answer after which a query is repeated.
    pub timeout: SimDuration,
    /// Number of retries.
    pub retries: u32,
    /// Number and times of queries.
    pub pace: Pace,
}

impl Spec {
    /// The model, not yet started.
    pub fn build(&self) -> Box<dyn Model> {
        match &self.kind {
            Kind::Bulk(spec) => Box::new(bulk::BulkClient::new(spec.clone())),
            Kind::Sink { port, udp: false } => Box::new(sink::Tcp::new(*port)),
            Kind::Sink { port, udp: true } => Box::new(sink::Udp::new(*port)),
            Kind::Source { port, size } => Box::new(source::ByteSource::new(*port, *size)),
            Kind::Http(spec) => Box::new(http::HttpClient::new(spec.clone())),
            Kind::HttpServer(spec) => Box::new(http::HttpResponder::new(spec.clone())),
            Kind::Datagrams(spec) => Box::new(datagrams::Sender::new(spec.clone())),
            Kind::Dns(spec) => Box::new(dns::DnsClient::new(spec.clone())),
            Kind::DnsServer { port, delay } => Box::new(dns::DnsResponder::new(*port, *delay)),
        }
    }
    /// True if it only answers others: it does not keep a simulation going.
    pub fn is_server(&self) -> bool {
        use Kind::{DnsServer, HttpServer, Sink, Source};
        matches!(self.kind, Sink { .. } | Source { .. } | HttpServer(_) | DnsServer { .. })
    }
    /// The servers that it is a client of.
    pub fn endpoints_mut(&mut self) -> &mut [Endpoint] {
        match &mut self.kind {
            Kind::Bulk(bulk) => &mut bulk.to,
            Kind::Http(http) => &mut http.to,
            Kind::Datagrams(datagrams) => std::slice::from_mut(&mut datagrams.to),
            Kind::Dns(dns) => std::slice::from_mut(&mut dns.to),
            _ => &mut [],
        }
    }
}
