//! Robust futexes, `get_robust_list(2)`: when a thread ends, the kernel walks its list of held locks and
//! marks each as abandoned.

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use belljar_linux_abi::{Errno, c};
use belljar_tasks::futexes::Sleeper;

/// Size of `struct robust_list_head` in bytes.
pub(crate) const HEAD_SIZE: u64 = 24;
/// Maximum entries of a list, which may be a loop: `ROBUST_LIST_LIMIT`.
const LIMIT: u32 = 2_048;

impl Host {
    /// Marks the locks held by an ending thread; a list that cannot be read ends the walk.
    pub(crate) fn walk_robust_list(&mut self, thread: ThreadKey) {
        let (head, _) = self.threads[thread.0].robust_list;
        if head != 0 {
            let _ = self.walk_robust_entries(thread, head);
        }
    }

    fn walk_robust_entries(&mut self, thread: ThreadKey, head: u64) -> Result<(), Errno> {
        let process = self.threads[thread.0].process;
        let offset = self.robust_word(process, head + 8)?;
        let pending = self.robust_word(process, head + 16)?;
        let mut entry = self.robust_word(process, head)?;
        for _ in 0..LIMIT {
            if entry & !1 == head {
                break;
            }
            // The next entry is read first: after the mark, another thread may free the lock.
            let next = self.robust_word(process, entry & !1)?;
            if entry & !1 != pending & !1 {
                self.abandon_lock(thread, (entry & !1).wrapping_add(offset), entry & 1 != 0, false)?;
            }
            entry = next;
        }
        if pending & !1 != 0 {
            self.abandon_lock(thread, (pending & !1).wrapping_add(offset), pending & 1 != 0, true)?;
        }
        Ok(())
    }

    fn abandon_lock(
        &mut self,
        thread: ThreadKey,
        addr: u64,
        is_pi: bool,
        pending: bool,
    ) -> Result<(), Errno> {
        let process = self.threads[thread.0].process;
        let tid = self.threads.lock_owner(&self.processes, Sleeper::Thread(thread));
        let word = self.read_futex_word(process, addr)?;
        if pending && !is_pi && word == 0 {
            // The thread was about to unlock: the kernel issues the wake-up in its stead.
            self.wake_futex_word(process, addr, 1);
            return Ok(());
        }
        if word & c::FUTEX_TID_MASK != tid {
            return Ok(());
        }
        if is_pi {
            let key = self.futex_key(process, addr, false)?;
            return self.hand_over_futex(thread, addr, key, c::FUTEX_OWNER_DIED);
        }
        self.write_futex_word(process, addr, (word & c::FUTEX_WAITERS) | c::FUTEX_OWNER_DIED)?;
        if word & c::FUTEX_WAITERS != 0 {
            self.wake_futex_word(process, addr, 1);
        }
        Ok(())
    }

    fn robust_word(&self, process: ProcessKey, addr: u64) -> Result<u64, Errno> {
        let mut bytes = [0; 8];
        self.read_guest(process, addr, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
