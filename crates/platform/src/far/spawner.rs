//! The spawner thread: starts far processes and reaps them. A far process is killed at the end of the thread
//! that is its parent. A worker may end before the simulation does and is therefore unsuitable as the parent;
//! the spawner ends only with the simulator.

use super::birth::{self, Image};
use super::program;
use crate::InitError;
use belljar_linux_abi::Errno;
use belljar_shim::protocol::Channel;
use std::io::Result;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

enum Request {
    Start {
        memory: OwnedFd,
        socket: OwnedFd,
        reply: Sender<Result<i32>>,
    },
    Fork {
        own: Vec<Range<u64>>,
        channel: ChannelAt,
        memory: OwnedFd,
        socket: OwnedFd,
        reply: Sender<Result<i32>>,
    },
    Bury(i32),
}

/// The address of a channel that is unused until the reply.
struct ChannelAt(*mut Channel);
// SAFETY: the sender waits for the reply.
unsafe impl Send for ChannelAt {}

static REQUESTS: Mutex<Option<Sender<Request>>> = Mutex::new(None);

/// Starts the thread.
pub fn start() -> std::result::Result<(), InitError> {
    let what = "starting a thread for far guests";
    let failed = |error| InitError::Native { what, error };
    let program = program::file().map_err(failed)?;
    let image = Image::map().map_err(failed)?;
    let (sender, requests) = channel();
    let thread = std::thread::Builder::new().name("far-spawner".into());
    thread.spawn(move || serve(&program, &image, &requests)).map_err(failed)?;
    *REQUESTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(sender);
    Ok(())
}

fn serve(program: &OwnedFd, image: &Image, requests: &Receiver<Request>) {
    block_signals();
    birth::leave_rseq();
    while let Ok(request) = requests.recv() {
        match request {
            Request::Start { memory, socket, reply } => {
                let _ = reply.send(program::start(program, memory, socket));
            }
            Request::Fork { own, channel, memory, socket, reply } => {
                // SAFETY: until the reply, the sender keeps the space's guests from running and the space
                // from changing; the channel is its own.
                let _ = reply.send(unsafe { image.fork(&own, channel.0, &memory, &socket) });
            }
            // SAFETY: no result is requested; the process has been killed.
            Request::Bury(pid) => unsafe {
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            },
        }
    }
}

fn request(request: Request) -> std::result::Result<(), Errno> {
    let requests = REQUESTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    requests.as_ref().and_then(|sender| sender.send(request).ok()).ok_or(Errno::EAGAIN)
}

/// Starts a process with these descriptors; returns its process id.
pub fn spawn(memory: OwnedFd, socket: OwnedFd) -> std::result::Result<i32, Errno> {
    let (reply, answer) = channel();
    request(Request::Start { memory, socket, reply })?;
    Ok(answer.recv().map_err(|_| Errno::EAGAIN)??)
}

/// Forks this process; the child has only the memory in `own`. Returns its process id. `at` is the caller's
/// own channel, mapped from `memory`. No guest may run in `own` meanwhile.
pub fn fork(
    own: Vec<Range<u64>>,
    at: *mut Channel,
    memory: OwnedFd,
    socket: OwnedFd,
) -> std::result::Result<i32, Errno> {
    let (reply, answer) = channel();
    request(Request::Fork { own, channel: ChannelAt(at), memory, socket, reply })?;
    Ok(answer.recv().map_err(|_| Errno::EAGAIN)??)
}

/// Blocks all signals on this thread: a child inherits the mask, and has none of the simulator's handlers.
fn block_signals() {
    // SAFETY: the set is initialised by sigfillset before use.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&mut set);
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
    }
}

/// Kills a process and has the spawner reap it in the background.
pub fn bury(pid: i32) {
    // SAFETY: an unreaped child of this process, so its id has not been reused.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let _ = request(Request::Bury(pid));
}
