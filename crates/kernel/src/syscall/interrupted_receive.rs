//! Interrupted receives: a signal ends `recvfrom(2)` or `recvmsg(2)` after some bytes have arrived. There is
//! no sender address and no control message, so their lengths in guest memory are cleared.

use crate::host::Host;
use crate::ids::ThreadKey;
use crate::outcome::{CallState, NameOutput, Outcome};
use belljar_linux_abi::socket::MsgHdr;

/// Sets up a blocked receive to clear `name` if a signal interrupts it.
pub(super) fn clearing_name(outcome: Outcome, name: NameOutput) -> Outcome {
    match outcome {
        Outcome::Block(mut block) => {
            if let CallState::ProgressUntil(moved, until) = block.state {
                block.state = CallState::ReceivingUntil(moved, until, name);
            }
            Outcome::Block(block)
        }
        outcome => outcome,
    }
}

impl Host {
    /// Clears the lengths of the name and the control messages of a receive, and its flags.
    pub(crate) fn clear_message_name(&mut self, thread: ThreadKey, state: &CallState) {
        let CallState::ReceivingUntil(_, _, name) = state else { return };
        let process = self.threads[thread.0].process;
        let mut clear = |addr, bytes: &[u8]| {
            // An invalid address is ignored.
            let _ = self.write_guest(process, addr, bytes);
        };
        match *name {
            NameOutput::Length(addr) => clear(addr, &[0; 4]),
            NameOutput::Header { addr, has_name } => {
                if has_name {
                    clear(addr + MsgHdr::NAMELEN, &[0; 4]);
                }
                clear(addr + MsgHdr::CONTROLLEN, &[0; 8]);
                clear(addr + MsgHdr::FLAGS, &[0; 4]);
            }
        }
    }
}
