//! Netfilter as a sans-IO engine: the rules of nf_tables on the packets of one network namespace.
//!
//! # Contract
//!
//! A [`Netfilter`] is the state of one network namespace. Its owner has two kinds of calls:
//!
//! **Packets.** While [`Netfilter::is_active`], each packet passes each of the five hooks of the IP layer by
//! [`Netfilter::pass`], which may change it, and decides on it. What rules ask of the host besides (log lines,
//! answers to rejected packets) is returned as [`RuleRequest`]s.
//!
//! **Administration.** [`Netfilter::answer`] takes what a program sends to a `NETLINK_NETFILTER` socket, and
//! returns the datagrams for that socket and the notifications for multicast groups.
//!
//! The [`Environment`] is the host around it: the time, interfaces, routing tables, random numbers.
//!
//! # Layers
//!
//! *Values*: `attributes` and `registers` read and write netlink attributes and the registers of the nf_tables
//! machine; `packet` finds headers. *Ruleset*: `ruleset` has tables, chains and rules, `set` and `contents`
//! sets and their elements, `stateful` counters, limits and quotas. *Evaluation*: `operation` is the trait of
//! an expression, `expression` has the kinds of them, `evaluate` runs a base chain, `engine` the hooks.
//! *Requests*: `netlink` changes a draft of the ruleset and commits it, `validate` checks it.
//!
//! # Not supported
//!
//! The families arp, bridge and netdev; link-layer headers in rules; flowtables; tracing; queues to programs;
//! `dup`, `fwd`, `tproxy`, `synproxy`, `socket`, `osf`, `xfrm`, `tunnel`. Requests for these fail as on a kernel
//! without the module, and are reported in [`Answers::warnings`].

#![forbid(unsafe_code)]

mod answer;
mod attributes;
mod compat;
mod contents;
mod engine;
mod environment;
mod evaluate;
mod expression;
mod family;
mod log_line;
mod netlink;
mod operation;
mod packet;
mod registers;
mod ruleset;
mod set;
mod stateful;
mod tracking;
mod validate;

pub use answer::reset_answer;
pub use attributes::NetfilterError;
pub use engine::{Decision, HookState, Netfilter};
pub use environment::{
    Environment, FibAnswer, FibQuestion, InterfaceFacts, Rejection, RuleRequest, SocketOwner,
};
pub use family::{ChainType, FilterHook, TableFamily};
pub use netlink::{Answers, NetfilterSender};
