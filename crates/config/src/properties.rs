//! Properties: section `properties`, claims about what programs write.

use crate::events::ProcessRef;
use belljar_base::HostId;
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
