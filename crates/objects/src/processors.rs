//! Processors that a host shows: sets of them, and the files of sysfs and procfs that describe them.
//!
//! A host runs one thread at a time, however many processors it shows. The number is for programs that size
//! their pools by it. All processors are cores of one package, with one thread each, and belong to one NUMA
//! node.

use crate::system_files::{MEMINFO, node_memory};
use belljar_linux_abi::Errno;
use std::fmt::Write;

/// Maximum number of processors.
pub const MAX_PROCESSORS: u32 = 1024;
const WORDS: usize = MAX_PROCESSORS as usize / 64;

/// Set of processors (`cpumask`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorSet([u64; WORDS]);

impl ProcessorSet {
    /// The first `count` processors.
    pub fn first(count: u32) -> ProcessorSet {
        let mut set = [0; WORDS];
        (0..count.min(MAX_PROCESSORS)).for_each(|n| set[n as usize / 64] |= 1 << (n % 64));
        ProcessorSet(set)
    }
    /// The processors of a mask as the system calls have it; bits beyond the maximum are ignored.
    pub fn from_bytes(mask: &[u8]) -> ProcessorSet {
        let mut set = [0; WORDS];
        for (n, byte) in mask.iter().take(8 * WORDS).enumerate() {
            set[n / 8] |= u64::from(*byte) << (8 * (n % 8));
        }
        ProcessorSet(set)
    }
    /// The mask as the system calls have it.
    pub fn to_bytes(self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
    /// The processors that are in both sets.
    pub fn and(self, other: ProcessorSet) -> ProcessorSet {
        ProcessorSet(std::array::from_fn(|n| self.0[n] & other.0[n]))
    }
    /// The lowest processor; `None` if the set is empty.
    pub fn lowest(self) -> Option<u32> {
        self.numbers().next()
    }
    fn numbers(self) -> impl Iterator<Item = u32> {
        (0..MAX_PROCESSORS).filter(move |n| self.0[*n as usize / 64] >> (n % 64) & 1 == 1)
    }
    /// Ranges of processors, such as `0-3,8` (`%*pbl`).
    pub fn list(self) -> String {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for n in self.numbers() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == n => *last = n,
                _ => ranges.push((n, n)),
            }
        }
        let range = |(first, last): &(u32, u32)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        ranges.iter().map(range).collect::<Vec<_>>().join(",")
    }
    /// Hexadecimal words of 32 processors, the highest first, for `count` processors (`%*pb`).
    pub fn map(self, count: u32) -> String {
        let word = |n: u32| (self.0[n as usize / 2] >> (32 * (n % 2))) as u32;
        let words = count.div_ceil(32).max(1);
        let digits = (count - 32 * (words - 1)).div_ceil(4) as usize;
        let first = format!("{:0digits$x}", word(words - 1));
        (0..words - 1).rev().fold(first, |text, n| format!("{text},{:08x}", word(n)))
    }
}

/// Level of the cache hierarchy: type, size in KiB, ways, sets, and true if all processors share it.
type Cache = (u32, &'static str, u32, u32, u32, bool);
const CACHES: [Cache; 4] = [
    (1, "Data", 32, 8, 64, false),
    (1, "Instruction", 32, 8, 64, false),
    (2, "Unified", 256, 8, 512, false),
    (3, "Unified", 8192, 16, 8192, true),
];
/// Line size of all caches in bytes.
const LINE: u32 = 64;

/// Directory at or below `/sys/devices`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemDirectory {
    /// `/sys/devices`.
    Devices,
    /// `/sys/devices/system`.
    System,
    /// `cpu`.
    Processors,
    /// `cpu/smt`.
    Threading,
    /// `cpu/cpu<n>`.
    Processor(u32),
    /// `cpu/cpu<n>/topology`.
    Topology(u32),
    /// `cpu/cpu<n>/cache`.
    Caches(u32),
    /// `cpu/cpu<n>/cache/index<n>`.
    Cache(u32, u8),
    /// `node`.
    Nodes,
    /// `node/node0`.
    Node,
}

/// File below `/sys/devices/system`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemDeviceFile(SystemDirectory, &'static str);

