//! The course of a run: a first command, drivers for a time with others beside them, and a command at the end.
//!
//! A run has either one singleton driver, or parallel and serial drivers. At the end it draws between a command `eventually_`, for which
//! all others are killed, and one `finally_`, which waits for them. A command that ends with another status than 0 is a failure,
//! unless it was killed.

use crate::clock::NOTICE;
use crate::fleet::Fleet;
use crate::template::{Command, Kind, Template};
use belljar_base::Stream;
use std::time::Duration;

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
    fleet: &'a mut Fleet,
    /// Time at which drivers are no longer started
    end: Duration,
}

impl<'a> Course<'a> {
    pub fn new(template: &'a Template, pace: Pace, random: Stream, fleet: &'a mut Fleet) -> Course<'a> {
        let end = fleet.now() + pace.time;
        Course { template, pace, random, fleet, end }
    }

    /// Runs the course.
    ///
    /// # Errors
    /// A command cannot be started, or a host cannot go on.
    pub fn run(mut self) -> Result<(), String> {
        if let Some(first) = self.draw(Kind::First) {
            self.alone(&first)?;
        }
        self.drive()?;
        self.end()
    }

    /// Command of a kind, drawn.
    fn draw(&mut self, kind: Kind) -> Option<Command> {
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
            self.fleet.start(&command, true)?;
        }
        let (mut driver_due, mut other_due) = (Duration::ZERO, self.gap());
        while self.fleet.now() < self.end {
            let now = self.fleet.now();
            if !is_single && has_others && now >= driver_due {
                self.next_driver()?;
                driver_due = self.fleet.now() + self.gap();
            }
            if now >= other_due {
                if let Some(command) = self.draw(Kind::Anytime) {
                    self.fleet.start(&command, false)?;
                }
                other_due = now + self.gap();
            }
            self.fleet.wait((self.fleet.now() + NOTICE).min(self.end))?;
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
        match self.fleet.drivers() < self.pace.parallel {
            true => self.fleet.start(&command, true),
            false => Ok(()),
        }
    }

    /// Carries out the command of the end.
    fn end(&mut self) -> Result<(), String> {
        let both = [Kind::Eventually, Kind::Finally].map(|kind| self.template.of(kind).len() as u64);
        if both[0] > 0 && self.random.below(both[0] + both[1]) < both[0] {
            self.fleet.kill()?;
            return self.draw(Kind::Eventually).map_or(Ok(()), |command| self.alone(&command));
        }
        self.wait_for_drivers()?;
        self.draw(Kind::Finally).map_or(Ok(()), |command| self.alone(&command))?;
        self.fleet.kill()
    }

    /// Time until the next start: uniform, twice the mean at most.
    fn gap(&mut self) -> Duration {
        Duration::from_secs_f64(2.0 * self.random.unit() * self.pace.pause)
    }

    /// Runs a command to its end, drivers having ended before.
    fn alone(&mut self, command: &Command) -> Result<(), String> {
        self.fleet.start(command, true)?;
        self.wait_for_drivers()
    }

    fn wait_for_drivers(&mut self) -> Result<(), String> {
        while self.fleet.drivers() > 0 {
            self.fleet.wait(self.fleet.now() + NOTICE)?;
        }
        Ok(())
    }
}
