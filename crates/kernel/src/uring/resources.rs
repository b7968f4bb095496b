//! Registered files and buffers with tags: registration, updates, removal.

use super::registered_ring;
use crate::call::Call;
use crate::host::Host;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::Errno;
use belljar_objects::space::Access;
use belljar_uring::memory::Completion;
use belljar_uring::resources::{FixedBuffer, MOST_BUFFERS, Resource};

/// Descriptors that clear an entry and that leave it as it is.
const NONE: i32 = -1;
const SKIP: i32 = -2;

/// Removes a resource; its tag is posted once no request uses it.
fn retire(host: &mut Host, n: usize, resource: Resource, tag: u64) {
    if host.urings.instances[n].retire(resource, tag) {
        host.tell_completion(n, Completion::new(tag, 0, 0));
    }
}

/// Array of 64-bit or 32-bit numbers; zeros without an address.
fn numbers<const N: usize>(call: &Call<'_>, addr: u64, count: usize) -> Result<Vec<[u8; N]>, Errno> {
    if addr == 0 {
        return Ok(vec![[0; N]; count]);
    }
    let bytes = call.read_vec(addr, count * N)?;
    Ok(bytes.chunks_exact(N).map(|number| number.try_into().expect("N bytes")).collect())
}
fn tags(call: &Call<'_>, addr: u64, count: usize) -> Result<Vec<u64>, Errno> {
    Ok(numbers(call, addr, count)?.into_iter().map(u64::from_ne_bytes).collect())
}

/// Checks a buffer.
fn buffer(call: &mut Call<'_>, vector: [u8; 16], tag: u64) -> Result<FixedBuffer, Errno> {
    let buffer = FixedBuffer::parse(vector, tag)?;
    if buffer.len > 0 {
        let mm = call.host.processes[call.process.0].mm.ok_or(Errno::ESRCH)?;
        call.host.spaces[mm.0].check(buffer.addr, buffer.len, Access::Write)?;
    }
    Ok(buffer)
}

/// `IORING_REGISTER_BUFFERS`.
pub(crate) fn register_buffers(
    call: &mut Call<'_>,
    n: usize,
    addr: u64,
    count: u32,
    tags_addr: u64,
) -> Result<(), Errno> {
    let count = count as usize;
    if !call.host.urings.instances[n].buffers.is_empty() {
        return Err(Errno::EBUSY);
    }
    if !(1..=MOST_BUFFERS).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let vectors = numbers(call, addr, count)?;
    let tags = tags(call, tags_addr, count)?;
    let buffers: Result<Vec<FixedBuffer>, Errno> =
        vectors.into_iter().zip(tags).map(|(vector, tag)| buffer(call, vector, tag)).collect();
    call.host.urings.instances[n].buffers = buffers?;
    Ok(())
}
/// `IORING_UNREGISTER_BUFFERS`.
pub(crate) fn drop_buffers(host: &mut Host, n: usize) -> Result<(), Errno> {
    let buffers = std::mem::take(&mut host.urings.instances[n].buffers);
    if buffers.is_empty() {
        return Err(Errno::ENXIO);
    }
    for (at, buffer) in buffers.into_iter().enumerate() {
        retire(host, n, Resource::Buffer(at), buffer.tag);
    }
    Ok(())
}
/// `IORING_REGISTER_BUFFERS_UPDATE`: returns the number of buffers replaced, or the error of the first.
pub(crate) fn update_buffers(
    call: &mut Call<'_>,
    n: usize,
    from: u32,
    (addr, tags_addr, count): (u64, u64, u32),
) -> SysResult {
    let (from, count) = (from as usize, count as usize);
    let places = call.host.urings.instances[n].buffers.len();
    if places == 0 {
        return Err(Errno::ENXIO);
    }
    if from + count > places {
        return Err(Errno::EINVAL);
    }
    let vectors = numbers(call, addr, count)?;
    let tags = tags(call, tags_addr, count)?;
    for (at, (vector, tag)) in vectors.into_iter().zip(tags).enumerate() {
        match buffer(call, vector, tag) {
            Ok(buffer) => {
                let place = &mut call.host.urings.instances[n].buffers[from + at];
                let old = std::mem::replace(place, buffer);
                retire(call.host, n, Resource::Buffer(from + at), old.tag);
            }
            Err(errno) if at == 0 => return Err(errno),
            Err(_) => return done(at as u64),
        }
    }
    done(count as u64)
}
/// `IORING_REGISTER_CLONE_BUFFERS`, with a `struct io_uring_clone_buffers`.
pub(crate) fn clone_buffers(call: &mut Call<'_>, n: usize, addr: u64) -> Result<(), Errno> {
    const SRC_REGISTERED: u32 = 1;
    const DST_REPLACE: u32 = 2;
    let [source, flags, from, to, count, pad @ ..]: [u32; 8] = call.read(addr)?;
    if flags & !(SRC_REGISTERED | DST_REPLACE) != 0 || pad != [0; 3] {
        return Err(Errno::EINVAL);
    }
    if flags & DST_REPLACE == 0 && !call.host.urings.instances[n].buffers.is_empty() {
        return Err(Errno::EBUSY);
    }
    let source = registered_ring(call, source as i32, flags & SRC_REGISTERED != 0)?;
    let uring = &call.host.urings.instances[source];
    // Buffers are those of one process's memory.
    let mm =
        |process: crate::ids::ProcessKey| call.host.processes.get(process.0).and_then(|process| process.mm);
    if mm(uring.process) != mm(call.host.urings.instances[n].process) {
        return Err(Errno::EINVAL);
    }
    let buffers = uring.buffers.clone();
    let parts = (from as usize, to as usize, count as usize);
    for tag in call.host.urings.instances[n].clone_buffers(&buffers, parts)? {
        call.host.tell_completion(n, Completion::new(tag, 0, 0));
    }
    Ok(())
}

