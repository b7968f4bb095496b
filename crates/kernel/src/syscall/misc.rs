//! System information, and calls that a simulated host refuses.

use crate::call::Call;
use crate::credentials::capability;
use crate::memory;
use crate::outcome::{Outcome, SysResult, done};
use crate::process::WaitStatus;
use crate::rights::AccessIds;
use belljar_linux_abi::kernel_config::{RELEASE, VERSION};
use belljar_linux_abi::process::SysInfo;
use belljar_linux_abi::{Errno, c};
use belljar_objects::kernel_log::BUFFER;
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::sdk;

/// Length of each field of `struct new_utsname` in bytes.
const NAME_LEN: usize = 65;
/// Total and free memory reported by a host in bytes.
const MEMORY: u64 = 4 << 30;
const FREE_MEMORY: u64 = 3 << 30;
/// Maximum number of bytes returned by one `getrandom` call.
const RANDOM_MAX: u64 = 0x1ff_ffff;

const MEMBARRIER_QUERY: i32 = 0;
/// Commands that require registration.
const MEMBARRIER_PRIVATE: i32 = 1 << 3;
const MEMBARRIER_SYNC_CORE: i32 = 1 << 5;
/// Supported commands of membarrier(2): those of Linux 6.1 except for restartable sequences.
const MEMBARRIER_COMMANDS: i32 = 0b111_1111;

/// uname(2).
pub fn sys_uname(call: &mut Call<'_>) -> SysResult {
    let [node, domain] = call.host.node_names();
    let mut all = [0u8; 6 * NAME_LEN];
    let fields: [&[u8]; 6] = [b"Linux", &node, RELEASE.as_bytes(), VERSION.as_bytes(), b"x86_64", &domain];
    for (place, field) in all.chunks_exact_mut(NAME_LEN).zip(fields) {
        let len = field.len().min(NAME_LEN - 1);
        place[..len].copy_from_slice(&field[..len]);
    }
    call.write_bytes(call.args[0], &all)?;
    done(0)
}

/// sethostname(2): changes the name that `uname(2)` reports; other hosts still know the old name.
pub fn sys_sethostname(call: &mut Call<'_>) -> SysResult {
    set_name(call, 0)
}

/// setdomainname(2).
pub fn sys_setdomainname(call: &mut Call<'_>) -> SysResult {
    set_name(call, 1)
}

fn set_name(call: &mut Call<'_>, which: usize) -> SysResult {
    call.host.processes.require_for(call.process, NamespaceKind::Uts, capability::SYS_ADMIN)?;
    let len = call.int(1);
    if !(0..NAME_LEN as i32).contains(&len) {
        return Err(Errno::EINVAL);
    }
    let name = call.read_vec(call.args[0], len as usize)?;
    let uts = call.host.processes.namespace(call.process, NamespaceKind::Uts);
    call.host.processes.namespaces.plain.get_mut(NamespaceKind::Uts, uts).names[which] = Some(name);
    done(0)
}

/// sysinfo(2).
pub fn sys_sysinfo(call: &mut Call<'_>) -> SysResult {
    let (totalram, freeram) = memory::total_and_free(call.host).unwrap_or((MEMORY, FREE_MEMORY));
    let info = SysInfo {
        uptime: (call.host.boottime_ns() / 1_000_000_000) as i64,
        totalram,
        freeram,
        procs: call.host.threads.len() as u16,
        mem_unit: 1,
        ..SysInfo::default()
    };
    call.write(call.args[0], &info)?;
    done(0)
}

