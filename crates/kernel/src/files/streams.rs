//! The simulator's own standard streams, which `belljar exec` passes on to its program.

use crate::call::Call;
use crate::guest::{GuestBuffers, total_len};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::Errno;

/// Bytes transferred at a time.
const CHUNK: u64 = 1 << 16;

/// `read(2)`: blocks the simulator natively until there is input.
pub fn read(call: &mut Call<'_>, stream: u8, buffers: &GuestBuffers) -> SysResult {
    let mut chunk = vec![0; CHUNK.min(total_len(buffers)) as usize];
    if chunk.is_empty() {
        return done(0);
    }
    let read = call.host.machine.read_stream(stream, &mut chunk)?;
    call.scatter_at(buffers, 0, &chunk[..read])?;
    done(read as u64)
}

/// `write(2)` of all bytes. `EPIPE` and `SIGPIPE` if the reader has closed the stream.
pub fn write(call: &mut Call<'_>, stream: u8, buffers: &GuestBuffers) -> SysResult {
    let wanted = total_len(buffers);
    let mut moved = 0;
    while moved < wanted {
        let data = call.gather(buffers, moved, CHUNK.min(wanted - moved) as usize);
        let written = data.and_then(|data| {
            call.host.machine.write_stream(stream, &data)?;
            Ok(data.len() as u64)
        });
        match written {
            Ok(written) => moved += written,
            Err(Errno::EPIPE) => {
                call.raise_sigpipe();
                return Err(Errno::EPIPE);
            }
            Err(errno) if moved == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    done(moved)
}