/// Registers the descriptors at `addr`, or `count` empty slots without an address.
pub(crate) fn register_files(
    call: &mut Call<'_>,
    n: usize,
    addr: Option<u64>,
    count: u32,
    tags_addr: u64,
) -> Result<(), Errno> {
    call.host.urings.make_slots(n, count as usize)?;
    let Some(addr) = addr else { return Ok(()) };
    let fds = numbers(call, addr, count as usize);
    let skips = fds.as_ref().is_ok_and(|fds| fds.iter().any(|fd| i32::from_ne_bytes(*fd) == SKIP));
    let tagged = tags(call, tags_addr, count as usize);
    let wrong = fds.iter().flatten().zip(tagged.iter().flatten());
    let wrong = wrong.into_iter().any(|(fd, tag)| i32::from_ne_bytes(*fd) == NONE && *tag != 0);
    let registered = match skips {
        true => Err(Errno::EBADF),
        false if wrong => Err(Errno::EINVAL),
        false => update_files(call, n, 0, (addr, tags_addr, count)).map(|_| ()),
    };
    // One of the files may not have been registered.
    let slots = &call.host.urings.instances[n].slots.files;
    let wanted = fds.map_or(0, |fds| fds.iter().filter(|fd| i32::from_ne_bytes(**fd) != NONE).count());
    let whole = registered.and_then(|()| match slots.iter().flatten().count() == wanted {
        true => Ok(()),
        false => Err(Errno::EBADF),
    });
    if whole.is_err() {
        call.host.urings.instances[n].slots.tags.clear();
        call.host.drop_slots(n);
    }
    whole
}
/// `IORING_REGISTER_FILES_UPDATE`: returns the number of files registered, or the error of the first.
pub(crate) fn update_files(
    call: &mut Call<'_>,
    n: usize,
    from: u32,
    (addr, tags_addr, count): (u64, u64, u32),
) -> SysResult {
    let fds: Vec<i32> = numbers(call, addr, count as usize)?.into_iter().map(i32::from_ne_bytes).collect();
    let tags = tags(call, tags_addr, count as usize)?;
    // A file that is removed or left as it is gets no tag.
    let wrong = |at: usize| matches!(fds[at], NONE | SKIP) && tags[at] != 0;
    let good = (0..fds.len()).take_while(|at| !wrong(*at)).count();
    if good == 0 && !fds.is_empty() {
        return Err(Errno::EINVAL);
    }
    let set = call.host.set_slots(n, call.process, from, &fds[..good])?;
    for at in 0..set as usize {
        if fds[at] >= 0 {
            call.host.urings.instances[n].slots.put_tag(from as usize + at, tags[at]);
        }
    }
    done(set)
}

/// Sets the file in a slot; the tag of the previous one is posted once no request uses it.
pub(super) fn retire_file(host: &mut Host, n: usize, at: usize) {
    let tag = host.urings.instances[n].slots.put_tag(at, 0);
    retire(host, n, Resource::File(at), tag);
}
