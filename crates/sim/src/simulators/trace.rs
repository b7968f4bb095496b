//! Trace of a simulator's channels: each message with its times, in picoseconds.

use belljar_base::SimTime;
use belljar_results::{ResultsFolder, names};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Trace of one simulator, in its folder of the results.
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

    /// Records a message: time, port, direction (true if to the simulator), and arrival time.
    ///
    /// # Errors
    /// A message for the user if the file cannot be written.
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
        // A full disk has been detected before, except for the last few lines.
        let _ = self.out.flush();
    }
}
