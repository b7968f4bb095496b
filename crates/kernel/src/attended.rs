//! Programs that a user adds to a running host, and their streams, which lead out of the simulation: a terminal whose
//! master, or pipes whose other ends, the owner of the host holds.
//!
//! [`start`] starts a program at the host's current time. The owner then, at times of its choice, passes input on
//! with [`type_in`] and [`close_input`], takes output with [`take_output`], and asks with [`waits_for_input`] if
//! anything goes on. [`hang_up`] closes the owner's ends; it is also due after the program's end.
//!
//! All functions are called between two events of the host, when its clock is at the current time.

use crate::files::open::{OpenRequest, Opened};
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::{ProcessReport, ProcessSpec, Winsize};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::outside::OutsideEnds;
use belljar_tasks::waits::Waiter;
use belljar_terminal::MasterRead;

/// Maximum number of bytes taken from a stream at a time.
const CHUNK: usize = 1 << 16;

/// Starts a program. Returns its index among the processes of the host, by which reports name it.
pub fn start(host: &mut Host, spec: ProcessSpec) -> usize {
    let number = host.config.processes.len();
    host.config.processes.push(spec);
    host.start_process(number);
    if !is_running(host, number) {
        hang_up(host, number);
    }
    number
}

/// True if the program has been started and has not ended.
pub fn is_running(host: &Host, spec: usize) -> bool {
    host.processes.iter().any(|(_, process)| process.spec == Some(spec) && process.ended.is_none())
}

/// Reports on the host's processes that have not been taken.
pub fn reports(host: &Host) -> &[ProcessReport] {
    &host.reports
}

/// True once one of the experiment's processes has been started, or could not be.
pub fn has_started(host: &Host) -> bool {
    host.specs_started > host.config.unscheduled()
}

/// Opens a terminal for a program that is being started.
pub(crate) fn open_terminal(
    host: &mut Host,
    process: ProcessKey,
    spec: usize,
    size: Winsize,
) -> Result<(), Errno> {
    let request = OpenRequest {
        dirfd: c::AT_FDCWD,
        path: b"/dev/ptmx",
        flags: c::O_RDWR | c::O_NOCTTY,
        mode: 0,
        walk: crate::files::tree::Walk::empty(),
        again: false,
    };
    let Opened::File(master) = host.open_path(process, request)? else { return Err(Errno::EIO) };
    host.attended.insert(spec, OutsideEnds::Terminal(master));
    let (key, _) = host.files.open(master).kind.terminal().ok_or(Errno::EIO)?;
    let pty = &mut host.files.ptys[key];
    (pty.pair.locked, pty.pair.size) = (false, size);
    let number = pty.number;
    for fd in 0..3 {
        let kind = host.files.open_slave(&mut host.processes, process, key, number, c::O_RDWR)?;
        let inode = kind.inode().ok_or(Errno::EIO)?;
        let file = host.open_inode_file(kind, None, inode, c::O_RDWR);
        host.install_fd(process, file, false, fd)?;
    }
    Ok(())
}

/// Opens pipes for a program that is being started.
pub(crate) fn open_pipes(host: &mut Host, process: ProcessKey, spec: usize) -> Result<(), Errno> {
    let [(input, writer), (output, out), (error, err)] =
        [(); 3].map(|()| host.files.create_pipe(&mut host.waits, 0));
    host.attended.insert(spec, OutsideEnds::Pipes(Some(writer), [output, error]));
    for (fd, file) in [input, out, err].into_iter().enumerate() {
        host.install_fd(process, file, false, fd)?;
    }
    Ok(())
}

/// Passes input to a program. Returns the number of bytes that there was room for.
pub fn type_in(host: &mut Host, spec: usize, data: &[u8]) -> usize {
    match host.attended.get(&spec).copied() {
        Some(OutsideEnds::Terminal(master)) => {
            let Some((key, _)) = host.files.open(master).kind.terminal() else { return 0 };
            let queue = host.files.ptys[key].queue;
            let mut taken = 0;
            while taken < data.len() {
                let room = host.files.ptys[key].pair.typing_room().min(data.len() - taken);
                if room == 0 {
                    break;
                }
                host.files.ptys[key].pair.feed(&data[taken..taken + room]);
                taken += room;
                host.pump_typed(key);
            }
            host.notify(queue);
            taken
        }
        Some(OutsideEnds::Pipes(Some(input), _)) => {
            let Some(pipe) = host.files.pipe_of(input) else { return 0 };
            let (room, queue) = (pipe.room(data.len()), pipe.queue);
            pipe.push(&data[..room], room, false);
            host.notify(queue);
            room
        }
        // It has no reader.
        _ => data.len(),
    }
}

