//! Simulators started by this process.

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ffi::OsString;
use std::fs::File;
use std::io::Result;
use std::ops::DerefMut;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

/// Time that a simulator has to exit after its channels are closed, then after SIGINT and after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// Command and environment of a simulator to be started.
#[derive(Debug)]
pub struct Launch {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Variables added to this process's environment.
    pub environment: Vec<(String, String)>,
    /// The working directory.
    pub directory: PathBuf,
    /// Destination of its standard output.
    pub stdout: File,
    /// Destination of its standard error.
    pub stderr: File,
}

/// A running simulator, in a process group of its own: Ctrl-C does not reach it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Starts the simulator.
    ///
    /// # Errors
    /// If the program does not exist or cannot be started.
    pub fn start(launch: Launch) -> Result<Running> {
        let (program, arguments) = launch.command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        // Another Belljar among the simulators is not a rank of this run, regardless of a launcher's
        // environment variables.
        command.env("BELLJAR_NO_RANKS", "1");
        command.args(arguments).envs(launch.environment).current_dir(launch.directory).process_group(0);
        command.stdin(Stdio::null()).stdout(launch.stdout).stderr(launch.stderr);
        Ok(Running { child: command.spawn()?, ended: None })
    }

    /// The exit status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.ended = self.ended.or(self.child.try_wait().ok().flatten());
        self.ended
    }

    /// The exit status, if the process ends within `patience`.
    pub fn ends_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let mut waited = Duration::ZERO;
        while self.ended().is_none() && waited < patience {
            thread::sleep(LOOK);
            waited += LOOK;
        }
        self.ended
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the simulator's process group, if it is still running.
    pub fn signal(&self, signal: Signal) {
        // Not reaped yet, so the id has not been reused.
        if let Some(group) = Pid::from_raw(self.id().cast_signed()).filter(|_| self.ended.is_none()) {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Restricts the simulator to these processors, if permitted.
    pub fn place(&self, cpus: &CpuSet) {
        let process = Pid::from_raw(self.id().cast_signed()).filter(|_| self.ended.is_none());
        let _ = process.map(|process| sched_setaffinity(Some(process), cpus));
    }
}

/// Ends simulators whose channels have been closed, all at once: each gets time to exit by itself, then
/// SIGINT, SIGTERM and finally SIGKILL.
pub fn end(mut all: Vec<impl DerefMut<Target = Running>>) {
    for signal in [None, Some(Signal::INT), Some(Signal::TERM), Some(Signal::KILL)] {
        all.retain_mut(|running| running.ended().is_none());
        if let Some(signal) = signal {
            all.iter().for_each(|running| running.signal(signal));
        }
        let mut waited = Duration::ZERO;
        while waited < PATIENCE && all.iter_mut().any(|running| running.ended().is_none()) {
            thread::sleep(LOOK);
            waited += LOOK;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn null() -> File {
        File::options().write(true).open("/dev/null").unwrap()
    }

    fn start(script: &str, stdout: File) -> Running {
        Running::start(Launch {
            // A script's background jobs inherit an ignored SIGINT, which no shell can trap.
            command: ["env", "--default-signal=INT", "sh", "-c", script].map(OsString::from).to_vec(),
            environment: vec![("STATUS".into(), "7".into())],
            directory: "/".into(),
            stdout,
            stderr: null(),
        })
        .unwrap()
    }

    #[test]
    fn how_it_ends_is_known() {
        let mut running = start("exit $STATUS", null());
        assert_eq!(running.ends_within(Duration::from_secs(300)).unwrap().code(), Some(7));
        assert_eq!(running.ended().unwrap().code(), Some(7));
    }

    #[test]
    fn what_does_not_end_by_itself_is_told_to() {
        let said = std::env::temp_dir().join(format!("belljar-cosim-{}", std::process::id()));
        // The script ignores the later SIGTERM: on a busy machine it has that time as well.
        let script = "trap '' TERM; trap 'exit 3' INT; echo ready; while :; do sleep 0.05; done";
        let mut running = start(script, File::create(&said).unwrap());
        // Wait until its trap is set.
        while std::fs::metadata(&said).unwrap().len() == 0 {
            assert_eq!(running.ends_within(Duration::from_millis(20)), None);
        }
        std::fs::remove_file(&said).unwrap();
        end(vec![&mut running]);
        assert_eq!(running.ended().unwrap().code(), Some(3));
    }
}
