//! The results of all ranks in one folder, rank 0's.
//!
//! Ranks with access to rank 0's folder, on its machine or over a shared file system, write into it. On
//! another machine the first rank creates a folder with the same path, since guests see it; after the run it
//! sends its hosts' files to rank 0 and removes the folder. If the transfer is incomplete, the folder stays,
//! and a message names it.

use super::agreement::Hashes;
use super::line::{Gone, Line, PIECE};
use super::{Ranks, Refusal, Reply, rendezvous};
use crate::failure::Failure;
use belljar_base::Set;
use belljar_results::{ResultsError, ResultsFolder};
use belljar_sim::{Part, hashes};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Name of the file that identifies this run's folder.
const MARK: &str = ".ranks";

/// Folders of a run, as known to this rank.
#[derive(Default)]
pub struct Folders {
    /// Path of the mark that this rank has written.
    mark: Mutex<Option<PathBuf>>,
    /// Folder that this rank has created and removes once rank 0 has its content.
    passing: Mutex<Option<PathBuf>>,
    /// Folders of other machines, known once the run begins.
    apart: OnceLock<Apart>,
    /// Ranks whose folders' content has arrived at rank 0.
    taken: Mutex<Vec<usize>>,
}

/// Folders of other machines, whose content is transferred to rank 0.
struct Apart {
    /// Path, the same on all machines.
    path: PathBuf,
    /// Ranks that have created a folder.
    keepers: Vec<usize>,
}

impl Folders {
    /// Removes the mark and the temporary folder.
    pub fn leave(&self) {
        if let Some(mark) = self.mark.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = fs::remove_file(mark);
        }
        if let Some(folder) = self.passing.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Request of rank 0 to another rank after the run.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Send these files and folders of the results.
    Send(Vec<PathBuf>),
    /// Send the hashes of these files of the machine.
    Hash(Vec<OsString>),
    /// The transfer is complete: the folder may be removed.
    Taken,
}

impl Ranks {
    /// Creates the results folder by `create`, or opens rank 0's.
    pub fn folder(
        &self,
        path: &Path,
        create: impl FnOnce() -> Result<ResultsFolder, Failure>,
    ) -> Result<ResultsFolder, Failure> {
        // Random for each run: a token may be used again, and a killed run leaves its folder.
        let mark: String = self.step(rendezvous::drawn_token(), |mut all| Ok(all.swap_remove(0)))?;
        let made = |folder: ResultsFolder| {
            folder.write(MARK, mark.as_bytes()).map_err(Failure::run)?;
            let place = folder.path().join(MARK);
            *self.folders.mark.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
            Ok(folder)
        };
        let see = || {
            let there = path.canonicalize().ok()?;
            let found = fs::read_to_string(there.join(MARK)).ok()?;
            (found == mark).then_some(there)
        };
        let (mut create, mut mine) = (Some(create), None);
        let mut make = || match create.take() {
            Some(create) => create().and_then(made).map(|folder| mine = Some(folder)),
            None => Ok(()),
        };
        let first = if self.is_first() { make() } else { Ok(()) };
        self.step(first, |_| Ok(()))?;
        let is_keeper = self.roster.other_keepers().contains(&self.place.rank);
        let passing = if is_keeper && see().is_none() { make().map(|()| true) } else { Ok(false) };
        if let Some(folder) = mine.as_ref().filter(|_| is_keeper) {
            *self.folders.passing.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(folder.path().to_owned());
        }
        let passing: Vec<bool> = self.step(passing, Ok)?;
        let seen = see();
        let here = seen.clone().ok_or_else(|| {
            Failure::run(format!(
                "the results folder {} is not the one that the other ranks have made",
                path.display()
            ))
        });
        let here: Vec<PathBuf> = self.step(here, Ok)?;
        let other = here.iter().position(|path| *path != here[0]);
        if let Some(rank) = other {
            // All ranks detect the same error, and rank 0 reports it.
            let failure = Failure::usage(format!(
                "{} leads to {} at {} and to {} at {}: guests see that path, which must be the same: name a folder with -o",
                path.display(),
                here[0].display(),
                self.roster.label(0),
                here[rank].display(),
                self.roster.label(rank)
            ));
            return Err(if self.is_first() { failure } else { Failure::quiet(failure.status()) });
        }
        let keepers = (0..passing.len()).filter(|rank| passing[*rank]).collect();
        let _ = self.folders.apart.set(Apart { path: here[0].clone(), keepers });
        Ok(mine.unwrap_or_else(|| ResultsFolder::open(&here[0])))
    }

    /// Returns the end of an error message that names the machines with results left, or an empty string.
    pub fn left_behind(&self) -> String {
        let Some(Apart { path, keepers }) = self.folders.apart.get() else { return String::new() };
        let taken = self.folders.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let left: Vec<String> = keepers
            .iter()
            .filter(|rank| !taken.contains(rank))
            .map(|rank| self.roster.label(*rank))
            .collect();
        if left.is_empty() {
            return String::new();
        }
        let machines = if left.len() == 1 { "the machine" } else { "the machines" };
        format!(
            "; what hosts on {machines} of {} have written is left there in {}",
            left.join(", "),
            path.display()
        )
    }

