//! What `recvfrom(2)` and `recvmsg(2)` say of names and control messages when a signal ends them with bytes.

use crate::call::{CallState, Nameless, Outcome};
use crate::host::Host;
use crate::ids::ThreadKey;
use belljar_linux_abi::socket::MsgHdr;

/// A wait that will tell so if a signal ends it.
pub(super) fn telling(outcome: Outcome, nameless: Nameless) -> Outcome {
    match outcome {
        Outcome::Block(mut block) => {
            if let CallState::ProgressUntil(moved, until) = block.state {
                block.state = CallState::ReceivingUntil(moved, until, nameless);
            }
            Outcome::Block(block)
        }
        outcome => outcome,
    }
}

impl Host {
    /// What a receiving call that a signal ends with bytes says of names and control messages: there are none.
    pub(crate) fn tell_no_name(&mut self, thread: ThreadKey, state: &CallState) {
        let CallState::ReceivingUntil(_, _, nameless) = state else { return };
        let process = self.threads[thread.0].process;
        let mut clear = |addr, bytes: &[u8]| {
            // Whoever gave no memory learns nothing.
            let _ = self.write_guest(process, addr, bytes);
        };
        match *nameless {
            Nameless::Length(addr) => clear(addr, &[0; 4]),
            Nameless::Header(addr, named) => {
                if named {
                    clear(addr + MsgHdr::NAMELEN, &[0; 4]);
                }
                clear(addr + MsgHdr::CONTROLLEN, &[0; 8]);
                clear(addr + MsgHdr::FLAGS, &[0; 4]);
            }
        }
    }
}
