//! Starting programs: ELF images, scripts, the initial stack.
//!
//! [`prepare`] reads all files without changing the running process; [`load`] makes an address space from
//! them; this file combines the two for the experiment's processes and for `execve(2)`.

mod load;
mod prepare;
mod user;

use crate::call::Call;
use crate::host::{Host, ProcessReport};
use crate::ids::{MmKey, ProcessKey};
use crate::outcome::{Block, CallState, IfInterrupted, Outcome, SysResult};
use belljar_linux_abi::{Errno, c};
use belljar_machine::{Placement, Regs};
use belljar_objects::notify::fanotify::ExecPermission;
use load::{ExecError, Program};

impl Host {
    /// Starts the experiment's process with index `spec`, or reports why it cannot start.
    #[cold]
    pub(crate) fn start_process(&mut self, spec: usize) {
        self.specs_started += 1;
        self.start_program(spec);
    }

    /// Starts a process without counting it among the processes that start by themselves.
    pub(crate) fn start_program(&mut self, spec: usize) {
        let at = self.net.clock.now();
        let process = self.create_process(spec);
        match self.launch(process, spec) {
            Ok(()) => {
                let pid = self.process(process).pid;
                if self.config.processes[spec].wait_for_debugger {
                    self.debug_attach(pid);
                }
                self.reports.push(ProcessReport::Started { spec, pid, at });
            }
            Err(error) => {
                self.discard_process(process);
                let path = &self.config.processes[spec].path;
                let reason = format!("cannot start {path}: {}", error.reason);
                self.reports.push(ProcessReport::Failed { spec, reason, at });
                crate::start::note_end(self, spec, None);
            }
        }
    }

    fn launch(&mut self, process: ProcessKey, spec: usize) -> Result<(), ExecError> {
        let what = &self.config.processes[spec];
        let path = what.path.clone().into_bytes();
        let args = what.args.iter().map(|arg| arg.clone().into_bytes()).collect();
        let environment = what.environment.iter().map(|(name, value)| format!("{name}={value}").into_bytes());
        let mut environment: Vec<Vec<u8>> = environment.collect();
        if let Some(user) = what.user.clone() {
            self.run_as(process, &user, &mut environment)?;
        }
        // The experiment starts programs without asking for fanotify permission.
        let mut asked = ExecPermission { before: u64::MAX, ..ExecPermission::default() };
        let program = self.prepare_program(process, path, args, environment, &mut asked)?;
        let mapped = self.open_standard_streams(process, spec).map_err(ExecError::from);
        let mapped = mapped.and_then(|()| self.map_program(process, &program));
        prepare::close_program(&mut *self.machine, &program);
        let (mm, regs) = mapped?;
        self.adopt_image(process, mm, &program);
        let context = self.machine.create_context(self.spaces[mm.0].space, &regs);
        let thread = self.create_thread(process, context);
        // The name derives from the path as requested, before links are followed.
        self.thread(thread).comm = crate::task::comm_of(&program.path);
        Ok(())
    }

    /// Makes `mm` the memory of a process and sets its executable path and arguments.
    fn adopt_image(&mut self, process: ProcessKey, mm: MmKey, program: &Program) {
        let process = self.process(process);
        process.mm = Some(mm);
        process.exe = program.image.file.path.clone();
        process.watched = 0;
        process.cmdline = joined(&program.args);
        process.environ = joined(&program.environment);
    }
}

/// Concatenates strings, each terminated by a zero byte.
fn joined(strings: &[Vec<u8>]) -> Vec<u8> {
    strings.iter().flat_map(|s| s.iter().copied().chain([0])).collect()
}

impl Call<'_> {
    /// execve(2): replaces the caller's image, or blocks first if a permission event is pending. A failure
    /// after the old image is gone kills the process, as on Linux.
    pub(crate) fn execute(
        &mut self,
        path: Vec<u8>,
        args: Vec<Vec<u8>>,
        environment: Vec<Vec<u8>>,
    ) -> SysResult {
        // Linux gives a program started without arguments one empty argument.
        let args = if args.is_empty() { vec![Vec::new()] } else { args };
        let name = path.clone();
        let before = if let CallState::Progress(steps) = self.take_state() { steps } else { 0 };
        let mut asked = ExecPermission { before, ..ExecPermission::default() };
        let program = self.host.prepare_program(self.process, path, args, environment, &mut asked);
        if let Some(queue) = asked.waits {
            let state = CallState::Progress(asked.steps - 1);
            return Block::on(queue).with_state(state).interrupted(IfInterrupted::Killable).into();
        }
        let program = program.map_err(|error| error.errno)?;

        let (process, thread) = (self.process, self.thread);
        let former_tid = self.host.thread(thread).tid;
        self.host.prepare_exec(process, thread);
        let file = &program.image.file;
        self.host.processes.take_on_ids(process, file.owner, (file.set_uid, file.set_gid), file.readable);
        self.host.processes.note_resident(&self.host.spaces, process);
        if let Some(old) = self.host.process(process).mm.take() {
            let context = self.host.thread(thread).context;
            self.host.machine.destroy_context(context);
            self.host.release_mm(process, old);
        }
        let mapped = self.host.map_program(process, &program);
        prepare::close_program(&mut *self.host.machine, &program);
        match mapped {
            Ok((mm, regs)) => {
                self.enter_image(mm, &regs, &program);
                self.host.trace_executed(thread, former_tid);
            }
            Err(error) => {
                let name = String::from_utf8_lossy(&name).into_owned();
                self.host.warn(format!("execve of {name} failed half-way: {}", error.reason));
                // The thread needs a context until it is killed.
                let space = self.host.create_mm(Placement::Near).map_err(|_| Errno::ENOMEM)?;
                self.host.process(process).mm = Some(space);
                let space = self.host.mm(space).space;
                self.host.thread(thread).context = self.host.machine.create_context(space, &Regs::default());
                self.host.kill_process(process, c::SIGKILL);
            }
        }
        Ok(Outcome::Replaced)
    }

    fn enter_image(&mut self, mm: MmKey, regs: &Regs, program: &Program) {
        self.host.adopt_image(self.process, mm, program);
        let space = self.host.mm(mm).space;
        let context = self.host.machine.create_context(space, regs);
        let comm = crate::task::comm_of(&program.path);
        let thread = self.host.thread(self.thread);
        thread.context = context;
        thread.comm = comm;
        self.host.debug_executed(self.process);
    }
}
