//! Who the ranks are: their machines and processors.

use serde::{Deserialize, Serialize};
use std::fs;
use std::net::SocketAddr;

/// A rank as the others know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The name of its machine.
    pub host: String,
    /// The same for ranks that see the same files and can share memory: the machine's boot, namespaces of processes and files, user.
    pub machine: String,
    /// The CPUs that it may use.
    pub cpus: String,
    /// Model and features of the processor.
    pub processor: String,
    /// Where others connect to it; `None` until it listens.
    pub address: Option<SocketAddr>,
}

impl Member {
    /// This process.
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

/// The name of this machine.
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
    /// By rank.
    pub members: Vec<Member>,
    /// True if ranks of one machine exchange over memory.
    pub in_memory: bool,
}

impl Roster {
    /// A rank's name in messages.
    pub fn label(&self, rank: usize) -> String {
        match self.members.get(rank) {
            Some(member) => format!("rank {rank} ({})", member.host),
            None => format!("rank {rank}"),
        }
    }
    /// The ranks of the same machine as this one, itself among them.
    pub fn neighbours(&self, rank: usize) -> Vec<usize> {
        let machine = &self.members[rank].machine;
        (0..self.members.len()).filter(|other| self.members[*other].machine == *machine).collect()
    }
    /// The first rank of the same machine.
    pub fn keeper(&self, rank: usize) -> usize {
        self.neighbours(rank)[0]
    }
    /// The first rank of each machine but the first one's.
    pub fn other_keepers(&self) -> Vec<usize> {
        (1..self.members.len()).filter(|rank| self.keeper(*rank) == *rank).collect()
    }
    /// The number of ranks that this one shares its CPUs with, itself among them.
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