/// Entry of a directory below `/sys/devices/system`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemEntry {
    /// Directory.
    Directory(SystemDirectory),
    /// File that can be read.
    File(SystemDeviceFile),
    /// Symbolic link with its target.
    Link(String),
}

impl SystemDirectory {
    /// Names of the files.
    fn files(self) -> &'static [&'static str] {
        match self {
            SystemDirectory::Devices | SystemDirectory::System => &[],
            SystemDirectory::Processors => {
                &["enabled", "isolated", "kernel_max", "offline", "online", "possible", "present"]
            }
            SystemDirectory::Threading => &["active", "control"],
            SystemDirectory::Processor(_) => &["cpu_capacity"],
            SystemDirectory::Topology(_) => &[
                "cluster_cpus",
                "cluster_cpus_list",
                "cluster_id",
                "core_cpus",
                "core_cpus_list",
                "core_id",
                "core_siblings",
                "core_siblings_list",
                "die_cpus",
                "die_cpus_list",
                "die_id",
                "package_cpus",
                "package_cpus_list",
                "physical_package_id",
                "thread_siblings",
                "thread_siblings_list",
            ],
            SystemDirectory::Caches(_) => &[],
            SystemDirectory::Cache(..) => &[
                "coherency_line_size",
                "id",
                "level",
                "number_of_sets",
                "physical_line_partition",
                "shared_cpu_list",
                "shared_cpu_map",
                "size",
                "type",
                "ways_of_associativity",
            ],
            SystemDirectory::Nodes => {
                &["has_cpu", "has_generic_initiator", "has_memory", "has_normal_memory", "online", "possible"]
            }
            SystemDirectory::Node => &["cpulist", "cpumap", "distance", "meminfo", "numastat"],
        }
    }
}

/// The number behind `prefix` in a name, written as Linux writes it.
fn numbered(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// Processors of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processors {
    count: u32,
}

impl Default for Processors {
    fn default() -> Processors {
        Processors { count: 1 }
    }
}