/// getrandom(2): bytes from the host's seeded random stream; never blocks.
pub fn sys_getrandom(call: &mut Call<'_>) -> SysResult {
    let [addr, len, flags, ..] = call.args;
    let flags = flags as u32;
    let both = c::GRND_RANDOM | c::GRND_INSECURE;
    if flags & !(both | c::GRND_NONBLOCK) != 0 || flags & both == both {
        let choices = call.host.sdk.as_mut().filter(|_| flags == sdk::CHOICE && len == 8);
        let value = choices.ok_or(Errno::EINVAL)?.next_word();
        call.write(addr, &value)?;
        return done(len);
    }
    let len = len.min(RANDOM_MAX);
    let mut chunk = [0u8; 256];
    let mut given = 0;
    while given < len {
        let part = &mut chunk[..(len - given).min(256) as usize];
        call.host.random.fill(part);
        if let Err(fault) = call.host.write_guest(call.process, addr + given, part) {
            return if given == 0 { Err(fault) } else { done(given) };
        }
        given += part.len() as u64;
    }
    done(given)
}

/// membarrier(2): threads of a host never run concurrently, so all barriers hold already.
pub fn sys_membarrier(call: &mut Call<'_>) -> SysResult {
    let (command, flags) = (call.int(0), call.uint(1));
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let registered = &mut call.host.process(call.process).attributes.barriers;
    match command {
        MEMBARRIER_QUERY => done(MEMBARRIER_COMMANDS as u64),
        // The next higher bit is the registration command.
        MEMBARRIER_PRIVATE | MEMBARRIER_SYNC_CORE if *registered & command << 1 == 0 => Err(Errno::EPERM),
        _ if command.count_ones() == 1 && command & MEMBARRIER_COMMANDS != 0 => {
            *registered |= command;
            done(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// rseq(2): `ENOSYS`, as from a kernel without restartable sequences; programs have fallbacks.
pub fn sys_rseq(_call: &mut Call<'_>) -> SysResult {
    Err(Errno::ENOSYS)
}

/// Calls never permitted on a simulated host, such as `swapon`: `EPERM` and a warning.
pub fn sys_not_permitted(call: &mut Call<'_>) -> SysResult {
    let name = super::table::entry(call.number).map_or("?", |entry| entry.name);
    call.host.warn(format!("system call {name} is not permitted"));
    Err(Errno::EPERM)
}

/// syslog(2): lines are read all at once, and console settings have no effect.
pub fn sys_syslog(call: &mut Call<'_>) -> SysResult {
    const READ: i32 = 2;
    const READ_ALL: i32 = 3;
    const READ_CLEAR: i32 = 4;
    const CLEAR: i32 = 5;
    const CONSOLE_LEVEL: i32 = 8;
    const SIZE: i32 = 10;
    let (action, buffer, len) = (call.int(0), call.args[1], call.int(2));
    if !matches!(action, READ_ALL | SIZE) {
        let processes = &call.host.processes;
        processes
            .require(call.process, capability::SYSLOG)
            .or_else(|_| processes.require(call.process, capability::SYS_ADMIN))?;
    }
    match action {
        READ | READ_ALL | READ_CLEAR if buffer == 0 || len < 0 => Err(Errno::EINVAL),
        CONSOLE_LEVEL if !(1..=8).contains(&len) => Err(Errno::EINVAL),
        SIZE => done(BUFFER as u64),
        READ_ALL | READ_CLEAR => {
            let text = call.host.log.read_all(len as usize);
            call.write_bytes(buffer, &text)?;
            if action == READ_CLEAR {
                call.host.log.clear();
            }
            done(text.len() as u64)
        }
        CLEAR => {
            call.host.log.clear();
            done(0)
        }
        0..=9 => done(0),
        _ => Err(Errno::EINVAL),
    }
}

/// vhangup(2): hangs up the caller's terminal.
pub fn sys_vhangup(call: &mut Call<'_>) -> SysResult {
    call.host.processes.require(call.process, capability::SYS_TTY_CONFIG)?;
    if let Some(pty) = call.host.process(call.process).terminal {
        call.host.hang_up_terminal(pty);
    }
    done(0)
}

/// iopl(2): I/O ports are never accessible.
pub fn sys_iopl(call: &mut Call<'_>) -> SysResult {
    if call.uint(0) > 3 { Err(Errno::EINVAL) } else { Err(Errno::EPERM) }
}

/// ioperm(2).
pub fn sys_ioperm(call: &mut Call<'_>) -> SysResult {
    const PORTS: u64 = 65_536;
    let [from, count, ..] = call.args;
    let within = from.checked_add(count).is_some_and(|end| end > from && end <= PORTS);
    if within { Err(Errno::EPERM) } else { Err(Errno::EINVAL) }
}

/// reboot(2): enabling and disabling Ctrl-Alt-Del has no effect; a host cannot be restarted or halted by a
/// program.
pub fn sys_reboot(call: &mut Call<'_>) -> SysResult {
    const MAGIC: u32 = 0xfee1_dead;
    const FURTHER: [u32; 4] = [672_274_793, 85_072_278, 369_367_448, 537_993_216];
    const CAD_ON: u32 = 0x89ab_cdef;
    const CAD_OFF: u32 = 0;
    /// Restart, halt, power off, restart with a command, suspend, and kexec.
    const ENDS: [u32; 6] = [0x0123_4567, 0xcdef_0123, 0x4321_fedc, 0xa1b2_c3d4, 0xd000_fce2, 0x4558_4543];
    call.host.processes.require_for(call.process, NamespaceKind::Pid, capability::SYS_BOOT)?;
    if call.uint(0) != MAGIC || !FURTHER.contains(&call.uint(1)) {
        return Err(Errno::EINVAL);
    }
    let inside = call.host.processes.namespace(call.process, NamespaceKind::Pid);
    if let Some(init) = call.host.processes.namespaces.pids.init(inside) {
        // Inside a pid namespace, init is killed by the signal that corresponds to the command.
        let signal = match call.uint(2) {
            end if end == ENDS[0] || end == ENDS[3] => c::SIGHUP,
            end if end == ENDS[1] || end == ENDS[2] => c::SIGINT,
            _ => return Err(Errno::EINVAL),
        };
        let init = call.host.processes.find(call.process, init)?;
        call.host.end_process(init, WaitStatus::Signaled(signal));
        return Ok(Outcome::Gone);
    }
    match call.uint(2) {
        CAD_ON | CAD_OFF => done(0),
        end if ENDS.contains(&end) => {
            call.host.warn("a program tried to restart or halt its host");
            Err(Errno::EPERM)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// delete_module(2): `ENOENT`, since no modules are loaded.
pub fn sys_delete_module(call: &mut Call<'_>) -> SysResult {
    const LONGEST: usize = 56;
    call.host.processes.require(call.process, capability::SYS_MODULE)?;
    call.host.read_guest_string(call.process, call.args[0], LONGEST, Errno::ENOENT)?;
    Err(Errno::ENOENT)
}

/// kcmp(2): compares a resource of two processes. Files are compared by open file description.
pub fn sys_kcmp(call: &mut Call<'_>) -> SysResult {
    const FILE: i32 = 0;
    const VM: i32 = 1;
    const FILES: i32 = 2;
    const IO: i32 = 5;
    const SYSVSEM: i32 = 6;
    let one = call.host.processes.by_pid.get(&call.int(0)).copied().ok_or(Errno::ESRCH)?;
    let other = call.host.processes.by_pid.get(&call.int(1)).copied().ok_or(Errno::ESRCH)?;
    for process in [one, other] {
        call.host.processes.may_access(call.process, process, AccessIds::Real)?;
    }
    let order = match call.int(2) {
        FILE => call.host.file_of(one, call.int(3))?.cmp(&call.host.file_of(other, call.int(4))?),
        VM => call.host.processes[one.0].mm.cmp(&call.host.processes[other.0].mm),
        FILES => call.host.processes[one.0].fds.cmp(&call.host.processes[other.0].fds),
        // I/O contexts and semaphore undo lists always compare equal.
        IO | SYSVSEM => std::cmp::Ordering::Equal,
        // The other resources are never shared between processes.
        3..=7 => one.cmp(&other),
        _ => return Err(Errno::EINVAL),
    };
    done(match order {
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Less => 1,
        std::cmp::Ordering::Greater => 2,
    })
}
