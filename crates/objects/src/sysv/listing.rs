//! `/proc/sysvipc`.

use super::SysvIpc;
use std::fmt::Write;

impl SysvIpc {
    /// `/proc/sysvipc/msg`.
    pub fn list_messages(&self) -> String {
        let mut text = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      \
                    rtime      ctime\n"
        .to_owned();
        for (id, queue) in self.queues.iter() {
            let (s, p) = (&queue.state, &queue.state.perm);
            let _ = writeln!(
                text,
                "{:10} {id:10}  {:4o}  {:10} {:10} {:5} {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10}",
                p.key,
                p.mode,
                s.cbytes,
                s.qnum,
                s.lspid,
                s.lrpid,
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

    /// `/proc/sysvipc/sem`.
    pub fn list_semaphores(&self) -> String {
        let mut text =
            "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n"
                .to_owned();
        for (id, set) in self.semaphores.iter() {
            let (s, p) = (&set.state, &set.state.perm);
            let _ = writeln!(
                text,
                "{:10} {id:10}  {:4o} {:10} {:5} {:5} {:5} {:5} {:10} {:10}",
                p.key, p.mode, s.nsems, p.uid, p.gid, p.cuid, p.cgid, s.otime, s.ctime
            );
        }
        text
    }

    /// `/proc/sysvipc/shm`, with the number of attachments of each segment.
    pub fn list_segments(&self, attachments: &[u64]) -> String {
        let mut text =
        "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      \
                    atime      dtime      ctime                   rss                  swap\n"
            .to_owned();
        for ((id, segment), attached) in self.segments.iter().zip(attachments) {
            let (s, p) = (&segment.state, &segment.state.perm);
            let resident = s.segsz.next_multiple_of(4_096);
            let _ = writeln!(
                text,
                "{:10} {id:10}  {:4o} {:21} {:5} {:5}  {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10} {resident:21} {:21}",
                p.key,
                p.mode,
                s.segsz,
                s.cpid,
                s.lpid,
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
