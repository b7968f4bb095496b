//! Output of a node: captures and logs.

use crate::captures::{self, Capture, Captures};
use crate::judged::{self, JudgedPackets};
use belljar_base::{Map, SimTime};
use belljar_netstack::{CAPTURE_ROOM, CapturedRun};
use belljar_results::{CaptureWriter, Growing, PacketPipe, ResultsError, ResultsFolder, Writer};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

// A host leaves room for the headers of the file.
const _: () = assert!(CAPTURE_ROOM == CaptureWriter::HEADER);

/// Output files of a node. See the [module](self).
pub struct Output {
    /// Results folder of the run.
    pub folder: ResultsFolder,
    /// Wall clock of the hosts at the start, in seconds since 1970.
    pub epoch_secs: u64,
    /// Filters of the captures.
    pub wanted: Captures,
    /// False if packets are captured for [`judged`](Self::judged) or [`pipe`](Self::pipe) alone.
    pub is_captured: bool,
    /// Captures of the packets that properties are about.
    pub judged: Option<Box<JudgedPackets>>,
    /// Stream of the packets of one of the interfaces.
    pub pipe: Option<Arc<PacketPipe>>,
    /// Bytes kept of each captured packet.
    pub capture_len: usize,
    /// Captures by interface, with the paths of their files.
    pub captures: Map<Arc<str>, Capture>,
    /// Interfaces whose capture is created even without packets, and their folder relative to the results;
    /// the flag is true for Ethernet frames.
    pub expected: (PathBuf, Vec<(Arc<str>, bool)>),
    /// Logs by name, with the paths of their files.
    pub logs: Map<String, (PathBuf, Arc<Growing>)>,
    /// First error, which stops the run.
    pub error: Option<ResultsError>,
    /// Writer of files, shared by the whole run.
    pub writer: Arc<Writer>,
}

impl Output {
    /// Writes a frame to the capture of an interface, in a folder relative to the results.
    pub fn capture(&mut self, folder: &Path, interface: &Arc<str>, at: SimTime, frame: &[u8]) {
        if !self.wanted.wants(interface, frame, true) {
            return;
        }
        if let Some(pipe) = self.pipe.as_ref().filter(|pipe| pipe.is_at(interface)) {
            pipe.write(std::iter::once((at, frame)));
        }
        if self.is_captured {
            self.write_captured(folder, interface, true, |writer, _| writer.write(at, frame));
        }
    }
    /// Writes those packets of a host that pass the filter.
    pub fn capture_run(&mut self, folder: &Path, run: CapturedRun) {
        if let Some(judged) = &mut self.judged {
            let created = judged.take(&run, |name, ethernet| {
                captures::create(&self.folder, &self.writer, name, self.epoch_secs, (judged::KEPT, ethernet))
            });
            self.note(created);
        }
        let (interface, ethernet) = (run.interface, run.ethernet);
        if let Some(pipe) = self.pipe.as_ref().filter(|pipe| pipe.is_at(interface)) {
            pipe.write(run.iter().filter(|(_, packet)| self.wanted.wants(interface, packet, ethernet)));
        }
        if !self.is_captured {
            return;
        }
        // The file is created for the first packet.
        if self.captures.contains_key(interface)
            || run.iter().any(|(_, packet)| self.wanted.wants(interface, packet, ethernet))
        {
            self.write_captured(folder, interface, ethernet, |writer, wanted| {
                writer.write_run(run.packets, run.bytes, |packet| wanted.wants(interface, packet, ethernet))
            });
        }
    }
    fn write_captured(
        &mut self,
        folder: &Path,
        interface: &Arc<str>,
        ethernet: bool,
        write: impl FnOnce(&mut CaptureWriter, &Captures),
    ) {
        if !self.captures.contains_key(interface) {
            let name = folder.join(format!("{interface}.pcap"));
            let kept = (self.capture_len, ethernet);
            match captures::create(&self.folder, &self.writer, &name, self.epoch_secs, kept) {
                Ok(capture) => {
                    self.captures.insert(interface.clone(), capture);
                }
                Err(error) => return self.note(Err(error)),
            }
        }
        if let Some((_, writer)) = self.captures.get_mut(interface) {
            write(writer, &self.wanted);
        }
    }
    /// Appends to a log of system calls in a folder relative to the results.
    pub fn log(&mut self, folder: &Path, name: &str, text: &[u8]) {
        self.append(folder, name, "strace", text);
    }
    /// Appends to a log `name` in a folder relative to the results; the extension must always be the same
    /// for a name.
    pub fn append(&mut self, folder: &Path, name: &str, extension: &str, text: &[u8]) {
        if let Some((_, log)) = self.logs.get(name) {
            return log.add(text);
        }
        let file = folder.join(format!("{name}.{extension}"));
        // Creates the folder as well.
        if let Err(error) = self.folder.create_file(&file) {
            return self.note(Err(error));
        }
        let path = self.folder.path().join(file);
        let log = self.writer.appended(path.clone());
        log.add(text);
        self.logs.insert(name.to_owned(), (path, log));
    }
    /// Records an error, if there is one.
    pub fn note(&mut self, written: Result<(), ResultsError>) {
        if let Err(error) = written {
            self.error.get_or_insert(error);
            self.writer.fail();
        }
    }
    /// Writes all buffered output.
    pub fn finish(&mut self) {
        let (folder, interfaces) = mem::take(&mut self.expected);
        for (interface, ethernet) in interfaces {
            self.write_captured(&folder, &interface, ethernet, |_, _| ());
        }
        let judged = self.judged.take().map(|judged| {
            judged.finish(|name, ethernet| {
                captures::create(&self.folder, &self.writer, name, self.epoch_secs, (judged::KEPT, ethernet))
            })
        });
        let judged = match judged.transpose() {
            Ok(judged) => judged.unwrap_or_default(),
            Err(error) => return self.note(Err(error)),
        };
        let captures = mem::take(&mut self.captures).into_values().chain(judged);
        let captures = captures.map(|(path, capture)| (path, capture.finish()));
        let logs = mem::take(&mut self.logs).into_values().map(|(path, log)| (path, log.finish()));
        for (path, finished) in captures.chain(logs) {
            self.note(finished.map_err(|error| ResultsError::Write { path, error }));
        }
    }
}
