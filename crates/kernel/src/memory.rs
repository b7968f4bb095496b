//! Limits of a host's memory, and the out-of-memory killer.
//!
//! What counts is what Linux cannot drop: pages of private and shared anonymous memory that programs have touched, once for all address
//! spaces that share them. They are counted where a call changes mappings, and each few calls otherwise; if they are more than the limit,
//! the process with the largest badness is killed before the call is made. Between two calls a program may touch more than the limit.
//! Hosts without a limit have none of it.

use crate::host::{Host, ProcessReport};
use crate::ids::{InodeKey, MmKey, ProcessKey, ThreadKey};
use crate::outcome::{SysResult, done};
use belljar_base::Set;
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_objects::inode::{Node, ROOT};
use belljar_objects::maps;
use belljar_objects::memory_limit::badness;
use belljar_objects::space::{PAGE, Vma, VmaKind};
use belljar_objects::system_files::{MEMINFO, memory_info};
use belljar_objects::virtual_files::VirtualFile;

/// Calls that change how much memory a host may use.
const CHANGES: [i64; 9] = [
    c::SYS_mmap,
    c::SYS_brk,
    c::SYS_mremap,
    c::SYS_mprotect,
    c::SYS_fork,
    c::SYS_vfork,
    c::SYS_clone,
    c::SYS_clone3,
    c::SYS_execve,
];
/// Levels of the kernel's log.
const ERROR: u8 = 3;
const WARNING: u8 = 4;
/// `oom_score_adj` of a process that is never killed (`OOM_SCORE_ADJ_MIN`).
const NEVER: i32 = -1_000;
const KIB: u64 = 1_024;

/// Limits the memory of a host, from an event on.
pub fn begin(host: &mut Host, event: u32, bytes: u64) {
    host.memory.get_or_insert_default().begin(event, bytes);
    // Calls of hosts with faults take the longer path, on which memory is counted.
    host.call_faults.get_or_insert_default();
}

/// Ends the limit of an event. Processes of the experiment that were killed under it start again.
pub fn end(host: &mut Host, event: u32) {
    let victims = host.memory.as_mut().map(|memory| memory.end(event)).unwrap_or_default();
    victims.into_iter().for_each(|spec| host.start_again(spec));
}

/// Number of processes that the out-of-memory killer has ended.
pub fn kills(host: &Host) -> u64 {
    host.memory.as_ref().map_or(0, |memory| memory.kills)
}

/// `/proc/meminfo`.
pub(crate) fn info(host: &mut Host) -> String {
    match limit(host) {
        Some(bytes) => memory_info(bytes, count(host).total * PAGE),
        None => MEMINFO.to_owned(),
    }
}

/// Total and free memory of sysinfo(2), if there is a limit.
pub(crate) fn total_and_free(host: &mut Host) -> Option<(u64, u64)> {
    let bytes = limit(host)?;
    Some((bytes, bytes.saturating_sub(count(host).total * PAGE)))
}

/// `/proc/sys/vm/overcommit_memory` until it is written: heuristic where there is a limit, else always.
pub(crate) fn default_overcommit(host: &Host) -> &'static [u8] {
    if limit(host).is_some() { b"0\n" } else { b"1\n" }
}

/// Notes a copy of an address space.
pub(crate) fn forked(host: &mut Host, parent: MmKey, child: MmKey) {
    if host.memory.is_some() {
        let pages = private_pages(host, parent);
        host.memory.iter_mut().for_each(|memory| memory.forked(parent, child, pages));
    }
}

fn limit(host: &Host) -> Option<u64> {
    host.memory.as_ref().and_then(|memory| memory.bytes())
}

/// Enforces the limit before a call. Returns its result if it is refused, or not made because its process is killed.
#[cold]
pub(crate) fn enforce(
    host: &mut Host,
    thread: ThreadKey,
    (number, args): (u32, [u64; 6]),
) -> Option<SysResult> {
    let bytes = limit(host)?;
    if let Some(refused) = refused(host, thread, (number, args), bytes) {
        return Some(refused);
    }
    let changes = CHANGES.contains(&i64::from(number));
    let is_due = host.memory.as_mut().is_some_and(|memory| memory.is_due(changes));
    if !is_due || mapped(host) <= bytes {
        return None;
    }
    let caller = host.threads[thread.0].process;
    loop {
        let count = count(host);
        if count.total * PAGE <= bytes {
            break;
        }
        let Some(victim) = worst(host, &count, bytes / PAGE) else {
            host.warn("a memory limit is exceeded, and no process may be killed (oom_score_adj)");
            return None;
        };
        kill(host, victim, caller);
    }
    is_dying(host, caller).then_some(Err(Errno::EINTR))
}

