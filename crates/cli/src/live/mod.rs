//! `belljar run --live`: a view of the running simulation, as a page on localhost or in the terminal.
//!
//! `watch` is the common model: the run's state from [`belljar_sim::Live`] and the experiment, the `schedule`
//! of coming events, the `network` with its loads, and the commands. `page` serves the page; `terminal` draws and reads keys. Neither
//! writes to the results.

mod network;
mod page;
mod schedule;
mod terminal;
mod watch;

use crate::failure::Failure;
use crate::progress::Display;
use belljar_base::SimTime;
use belljar_config::{Experiment, parse_time};
use belljar_results::ResultsFolder;
use belljar_sim::{Goal, Live};
use clap::ValueEnum;
use std::io::IsTerminal;
use std::sync::Arc;
pub use terminal::restore as restore_terminal;
use watch::Watch;

/// Place of the live view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// A page on localhost, whose address is printed
    Page,
    /// This terminal
    Terminal,
}

/// Options of the live view.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Show the run while it goes on, on a page of this machine (its address is printed) or in the terminal; pause it and
    /// step through it. Results don't depend on it
    #[arg(long, value_enum, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "page",
          env = "BELLJAR_LIVE")]
    live: Option<Place>,
    /// The page's TCP port [default: any that is free]
    #[arg(long, value_name = "PORT", requires = "live", env = "BELLJAR_LIVE_PORT")]
    live_port: Option<u16>,
    /// Pause when this simulated time is reached ("0 s": before anything happens)
    #[arg(long, value_name = "TIME", requires = "live", value_parser = parse_time, env = "BELLJAR_PAUSE_AT")]
    pause_at: Option<SimTime>,
}

impl Arguments {
    /// Checks that the view can be opened: the run has one process, and the terminal view has a terminal.
    /// `together` is set for a run of several processes, and is the remedy to print.
    pub fn check(&self, together: Option<&str>, in_real_time: bool, writes_log: bool) -> Result<(), Failure> {
        let Some(place) = self.live else { return Ok(()) };
        if let Some(remedy) = together {
            return Err(Failure::usage(format!("a live view shows a run of one process: {remedy}")));
        }
        if in_real_time && self.pause_at.is_some() {
            return Err(Failure::usage("a run in real time cannot pause: leave out --pause-at"));
        }
        if place == Place::Terminal {
            let is_there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
            if !is_there {
                return Err(Failure::usage("--live=terminal needs a terminal: use --live=page"));
            }
            if writes_log {
                return Err(Failure::usage("--live=terminal needs the terminal for itself: leave out --log"));
            }
        }
        Ok(())
    }

    /// Creates the live state of the run, or `None` without `--live`.
    pub fn live(&self) -> Option<Arc<Live>> {
        let goal = self
            .pause_at
            .map_or(Goal::End, |at| if at == SimTime::ZERO { Goal::Here } else { Goal::Before(at) });
        self.live.map(|_| Live::new(goal))
    }

    /// Opens the view. Dropping the value closes it.
    pub fn begin(
        &self,
        live: Option<&Arc<Live>>,
        experiment: &Experiment,
        folder: &ResultsFolder,
        workers: usize,
        in_real_time: bool,
    ) -> Result<Option<LiveView>, Failure> {
        let Some((place, live)) = self.live.zip(live) else { return Ok(None) };
        let watch = Arc::new(Watch::new(live.clone(), experiment, folder.path(), workers, in_real_time));
        Ok(Some(match place {
            Place::Page => {
                page::serve(watch, self.live_port.unwrap_or(0))?;
                LiveView(None)
            }
            Place::Terminal => LiveView(Some(terminal::Screen::open(watch)?)),
        }))
    }

    /// Mode of the progress display beside the view: `usual`, unless the view is in the terminal.
    pub fn display(&self, usual: Display) -> Display {
        if self.live == Some(Place::Terminal) { Display::Elsewhere } else { usual }
    }
}

/// Open live view.
pub struct LiveView(
    #[expect(dead_code, reason = "the terminal is given back when this is dropped")] Option<terminal::Screen>,
);
