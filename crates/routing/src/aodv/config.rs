//! Parameters of AODV with the defaults of RFC 3561, section 10.

use belljar_base::Seed;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Parameters of one node.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address by which the node asks for routes for packets that have no source yet: one of its interfaces'.
    pub main_address: Ipv4Addr,
    /// `ACTIVE_ROUTE_TIMEOUT`: how long a route lives after its last use.
    pub active_route_timeout: Duration,
    /// `ALLOWED_HELLO_LOSS`.
    pub allowed_hello_loss: u32,
    /// `HELLO_INTERVAL`; none if links are watched by the link layer alone.
    pub hello_interval: Option<Duration>,
    /// `LOCAL_ADD_TTL`.
    pub local_add_ttl: u32,
    /// `NET_DIAMETER`: the most hops between two nodes.
    pub net_diameter: u8,
    /// `NODE_TRAVERSAL_TIME`: an estimate of the time that a hop takes, processing included.
    pub node_traversal_time: Duration,
    /// `RERR_RATELIMIT`, per second.
    pub rerr_rate_limit: usize,
    /// `RREQ_RATELIMIT`, per second.
    pub rreq_rate_limit: usize,
    /// `RREQ_RETRIES`.
    pub rreq_retries: u32,
    /// `TIMEOUT_BUFFER`.
    pub timeout_buffer: u32,
    /// `TTL_START`.
    pub ttl_start: u8,
    /// `TTL_INCREMENT`.
    pub ttl_increment: u8,
    /// `TTL_THRESHOLD`.
    pub ttl_threshold: u8,
    /// Only the destination may answer (the D flag of RREQ).
    pub destination_only: bool,
    /// Intermediate nodes that answer tell the destination as well (the G flag).
    pub gratuitous: bool,
    /// RREPs ask for RREP-ACK, so that neighbours that do not hear this node are found out (section 6.8). The
    /// acknowledgment must come within `NODE_TRAVERSAL_TIME` and 10 ms.
    pub acknowledge: bool,
    /// A node repairs broken routes that it forwards by (section 6.12), which the RFC leaves to it. Packets arrive sooner then.
    /// Where many stations are in reach of each other fewer arrive: those that a repair holds are lost with it, and each
    /// repair floods a part of the network.
    pub local_repair: bool,
    /// The node may have lost its sequence number: it takes no part for `DELETE_PERIOD` (section 6.13).
    pub after_reboot: bool,
    /// The upper bound of a random delay before an RREQ is sent on, so that neighbours do not speak at once.
    pub broadcast_jitter: Duration,
    /// The sequence number to go on from.
    pub sequence: u32,
    /// Packets held for one destination, and for all together.
    pub held_packets: (usize, usize),
    /// The seed of the node's jitter.
    pub seed: Seed,
}

impl Config {
    /// The RFC's parameters for a node with this address.
    pub fn new(main_address: Ipv4Addr, seed: Seed) -> Config {
        Config {
            main_address,
            active_route_timeout: Duration::from_secs(3),
            allowed_hello_loss: 2,
            hello_interval: Some(Duration::from_secs(1)),
            local_add_ttl: 2,
            net_diameter: 35,
            node_traversal_time: Duration::from_millis(40),
            rerr_rate_limit: 10,
            rreq_rate_limit: 10,
            rreq_retries: 2,
            timeout_buffer: 2,
            ttl_start: 1,
            ttl_increment: 2,
            ttl_threshold: 7,
            destination_only: false,
            gratuitous: true,
            acknowledge: false,
            local_repair: false,
            after_reboot: false,
            broadcast_jitter: Duration::from_millis(10),
            sequence: 0,
            held_packets: (64, 512),
            seed,
        }
    }
    /// `NET_TRAVERSAL_TIME`.
    pub fn net_traversal_time(&self) -> Duration {
        2 * self.node_traversal_time * u32::from(self.net_diameter)
    }
    /// `PATH_DISCOVERY_TIME`.
    pub fn path_discovery_time(&self) -> Duration {
        2 * self.net_traversal_time()
    }
    /// `RING_TRAVERSAL_TIME` for a TTL.
    pub fn ring_traversal_time(&self, ttl: u8) -> Duration {
        2 * self.node_traversal_time * (u32::from(ttl) + self.timeout_buffer)
    }
    /// `MY_ROUTE_TIMEOUT`.
    pub fn my_route_timeout(&self) -> Duration {
        2 * self.active_route_timeout
    }
    /// `DELETE_PERIOD`, with K = 5.
    pub fn delete_period(&self) -> Duration {
        5 * self.active_route_timeout.max(self.hello_interval.unwrap_or(Duration::ZERO))
    }
    /// `BLACKLIST_TIMEOUT`.
    pub fn blacklist_timeout(&self) -> Duration {
        self.net_traversal_time() * self.rreq_retries.max(1)
    }
    /// `NEXT_HOP_WAIT`.
    pub fn next_hop_wait(&self) -> Duration {
        self.node_traversal_time + Duration::from_millis(10)
    }
    /// `MAX_REPAIR_TTL`.
    pub fn max_repair_ttl(&self) -> u32 {
        u32::from(self.net_diameter) * 3 / 10
    }
}
