//! Setup of a host: commands that run before its processes start.

/// State of a host's setup. Processes that are due before its end wait for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Setup {
    /// The host has none, or it has succeeded.
    #[default]
    Done,
    /// It runs, or is about to start.
    Runs {
        /// Processes that wait for it, by number, in the order in which they were due.
        held: Vec<usize>,
    },
    /// It has failed.
    Failed,
}

/// Start of a process that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It starts.
    Now,
    /// It waits for the setup.
    Later,
    /// It never starts, because the setup has failed.
    Never,
}

impl Setup {
    /// The state at the start of a host, which has a setup or not.
    pub fn begun(has_setup: bool) -> Setup {
        match has_setup {
            true => Setup::Runs { held: Vec::new() },
            false => Setup::Done,
        }
    }

    /// Decides on the start of a process that is due, other than the setup itself.
    pub fn start_of(&mut self, process: usize) -> Start {
        match self {
            Setup::Done => Start::Now,
            Setup::Runs { held } => {
                held.push(process);
                Start::Later
            }
            Setup::Failed => Start::Never,
        }
    }

    /// Ends the setup; returns the processes that waited for it.
    pub fn end(&mut self, succeeded: bool) -> Vec<usize> {
        let next = if succeeded { Setup::Done } else { Setup::Failed };
        match std::mem::replace(self, next) {
            Setup::Runs { held } => held,
            Setup::Done | Setup::Failed => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_wait_for_the_end_of_the_setup() {
        assert_eq!(Setup::begun(false).start_of(0), Start::Now);
        for (succeeded, then) in [(true, Start::Now), (false, Start::Never)] {
            let mut setup = Setup::begun(true);
            assert_eq!([setup.start_of(2), setup.start_of(0)], [Start::Later; 2]);
            assert_eq!(setup.end(succeeded), [2, 0]);
            assert_eq!((setup.start_of(1), setup.end(succeeded)), (then, Vec::new()));
        }
    }
}