/// Result of a call that asks for more memory than the host may promise (`__vm_enough_memory`).
fn refused(
    host: &mut Host,
    thread: ThreadKey,
    (number, args): (u32, [u64; 6]),
    bytes: u64,
) -> Option<SysResult> {
    let mm = host.processes[host.threads[thread.0].process.0].mm?;
    let brk = host.spaces[mm.0].brk.clone();
    let added = match i64::from(number) {
        c::SYS_mmap => {
            let (flags, writable) = (args[3] as i32, args[2] as i32 & c::PROT_WRITE != 0);
            let is_file = flags & c::MAP_ANONYMOUS == 0;
            let reserves = flags & c::MAP_NORESERVE == 0 || mode(host) == Mode::Never;
            let is_shared_file = is_file && flags & c::MAP_TYPE != c::MAP_PRIVATE;
            if writable && reserves && !is_shared_file { args[1] } else { 0 }
        }
        c::SYS_mremap => args[2].saturating_sub(args[1]),
        c::SYS_brk => args[0].saturating_sub(brk.end),
        _ => 0,
    };
    if added == 0 {
        return None;
    }
    let is_too_much = match mode(host) {
        Mode::Heuristic => added > bytes,
        Mode::Always => false,
        Mode::Never => committed(host).saturating_add(added) > bytes / 2,
    };
    let result = if i64::from(number) == c::SYS_brk { done(brk.end) } else { Err(Errno::ENOMEM) };
    is_too_much.then_some(result)
}

/// Values of `/proc/sys/vm/overcommit_memory`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Heuristic,
    Always,
    Never,
}

fn mode(host: &mut Host) -> Mode {
    let mut at: InodeKey = ROOT;
    for part in [&b"proc"[..], b"sys", b"vm", b"overcommit_memory"] {
        match host.lookup(at, part) {
            Ok(Some(next)) => at = next,
            _ => return Mode::Heuristic,
        }
    }
    match &host.files.inode(at).node {
        Node::Virtual(VirtualFile::Written(text)) => match text.trim_ascii() {
            b"1" => Mode::Always,
            b"2" => Mode::Never,
            _ => Mode::Heuristic,
        },
        _ => Mode::Heuristic,
    }
}

/// Bytes that programs may write without a file behind them (`Committed_AS`).
fn committed(host: &Host) -> u64 {
    let counts =
        |vma: &&Vma| vma.may_write && vma.prot.contains(belljar_machine::Prot::WRITE) && !is_of_file(vma);
    host.spaces.iter().flat_map(|(_, space)| space.vmas()).filter(counts).map(Vma::counted).sum()
}

/// True for a shared mapping of a file, whose pages the file has.
fn is_of_file(vma: &Vma) -> bool {
    vma.shared && !vma.is_anonymous()
}

/// Upper bound of what [`count`] finds, in bytes.
fn mapped(host: &Host) -> u64 {
    let all = host.spaces.iter().flat_map(|(_, space)| space.vmas());
    all.filter(|vma| vma.is_anonymous()).map(maps::resident).sum()
}

/// Touched pages of a host.
struct Count {
    total: u64,
    /// Pages of each address space, shared ones included.
    spaces: Vec<(MmKey, u64)>,
}

/// Counts the touched pages of all processes but those that are about to end.
fn count(host: &mut Host) -> Count {
    let ends = |process: &ProcessKey| is_dying(host, *process);
    let all: Vec<ProcessKey> = host.processes.iter().map(|(key, _)| ProcessKey(key)).collect();
    let dying: Set<MmKey> = all
        .iter()
        .filter(|process| ends(process))
        .filter_map(|process| host.processes[process.0].mm)
        .collect();
    let keys: Vec<MmKey> = host.spaces.iter().map(|(key, _)| MmKey(key)).collect();
    let (mut total, mut spaces, mut seen) = (0, Vec::new(), Set::new());
    for key in keys.into_iter().filter(|key| !dying.contains(key)) {
        let private = private_pages(host, key);
        let shared = shared_pages(host, key);
        let counted_elsewhere = host.memory.as_ref().map_or(0, |memory| memory.shared(key));
        total += private.saturating_sub(counted_elsewhere);
        total += shared.iter().filter(|(file, _)| seen.insert(*file)).map(|(_, pages)| pages).sum::<u64>();
        spaces.push((key, private + shared.iter().map(|(_, pages)| pages).sum::<u64>()));
    }
    Count { total, spaces }
}

fn is_dying(host: &Host, process: ProcessKey) -> bool {
    let process = &host.processes[process.0];
    process.ended.is_none() && process.signals.fatal.is_some()
}

/// Touched pages of private anonymous memory.
fn private_pages(host: &mut Host, key: MmKey) -> u64 {
    let vmas = host.spaces[key.0].vmas().filter(|vma| vma.is_private_anonymous() && maps::resident(vma) > 0);
    let parts: Vec<(u64, u64)> = vmas.map(|vma| (vma.start, vma.end)).collect();
    parts.into_iter().map(|part| touched(host, key, part)).sum()
}

