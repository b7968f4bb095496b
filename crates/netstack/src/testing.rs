//! Stacks for unit tests.

use crate::clock::{Clock, CpuModel, DEFAULT_EPOCH_SECS};
use crate::{Stack, StackConfig};
use belljar_base::{HostId, Seed};
use std::net::Ipv4Addr;

/// Creates a node on the graph with the address 11.0.0.1.
pub fn stack() -> Stack {
    stack_at(Ipv4Addr::new(11, 0, 0, 1))
}

/// Creates a node on the graph with this address.
pub fn stack_at(address: Ipv4Addr) -> Stack {
    let name = address.to_string();
    let config = StackConfig { address, on_graph: true, ..StackConfig::new(HostId(0), &name, Seed(1)) };
    Stack::new(config, Clock::new(DEFAULT_EPOCH_SECS, CpuModel::default()))
}
