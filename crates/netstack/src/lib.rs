//! A TCP/IP stack for one node, sans-IO, that behaves as Linux's does: packets, the time and operations on sockets go in;
//! packets, wake-ups, timers and notes come out. It knows no programs, files, descriptors, guest memory or system calls.
//! `belljar-kernel` puts Linux's face on it; traffic models and devices with an address of their own use it directly.
//!
//! # Contract
//!
//! A [`Stack`] is made from a [`StackConfig`] and a [`Clock`](clock::Clock). Its owner calls, by kinds:
//!
//! **Packets in.** [`deliver`](Stack::deliver), ahead of the time at which a packet is in. Arrivals are ordered by their
//! keys.
//!
//! **Time.** [`next_event`](Stack::next_event) says when something is due: to be asked after every other call.
//! [`pass_until`](Stack::pass_until) moves the clock on and handles what is due. An owner with timers of its own that must
//! fire in turn with these draws their names by [`TimerQueue::name`] from the stack's queue, asks
//! [`next_turn`](Stack::next_turn) what comes first, and calls [`receive_arrival`](Stack::receive_arrival) or
//! [`fire_timer`](Stack::fire_timer) once the clock is there.
//!
//! **Power.** [`cut_power`](Stack::cut_power), then the end of what uses the sockets, then [`lose_state`](Stack::lose_state);
//! [`restore_power`](Stack::restore_power) and [`begin_bootstrap`](Stack::begin_bootstrap) start it again.
//!
//! **Processor.** Where the clock's [`CpuModel`](clock::CpuModel) has costs, packets take time ([`cpu`]), and an owner with work of
//! its own charges it by [`Clock::work`](clock::Clock::work). An owner with threads handles events of a run only before the run's
//! limit, and calls [`stop_yielding`](Stack::stop_yielding) when none of them can run.
//!
//! **Sockets.** Attempts that never wait: [`listen`](Stack::listen), [`accept`](Stack::accept),
//! [`connect`](Stack::connect), [`read`](Stack::read), [`write`](Stack::write), [`finish`](Stack::finish),
//! [`bind_udp`](Stack::bind_udp), [`send_to`](Stack::send_to), [`receive_from`](Stack::receive_from),
//! [`close`](Stack::close). [`poll`](Stack::poll) gives the `EPOLL*` bits that hold. The modules [`tcp`], [`udp`], [`raw`]
//! and [`ping`] have what Linux's calls need besides; whoever queues packets by those ends with
//! [`flush_network`](Stack::flush_network).
//!
//! **Out.** After every call that may have changed something, [`take_departures`](Stack::take_departures) gives the packets
//! that have left, and [`take_effects`](Stack::take_effects) what the owner is to do, in the order in which it came to be:
//! [`Effect::Ready`] wakes those who wait for a socket, and must be carried out before anybody begins to wait.
//! [`drain_captured`](Stack::drain_captured) gives the packets that passed, where they are kept.
//!
//! **Configuration.** Interfaces, addresses, routes, rules, neighbours and settings are public, as the administrator of a
//! Linux host has them; [`set_carrier`](Stack::set_carrier), [`change_nic`](Stack::change_nic) and
//! [`set_routes`](Stack::set_routes) are for the experiment.
//!
//! # Sockets of other families
//!
//! The owner may keep sockets of families that need no stack under the same keys ([`socket::SocketKind::Other`]): so keys
//! and serial numbers are drawn from one row.
//!
//! # Network namespaces
//!
//! An owner may have several stacks, each with its own sockets: see [`networks`].
//!
//! # Layers
//!
//! [`interface`] carries packets between the protocols and the outside; links put Ethernet frames and neighbours between.
//! [`ip`] routes, fragments and distributes; [`v6`] is what IPv6 needs besides. [`udp`], [`tcp`], [`raw`] and [`ping`] are
//! the sockets over it, [`error_queue`], [`path_mtu`], [`multicast`] what they share.

#![forbid(unsafe_code)]

pub mod adapter;
pub mod address;
mod arp;
mod arrivals;
pub mod bind;
mod captured;
pub mod clock;
pub mod conf;
mod config;
pub mod cpu;
mod effects;
pub mod error_queue;
mod ethernet;
mod events;
pub mod family;
pub mod filter;
mod flow_hash;
mod footprint;
mod ids;
pub mod interface;
pub mod interfaces;
pub mod ip;
pub mod ip_socket;
pub mod keyed;
pub mod lifetimes;
pub mod mib;
pub mod multicast;
pub mod networks;
pub mod nexthops;
mod operations;
pub mod own_addresses;
pub mod path_mtu;
pub mod ping;
mod power;
pub mod raw;
pub mod readiness;
mod resolver;
mod route_log;
mod samples;
mod send;
pub mod shown_frames;
pub mod socket;
mod stack;
pub mod sysctl;
pub mod tcp;
#[cfg(test)]
mod testing;
mod timer;
mod timers;
pub mod tun;
pub mod udp;
pub mod v6;
pub mod veth;
pub mod virtual_links;
pub mod zero_copy;

pub use arrivals::Arrivals;
pub use captured::{CAPTURE_ROOM, CapturedRun};
pub use config::InitialRoute;
pub use config::{Departure, StackConfig, TcpBufferSizes};
pub use effects::{Effect, Effects, PacketDirection, Passed};
pub use ethernet::LinkConfig;
pub use events::Turn;
pub use ids::{ETH0, LO, SocketKey, interface_index};
pub use mib::StackCounters;
pub use power::PowerCut;
pub use resolver::Resolver;
pub use samples::TcpSample;
pub use stack::Stack;
pub use timer::{TimerId, TimerQueue};
pub use timers::StackTimer;
pub use v6::InitialRoute6;
