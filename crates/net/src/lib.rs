//! Components of networks outside of the hosts' kernels, sans-IO: every call is given `now`, and nothing in
//! the crate waits or reads a clock.
//!
//! * [`graph`]: nodes and edges of an internet-scale network, read from GML; the [`Path`] between two nodes
//!   is computed on first use and shared by all hosts.
//! * [`Flow`]: arrival times of packets over a path, with loss and jitter but without reordering.
//! * [`Impairments`]: impairments of frames by a link: loss in bursts, reordering, duplication, corruption.
//! * [`link`]: one direction of a link or path with all of these and its scheduled changes, as used by
//!   every backend.
//! * [`nic`]: network interface as a system of queues: a queue, a token bucket and serialisation at the
//!   host's bandwidth on egress, CoDel and serialisation on ingress. [`ecn`]: congestion marks of the
//!   queues.
//! * [`filter`]: capture filters in tcpdump's syntax.
//! * [`addresses`]: IPv4 addresses and names of hosts.
//! * [`dns`]: name server for hosts and configured records.
//! * [`switch`]: learning switch between the links of an explicit topology.
//! * [`frame`], [`neighbour`], [`forward`]: Ethernet frames and ARP messages, the neighbour cache, forwarding
//!   of packets; [`forward6`] is the IPv6 part of [`forward`].
//! * [`MssClamp`]: clamping of the MSS option of forwarded SYNs.
//! * [`routes`]: routing tables of both families; [`policy`]: policy rules, which select the table.
//! * [`icmp_limit`]: rate limits of ICMP messages.
//! * [`igmp`]: reports of a host's multicast groups.
//! * [`units`]: values such as "10 ms" and "1 Gbit", as in graphs and experiment files.
//!
//! The crate has no notion of guests, sockets or files.
#![forbid(unsafe_code)]

pub mod addresses;
pub mod dns;
pub mod ecn;
pub mod filter;
mod flow;
pub mod forward;
pub mod forward6;
pub mod frame;
pub mod graph;
pub mod icmp_limit;
pub mod igmp;
mod impairment;
pub mod link;
mod mss_clamp;
pub mod neighbour;
pub mod nic;
mod packet;
pub mod policy;
mod ports;
pub mod routes;
pub mod suggest;
pub mod switch;
pub mod units;

pub use addresses::{AddressError, Addresses};
pub use filter::Filter;
pub use flow::{Flow, FlowStreams};
pub use graph::{EdgeState, Graph, GraphError, NodeIndex, Path};
pub use impairment::{FrameImpairment, GilbertElliott, Impairments, Loss, Reordering, flip};
pub use mss_clamp::MssClamp;
pub use nic::{Counters, DropReason, Nic, NicChange, NicConfig, NicEvent, QueueConfig, TokenBucket};
pub use packet::{ChecksumState, Packet};
pub use ports::Ports;
pub use routes::{InterfaceAddress, Prefix, RouteTable};
