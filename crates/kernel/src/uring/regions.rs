//! Memory of an instance: rings in a program's memory, rings of another length, regions of arguments of waits.

use crate::call::Call;
use crate::host::Host;
use crate::ids::ProcessKey;
use crate::mm::map::MapRequest;
use belljar_linux_abi::Errno;
use belljar_machine::Prot;
use belljar_objects::space::Access;
use belljar_uring::buffers::BufferPlace;
use belljar_uring::instance::{REGION_AT, Region};
use belljar_uring::memory::Ring;
use belljar_uring::setup::{PARAMS_LEN, SetupRequest};

/// Checks memory that a program gives to an instance.
fn check(host: &Host, process: ProcessKey, addr: u64, len: u64) -> Result<(), Errno> {
    if addr == 0 {
        return Err(Errno::EFAULT);
    }
    if !addr.is_multiple_of(4_096) || !len.is_multiple_of(4_096) || len == 0 {
        return Err(Errno::EINVAL);
    }
    addr.checked_add(len).ok_or(Errno::EOVERFLOW)?;
    let mm = host.processes[process.0].mm.ok_or(Errno::ESRCH)?;
    host.spaces[mm.0].check(addr, len, Access::Write)
}

/// Maps rings and entries at addresses of a program (`IORING_SETUP_NO_MMAP`). The memory there is replaced by that
/// of the instance, so both see the same bytes.
pub(super) fn map_rings(
    host: &mut Host,
    process: ProcessKey,
    ring: &Ring,
    [rings, entries]: [u64; 2],
) -> Result<(), Errno> {
    let parts = [(rings, 0, ring.rings_len()), (entries, ring.rings_len(), ring.entries_len())];
    for (addr, _, len) in parts {
        check(host, process, addr, len)?;
    }
    let mm = host.processes[process.0].mm.ok_or(Errno::ESRCH)?;
    for (addr, offset, len) in parts {
        let source = super::source(ring.memory, offset, usize::MAX);
        let request = MapRequest {
            prot: Prot::READ | Prot::WRITE,
            shared: true,
            source: Some(source),
            may_write: true,
            label: "",
        };
        host.map_pages(mm, addr..addr + len, request)?;
    }
    Ok(())
}

/// `IORING_REGISTER_RESIZE_RINGS`, with a `struct io_uring_params`.
pub(crate) fn resize(call: &mut Call<'_>, n: usize, addr: u64) -> Result<(), Errno> {
    let mut params = call.read_vec(addr, PARAMS_LEN)?;
    let (sizes, setup) = SetupRequest::resized(&mut params, &call.host.urings.instances[n].setup)?;
    let ring = Ring::make(&mut *call.host.machine, sizes, &setup)?;
    ring.describe(&mut params);
    let old = call.host.urings.instances[n].ring;
    let moved = call.write_bytes(addr, &params).and_then(|()| {
        if let Some(addrs) = setup.user_memory {
            map_rings(call.host, call.process, &ring, addrs)?;
        }
        old.move_to(&mut *call.host.machine, &ring)
    });
    if let Err(errno) = moved {
        call.host.machine.close(ring.memory);
        return Err(errno);
    }
    let uring = &mut call.host.urings.instances[n];
    (uring.ring, uring.setup) = (ring, setup);
    call.host.machine.close(old.memory);
    Ok(())
}

/// `IORING_REGISTER_MEM_REGION`, with a `struct io_uring_mem_region_reg`.
pub(crate) fn register(call: &mut Call<'_>, n: usize, addr: u64) -> Result<(), Errno> {
    let uring = &call.host.urings.instances[n];
    if uring.region.is_some() {
        return Err(Errno::EBUSY);
    }
    let disabled = uring.disabled;
    let asked: [u64; 4] = call.read(addr)?;
    let described: [u64; 8] = call.read(asked[0])?;
    let mut region = Region::parse(asked, described, disabled)?;
    match region.place {
        BufferPlace::Guest(user_addr) if user_addr != 0 => {
            check(call.host, call.process, user_addr, region.len)?;
        }
        _ => {
            call.write(asked[0] + Region::MMAP_OFFSET, &REGION_AT)?;
            region.place = BufferPlace::Own(call.host.machine.shared_memory(region.len)?);
        }
    }
    call.host.urings.instances[n].region = Some(region);
    Ok(())
}
