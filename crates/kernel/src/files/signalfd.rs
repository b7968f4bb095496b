//! Signal descriptors, signalfd(2).

use crate::call::Call;
use crate::files::Files;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey};
use crate::outcome::{Block, SysResult, done};
use crate::process::Processes;
use belljar_linux_abi::poll::SignalfdSiginfo;
use belljar_linux_abi::signal::SigSet;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::EPOLLIN;
use belljar_objects::file_kind::FileKind;
use belljar_tasks::signalfd::SignalFd;
use zerocopy::IntoBytes;

impl Files {
    /// Creates a signal descriptor of `process` and its open file.
    pub(crate) fn create_signalfd(
        &mut self,
        processes: &Processes,
        process: ProcessKey,
        mask: SigSet,
        flags: i32,
    ) -> FileKey {
        let n = self.signalfds.insert(SignalFd::new(processes, process, mask));
        self.open_file(FileKind::SignalFd(n), c::O_RDWR | flags)
    }
}

impl Host {
    /// Changes the mask and the owner of a signal descriptor.
    pub(crate) fn set_signalfd(&mut self, n: usize, process: ProcessKey, mask: SigSet) {
        self.files.signalfds[n] = SignalFd::new(&self.processes, process, mask);
        let arrived = self.processes[process.0].signals.arrived;
        self.notify_events(arrived, EPOLLIN);
    }
}

impl Call<'_> {
    /// `read(2)`: as many `struct signalfd_siginfo` as are pending and fit; blocks for the first. `EINVAL` if
    /// not even one fits.
    pub(crate) fn read_signalfd(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        let room = total_len(buffers) as usize / size_of::<SignalfdSiginfo>();
        if room == 0 {
            return Err(Errno::EINVAL);
        }
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let mask = self.host.files.signalfds[n].mask;
        self.host.files.signalfds[n] = SignalFd::new(&self.host.processes, self.process, mask);
        let mut data = Vec::new();
        for _ in 0..room {
            let Some(info) = self.host.threads.take_signal(&mut self.host.processes, self.thread, mask)
            else {
                break;
            };
            data.extend_from_slice(SignalfdSiginfo::from(&info).as_bytes());
        }
        if data.is_empty() {
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            return Block::on(self.host.processes[self.process.0].signals.arrived).into();
        }
        self.scatter(buffers, &data)?;
        done(data.len() as u64)
    }
}
