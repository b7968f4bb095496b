//! PTP hardware clocks: requests on `/dev/ptp<n>`, and clocks by descriptor, clock_gettime(2).

use crate::call::Call;
use crate::host::Host;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::process::Timex;
use belljar_linux_abi::time::Timespec;
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::ptp;
use belljar_netstack::ptp::PtpClock;
use belljar_netstack::stamping;
use belljar_objects::devices::Device;
use belljar_objects::file_kind::FileKind;

/// Clock of a number; `ENODEV` if the host has none.
fn clock(host: &mut Host, number: u32) -> Result<&mut PtpClock, Errno> {
    stamping::port(&mut host.net, number as usize).map(|port| &mut port.clock).ok_or(Errno::ENODEV)
}

/// Descriptor in a clock id, if it has the form of such (`CLOCKID_TO_FD`).
pub(super) fn descriptor(id: i32) -> Option<i32> {
    (id < 0 && id & 7 == 3).then_some(!(id >> 3))
}

/// Number of the clock behind a descriptor; `EINVAL` for other files.
pub(super) fn of_descriptor(call: &Call<'_>, fd: i32) -> Result<u32, Errno> {
    let file = call.host.file_of(call.process, fd).map_err(|_| Errno::EINVAL)?;
    match call.host.files.open[file.0].kind {
        FileKind::Device { device: Device::Ptp(number), .. } => Ok(number),
        _ => Err(Errno::EINVAL),
    }
}

/// `EACCES` if the clock's file is not open for writing.
fn check_writable(call: &Call<'_>) -> Result<(), Errno> {
    let fd = descriptor(call.int(0)).ok_or(Errno::EINVAL)?;
    let flags = call.host.files.open[call.host.file_of(call.process, fd)?.0].flags;
    if flags & c::O_ACCMODE == c::O_RDONLY { Err(Errno::EACCES) } else { Ok(()) }
}

/// Reads a clock, in nanoseconds since 1970; 0 if it has disappeared.
pub(super) fn read(host: &Host, number: u32) -> u64 {
    let ports = host.net.links.iter().filter_map(|link| link.ptp.as_deref());
    let port = ports.into_iter().nth(number as usize);
    port.map_or(0, |port| port.clock.read(host.net.clock.now()).max(0) as u64)
}

/// clock_settime(2) on a hardware clock.
pub(super) fn set(call: &mut Call<'_>, number: u32, time: Timespec) -> SysResult {
    let ns = time.to_nanos().and_then(|ns| i64::try_from(ns).ok()).ok_or(Errno::EINVAL)?;
    check_writable(call)?;
    let now = call.now();
    clock(call.host, number)?.set(now, ns);
    done(0)
}

/// clock_adjtime(2) on a hardware clock.
pub(super) fn adjust(call: &mut Call<'_>, number: u32, addr: u64) -> SysResult {
    let mut asked: Timex = call.read(addr)?;
    if asked.modes != 0 {
        check_writable(call)?;
    }
    let now = call.now();
    ptp::adjust(clock(call.host, number)?, now, &mut asked)?;
    call.write(addr, &asked)?;
    done(0)
}

/// `ioctl(2)` on `/dev/ptp<n>`.
pub(crate) fn ioctl(call: &mut Call<'_>, number: u32, request: u64, argument: u64) -> SysResult {
    let mut head = vec![0; ptp::head_len(request)?];
    call.read_bytes(argument, &mut head)?;
    let (now, own) = (call.now(), &call.host.net.clock);
    let times = ptp::SystemTimes { real: own.realtime_ns() as i64, monotonic: own.monotonic_ns() as i64 };
    let answer = ptp::answer(clock(call.host, number)?, now, times, request, &head)?;
    call.write_bytes(argument, &answer)?;
    done(0)
}
