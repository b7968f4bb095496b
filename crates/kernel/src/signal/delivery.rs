//! Raising and delivering signals.

use crate::call::{CallState, IfInterrupted};
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::machine::Fault;

impl Host {
    /// Whether something is pending for the thread that its mask lets through and that is not
    /// ignored.
    pub(crate) fn has_deliverable_signal(&self, _thread: ThreadKey) -> bool {
        false
    }
    /// Delivers what is deliverable before the thread returns to guest code; false if it did not
    /// survive (or is stopped).
    pub(crate) fn deliver_signals(&mut self, _thread: ThreadKey) -> bool {
        true
    }
    /// The same for a thread whose blocked call was interrupted: writes the call's result (or winds
    /// RIP back to make it again, by [`Host::interrupted_result`]) before the frame is built.
    pub(crate) fn deliver_interrupting(
        &mut self,
        _thread: ThreadKey,
        _how: IfInterrupted,
        _state: CallState,
    ) -> bool {
        true
    }
    /// Raises the signal of a CPU exception, which cannot be blocked or ignored.
    pub(crate) fn raise_fault(&mut self, _thread: ThreadKey, _fault: Fault) {}
    /// A timer of `timer_create`, `setitimer` or `alarm` expires.
    pub(crate) fn posix_timer_expired(&mut self, _process: ProcessKey, _timer: u32) {}
    /// The experiment sends process number `spec` its shutdown signal.
    pub(crate) fn shutdown_process(&mut self, _spec: usize) {}
}
