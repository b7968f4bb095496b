//! Ancillary messages, unix(7): open files and credentials that accompany the payload.

use crate::call::Call;
use crate::credentials::capability;
use crate::ids::{FileKey, SocketKey};
use crate::net::message::{ControlMessage, Incoming, OutgoingMessage, ReceivedMessage};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::namespaces::{IdKind, NamespaceKind};
use belljar_objects::unix_sockets::PeerCredentials;

/// `SCM_MAX_FD`.
const FILES_MAX: usize = 253;
/// `sizeof(struct cmsghdr)`.
const HEADER: usize = 16;

/// Ancillary data of a `sendmsg(2)`.
#[derive(Debug, Default)]
pub(super) struct Ancillary {
    /// Open files; they are not retained yet.
    pub files: Vec<FileKey>,
    /// Credentials that the sender claims (`SCM_CREDENTIALS`).
    pub credentials: Option<PeerCredentials>,
}

fn words(data: &[u8]) -> impl Iterator<Item = i32> + '_ {
    data.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().expect("four bytes")))
}

impl Ancillary {
    /// Parses the control messages of a call. `EINVAL` for too many descriptors or an unknown message,
    /// `EBADF` for a descriptor that is not open, `EPERM` for credentials that the caller may not claim,
    /// `ESRCH` if they name no process.
    pub(super) fn read(call: &Call<'_>, outgoing: &OutgoingMessage) -> Result<Ancillary, Errno> {
        outgoing.check_control()?;
        let mut ancillary = Ancillary::default();
        for message in outgoing.control.iter().filter(|message| message.level == c::SOL_SOCKET) {
            match message.type_ {
                c::SCM_RIGHTS => {
                    if ancillary.files.len() + words(&message.data).count() > FILES_MAX {
                        return Err(Errno::EINVAL);
                    }
                    for fd in words(&message.data) {
                        let file = call.host.file_of(call.process, fd)?;
                        // A ring could hold a reference to itself; Linux rejects io_uring files since 6.7.
                        if matches!(call.host.files.open[file.0].kind, FileKind::Uring(_)) {
                            return Err(Errno::EINVAL);
                        }
                        ancillary.files.push(file);
                    }
                }
                c::SCM_CREDENTIALS => {
                    let &[pid, uid, gid] = &words(&message.data).collect::<Vec<_>>()[..] else {
                        return Err(Errno::EINVAL);
                    };
                    let processes = &call.host.processes;
                    let pid = processes.meant_pid(call.process, pid);
                    let given = |kind, id: i32| {
                        processes.given_id(call.process, kind, id as u32).ok_or(Errno::EINVAL)
                    };
                    let (uid, gid) = (given(IdKind::User, uid)?, given(IdKind::Group, gid)?);
                    if !may_claim(call, pid, uid, gid) {
                        return Err(Errno::EPERM);
                    }
                    if !call.host.processes.by_pid.contains_key(&pid) {
                        return Err(Errno::ESRCH);
                    }
                    ancillary.credentials = Some(PeerCredentials { pid, uid, gid });
                }
                _ => return Err(Errno::EINVAL),
            }
        }
        Ok(ancillary)
    }
}

/// True if the caller may claim this process, user and group: its own ids, or any with the matching
/// capability, `unix(7)` "SCM_CREDENTIALS".
fn may_claim(call: &Call<'_>, pid: i32, uid: u32, gid: u32) -> bool {
    let process = &call.host.processes[call.process.0];
    let who = &process.credentials;
    let admin = || call.host.processes.require_for(call.process, NamespaceKind::Pid, capability::SYS_ADMIN);
    (pid == process.pid || admin().is_ok())
        && (who.uids().contains(&uid) || who.has(capability::SETUID))
        && ([who.rgid, who.egid, who.sgid].contains(&gid) || who.has(capability::SETGID))
}

/// Passes a message's credentials (if the socket has `SO_PASSCRED`) and open files to the receiver. Files
/// without room for a descriptor are closed, and `MSG_CTRUNC` is set.
pub(super) fn hand_over(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    credentials: PeerCredentials,
    files: Vec<FileKey>,
    received: &mut ReceivedMessage,
) {
    let mut left = room.control_room;
    if call.host.net.socket(key).options.pass_credentials {
        let PeerCredentials { pid, uid, gid } = credentials;
        let (pid, uid, gid) = call.host.processes.shown_credentials(call.process, (pid, uid, gid));
        let data = [pid.to_le_bytes(), uid.to_le_bytes(), gid.to_le_bytes()].concat();
        left = left.saturating_sub((HEADER + data.len()).next_multiple_of(8));
        received.control.push(ControlMessage { level: c::SOL_SOCKET, type_: c::SCM_CREDENTIALS, data });
    }
    if files.is_empty() {
        return;
    }
    let fit = left.saturating_sub(HEADER) / 4;
    let close_on_exec = room.flags & c::MSG_CMSG_CLOEXEC != 0;
    let mut data = Vec::new();
    let count = files.len();
    for (n, file) in files.into_iter().enumerate() {
        if n >= fit || data.len() / 4 < n {
            call.host.release_file(file);
            continue;
        }
        // At the descriptor limit `install_fd` closes the file; the remaining files are dropped.
        if let Ok(fd) = call.host.install_fd(call.process, file, close_on_exec, 0) {
            data.extend_from_slice(&(fd as i32).to_le_bytes());
        }
    }
    if data.len() / 4 < count {
        received.flags |= c::MSG_CTRUNC;
    }
    if !data.is_empty() {
        received.control.push(ControlMessage { level: c::SOL_SOCKET, type_: c::SCM_RIGHTS, data });
    }
}

/// Open files of a peeked message, retained for the receiver.
pub(super) fn retained(call: &mut Call<'_>, files: Vec<FileKey>) -> Vec<FileKey> {
    files.iter().for_each(|file| call.host.files.retain_file(*file));
    files
}

/// Credentials of the calling process.
pub(super) fn credentials_of(call: &Call<'_>) -> PeerCredentials {
    let process = &call.host.processes[call.process.0];
    PeerCredentials { pid: process.pid, uid: process.credentials.euid, gid: process.credentials.egid }
}