/// Closes the standard input of a program without a terminal.
pub fn close_input(host: &mut Host, spec: usize) {
    if let Some(OutsideEnds::Pipes(input, _)) = host.attended.get_mut(&spec)
        && let Some(input) = input.take()
    {
        host.release_file(input);
    }
}

/// Takes the output and the error output of a program; those of a terminal are one.
pub fn take_output(host: &mut Host, spec: usize) -> [Vec<u8>; 2] {
    let mut taken = [Vec::new(), Vec::new()];
    match host.attended.get(&spec).copied() {
        Some(OutsideEnds::Terminal(master)) => {
            let Some((key, _)) = host.files.open(master).kind.terminal() else { return taken };
            let queue = host.files.ptys[key].queue;
            while let MasterRead::Data(data) = host.files.ptys[key].pair.read_master(CHUNK) {
                taken[0].extend(data);
            }
            if !taken[0].is_empty() {
                host.notify(queue);
            }
        }
        Some(OutsideEnds::Pipes(_, files)) => {
            for (file, into) in files.into_iter().zip(&mut taken) {
                let Some(pipe) = host.files.pipe_of(file) else { continue };
                let len = pipe.len();
                if len > 0 {
                    *into = pipe.peek_bytes(len);
                    pipe.consume_bytes(len);
                    let queue = pipe.queue;
                    host.notify(queue);
                }
            }
        }
        None => {}
    }
    taken
}

/// True if [`take_output`] has something to take.
pub fn has_output(host: &Host, spec: usize) -> bool {
    match host.attended.get(&spec) {
        Some(OutsideEnds::Terminal(master)) => {
            let terminal = host.files.open[master.0].kind.terminal();
            terminal.is_some_and(|(key, _)| {
                let pair = &host.files.ptys[key].pair;
                pair.shown_len() > 0 && !pair.is_stopped()
            })
        }
        Some(OutsideEnds::Pipes(_, files)) => files.iter().any(|file| match host.files.open[file.0].kind {
            FileKind::PipeReader(key) => !host.files.pipes[key.0].is_empty(),
            _ => false,
        }),
        None => false,
    }
}

/// Sets the window size of a program's terminal.
pub fn resize(host: &mut Host, spec: usize, size: Winsize) {
    let Some(OutsideEnds::Terminal(master)) = host.attended.get(&spec).copied() else { return };
    let Some((key, _)) = host.files.open(master).kind.terminal() else { return };
    if std::mem::replace(&mut host.files.ptys[key].pair.size, size) != size {
        host.signal_foreground(key, c::SIGWINCH);
    }
}

/// Closes the ends of a program's streams; a program that still runs gets SIGHUP, with its process group.
pub fn hang_up(host: &mut Host, spec: usize) {
    match host.attended.remove(&spec) {
        Some(OutsideEnds::Terminal(master)) => host.release_file(master),
        Some(OutsideEnds::Pipes(input, output)) => {
            let leader = host.processes.iter().find(|(_, process)| process.spec == Some(spec));
            let group = leader.map_or(0, |(_, process)| process.pgid);
            host.signal_group(group, c::SIGHUP);
            input.into_iter().chain(output).for_each(|file| host.release_file(file));
        }
        None => {}
    }
}

/// Closes the ends of all programs' streams, in a crash of the host.
pub(crate) fn crashed(host: &mut Host) {
    while let Some((spec, _)) = host.attended.first_key_value() {
        let spec = *spec;
        hang_up(host, spec);
    }
}

/// True if a program waits for input: nothing goes on in its foreground until some comes.
pub fn waits_for_input(host: &Host, spec: usize) -> bool {
    let (queue, foreground) = match host.attended.get(&spec).copied() {
        Some(OutsideEnds::Terminal(master)) => {
            let Some((key, _)) = host.files.open[master.0].kind.terminal() else { return false };
            let pty = &host.files.ptys[key];
            (pty.queue, Some(pty.foreground))
        }
        Some(OutsideEnds::Pipes(Some(input), _)) => match host.files.open[input.0].kind {
            FileKind::PipeWriter(key) => (host.files.pipes[key.0].queue, None),
            _ => return false,
        },
        _ => return false,
    };
    let is_meant = |thread: ThreadKey| {
        let process = &host.processes[host.threads[thread.0].process.0];
        foreground.is_none_or(|group| process.pgid == group)
    };
    host.waits.waiters(queue).any(|waiter| match waiter {
        Waiter::Thread(thread) => is_meant(thread),
        Waiter::Epoll { epoll, .. } => {
            let sleepers = host.waits.waiters(host.files.epolls[epoll.0].queue);
            sleepers.into_iter().any(|waiter| matches!(waiter, Waiter::Thread(thread) if is_meant(thread)))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests;
