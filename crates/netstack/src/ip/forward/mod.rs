//! Forwarding: packets for other hosts are passed on, or refused by an ICMP error.

mod v4;
mod v6;
