//! Properties: section `properties`, claims about what programs write and about packets.

use crate::events::ProcessRef;
use belljar_base::{HostId, matches_wildcard};
use belljar_properties::{HistoryClaim, LineClaim};

/// A named claim about files of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// Unique name, which is valid as the name of a file.
    pub name: String,
    /// Hosts, sorted, of which each must have such a file; `None` for all hosts, of which one must have it.
    pub hosts: Option<Vec<HostId>>,
    /// Processes whose outputs are judged; `None` for all.
    pub process: Option<ProcessRef>,
    /// Files that are judged.
    pub files: Vec<FileSet>,
    /// The claim.
    pub claim: Claim,
}

/// Files of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSet {
    /// Standard output of processes.
    Stdout,
    /// Standard error of processes.
    Stderr,
    /// Files whose path matches this pattern, in which `*` stands for any characters but slashes: a path in the host's folder, or
    /// with a leading slash a path that programs see.
    Matching(String),
    /// Packets at interfaces; it is the only set of its property.
    Packets(PacketSet),
}

/// Packets that a host sends and receives at interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketSet {
    /// Names of interfaces, in which `*` stands for any characters.
    pub interfaces: Vec<String>,
    /// Filter in tcpdump's syntax; empty for all packets.
    pub filter: String,
}

impl PacketSet {
    /// True if packets at the interface of this name belong to it.
    pub fn is_at(&self, interface: &str) -> bool {
        self.interfaces.iter().any(|pattern| matches_wildcard(pattern, interface))
    }
}

impl Property {
    /// Packets that are judged, if the property is about packets.
    pub fn packets(&self) -> Option<&PacketSet> {
        self.files.iter().find_map(|files| match files {
            FileSet::Packets(packets) => Some(packets),
            _ => None,
        })
    }
}

/// What a property claims.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// A claim about lines.
    Lines(LineClaim),
    /// A claim about the history in all files together.
    History(HistoryClaim),
    /// The assertions that programs report in the file hold, each for itself.
    Assertions,
}

impl Claim {
    /// Key of the claim in an experiment file.
    pub fn key(&self) -> &'static str {
        match self {
            Claim::Lines(claim) => claim.quantifier.key(),
            Claim::History(_) => "history",
            Claim::Assertions => "assertions",
        }
    }
}