    /// Sends this rank's part of the run to rank 0, and serves rank 0's requests. Returns the exit status of
    /// the run.
    pub fn deliver(&self, part: Result<Part, Failure>, folder: &ResultsFolder) -> Result<u8, Failure> {
        if part.is_err() {
            self.lines[0].tell(super::Event::Part);
        }
        // The folder now has results, which stay until rank 0 has received them.
        let passing = self.folders.passing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut is_taken = false;
        let part = part.map(|mut part| {
            part.failed_on(&self.roster.label(self.place.rank));
            part
        });
        self.say(part);
        loop {
            match self.lines[0].hear() {
                Ok(Reply::GoOn(Request::Send(paths))) => self.send(&paths, folder),
                Ok(Reply::GoOn(Request::Hash(files))) => {
                    let hashes: Hashes = hashes(&files).into_iter().collect();
                    self.say(Ok(hashes));
                }
                Ok(Reply::GoOn(Request::Taken)) => is_taken = true,
                Ok(Reply::End(status)) => {
                    passing
                        .filter(|_| is_taken)
                        .into_iter()
                        .for_each(|folder| drop(fs::remove_dir_all(folder)));
                    return Ok(status);
                }
                Err(Gone) => return Err(self.first_has_gone()),
            }
        }
    }

    /// Sends files and folders of the results; missing ones are skipped.
    fn send(&self, paths: &[PathBuf], folder: &ResultsFolder) {
        let line = &self.lines[0];
        let packed = pack(paths, folder.path(), Pieces { line, buffer: Vec::new() });
        // If rank 0 has gone, the next receive fails.
        let _ = line.send_piece(&[]);
        self.say(
            packed.map_err(|error| Failure::run(format!("the files of its hosts cannot be read: {error}"))),
        );
    }

    /// Collects the parts of all other ranks and transfers their files into `folder`. `mine` is rank 0's
    /// part, whose files are compared too. Returns the parts, and the first failure.
    pub fn collect(&self, mine: &Part, folder: &ResultsFolder) -> (Vec<Part>, Option<Failure>) {
        let mut failure = None;
        let mut parts: Vec<Option<Part>> = vec![None];
        for (rank, line) in (1..).zip(&self.lines) {
            let part = match line.hear::<Result<Part, Refusal>>() {
                Ok(Ok(part)) => Ok(part),
                Ok(Err(refusal)) => Err(self.refused(rank, refusal)),
                Err(Gone) => Err(self.lost(rank)),
            };
            match part {
                Ok(part) => parts.push(Some(part)),
                Err(error) => {
                    failure.get_or_insert(error);
                    parts.push(None);
                }
            }
        }
        for keeper in self.folders.apart.get().into_iter().flat_map(|apart| &apart.keepers) {
            let ranks = self.roster.neighbours(*keeper);
            let written = ranks.iter().filter_map(|rank| parts[*rank].as_ref()).flat_map(Part::written);
            match self.receive(*keeper, written.cloned().collect(), folder) {
                // The list of written files is incomplete if the part of a rank is missing.
                Ok(()) if ranks.iter().all(|rank| parts[*rank].is_some()) => {
                    let _ = self.lines[keeper - 1].say(&Reply::GoOn(Request::Taken));
                    self.folders.taken.lock().unwrap_or_else(PoisonError::into_inner).push(*keeper);
                }
                received => failure = failure.or(received.err()),
            }
        }
        let others = || parts.iter().flatten();
        if failure.is_none() {
            failure = self.compare_read(others().chain([mine])).err();
        }
        (parts.into_iter().flatten().collect(), failure)
    }

    fn lost(&self, rank: usize) -> Failure {
        Failure::run(format!(
            "{} has gone: the results of its hosts are incomplete, and the others stop where it did",
            self.roster.label(rank)
        ))
    }

