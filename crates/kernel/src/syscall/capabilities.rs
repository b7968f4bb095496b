//! Capabilities: capget(2), capset(2) and their part of prctl(2).

use crate::call::Call;
use crate::credentials::{ALL, LAST, capability};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};

/// `_LINUX_CAPABILITY_VERSION_3` and its predecessors.
const CAPABILITY_VERSION_1: u32 = 0x1998_0330;
const CAPABILITY_VERSION_2: u32 = 0x2007_1026;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Number of 32-bit words of each set in the format of the header at `addr`. `EINVAL` for an unknown version;
/// the newest version is then stored in the header.
fn capability_words(call: &mut Call<'_>, addr: u64) -> Result<usize, Errno> {
    match call.read::<u32>(addr)? {
        CAPABILITY_VERSION_1 => Ok(1),
        CAPABILITY_VERSION_2 | CAPABILITY_VERSION_3 => Ok(2),
        _ => {
            call.write(addr, &CAPABILITY_VERSION_3)?;
            Err(Errno::EINVAL)
        }
    }
}

/// capget(2).
pub fn sys_capget(call: &mut Call<'_>) -> SysResult {
    let [header, data, ..] = call.args;
    let words = match capability_words(call, header) {
        // Querying the version alone is not an error.
        Err(Errno::EINVAL) if data == 0 => return done(0),
        words => words?,
    };
    let pid: i32 = call.read(header + 4)?;
    if pid < 0 {
        return Err(Errno::EINVAL);
    }
    let pid = call.host.processes.meant_pid(call.process, pid);
    let process = call.host.threads.find_task(&call.host.processes, call.thread, pid)?;
    let sets = call.host.process(process).credentials.capabilities;
    if data == 0 {
        return done(0);
    }
    for word in 0..words {
        let part = |set: u64| (set >> (32 * word)) as u32;
        let triple = [part(sets.effective), part(sets.permitted), part(sets.inheritable)];
        call.write(data + 12 * word as u64, &triple)?;
    }
    done(0)
}

/// capset(2); only the caller's own thread is accepted.
pub fn sys_capset(call: &mut Call<'_>) -> SysResult {
    let [header, data, ..] = call.args;
    let words = capability_words(call, header)?;
    let pid: i32 = call.read(header + 4)?;
    let pid = call.host.processes.meant_pid(call.process, pid);
    if pid != 0 && pid != call.host.thread(call.thread).tid {
        return Err(Errno::EPERM);
    }
    let (mut effective, mut permitted, mut inheritable) = (0, 0, 0);
    for word in 0..words {
        let triple: [u32; 3] = call.read(data + 12 * word as u64)?;
        let [e, p, i] = triple.map(|part| u64::from(part) << (32 * word));
        (effective, permitted, inheritable) = (effective | e, permitted | p, inheritable | i);
    }
    let own = &mut call.host.process(call.process).credentials;
    let may_inherit_all = own.has(capability::SETPCAP);
    let old = own.capabilities;
    let (effective, permitted, inheritable) = (effective & ALL, permitted & ALL, inheritable & ALL);
    let beyond = |new: u64, limit: u64| new & !limit != 0;
    if (!may_inherit_all && beyond(inheritable, old.inheritable | old.permitted))
        || beyond(inheritable, old.inheritable | old.bounding)
        || beyond(permitted, old.permitted)
        || beyond(effective, permitted)
    {
        return Err(Errno::EPERM);
    }
    let sets = &mut own.capabilities;
    (sets.effective, sets.permitted, sets.inheritable) = (effective, permitted, inheritable);
    sets.ambient &= permitted & inheritable;
    done(0)
}

/// prctl(2) operations on the bounding set, the ambient set and the secure bits.
pub fn sys_prctl_capabilities(call: &mut Call<'_>) -> SysResult {
    let (option, value, capability) = (call.int(0), call.args[1], call.args[2]);
    let rest = [call.args[3], call.args[4]];
    let own = &mut call.host.process(call.process).credentials;
    let privileged = own.has(capability::SETPCAP);
    let sets = &mut own.capabilities;
    let known = value <= u64::from(LAST);
    match option {
        c::PR_CAPBSET_DROP if !privileged => Err(Errno::EPERM),
        c::PR_CAPBSET_READ | c::PR_CAPBSET_DROP if !known => Err(Errno::EINVAL),
        c::PR_CAPBSET_READ => done(sets.bounding >> value & 1),
        c::PR_CAPBSET_DROP => {
            sets.bounding &= !(1 << value);
            done(0)
        }
        c::PR_GET_SECUREBITS => done(u64::from(sets.secure_bits)),
        c::PR_SET_SECUREBITS => {
            sets.set_secure_bits(value)?;
            done(0)
        }
        c::PR_CAP_AMBIENT => {
            let clears = value as i32 == c::PR_CAP_AMBIENT_CLEAR_ALL;
            if rest != [0; 2] || clears && capability != 0 {
                return Err(Errno::EINVAL);
            }
            done(own.ambient(value as i32, capability)?)
        }
        _ => Err(Errno::EINVAL),
    }
}
