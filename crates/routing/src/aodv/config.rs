//! Parameters of AODV with the defaults of RFC 3561, section 10.

use belljar_base::Seed;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Parameters of one node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Originator address of route requests for packets without a source address: one of the node's interface
    /// addresses.
    pub main_address: Ipv4Addr,
    /// `ACTIVE_ROUTE_TIMEOUT`: lifetime of a route after its last use.
    pub active_route_timeout: Duration,
    /// `ALLOWED_HELLO_LOSS`.
    pub allowed_hello_loss: u32,
    /// `HELLO_INTERVAL`; `None` if only the link layer monitors links.
    pub hello_interval: Option<Duration>,
    /// `LOCAL_ADD_TTL`.
    pub local_add_ttl: u32,
    /// `NET_DIAMETER`: largest number of hops between two nodes.
    pub net_diameter: u8,
    /// `NODE_TRAVERSAL_TIME`: estimated latency of one hop, including processing.
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
    /// Destination-only flag (D) of RREQs: only the destination may reply.
    pub destination_only: bool,
    /// Gratuitous flag (G) of RREQs: intermediate nodes that reply also send an RREP to the destination.
    pub gratuitous: bool,
    /// RREPs request an RREP-ACK, which detects neighbours that do not hear this node (section 6.8). The
    /// acknowledgment must arrive within `NODE_TRAVERSAL_TIME` plus 10 ms.
    pub acknowledge: bool,
    /// Local repair of broken routes over which the node forwards (section 6.12), which is optional in the
    /// RFC. Repair shortens delays. Where many stations are in range of each other it lowers the delivery
    /// rate: a failed repair loses the packets that it holds, and each repair floods a part of the network.
    pub local_repair: bool,
    /// Set if the node may have lost its sequence number: it does not route for `DELETE_PERIOD` (section
    /// 6.13).
    pub after_reboot: bool,
    /// Upper bound of the random delay before an RREQ is forwarded, which keeps neighbours from transmitting
    /// at the same time.
    pub broadcast_jitter: Duration,
    /// Initial sequence number.
    pub sequence: u32,
    /// Upper bounds on the packets held for one destination, and for all destinations together.
    pub held_packets: (usize, usize),
    /// Random seed of the node's jitter.
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
