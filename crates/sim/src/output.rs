//! Where a node's captures and system-call logs go.

use belljar_base::{Map, SimTime};
use belljar_results::{CaptureWriter, ResultsError, ResultsFolder};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes of a log that wait before it is written.
const LOG_BUFFER: usize = 16 << 10;

/// See the [module](self).
pub struct Output {
    /// The folder of the whole run.
    pub folder: ResultsFolder,
    /// What the clock shows at the start.
    pub epoch_secs: u64,
    /// Bytes kept of each captured packet.
    pub capture_len: usize,
    /// By interface, with the place of the file.
    pub captures: Map<Arc<str>, (PathBuf, CaptureWriter)>,
    /// What is to be added to logs of system calls, by their names.
    pub logs: Map<PathBuf, String>,
    /// The first error met; the run stops for it.
    pub error: Option<ResultsError>,
    /// Set when any host of the run has met one.
    pub failed: Arc<AtomicBool>,
}

impl Output {
    /// Writes a packet of an interface to its capture, in a folder relative to the results.
    pub fn capture(
        &mut self,
        folder: &Path,
        interface: &Arc<str>,
        at: SimTime,
        packet: &[u8],
        ethernet: bool,
    ) {
        if !self.captures.contains_key(interface) {
            let name = folder.join(format!("{interface}.pcap"));
            let opened = self.folder.create_file(&name).and_then(|file| {
                CaptureWriter::new(file, self.epoch_secs, self.capture_len, ethernet)
                    .map_err(|error| ResultsError::Write { path: name.clone(), error })
            });
            match opened {
                Ok(writer) => drop(self.captures.insert(interface.clone(), (name, writer))),
                Err(error) => return self.note(Err(error)),
            }
        }
        if let Some((name, writer)) = self.captures.get_mut(interface) {
            let written = writer.write(at, packet);
            let written = written.map_err(|error| ResultsError::Write { path: name.clone(), error });
            self.note(written);
        }
    }
    /// Adds to a log. It is opened only once much has come together: hosts have thousands of windows.
    pub fn log(&mut self, name: PathBuf, text: &str) {
        let waiting = self.logs.entry(name.clone()).or_default();
        waiting.push_str(text);
        if waiting.len() > LOG_BUFFER {
            self.write_log(&name);
        }
    }
    fn write_log(&mut self, name: &Path) {
        let text = self.logs.remove(name).unwrap_or_default();
        let written = self.folder.append(name, text.as_bytes());
        self.note(written);
    }
    /// Takes note of an error, if there is one.
    pub fn note(&mut self, written: Result<(), ResultsError>) {
        if let Err(error) = written {
            self.error.get_or_insert(error);
            self.failed.store(true, Relaxed);
        }
    }
    /// Writes out what is buffered.
    pub fn finish(&mut self) {
        for name in self.logs.keys().cloned().collect::<Vec<_>>() {
            self.write_log(&name);
        }
        for (name, capture) in std::mem::take(&mut self.captures).into_values() {
            let path = self.folder.path().join(name);
            self.note(capture.finish().map_err(|error| ResultsError::Write { path, error }));
        }
    }
}
