//! Text of the files in `/proc/sysvipc`.

use super::SysvIpc;
use belljar_linux_abi::ipc::IpcPerm;
use std::fmt::Write;

/// Reader of `/proc/sysvipc`: its IPC namespace, and translations to its user and PID namespaces.
#[allow(missing_debug_implementations)]
pub struct IpcReader<'a> {
    /// IPC namespace.
    pub namespace: u32,
    /// Translates owner and mode.
    pub owner: &'a dyn Fn(IpcPerm) -> IpcPerm,
    /// Translates a process id.
    pub pid: &'a dyn Fn(i32) -> i32,
}

impl SysvIpc {
    /// Text of `/proc/sysvipc/msg`.
    pub fn list_messages(&self, reader: &IpcReader<'_>) -> String {
        let mut text = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      \
                    rtime      ctime\n"
        .to_owned();
        for (id, queue) in self.queues.iter_in(reader.namespace) {
            let (s, p) = (&queue.state, (reader.owner)(queue.state.perm));
            let _ = writeln!(
                text,
                "{:10} {id:10}  {:4o}  {:10} {:10} {:5} {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10}",
                p.key,
                p.mode,
                s.cbytes,
                s.qnum,
                (reader.pid)(s.lspid),
                (reader.pid)(s.lrpid),
                p.uid,
                p.gid,
                p.cuid,
                p.cgid,
                s.stime,
                s.rtime,
                s.ctime
            );
        }
        text
    }

    /// Text of `/proc/sysvipc/sem`.
    pub fn list_semaphores(&self, reader: &IpcReader<'_>) -> String {
        let mut text =
            "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n"
                .to_owned();
        for (id, set) in self.semaphores.iter_in(reader.namespace) {
            let (s, p) = (&set.state, (reader.owner)(set.state.perm));
            let _ = writeln!(
                text,
                "{:10} {id:10}  {:4o} {:10} {:5} {:5} {:5} {:5} {:10} {:10}",
                p.key, p.mode, s.nsems, p.uid, p.gid, p.cuid, p.cgid, s.otime, s.ctime
            );
        }
        text
    }

    /// Text of `/proc/sysvipc/shm`; `attachments` holds the number of attachments of each segment.
    pub fn list_segments(&self, reader: &IpcReader<'_>, attachments: &[u64]) -> String {
        let mut text =
        "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      \
                    atime      dtime      ctime                   rss                  swap\n"
            .to_owned();
        for ((id, segment), attached) in self.segments.iter().zip(attachments) {
            let s = &segment.state;
            if s.perm.unused[0] != u64::from(reader.namespace) {
                continue;
            }
            let p = (reader.owner)(s.perm);
            let resident = s.segsz.next_multiple_of(4_096);
            let _ = writeln!(
                text,
                "{:10} {id:10}  {:4o} {:21} {:5} {:5}  {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10} {resident:21} {:21}",
                p.key,
                p.mode,
                s.segsz,
                (reader.pid)(s.cpid),
                (reader.pid)(s.lpid),
                attached,
                p.uid,
                p.gid,
                p.cuid,
                p.cgid,
                s.atime,
                s.dtime,
                s.ctime,
                0
            );
        }
        text
    }
}
