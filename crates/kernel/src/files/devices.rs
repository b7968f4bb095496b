//! Character devices of `/dev`, `null(4)`, `full(4)`, `random(4)`.

use crate::call::Call;
use crate::guest::{GuestBuffers, total_len};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::Errno;
use belljar_objects::devices::Device;

/// Bytes produced at a time by a read.
const CHUNK: u64 = 1 << 16;

/// `read(2)` of a character device.
pub(super) fn read(device: Device, call: &mut Call<'_>, buffers: &GuestBuffers) -> SysResult {
    if matches!(device, Device::LoopControl | Device::Ptp(_)) {
        return Err(Errno::EINVAL);
    }
    if device == Device::Null {
        return done(0);
    }
    let mut moved = 0;
    for (_, len) in buffers {
        let mut at = 0;
        while at < *len {
            let mut chunk = vec![0; CHUNK.min(len - at) as usize];
            if matches!(device, Device::Random | Device::Urandom) {
                call.host.random.fill(&mut chunk);
            }
            call.scatter_at(buffers, moved + at, &chunk)?;
            at += chunk.len() as u64;
        }
        moved += len;
    }
    done(moved)
}
/// `write(2)` of a character device.
pub(super) fn write(device: Device, buffers: &GuestBuffers) -> SysResult {
    match device {
        Device::Full => Err(Errno::ENOSPC),
        Device::LoopControl | Device::Ptp(_) => Err(Errno::EINVAL),
        _ => done(total_len(buffers)),
    }
}
