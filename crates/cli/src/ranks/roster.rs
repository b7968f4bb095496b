//! The roster of ranks, with their machines and processors.

use serde::{Deserialize, Serialize};
use std::fs;
use std::net::SocketAddr;

/// Description of a rank for the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Host name of the machine.
    pub host: String,
    /// Identifier shared by ranks with the same files and shareable memory: the machine's boot ID, process
    /// and file namespaces, and user.
    pub machine: String,
    /// CPUs that the rank may use.
    pub cpus: String,
    /// Model and features of the processor.
    pub processor: String,
    /// Address for connections of other ranks; `None` until the rank listens.
    pub address: Option<SocketAddr>,
}

impl Member {
    /// Describes this process.
    pub fn this() -> Member {
        let link = |name: &str| {
            let path = fs::read_link(format!("/proc/self/ns/{name}"));
            path.map_or_else(|_| String::new(), |path| path.display().to_string())
        };
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let user = rustix::process::geteuid().as_raw();
        Member {
            host: host_name(),
            machine: format!("{} {} {} {user}", boot.trim(), link("pid"), link("mnt")),
            cpus: field("/proc/self/status", "Cpus_allowed_list"),
            processor: format!(
                "{}, {}",
                field("/proc/cpuinfo", "model name"),
                field("/proc/cpuinfo", "flags")
            ),
            address: None,
        }
    }
}

/// Returns the host name of this machine.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map(|rest| rest.trim_start_matches(['\t', ' ', ':']).trim_end().to_owned()).unwrap_or_default()
}

/// All ranks of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Roster {
    /// Members, by rank.
    pub members: Vec<Member>,
    /// True if ranks of one machine exchange packets over shared memory.
    pub in_memory: bool,
}

impl Roster {
    /// Label of a rank in messages.
    pub fn label(&self, rank: usize) -> String {
        match self.members.get(rank) {
            Some(member) => format!("rank {rank} ({})", member.host),
            None => format!("rank {rank}"),
        }
    }
    /// Ranks on the same machine as `rank`, itself included.
    pub fn neighbours(&self, rank: usize) -> Vec<usize> {
        let machine = &self.members[rank].machine;
        (0..self.members.len()).filter(|other| self.members[*other].machine == *machine).collect()
    }
    /// First rank on the same machine.
    pub fn keeper(&self, rank: usize) -> usize {
        self.neighbours(rank)[0]
    }
    /// First rank of each machine, except rank 0.
    pub fn other_keepers(&self) -> Vec<usize> {
        (1..self.members.len()).filter(|rank| self.keeper(*rank) == *rank).collect()
    }
    /// Number of ranks with the same CPUs as `rank`, itself included.
    pub fn sharers(&self, rank: usize) -> usize {
        let cpus = &self.members[rank].cpus;
        self.neighbours(rank).into_iter().filter(|other| self.members[*other].cpus == *cpus).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_grouped_by_machine() {
        let member = |host: &str, cpus: &str| Member {
            host: host.into(),
            machine: host.into(),
            cpus: cpus.into(),
            processor: String::new(),
            address: None,
        };
        let members = vec![member("a", "0-3"), member("b", "0-3"), member("a", "0-3"), member("b", "4")];
        let roster = Roster { members, in_memory: true };
        assert_eq!(
            (roster.neighbours(2), roster.keeper(3), roster.other_keepers()),
            (vec![0, 2], 1, vec![1])
        );
        assert_eq!((roster.sharers(0), roster.sharers(1), roster.sharers(3)), (2, 1, 1));
        assert_eq!(roster.label(3), "rank 3 (b)");
    }

    #[test]
    fn this_process_knows_where_it_is() {
        let member = Member::this();
        assert!(!member.host.is_empty() && !member.cpus.is_empty(), "{member:?}");
        assert!(member.machine.contains("mnt:[") && member.machine.contains("pid:["), "{member:?}");
    }
}
