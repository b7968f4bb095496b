//! Process descriptors, `pidfd_open(2)`.

use crate::call::Call;
use crate::files::Files;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey, WaitQueueId};
use crate::outcome::{SysResult, done};
use crate::process::WaitStatus;
use crate::rights::AccessIds;
use belljar_linux_abi::process::{
    PIDFD_INFO_CGROUPID, PIDFD_INFO_CREDS, PIDFD_INFO_EXIT, PIDFD_INFO_PID, PidfdInfo,
};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::{EPOLLHUP, READABLE};
use belljar_objects::file_kind::FileKind;
use belljar_objects::namespaces::{IdKind, LINKS};
use belljar_tasks::pidfd::PidFd;
use belljar_tasks::waits::WaitTable;
use zerocopy::IntoBytes;

/// `PIDFD_GET_INFO` with the size field cleared, which carries the size of the caller's structure.
const GET_INFO: u64 = 0xc000_ff0b;
/// `PIDFD_GET_CGROUP_NAMESPACE`, the first of the requests that open namespaces.
const GET_NAMESPACE: u64 = 0xff01;
/// Id of the root control group, which holds all processes.
const ROOT_CGROUP: u64 = 1;

impl Files {
    /// Process id of a process descriptor. `EBADF` for other files.
    pub(crate) fn pidfd_pid(&self, file: FileKey) -> Result<i32, Errno> {
        match self.open[file.0].kind {
            FileKind::PidFd(n) => Ok(self.pidfds[n].pid),
            _ => Err(Errno::EBADF),
        }
    }

    pub(super) fn close_pidfd(&mut self, waits: &mut WaitTable, n: usize) {
        let gone = self.pidfds.remove(n);
        waits.destroy(gone.queue);
    }

    /// Stores the wait status of a reaped process in its descriptors.
    pub(crate) fn keep_status(&mut self, pid: i32, status: Option<WaitStatus>) {
        for (_, fd) in self.pidfds.iter_mut().filter(|(_, fd)| fd.pid == pid) {
            fd.status = status;
        }
    }
}

impl Host {
    /// Creates a descriptor of a process and its open file.
    pub(crate) fn create_pidfd(&mut self, process: ProcessKey, flags: i32) -> FileKey {
        let queue = self.waits.create();
        let pid = self.processes[process.0].pid;
        let namespace = self.processes[process.0].attributes.namespaces.pid;
        let n = self.files.pidfds.insert(PidFd { pid, namespace, status: None, queue });
        self.files.open_file(FileKind::PidFd(n), c::O_RDWR | flags)
    }

    /// Notifies the waiters on descriptors of a process that it has exited or been reaped.
    pub(crate) fn notify_pidfds(&mut self, pid: i32) {
        let queues: Vec<WaitQueueId> =
            self.files.pidfds.iter().filter(|(_, fd)| fd.pid == pid).map(|(_, fd)| fd.queue).collect();
        for queue in queues {
            self.notify_events(queue, READABLE | EPOLLHUP);
        }
    }
}

impl Call<'_> {
    /// `ioctl(2)` of a process descriptor: `PIDFD_GET_INFO` and the requests that open its namespaces.
    pub(super) fn pidfd_ioctl(&mut self, n: usize, request: u64, argument: u64) -> SysResult {
        const LENGTH: u64 = 0x3fff_0000;
        let room = (request & LENGTH) >> 16;
        if request & !LENGTH == GET_INFO && room >= size_of::<PidfdInfo>() as u64 {
            return self.pidfd_info(n, argument, room);
        }
        let link = request.checked_sub(GET_NAMESPACE).and_then(|link| LINKS.get(link as usize));
        let (link, _) = link.ok_or(Errno::ENOTTY)?;
        if argument != 0 {
            return Err(Errno::EINVAL);
        }
        let pid = self.host.files.pidfds[n].pid;
        let process = *self.host.processes.by_pid.get(&pid).ok_or(Errno::ESRCH)?;
        let may = self.host.processes.may_access(self.process, process, AccessIds::File);
        may.map_err(|_| Errno::EACCES)?;
        let (kind, number) = self.host.processes.namespace_behind(pid, link)?;
        self.open_namespace(kind, number)
    }

    fn pidfd_info(&mut self, n: usize, argument: u64, room: u64) -> SysResult {
        if argument == 0 {
            return Err(Errno::EINVAL);
        }
        let asked: u64 = self.read(argument)?;
        let PidFd { pid, namespace, status, .. } = self.host.files.pidfds[n];
        let processes = &self.host.processes;
        let own = processes[self.process.0].attributes.namespaces.pid;
        if !processes.namespaces.pids.is_within(namespace, own) {
            return Err(Errno::ESRCH);
        }
        let mut info = PidfdInfo::default();
        if let Some(status) = status.filter(|_| asked & PIDFD_INFO_EXIT != 0) {
            (info.mask, info.cgroup, info.exit_code) = (PIDFD_INFO_EXIT, ROOT_CGROUP, status.encode());
        }
        match self.host.processes.by_pid.get(&pid) {
            Some(process) => {
                let who = &processes[process.0].credentials;
                let user = |id| processes.shown_id(self.process, IdKind::User, id);
                let group = |id| processes.shown_id(self.process, IdKind::Group, id);
                let ids = [
                    (who.ruid, who.rgid),
                    (who.euid, who.egid),
                    (who.suid, who.sgid),
                    (who.fsuid, who.fsgid),
                ];
                info.ids = ids.map(|(uid, gid)| [user(uid), group(gid)]);
                let shown = |pid| processes.shown_pid(self.process, pid) as u32;
                (info.pid, info.tgid, info.ppid) =
                    (shown(pid), shown(pid), shown(processes.parent_pid(*process)));
                info.mask = PIDFD_INFO_PID | PIDFD_INFO_CREDS;
                if asked & PIDFD_INFO_CGROUPID != 0 {
                    (info.mask, info.cgroup) = (info.mask | PIDFD_INFO_CGROUPID, ROOT_CGROUP);
                }
            }
            None if asked & PIDFD_INFO_EXIT == 0 => return Err(Errno::ESRCH),
            None => {}
        }
        let mut bytes = vec![0; room as usize];
        bytes[..size_of::<PidfdInfo>()].copy_from_slice(info.as_bytes());
        self.write_bytes(argument, &bytes)?;
        done(0)
    }
}
