//! Interrupted receives: the sender's name and control messages that `recvfrom(2)` and `recvmsg(2)` return when a
//! signal ends them after bytes have come. There are none, and the lengths in guest memory must say so.

use crate::host::Host;
use crate::ids::ThreadKey;
use crate::outcome::{CallState, NameOutput, Outcome};
use belljar_linux_abi::socket::MsgHdr;

/// Makes a blocked receive clear `name` if a signal ends it.
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
    /// Sets the lengths of the name and the control messages of a receive to zero.
    pub(crate) fn clear_message_name(&mut self, thread: ThreadKey, state: &CallState) {
        let CallState::ReceivingUntil(_, _, name) = state else { return };
        let process = self.threads[thread.0].process;
        let mut clear = |addr, bytes: &[u8]| {
            // A caller that gave no memory learns nothing.
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