    /// Receives files and folders of another machine's results.
    fn receive(&self, rank: usize, written: Vec<PathBuf>, folder: &ResultsFolder) -> Result<(), Failure> {
        let line = &self.lines[rank - 1];
        let lost = |Gone| self.lost(rank);
        if let Some(path) = written.iter().find(|path| !is_below(path)) {
            let label = self.roster.label(rank);
            return Err(Failure::run(format!(
                "{label} names '{}', which is no file of a host",
                path.display()
            )));
        }
        for path in &written {
            // Removes the files and folders that rank 0 created for all hosts. A symbolic link counts as a
            // file.
            let path = folder.path().join(path);
            let is_folder = path.symlink_metadata().is_ok_and(|status| status.is_dir());
            let _ = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        line.say(&Reply::GoOn(Request::Send(written))).map_err(lost)?;
        let mut pieces = Received { line, piece: Vec::new(), at: 0, over: false };
        let unpacked = {
            let mut archive = tar::Archive::new(&mut pieces);
            archive.set_preserve_permissions(true);
            archive.unpack(folder.path())
        };
        // The stream is drained, so that the sender's status follows.
        io::copy(&mut pieces, &mut io::sink()).map_err(|_| self.lost(rank))?;
        let packed = line.hear::<Result<(), Refusal>>().map_err(lost)?;
        packed.map_err(|refusal| self.refused(rank, refusal))?;
        unpacked.map_err(|error| {
            Failure::run(ResultsError::Write { path: folder.path().to_owned(), error: root_of(error) })
        })
    }

    /// Compares the files that hosts have read, between all machines.
    fn compare_read<'a>(&self, parts: impl Iterator<Item = &'a Part>) -> Result<(), Failure> {
        let keepers = self.roster.other_keepers();
        if keepers.is_empty() {
            return Ok(());
        }
        let read: Set<OsString> = parts.flat_map(Part::files_read).cloned().collect();
        let request = Reply::GoOn(Request::Hash(read.iter().cloned().collect()));
        for keeper in &keepers {
            // A lost rank is detected when its answer is due.
            let _ = self.lines[keeper - 1].say(&request);
        }
        let first: Hashes = hashes(&read).into_iter().collect();
        for keeper in keepers {
            let other = self.lines[keeper - 1].hear::<Result<Hashes, Refusal>>();
            let other = other.map_err(|Gone| self.lost(keeper))?;
            let other = other.map_err(|refusal| self.refused(keeper, refusal))?;
            self.compare_files(keeper, &first, &other)
                .map_err(|text| Failure::run(format!("the results are not those of one machine: {text}")))?;
        }
        Ok(())
    }
}

/// Returns the operating system's error inside an error of the archive, whose text would name it twice.
fn root_of(error: io::Error) -> io::Error {
    let mut at = &error;
    loop {
        if let Some(code) = at.raw_os_error() {
            return io::Error::from_raw_os_error(code);
        }
        // The error either wraps the next one, or is of the archive's own type with the next one as its
        // source.
        let inner = at.get_ref().and_then(|inner| {
            inner.downcast_ref::<io::Error>().or_else(|| inner.source()?.downcast_ref::<io::Error>())
        });
        match inner {
            Some(inner) => at = inner,
            None => return error,
        }
    }
}

/// True for a relative path inside one of the results' subfolders: it neither climbs by `..` nor names a
/// top-level folder.
fn is_below(path: &Path) -> bool {
    path.components().count() > 1 && path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Packs files and folders below `root` into an archive; missing ones are skipped.
fn pack(paths: &[PathBuf], root: &Path, out: impl Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(out);
    archive.follow_symlinks(false);
    for path in paths.iter().filter(|path| is_below(path)) {
        let place = root.join(path);
        match place.symlink_metadata() {
            Ok(status) if status.is_dir() => archive.append_dir_all(path, &place)?,
            Ok(_) => archive.append_path_with_name(&place, path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    archive.into_inner()?.flush()
}

/// Writer that sends a stream in pieces over a line.
struct Pieces<'a> {
    line: &'a Line,
    buffer: Vec<u8>,
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend(bytes);
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        // An empty piece would end the stream.
        if !self.buffer.is_empty() {
            self.line.send_piece(&self.buffer).map_err(|Gone| io::ErrorKind::BrokenPipe)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// Reader of a stream sent in pieces.
struct Received<'a> {
    line: &'a Line,
    piece: Vec<u8>,
    at: usize,
    over: bool,
}

impl Read for Received<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() && !self.over {
            self.piece = self.line.piece().map_err(|Gone| io::ErrorKind::UnexpectedEof)?;
            self.at = 0;
            self.over = self.piece.is_empty();
        }
        let count = out.len().min(self.piece.len() - self.at);
        out[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn files_arrive_as_they_were_and_missing_ones_are_left_out() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let host = from.path().join("hosts/a");
        fs::create_dir_all(host.join("fs/empty")).unwrap();
        fs::write(host.join("said"), vec![7; 3 * PIECE]).unwrap();
        fs::set_permissions(host.join("said"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("/nowhere/at/all", host.join("link")).unwrap();
        fs::create_dir(from.path().join("routes")).unwrap();
        fs::write(from.path().join("routes/a.jsonl"), "{}").unwrap();
        let mut bytes = Vec::new();
        let paths = ["hosts/a", "routes/a.jsonl", "routes/b.jsonl"].map(PathBuf::from);
        pack(&paths, from.path(), &mut bytes).unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        archive.set_preserve_permissions(true);
        archive.unpack(to.path()).unwrap();
        let there = to.path().join("hosts/a");
        assert_eq!(fs::read(there.join("said")).unwrap().len(), 3 * PIECE);
        assert_eq!(fs::metadata(there.join("said")).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_link(there.join("link")).unwrap(), Path::new("/nowhere/at/all"));
        assert!(there.join("fs/empty").is_dir() && to.path().join("routes/a.jsonl").is_file());
    }

    #[test]
    fn the_system_s_error_is_found_below_others() {
        let full = io::Error::from_raw_os_error(28);
        let wrapped = io::Error::new(full.kind(), io::Error::new(full.kind(), full));
        assert_eq!(root_of(wrapped).kind(), io::ErrorKind::StorageFull);
        assert_eq!(root_of(io::Error::other("odd")).to_string(), "odd");
    }
}
