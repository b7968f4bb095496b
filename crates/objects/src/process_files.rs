//! Regular files of `/proc/<pid>`, `proc(5)`, and the content of those of process 1. The experiment itself
//! acts as init: it starts programs and adopts orphans, so no simulated process has pid 1; programs read its
//! files nevertheless to identify the init system.

use crate::namespaces::IdKind;

/// Regular files of `/proc/<pid>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ProcessFile {
    Auxv,
    Cgroup,
    Cmdline,
    Comm,
    Environ,
    Io,
    Limits,
    Loginuid,
    Maps,
    Mem,
    Mountinfo,
    Mounts,
    Mountstats,
    OomScore,
    OomScoreAdj,
    OomAdj,
    TimerSlack,
    CoredumpFilter,
    Cpuset,
    Pagemap,
    Personality,
    SetGroups,
    IdMap(IdKind),
    Smaps,
    SmapsRollup,
    Stat,
    Statm,
    Timers,
    Status,
    TimeOffsets,
    Wchan,
}

/// Names and modes of the files in `/proc/<pid>`.
pub const PROCESS_FILES: &[(&str, u32, ProcessFile)] = &[
    ("auxv", 0o400, ProcessFile::Auxv),
    ("cgroup", 0o444, ProcessFile::Cgroup),
    ("cmdline", 0o444, ProcessFile::Cmdline),
    ("comm", 0o644, ProcessFile::Comm),
    ("coredump_filter", 0o644, ProcessFile::CoredumpFilter),
    ("cpuset", 0o444, ProcessFile::Cpuset),
    ("environ", 0o400, ProcessFile::Environ),
    ("gid_map", 0o644, ProcessFile::IdMap(IdKind::Group)),
    ("io", 0o400, ProcessFile::Io),
    ("limits", 0o444, ProcessFile::Limits),
    ("loginuid", 0o644, ProcessFile::Loginuid),
    ("maps", 0o444, ProcessFile::Maps),
    ("mem", 0o600, ProcessFile::Mem),
    ("mountinfo", 0o444, ProcessFile::Mountinfo),
    ("mounts", 0o444, ProcessFile::Mounts),
    ("mountstats", 0o400, ProcessFile::Mountstats),
    ("oom_adj", 0o644, ProcessFile::OomAdj),
    ("oom_score", 0o444, ProcessFile::OomScore),
    ("oom_score_adj", 0o644, ProcessFile::OomScoreAdj),
    ("pagemap", 0o400, ProcessFile::Pagemap),
    ("personality", 0o400, ProcessFile::Personality),
    ("setgroups", 0o644, ProcessFile::SetGroups),
    ("smaps", 0o444, ProcessFile::Smaps),
    ("smaps_rollup", 0o444, ProcessFile::SmapsRollup),
    ("stat", 0o444, ProcessFile::Stat),
    ("statm", 0o444, ProcessFile::Statm),
    ("status", 0o444, ProcessFile::Status),
    ("timens_offsets", 0o644, ProcessFile::TimeOffsets),
    ("timers", 0o444, ProcessFile::Timers),
    ("timerslack_ns", 0o666, ProcessFile::TimerSlack),
    ("uid_map", 0o644, ProcessFile::IdMap(IdKind::User)),
    ("wchan", 0o444, ProcessFile::Wchan),
];

/// Pid of init.
pub const INIT: i32 = 1;

/// Content of a file of `/proc/1`. Memory maps, descriptors and arguments are not fabricated; the mounts are
/// those of the host.
pub fn init_text(file: ProcessFile) -> &'static str {
    match file {
        ProcessFile::Comm => "init\n",
        ProcessFile::Cmdline => "/init\0",
        ProcessFile::Cgroup => "0::/init.scope\n",
        ProcessFile::Cpuset => "/\n",
        ProcessFile::OomScore | ProcessFile::OomAdj | ProcessFile::OomScoreAdj => "0\n",
        ProcessFile::Loginuid => "4294967295",
        ProcessFile::SetGroups => "allow\n",
        ProcessFile::IdMap(_) => "         0          0 4294967295\n",
        ProcessFile::Personality => "00000000\n",
        ProcessFile::Stat => {
            "1 (init) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 0 2625536 256 18446744073709551615 0 0 0 0 0 0 0 4096 0 0 0 \
             0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        }
        ProcessFile::Statm => "641 256 0 0 0 33 0\n",
        ProcessFile::Status => {
            "Name:\tinit\nUmask:\t0000\nState:\tS (sleeping)\nTgid:\t1\nNgid:\t0\nPid:\t1\nPPid:\t0\nTracerPid:\t0\n\
             Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t \nNStgid:\t1\nNSpid:\t1\nNSpgid:\t1\nNSsid:\t1\n\
             VmPeak:\t    2564 kB\nVmSize:\t    2564 kB\nVmLck:\t       0 kB\nVmRSS:\t    1024 kB\nThreads:\t1\n\
             SigBlk:\t0000000000000000\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000014003\n\
             CapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\nCapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\n\
             CapAmb:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n"
        }
        _ => "",
    }
}
