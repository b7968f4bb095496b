//! A host's `cpu`.

use crate::error::Problem;
use crate::model::CpuSettings;
use crate::yaml::Node;
use crate::yaml::section::{self, Section};

const KEYS: &[&str] = &["syscall", "packet", "byte", "interrupt", "backlog"];
/// Upper bound on the capacity of a host's receive ring in packets.
const MAX_BACKLOG: u64 = 1_000_000;

/// Maximum number of processors that a host shows.
const MAX_COUNT: u64 = 1024;

/// Loads the number of processors that a host shows to its programs.
pub(super) fn count(node: &Node, key: &str) -> Result<u32, Problem> {
    match section::whole(node, key, MAX_COUNT)? {
        0 => Err(node.problem(format!("'{key}' must not be 0")).help("leave it out for one processor")),
        count => Ok(count as u32),
    }
}

/// Loads the costs of work on a host.
pub(super) fn cpu(node: &Node, key: &str) -> Result<CpuSettings, Problem> {
    let s = Section::new(node, &format!("'{key}'"), KEYS, false)?;
    let mut cpu = CpuSettings::default();
    for (key, cost) in [
        ("syscall", &mut cpu.syscall),
        ("packet", &mut cpu.packet),
        ("byte", &mut cpu.byte),
        ("interrupt", &mut cpu.interrupt),
    ] {
        *cost = s.read(key, section::duration)?.unwrap_or_default();
    }
    if [cpu.syscall, cpu.packet, cpu.byte, cpu.interrupt].iter().all(|cost| cost.is_zero()) {
        return Err(node
            .problem(format!("'{key}' names no work that takes time"))
            .help("add what a call or a packet costs, such as syscall: 500 ns, or leave 'cpu' out"));
    }
    if let Some(node) = s.get("backlog") {
        cpu.backlog = match section::whole(node, "backlog", MAX_BACKLOG)? {
            0 => return Err(node.problem("'backlog' must not be 0").help("1000 is Linux's")),
            packets => packets as u32,
        };
    }
    Ok(cpu)
}

/// Least memory of a host: a program with its C library takes some of it.
const LEAST_MEMORY: u64 = 1 << 20;

/// Loads a size of memory.
pub(crate) fn memory(node: &Node, key: &str) -> Result<u64, Problem> {
    match section::bytes(node, key)? {
        bytes if bytes < LEAST_MEMORY => Err(node
            .problem(format!("'{key}' must be at least 1 MiB: no program runs in less"))
            .help(format!("write a size such as {key}: 512 MiB"))),
        bytes => Ok(bytes),
    }
}