/// Touched pages of shared anonymous memory, by its identity.
fn shared_pages(host: &mut Host, key: MmKey) -> Vec<((u64, u64), u64)> {
    let vmas =
        host.spaces[key.0].vmas().filter(|vma| vma.shared && vma.is_anonymous() && maps::resident(vma) > 0);
    let parts: Vec<_> = vmas
        .filter_map(|vma| match vma.kind {
            VmaKind::File { identity, .. } => Some((identity, (vma.start, vma.end))),
            VmaKind::Anonymous(_) => None,
        })
        .collect();
    parts.into_iter().map(|(identity, part)| (identity, touched(host, key, part))).collect()
}

fn touched(host: &mut Host, key: MmKey, (start, end): (u64, u64)) -> u64 {
    let mut pages = vec![0; ((end - start) / PAGE) as usize];
    match host.machine.resident(host.spaces[key.0].space, start, &mut pages) {
        Ok(()) => pages.iter().map(|page| u64::from(page & 1)).sum(),
        Err(_) => 0,
    }
}

/// Process that is to be killed (`oom_badness`): the first one with the largest badness.
fn worst(host: &Host, count: &Count, total_pages: u64) -> Option<ProcessKey> {
    let mut worst: Option<(i64, ProcessKey)> = None;
    for (key, process) in host.processes.iter() {
        let pages = count.spaces.iter().find(|(mm, _)| Some(*mm) == process.mm).map(|(_, pages)| *pages);
        let adjustment = process.attributes.oom_score_adjustment;
        let Some(pages) = pages.filter(|_| process.ended.is_none() && adjustment != NEVER) else { continue };
        let points = badness(pages, adjustment, total_pages);
        if worst.is_none_or(|(most, _)| points > most) {
            worst = Some((points, ProcessKey(key)));
        }
    }
    worst.map(|(_, process)| process)
}

/// Kills a process, and those that share its memory, with the lines that Linux logs.
fn kill(host: &mut Host, victim: ProcessKey, caller: ProcessKey) {
    let name = |host: &Host, process: ProcessKey| {
        let first = host.processes[process.0].threads.first();
        first.map_or_else(String::new, |thread| {
            String::from_utf8_lossy(&host.threads[thread.0].comm).into_owned()
        })
    };
    let adjustment =
        |host: &Host, process: ProcessKey| host.processes[process.0].attributes.oom_score_adjustment;
    let (monotonic, at) = (host.net.clock.monotonic_ns(), host.net.clock.now());
    let invoked = format!(
        "{} invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj={}",
        name(host, caller),
        adjustment(host, caller)
    );
    host.log.push(WARNING, monotonic, &invoked);
    let (process, mm) = (&host.processes[victim.0], host.processes[victim.0].mm);
    let (pid, uid) = (process.pid, process.credentials.uids()[0]);
    let (mut private, mut shared, mut total) = (0, 0, 0);
    if let Some(mm) = mm {
        private = private_pages(host, mm);
        shared = shared_pages(host, mm).iter().map(|(_, pages)| pages).sum::<u64>();
        total = host.spaces[mm.0].vmas().map(Vma::counted).sum::<u64>();
    }
    let kib = |pages: u64| pages * PAGE / KIB;
    let killed = format!(
        "Out of memory: Killed process {pid} ({}) total-vm:{}kB, anon-rss:{}kB, file-rss:0kB, shmem-rss:{}kB, UID:{uid} \
         pgtables:{}kB oom_score_adj:{}",
        name(host, victim),
        total / KIB,
        kib(private),
        kib(shared),
        kib(1 + (private + shared) / 512),
        adjustment(host, victim)
    );
    host.log.push(ERROR, monotonic, &killed);
    let limit = limit(host).unwrap_or_default();
    host.warn(format!(
        "process '{}' killed: out of memory, the limit being {limit} bytes",
        name(host, victim)
    ));
    let shares =
        |(_, process): &(usize, &crate::process::Process)| process.ended.is_none() && process.mm == mm;
    let all: Vec<ProcessKey> = host.processes.iter().filter(shares).map(|(key, _)| ProcessKey(key)).collect();
    for process in all {
        let spec = host.processes[process.0].spec;
        let is_of_event = host.memory.as_mut().is_some_and(|memory| memory.killed(spec));
        if let (Some(spec), true) = (spec, is_of_event) {
            // The experiment itself ends it, as in a crash: the end is as expected.
            host.reports.push(ProcessReport::Crashed { spec, at });
        }
        host.send_signal(process, SigInfo::user(c::SIGKILL, c::SI_KERNEL, 0, 0));
        if !is_dying(host, process) {
            // Its threads are all gone, or wait for a debugger.
            host.kill_process(process, c::SIGKILL);
        }
    }
}
