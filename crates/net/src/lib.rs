//! The network beyond the hosts' kernels, sans-IO: every call is given `now`, nothing here waits or
//! reads a clock.
//!
//! * [`graph`]: nodes and edges of an internet-scale model, read from GML; the [`Path`] between two
//!   nodes is found on first use and shared by all hosts.
//! * [`Flow`]: when a packet that follows a path arrives: loss, jitter, and no overtaking.
//! * [`Impairments`]: what a link does to frames: loss in bursts, reordering, copies, wrong bits.
//! * [`link`]: one direction of a link or path with all of these and its scheduled changes, as every backend drives it.
//! * [`nic`]: a host's interface as a machine of queues: a queue, a token bucket and serialisation at the host's
//!   bandwidth on the way out, CoDel and serialisation on the way in. [`ecn`] is what queues mark.
//! * [`filter`]: which packets are captured, in tcpdump's words.
//! * [`addresses`]: which host has which IPv4 address and name.
//! * [`dns`]: the name server that answers for hosts and configured records.
//! * [`switch`]: the learning switch between the links of an explicit topology.
//! * [`frame`], [`neighbour`], [`forward`]: Ethernet frames and ARP messages, the neighbour cache, forwarding of packets;
//!   [`forward6`] is the IPv6 part of [`forward`].
//! * [`MssClamp`]: clamping of the MSS option of SYNs that are forwarded.
//! * [`routes`]: routing tables of both families; [`policy`]: the rules by which one of several tables is asked.
//! * [`icmp_limit`]: rate limits of ICMP errors.
//! * [`igmp`]: what a host says of its multicast groups.
//! * [`units`]: values such as "10 ms" and "1 Gbit", as graphs and experiment files write them.
//!
//! Nothing in here knows of guests, sockets or files.
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
pub use routes::{InterfaceAddress, Prefix, RouteTable};
