//! A sans-IO TCP/IP stack for one node that behaves as Linux's does. Its inputs are packets, the time and
//! socket operations; its outputs are packets, wake-ups, timers and log messages. It has no notion of
//! programs, files, descriptors, guest memory or system calls. `belljar-kernel` implements Linux's interface
//! on it; traffic models and devices with an address of their own use it directly.
//!
//! # Contract
//!
//! A [`Stack`] is created from a [`StackConfig`] and a [`Clock`](clock::Clock). Its owner calls, by kinds:
//!
//! **Input.** [`deliver`](Stack::deliver) queues a packet ahead of its arrival. Arrivals are ordered by their
//! keys.
//!
//! **Time.** [`next_event`](Stack::next_event) returns the time of the next event; the owner queries it after
//! every other call. [`pass_until`](Stack::pass_until) advances the clock and handles the events due. An
//! owner whose own timers must be ordered with those of the stack allocates their identifiers from the
//! stack's queue with [`TimerQueue::name`], and runs by the [event loop](event_loop::EventLoop).
//!
//! **Power.** [`cut_power`](Stack::cut_power), then closing the users of the sockets, then
//! [`lose_state`](Stack::lose_state). [`restore_power`](Stack::restore_power) and
//! [`begin_bootstrap`](Stack::begin_bootstrap) restart the stack.
//!
//! **Processor.** If the clock's [`CpuModel`](clock::CpuModel) has costs, packets take time ([`cpu`]), and an
//! owner with work of its own charges it by [`Clock::work`](clock::Clock::work). An owner with threads
//! handles events of a run only before the run's limit, and calls [`Clock::stop_yielding`](clock::Clock::stop_yielding)
//! when none of them is runnable.
//!
//! **Sockets.** Non-blocking operations: [`listen`](Stack::listen), [`accept`](Stack::accept),
//! [`connect`](Stack::connect), [`read`](Stack::read), [`write`](Stack::write), [`finish`](Stack::finish),
//! [`bind_udp`](Stack::bind_udp), [`send_to`](Stack::send_to), [`receive_from`](Stack::receive_from),
//! [`close`](Stack::close). [`poll`](Stack::poll) returns the `EPOLL*` bits currently set. The modules
//! [`tcp`], [`udp`], [`raw`] and [`ping`] provide the remaining operations of Linux's calls; a caller that
//! queues packets by those then calls [`flush_network`](Stack::flush_network).
//!
//! **Output.** After every call that may have changed state, [`take_departures`](Stack::take_departures)
//! returns the departed packets, and [`take_effects`](Stack::take_effects) the requests to the owner, in the
//! order in which they arose: [`Effect::Ready`] wakes the waiters of a socket, and must be carried out before
//! a new waiter registers. [`drain_captured`](Stack::drain_captured) returns the captured packets.
//!
//! **Configuration.** Interfaces, addresses, routes, rules, neighbours and settings are public, as they are
//! to the administrator of a Linux host. [`set_carrier`](Stack::set_carrier),
//! [`change_nic`](Stack::change_nic) and [`set_routes`](Stack::set_routes) are for the experiment.
//!
//! # Sockets of other families
//!
//! The owner may store sockets of families that need no stack under the same keys
//! ([`socket::SocketKind::Other`]), so keys and serial numbers are allocated from one sequence.
//!
//! # Network namespaces
//!
//! An owner may have several stacks, each with its own sockets: see [`networks`].
//!
//! # Account
//!
//! Each packet in the stack is counted by its origin and its disposition, and
//! [`packet_account`](Stack::packet_account) returns the balance: see [`account`].
//!
//! # Layers
//!
//! `packet_io` carries packets between the protocols and the media; link interfaces add Ethernet frames and
//! neighbour resolution. [`ip`] routes, fragments and demultiplexes; [`v6`] adds the parts specific to IPv6.
//! [`udp`], [`tcp`], [`raw`] and [`ping`] are the sockets above; [`error_queue`], [`path_mtu`] and
//! [`multicast`] are shared by them.
//!
//! A file defines values, the fields of [`Stack`], or wires them, in `impl Stack`. Files of values do not name
//! `Stack`.

#![forbid(unsafe_code)]

pub mod account;
pub mod adapter;
pub mod address;
mod address_expiry;
mod arp;
mod arrivals;
pub mod bind;
pub mod buffers;
mod captured;
pub mod carrier;
pub mod clock;
pub mod conf;
mod config;
mod connected;
pub mod cpu;
pub mod devices;
mod effects;
pub mod endpoint;
pub mod error_queue;
mod ethernet;
pub mod event_loop;
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
mod ip_socket_calls;
pub mod keyed;
pub mod lifetimes;
pub mod link;
pub mod mib;
pub mod multicast;
pub mod networks;
pub mod nexthops;
mod operations;
pub mod own_addresses;
mod packet_io;
pub mod path_mtu;
pub mod ping;
mod power;
pub mod ptp;
pub mod raw;
pub mod readiness;
mod resolver;
mod route_log;
pub mod routing;
mod samples;
mod send;
pub mod send_charge;
mod settings;
pub mod shown_frames;
pub mod socket;
mod stack;
pub mod stamping;
pub mod sysctl;
pub mod tcp;
#[cfg(test)]
mod testing;
mod timer;
mod timers;
pub mod timestamps;
pub mod traffic;
pub mod traffic_state;
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
pub use events::Turn;
pub use ids::{ETH0, LO, SocketKey, interface_index};
pub use link::LinkConfig;
pub use mib::StackCounters;
pub use power::PowerCut;
pub use resolver::Resolver;
pub use samples::TcpSample;
pub use stack::{LocalRouteKey, Stack};
pub use timer::{TimerId, TimerQueue};
pub use timers::StackTimer;
pub use v6::InitialRoute6;
