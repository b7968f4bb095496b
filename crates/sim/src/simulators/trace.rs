//! Trace of a simulator's channels: each message with its times, in picoseconds.

use belljar_base::SimTime;
use belljar_results::{ResultsFolder, names};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The trace of one simulator, in its folder in the results.
#[derive(Debug)]
pub struct ChannelTrace {
    out: BufWriter<File>,
    ports: Vec<String>,
    name: String,
}

impl ChannelTrace {
    pub(super) fn create(
        folder: &ResultsFolder,
        simulator: &str,
        ports: Vec<String>,
    ) -> Result<ChannelTrace, String> {
        let path = Path::new("simulators").join(simulator).join(names::CHANNELS);
        let file = folder.create_file(&path).map_err(|error| error.to_string())?;
        let mut trace = ChannelTrace { out: BufWriter::new(file), ports, name: path.display().to_string() };
        let head = writeln!(trace.out, "time_ps,port,direction,arrives_ps,bytes");
        head.map_err(|error| trace.failed(&error)).map(|()| trace)
    }

    /// A message at a time, at a port, to the simulator or from it, and the time at which it arrives.
    ///
    /// # Errors
    /// If it cannot be written, with what is to be said.
    pub fn write(
        &mut self,
        (at, port, to): (SimTime, usize, bool),
        arrives: SimTime,
        bytes: usize,
    ) -> Result<(), String> {
        let direction = if to { "to" } else { "from" };
        let port = &self.ports[port];
        let (at, arrives) = (at.as_picos(), arrives.as_picos());
        writeln!(self.out, "{at},{port},{direction},{arrives},{bytes}").map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> String {
        format!("{} cannot be written: {error}", self.name)
    }
}

impl Drop for ChannelTrace {
    fn drop(&mut self) {
        // A disk that is full has been met before, but for the last few lines.
        let _ = self.out.flush();
    }
}
