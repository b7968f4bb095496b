//! Specification of a model in an experiment.

use crate::{Draw, Model, Pace, bulk, datagrams, dns, http, sink, source};
use belljar_base::{SimDuration, Stream};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Model of an experiment.
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
    /// Client of bulk transfers over TCP.
    Bulk(Bulk),
    /// Sink for data over TCP or UDP.
    Sink {
        /// Port to listen on.
        port: u16,
        /// True for UDP.
        udp: bool,
    },
    /// Server that sends bytes on each TCP connection.
    Source {
        /// Port to listen on.
        port: u16,
        /// Bytes sent on each connection; `None` to send until the client closes.
        size: Option<Draw>,
    },
    /// HTTP client.
    Http(Http),
    /// HTTP server.
    HttpServer(HttpServer),
    /// Sender of UDP datagrams at a constant rate.
    Datagrams(Datagrams),
    /// DNS client.
    Dns(Dns),
    /// DNS server over UDP for the names of the network.
    DnsServer {
        /// Port to listen on.
        port: u16,
        /// Response delay in picoseconds.
        delay: Draw,
    },
}

/// Host, as named in the experiment, and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// Address of the host.
    pub address: Ipv4Addr,
    /// Port.
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

/// Selects one of several servers uniformly. With a single one, no random number is drawn.
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
    /// From the peer to the model, until the peer closes.
    Down,
}

/// Client that transfers bytes over TCP, with a new connection for each transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct Bulk {
    /// Servers, one of which is selected for each transfer.
    pub to: Vec<Endpoint>,
    /// Direction of the transfer.
    pub direction: Direction,
    /// Bytes per transfer; `None` for unlimited, or as the peer decides.
    pub size: Option<Draw>,
    /// Number and times of transfers.
    pub pace: Pace,
}

/// Client that makes HTTP requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// Servers, one of which is selected for each request.
    pub to: Vec<Endpoint>,
    /// Path of the request.
    pub path: String,
    /// Body length of a request in bytes; if it is not 0, the request is a POST.
    pub request_size: Draw,
    /// True if connections are reused.
    pub keep_alive: bool,
    /// Time after which an incomplete request is abandoned.
    pub timeout: SimDuration,
    /// Number and times of requests.
    pub pace: Pace,
}

/// Server that answers each HTTP request with a body of a drawn length.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpServer {
    /// Port to listen on.
    pub port: u16,
    /// Body length in bytes.
    pub response_size: Draw,
    /// Response delay in picoseconds.
    pub delay: Draw,
}

/// Sender of UDP datagrams of one length at a constant rate, continuously or in bursts.
#[derive(Clone, Debug, PartialEq)]
pub struct Datagrams {
    /// Destination.
    pub to: Endpoint,
    /// Payload bits per second during a burst.
    pub rate: u64,
    /// Payload length of a datagram in bytes.
    pub datagram_size: u64,
    /// Durations of bursts and pauses in picoseconds; `None` for continuous sending.
    pub bursts: Option<(Draw, Draw)>,
    /// Duration of the stream; `None` for unlimited.
    pub duration: Option<SimDuration>,
}

/// Client that queries a DNS server over UDP for addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Dns {
    /// Server.
    pub to: Endpoint,
    /// Names, one of which is selected for each query.
    pub names: Vec<String>,
    /// Time without an answer after which a query is retried.
    pub timeout: SimDuration,
    /// Number of retries.
    pub retries: u32,
    /// Number and times of queries.
    pub pace: Pace,
}

impl Spec {
    /// Creates the model, not yet started.
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
    /// True if the model only serves clients, so that it does not prolong a simulation.
    pub fn is_server(&self) -> bool {
        use Kind::{DnsServer, HttpServer, Sink, Source};
        matches!(self.kind, Sink { .. } | Source { .. } | HttpServer(_) | DnsServer { .. })
    }
    /// Servers to which the model connects.
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
