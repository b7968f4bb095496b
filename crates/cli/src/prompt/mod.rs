//! `belljar prompt`: an experiment from a prompt like Mininet's.
//!
//! `world` starts the run in a process of its own and ends it; programs on hosts are started as by `belljar attach`.
//! `line` understands what is typed, `commands` does it, `network` shows nodes and links, `measure` has pings and
//! throughput, `editor` reads lines.

mod commands;
mod editor;
mod line;
mod measure;
mod network;
mod world;

use crate::failure::Failure;
use crate::{signals, tty};
use belljar_base::SimTime;
use belljar_config::{Setting, parse_time};
use commands::{Commands, Next};
use editor::{Editor, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
pub use world::READY;
use world::World;

/// Runs an experiment from a prompt like Mininet's: commands on its hosts, pings between all, throughput, links up and
/// down.
///
/// Simulated time passes while commands run, and stands between them; "wait 5 s" lets it pass. With --emulate the
/// experiment runs on this machine's kernel, in real time. The experiment's own programs run as the file says. Without
/// a terminal, commands are read from standard input. The results say that the run was attended: it cannot be
/// reproduced.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar prompt examples/prompt.yaml\n  echo 'pingall' | belljar prompt exp.yaml --emulate\n\nAt the prompt, 'help' lists the commands."
)]
pub struct Arguments {
    /// The experiment file
    file: PathBuf,
    /// Emulate the experiment on this machine's kernel
    #[arg(long)]
    emulate: bool,
    /// The results folder [default: the file's name with .data in the current folder]
    #[arg(short, long = "output", value_name = "DIR", env = "BELLJAR_OUTPUT")]
    output: Option<PathBuf>,
    /// Replace the results folder of an earlier run
    #[arg(long)]
    force: bool,
    /// The seed of all that is drawn
    #[arg(long, env = "BELLJAR_SEED")]
    seed: Option<u64>,
    /// End the run at this time of the experiment [default: 1 day]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    stop_time: Option<SimTime>,
    /// Set a value of the experiment, whatever the file says
    #[arg(long, value_name = "KEY=VALUE", value_parser = Setting::parse)]
    set: Vec<Setting>,
}

/// Starts the run and obeys until the user leaves.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (world, experiment) = World::start(arguments)?;
    let _ = signals::handle(|| {
        // Between commands, and the second time, it is for the prompt. The run ends with it.
        if !tty::RUNNING.load(Relaxed) || tty::INTERRUPTED.swap(true, Relaxed) {
            tty::restore();
            signals::exit();
        }
    });
    let mut commands = Commands::new(world, experiment);
    let mut editor = Editor::new(commands.words())?;
    loop {
        let next = match editor.read()? {
            Read::Line(line) => {
                tty::RUNNING.store(true, Relaxed);
                let next = commands.perform(&line);
                tty::RUNNING.store(false, Relaxed);
                next
            }
            Read::Interrupted => Next::GoOn,
            Read::End => Next::Leave,
        };
        // A Ctrl-C that came too late for its command is not for the next one.
        tty::INTERRUPTED.store(false, Relaxed);
        if next == Next::Leave || commands.world.has_ended() {
            break;
        }
    }
    editor.save();
    commands.world.finish()
}
