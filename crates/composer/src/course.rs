//! The course of a run: a first command, drivers for a time with others beside them, and a command at the end.
//!
//! A run has either one singleton driver, or parallel and serial drivers. At the end it draws between a command `eventually_`, for which
//! all others are killed, and one `finally_`, which waits for them. A command that ends with another status than 0 is a failure,
//! unless it was killed.

use crate::clock::Clock;
use crate::template::{Kind, Template};
use belljar_base::Stream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// Interval at which the ends of commands are noticed.
const NOTICE: Duration = Duration::from_millis(10);

/// How long, and how densely, commands are started.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub time: Duration,
    pub parallel: usize,
    /// Mean seconds between two starts.
    pub pause: f64,
}

/// Course of a run.
pub struct Course<'a> {
    template: &'a Template,
    pace: Pace,
    random: Stream,
    clock: Clock,
    running: Vec<Running>,
    failed: usize,
}

/// Command that has started.
struct Running {
    name: String,
    is_driver: bool,
    child: Child,
}

impl<'a> Course<'a> {
    pub fn new(template: &'a Template, pace: Pace, random: Stream) -> Course<'a> {
        Course { template, pace, random, clock: Clock::start(), running: Vec::new(), failed: 0 }
    }

    /// Runs the course; gives the number of commands that failed.
    ///
    /// # Errors
    /// A command cannot be started.
    pub fn run(mut self) -> Result<usize, String> {
        if let Some(first) = self.draw(Kind::First) {
            self.alone(&first)?;
        }
        self.drive()?;
        self.end()?;
        Ok(self.failed)
    }

    /// Command of a kind, drawn.
    fn draw(&mut self, kind: Kind) -> Option<PathBuf> {
        let commands = self.template.of(kind);
        let index = self.random.below(commands.len() as u64) as usize;
        commands.get(index).cloned()
    }

    /// Starts drivers and other commands until the time is over.
    fn drive(&mut self) -> Result<(), String> {
        let singletons = self.template.of(Kind::SingletonDriver).len() as u64;
        let has_others =
            [Kind::ParallelDriver, Kind::SerialDriver].iter().any(|kind| !self.template.of(*kind).is_empty());
        let is_single = singletons > 0 && (!has_others || self.random.below(singletons + 1) < singletons);
        if is_single && let Some(command) = self.draw(Kind::SingletonDriver) {
            self.start(&command, true)?;
        }
        let (mut driver_due, mut other_due) = (Duration::ZERO, self.gap());
        while self.clock.now() < self.pace.time {
            let now = self.clock.now();
            if !is_single && has_others && now >= driver_due {
                self.next_driver()?;
                driver_due = self.clock.now() + self.gap();
            }
            if now >= other_due {
                if let Some(command) = self.draw(Kind::Anytime) {
                    self.start(&command, false)?;
                }
                other_due = now + self.gap();
            }
            self.clock.until((self.clock.now() + NOTICE).min(self.pace.time));
            self.notice()?;
        }
        Ok(())
    }

    /// Starts a parallel driver, if there are not too many, or runs a serial one alone.
    fn next_driver(&mut self) -> Result<(), String> {
        let (parallel, serial) =
            (self.template.of(Kind::ParallelDriver).len(), self.template.of(Kind::SerialDriver).len());
        let is_serial = (self.random.below((parallel + serial) as u64) as usize) < serial;
        let command = self.draw(if is_serial { Kind::SerialDriver } else { Kind::ParallelDriver });
        let Some(command) = command else { return Ok(()) };
        if is_serial {
            self.wait_for_drivers()?;
            return self.alone(&command);
        }
        match self.running.iter().filter(|running| running.is_driver).count() < self.pace.parallel {
            true => self.start(&command, true),
            false => Ok(()),
        }
    }

    /// Carries out the command of the end.
    fn end(&mut self) -> Result<(), String> {
        let both = [Kind::Eventually, Kind::Finally].map(|kind| self.template.of(kind).len() as u64);
        if both[0] > 0 && self.random.below(both[0] + both[1]) < both[0] {
            self.kill();
            return self.draw(Kind::Eventually).map_or(Ok(()), |command| self.alone(&command));
        }
        self.wait_for_drivers()?;
        let done = self.draw(Kind::Finally).map_or(Ok(()), |command| self.alone(&command));
        self.kill();
        done
    }

    /// Time until the next start: uniform, twice the mean at most.
    fn gap(&mut self) -> Duration {
        Duration::from_secs_f64(2.0 * self.random.unit() * self.pace.pause)
    }

    fn log(&self, text: &str) {
        println!("{:.3} s: {text}", self.clock.now().as_secs_f64());
    }

    fn start(&mut self, command: &Path, is_driver: bool) -> Result<(), String> {
        let name = command.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.log(&format!("{name} starts"));
        let child = Command::new(command)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", command.display()))?;
        self.running.push(Running { name, is_driver, child });
        Ok(())
    }

    /// Runs a command to its end, drivers having ended before.
    fn alone(&mut self, command: &Path) -> Result<(), String> {
        self.start(command, true)?;
        self.wait_for_drivers()
    }

    fn wait_for_drivers(&mut self) -> Result<(), String> {
        while self.running.iter().any(|running| running.is_driver) {
            self.clock.until(self.clock.now() + NOTICE);
            self.notice()?;
        }
        Ok(())
    }

    /// Notices commands that have ended.
    fn notice(&mut self) -> Result<(), String> {
        let mut at = 0;
        while let Some(running) = self.running.get_mut(at) {
            let status =
                running.child.try_wait().map_err(|error| format!("{} is lost: {error}", running.name))?;
            let Some(status) = status else {
                at += 1;
                continue;
            };
            let running = self.running.remove(at);
            self.log(&format!("{} ends: {status}", running.name));
            if !status.success() {
                self.failed += 1;
                eprintln!("belljar-composer: {} failed: {status}", running.name);
            }
        }
        Ok(())
    }

    /// Ends all commands by force.
    fn kill(&mut self) {
        for mut running in std::mem::take(&mut self.running) {
            self.log(&format!("{} is killed", running.name));
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}