impl Processors {
    /// `count` processors, 1 to [`MAX_PROCESSORS`].
    pub fn new(count: u32) -> Processors {
        Processors { count: count.clamp(1, MAX_PROCESSORS) }
    }
    /// Number of processors.
    pub fn count(self) -> u32 {
        self.count
    }
    /// Existing processors of a mask. `EINVAL` if it has none.
    pub fn among(self, mask: &[u8]) -> Result<ProcessorSet, Errno> {
        let set = ProcessorSet::from_bytes(mask).and(self.all());
        set.lowest().map(|_| set).ok_or(Errno::EINVAL)
    }
    /// All processors.
    pub fn all(self) -> ProcessorSet {
        ProcessorSet::first(self.count)
    }
    /// Length in bytes of the masks that system calls store (`cpumask_size`).
    pub fn mask_len(self) -> u64 {
        8 * u64::from(self.count.div_ceil(64))
    }
    /// Lines of `/proc/<pid>/status` for a thread that may run on `allowed`.
    pub fn status(self, allowed: ProcessorSet) -> String {
        let (map, list) = (allowed.map(self.count), allowed.list());
        format!("Cpus_allowed:\t{map}\nCpus_allowed_list:\t{list}\nMems_allowed:\t1\nMems_allowed_list:\t0\n")
    }
    /// Lines of `/proc/stat` for processors that have been idle for `idle` ticks since the boot.
    pub fn idle_times(self, idle: u64) -> String {
        let line = |name: &str, idle: u64| format!("{name} 0 0 0 {idle} 0 0 0 0 0 0\n");
        let each = (0..self.count).map(|n| line(&format!("cpu{n}"), idle));
        line("cpu ", idle * u64::from(self.count)) + &each.collect::<String>()
    }
    /// `/proc/interrupts`: a host has no interrupts of its own.
    pub fn interrupts(self) -> String {
        let heads: String = (0..self.count).map(|n| format!("CPU{n:<8}")).collect();
        let zeros = "         0 ".repeat(self.count as usize);
        let mut text = format!("           {heads}\n");
        for (name, what) in [
            ("NMI", "Non-maskable interrupts"),
            ("LOC", "Local timer interrupts"),
            ("RES", "Rescheduling interrupts"),
        ] {
            let _ = writeln!(text, "{name}: {zeros}  {what}");
        }
        text + "ERR:          0\nMIS:          0\n"
    }
    /// `/proc/cpuinfo`.
    pub fn info(self) -> String {
        let count = self.count;
        let mut text = String::new();
        for n in 0..count {
            let _ = writeln!(
                text,
                "processor\t: {n}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 60\n\
                 model name\t: Belljar CPU\nstepping\t: 1\ncpu MHz\t\t: 1000.000\ncache size\t: 8192 KB\n\
                 physical id\t: 0\nsiblings\t: {count}\ncore id\t\t: {n}\ncpu cores\t: {count}\n\
                 apicid\t\t: {n}\nfpu\t\t: yes\nfpu_exception\t: yes\ncpuid level\t: 13\nwp\t\t: yes\n\
                 flags\t\t: fpu tsc cx8 cmov mmx fxsr sse sse2 syscall nx rdtscp lm constant_tsc \
                 nonstop_tsc pni ssse3 cx16 sse4_1 sse4_2 popcnt\nbogomips\t: 2000.00\n\
                 clflush size\t: 64\ncache_alignment\t: 64\n\
                 address sizes\t: 48 bits physical, 48 bits virtual\npower management:\n"
            );
        }
        text
    }
    /// Names in a directory.
    pub fn names(self, directory: SystemDirectory) -> Vec<String> {
        let cpus = || (0..self.count).map(|n| format!("cpu{n}"));
        let files = directory.files().iter().map(|name| (*name).to_owned());
        match directory {
            SystemDirectory::Devices => vec!["system".to_owned()],
            SystemDirectory::System => vec!["cpu".to_owned(), "node".to_owned()],
            SystemDirectory::Processors => files.chain(cpus()).chain(["smt".to_owned()]).collect(),
            SystemDirectory::Processor(_) => {
                files.chain(["cache", "node0", "topology"].map(String::from)).collect()
            }
            SystemDirectory::Caches(_) => (0..CACHES.len()).map(|n| format!("index{n}")).collect(),
            SystemDirectory::Nodes => files.chain(["node0".to_owned()]).collect(),
            SystemDirectory::Node => files.chain(cpus()).collect(),
            _ => files.collect(),
        }
    }
    /// Entry of a directory.
    pub fn entry(self, directory: SystemDirectory, name: &str) -> Option<SystemEntry> {
        use SystemDirectory::*;
        if let Some(name) = directory.files().iter().find(|file| **file == name) {
            return Some(SystemEntry::File(SystemDeviceFile(directory, name)));
        }
        let cpu = || numbered(name, "cpu").filter(|n| *n < self.count);
        Some(SystemEntry::Directory(match (directory, name) {
            (Devices, "system") => System,
            (System, "cpu") => Processors,
            (System, "node") => Nodes,
            (Processors, "smt") => Threading,
            (Processors, _) => Processor(cpu()?),
            (Processor(n), "cache") => Caches(n),
            (Processor(n), "topology") => Topology(n),
            (Processor(_), "node0") => return Some(SystemEntry::Link("../../node/node0".to_owned())),
            (Caches(n), _) => {
                Cache(n, numbered(name, "index").filter(|index| (*index as usize) < CACHES.len())? as u8)
            }
            (Nodes, "node0") => Node,
            (Node, _) => return Some(SystemEntry::Link(format!("../../cpu/cpu{}", cpu()?))),
            _ => return None,
        }))
    }
    /// True for `node0/meminfo`.
    pub fn is_node_memory(SystemDeviceFile(directory, name): SystemDeviceFile) -> bool {
        directory == SystemDirectory::Node && name == "meminfo"
    }
    /// Content of a file.
    pub fn content(self, SystemDeviceFile(directory, name): SystemDeviceFile) -> String {
        let all = self.all();
        let list = |set: ProcessorSet| set.list();
        let map = |set: ProcessorSet| set.map(self.count);
        let one = |n: u32| {
            ProcessorSet::from_bytes(&{
                let mut bytes = [0; 8 * WORDS];
                bytes[n as usize / 8] = 1 << (n % 8);
                bytes
            })
        };
        let text = match directory {
            SystemDirectory::Processors => match name {
                "isolated" | "offline" => String::new(),
                "kernel_max" => "8191".to_owned(),
                _ => list(all),
            },
            SystemDirectory::Threading => if name == "active" { "0" } else { "notsupported" }.to_owned(),
            SystemDirectory::Processor(_) => "1024".to_owned(),
            SystemDirectory::Topology(n) => match name {
                "core_id" => n.to_string(),
                "cluster_id" => "65535".to_owned(),
                "die_id" | "physical_package_id" => "0".to_owned(),
                "core_siblings" | "die_cpus" | "package_cpus" => map(all),
                "core_siblings_list" | "die_cpus_list" | "package_cpus_list" => list(all),
                _ if name.ends_with("_list") => list(one(n)),
                _ => map(one(n)),
            },
            SystemDirectory::Cache(n, index) => {
                let (level, kind, size, ways, sets, is_shared) = CACHES[index as usize];
                let set = if is_shared { all } else { one(n) };
                match name {
                    "coherency_line_size" => LINE.to_string(),
                    "id" => if is_shared { 0 } else { n }.to_string(),
                    "level" => level.to_string(),
                    "number_of_sets" => sets.to_string(),
                    "physical_line_partition" => "1".to_owned(),
                    "shared_cpu_list" => list(set),
                    "shared_cpu_map" => map(set),
                    "size" => format!("{size}K"),
                    "type" => kind.to_owned(),
                    _ => ways.to_string(),
                }
            }
            SystemDirectory::Nodes => if name == "has_generic_initiator" { "" } else { "0" }.to_owned(),
            SystemDirectory::Node => match name {
                "cpulist" => list(all),
                "cpumap" => map(all),
                "distance" => "10".to_owned(),
                "meminfo" => return node_memory(MEMINFO),
                _ => "numa_hit 0\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 0\nlocal_node 0\nother_node 0"
                    .to_owned(),
            },
            SystemDirectory::Devices | SystemDirectory::System | SystemDirectory::Caches(_) => String::new(),
        };
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_linux_writes_them() {
        let set = ProcessorSet::from_bytes(&[0b1000_0111, 1, 0, 0, 1]);
        assert_eq!((set.list(), set.map(40)), ("0-2,7-8,32".to_owned(), "01,00000187".to_owned()));
        assert_eq!(ProcessorSet::first(64).map(64), "ffffffff,ffffffff");
        assert_eq!([1, 2, 5].map(|count| ProcessorSet::first(count).map(count)), ["1", "3", "1f"]);
        assert_eq!(ProcessorSet::first(0).list(), "");
        assert_eq!(ProcessorSet::first(9).to_bytes()[..3], [0xff, 1, 0]);
        assert_eq!(set.and(ProcessorSet::from_bytes(&[0x80])).lowest(), Some(7));
        assert_eq!(ProcessorSet::from_bytes(&[]).lowest(), None);
    }

    #[test]
    fn every_name_of_a_directory_is_an_entry_with_content() {
        let processors = Processors::new(12);
        let (mut directories, mut files) = (vec![SystemDirectory::Devices], 0);
        while let Some(directory) = directories.pop() {
            let names = processors.names(directory);
            assert!(!names.is_empty(), "{directory:?}");
            for name in names {
                match processors.entry(directory, &name).unwrap_or_else(|| panic!("{directory:?} {name}")) {
                    SystemEntry::Directory(below) => directories.push(below),
                    SystemEntry::File(file) => {
                        assert!(processors.content(file).ends_with('\n'), "{file:?}");
                        files += 1;
                    }
                    SystemEntry::Link(target) => assert!(target.starts_with("../../")),
                }
            }
        }
        assert_eq!(files, 7 + 2 + 12 * (1 + 16 + 4 * 10) + 6 + 5);
        for name in ["cpu12", "cpu01", "cpu+1", "cpu", "cpux"] {
            assert_eq!(processors.entry(SystemDirectory::Processors, name), None, "{name}");
        }
    }

    #[test]
    fn a_cache_lies_in_as_many_ways_and_sets_as_its_size_takes() {
        for (_, kind, size, ways, sets, _) in CACHES {
            assert_eq!(size * 1024, ways * sets * LINE, "{kind}");
        }
    }
}
