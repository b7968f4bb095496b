//! The thread that starts far guests' processes and sees them off. A process dies with the thread
//! that it is a child of, so that must not be a worker, which may end before the simulation does;
//! this one ends with the simulator alone.

use super::program;
use crate::InitError;
use belljar_linux_abi::Errno;
use std::io::Result;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

enum Request {
    Start { channel: OwnedFd, socket: OwnedFd, reply: Sender<Result<i32>> },
    Bury(i32),
}

static REQUESTS: Mutex<Option<Sender<Request>>> = Mutex::new(None);

/// Starts the thread.
pub fn start() -> std::result::Result<(), InitError> {
    let what = "starting a thread for far guests";
    let failed = |error| InitError::Native { what, error };
    let program = program::file().map_err(failed)?;
    let (sender, requests) = channel();
    let thread = std::thread::Builder::new().name("far-spawner".into());
    thread.spawn(move || serve(&program, &requests)).map_err(failed)?;
    *REQUESTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(sender);
    Ok(())
}

fn serve(program: &OwnedFd, requests: &Receiver<Request>) {
    while let Ok(request) = requests.recv() {
        match request {
            Request::Start { channel, socket, reply } => {
                let _ = reply.send(program::start(program, channel, socket));
            }
            // SAFETY: no result is asked for; the process has been killed.
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

/// Starts a process with these descriptors; gives its process id.
pub fn spawn(channel_memory: OwnedFd, socket: OwnedFd) -> std::result::Result<i32, Errno> {
    let (reply, answer) = channel();
    request(Request::Start { channel: channel_memory, socket, reply })?;
    Ok(answer.recv().map_err(|_| Errno::EAGAIN)??)
}

/// Kills a process and, in the background, waits until it is gone.
pub fn bury(pid: i32) {
    // SAFETY: an unreaped child of this process, so its id is nobody else's.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let _ = request(Request::Bury(pid));
}
