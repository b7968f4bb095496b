//! Connection tracking and network address translation, as Linux 6.18 does them: the state machines of
//! netfilter's `nf_conntrack` and `nf_nat`, without hooks, sockets and clocks.
//!
//! # Contract
//! A [`Conntrack`] is the tracker of one network namespace. Packets are bytes from the start of the IP
//! header; the caller keeps the [`Attached`] of each packet from hook to hook. Time is passed in, and random
//! numbers come from the stream given at the start, so that the same packets at the same times have the same
//! effect in every run.
//!
//! A packet passes, in the order of Linux's priorities:
//!
//! | hook | priority | call |
//! |---|---|---|
//! | `Prerouting`, `Output` | -200 | [`Conntrack::track`] |
//! | `Prerouting`, `Output` | -100 | rules if [`Conntrack::nat_wanted`], then [`Conntrack::translate`]: the destination |
//! | `Input`, `Postrouting` | 100 | rules if [`Conntrack::nat_wanted`], then [`Conntrack::translate`]: the source |
//! | `Input`, `Postrouting` | last | [`Conntrack::confirm`] |
//!
//! The rules of the hooks of NAT call [`Conntrack::setup_nat`], [`Conntrack::setup_masquerade`] or
//! [`Conntrack::setup_redirect`]. A packet that ends before the last hook is [released](Conntrack::release).
//!
//! # Modules, bottom-up
//!
//! | module | content | kernel source |
//! |---|---|---|
//! | [`tuple`] | addresses and ports of a direction, and their inverse | `nf_conntrack_tuple.h` |
//! | `parse` | tuples of packets | `nf_conntrack_core.c` |
//! | [`settings`], [`statistics`] | sysctls and counters | `nf_conntrack_standalone.c` |
//! | `conn`, `table` | connections, and the table of them | `nf_conntrack_core.c` |
//! | [`tcp`], [`sctp`], `protocols`, `icmp` | states of protocols, ICMP errors | `nf_conntrack_proto_*.c` |
//! | `conntrack` | the course of a packet | `nf_conntrack_core.c` |
//! | [`nat`] | choice of translations, translation of packets | `nf_nat_core.c`, `nf_nat_proto.c` |
//! | [`expect`], [`helper`] | related connections of FTP and TFTP | `nf_conntrack_expect.c`, `nf_conntrack_ftp.c` |
//! | [`event`], [`ctnetlink`] | events and netlink messages | `nf_conntrack_netlink.c` |
//! | [`proc`] | texts of `/proc/net` | `nf_conntrack_standalone.c` |
//!
//! # Not supported
//! Timeout policies (`nfct timeout`), SYN proxies, security marks, offload, helpers other than FTP and TFTP,
//! logging of invalid packets, and bridged or VRF traffic. DCCP is tracked by addresses alone, as in Linux
//! since 6.16, PPTP's GRE by its call.
#![forbid(unsafe_code)]

mod conn;
mod conntrack;
#[cfg(test)]
mod conntrack_tests;
pub mod ctnetlink;
pub mod event;
pub mod expect;
pub mod helper;
mod icmp;
pub mod jhash;
pub mod nat;
mod packed;
mod parse;
pub mod proc;
mod protocols;
pub mod sctp;
mod seqadj;
pub mod settings;
pub mod statistics;
mod table;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod tuple;

pub use conn::{Attached, Conn, ConnKey, CtCounters, CtInfo, CtStatus, CtZone, Template};
pub use conntrack::{Conntrack, InetHook, TrackContext, TrackVerdict, Tracked};
pub use event::{CtEvent, EventGroups, Reporter};
pub use expect::Expectation;
pub use helper::Helper;
pub use nat::{Manip, NatFlags, NatRange};
pub use sctp::SctpState;
pub use settings::Settings;
pub use statistics::CtStatistics;
pub use tcp::TcpState;
pub use tuple::{InetAddress, L3, Tuple, TupleDirection};
