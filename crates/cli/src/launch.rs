//! The launcher of other simulators: this program, which then executes the simulator. SimBricks' simulators
//! spin while they wait and do not detect the end of a peer: without the launcher they would spin forever
//! after Belljar was killed.

use crate::failure::Failure;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Becomes a simulator that ends with its parent.
#[derive(clap::Args)]
pub struct Arguments {
    /// The process that must still be there.
    parent: i32,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Makes the kernel send this process a signal when its parent ends.
pub fn end_with(parent: i32, signal: Signal) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(signal)).map_err(Failure::run)?;
    // The parent may have ended before the signal was set.
    match getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent) {
        true => Ok(()),
        false => Err(Failure::quiet(1)),
    }
}

/// Command prefix that starts simulators: [`belljar_sim::SimulatorOptions::launcher`].
pub fn launcher() -> Vec<OsString> {
    let own = std::env::current_exe().map(OsString::from);
    own.map_or_else(|_| Vec::new(), |own| vec![own, "launch-simulator".into()])
}

/// Executes the simulator in this process, and has the kernel kill it when the parent ends.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    end_with(arguments.parent, Signal::KILL)?;
    let (program, rest) = arguments.command.split_first().ok_or_else(|| Failure::usage("no command"))?;
    Err(Failure::run(Command::new(program).args(rest).exec()))
}
