//! The run behind a prompt: a process of its own, which ends with the prompt.

use super::Arguments;
use crate::attach;
use crate::control;
use crate::failure::Failure;
use belljar_base::SimTime;
use belljar_config::Experiment;
use belljar_net::units::format_duration;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

/// Default stop time of an experiment.
const STOP: SimTime = SimTime::from_secs(86_400);
/// Interval at which a new run is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Line that an emulation prints when it has begun.
pub const READY: &str = "ready";

/// Running experiment.
pub struct World {
    child: Child,
    /// Results folder of the run.
    pub folder: PathBuf,
    /// True if it is emulated.
    pub is_emulated: bool,
}

impl World {
    /// Starts the run, and waits until commands can be given.
    pub fn start(arguments: &Arguments) -> Result<(World, Experiment), Failure> {
        let mut settings = arguments.set.clone();
        let stop = format_duration(arguments.stop_time.unwrap_or(STOP).since(SimTime::ZERO));
        settings.push(belljar_config::Setting {
            path: belljar_config::STOP_TIME.to_owned(),
            value: stop.clone(),
        });
        let experiment = Experiment::load_into(&arguments.file, &settings, arguments.output.as_deref());
        let mut experiment = experiment.map_err(Failure::input)?;
        if let Some(output) = &arguments.output {
            experiment.apply_overrides(&belljar_config::Overrides {
                data_directory: Some(output.clone()),
                ..Default::default()
            });
        }
        let folder = std::path::absolute(experiment.general.results()).map_err(Failure::run)?;
        let program = std::env::current_exe().map_err(Failure::run)?;
        let mut command = Command::new(program);
        command.arg(if arguments.emulate { "emulate" } else { "run" }).arg(&arguments.file);
        command.arg(format!("--with-prompt={}", std::process::id()));
        command.args(["--no-progress", "--stop-time", &stop]).arg("-o").arg(&folder);
        command.args(arguments.force.then_some("--force"));
        for setting in &arguments.set {
            command.arg("--set").arg(format!("{}={}", setting.path, setting.value));
        }
        command.args(arguments.seed.map(|seed| format!("--seed={seed}")));
        // Ctrl-C at the prompt is not for the run.
        command.stdin(Stdio::null()).process_group(0);
        if arguments.emulate {
            command.stdout(Stdio::piped());
        }
        let mut child = command.spawn().map_err(Failure::run)?;
        let has_begun = match child.stdout.take() {
            Some(reports) => {
                let mut reports = BufReader::new(reports);
                let mut line = String::new();
                let has_begun = reports.read_line(&mut line).is_ok() && line.trim() == READY;
                thread::spawn(move || std::io::copy(&mut reports, &mut std::io::stdout()));
                has_begun
            }
            None => loop {
                if control::is_served_by(&folder, child.id()) {
                    break true;
                }
                if child.try_wait().map_err(Failure::run)?.is_some() {
                    break false;
                }
                thread::sleep(LOOK);
            },
        };
        if !has_begun {
            // It has said why.
            let status = child.wait().ok().and_then(|status| status.code()).unwrap_or(1);
            return Err(Failure::quiet(u8::try_from(status.max(1)).unwrap_or(1)));
        }
        Ok((World { child, folder, is_emulated: arguments.emulate }, experiment))
    }

    /// True if the run has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Ends the run, which writes its results. Returns its exit status.
    pub fn finish(&mut self) -> Result<ExitCode, Failure> {
        if !self.has_ended() {
            match self.is_emulated {
                true => {
                    let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
                }
                false => drop(attach::ask(&self.folder, "finish")),
            }
        }
        let status = self.child.wait().map_err(Failure::run)?;
        Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
    }
}
