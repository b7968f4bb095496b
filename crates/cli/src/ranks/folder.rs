//! Results of all ranks in one folder, rank 0's.
//!
//! Ranks that see rank 0's folder, on its machine or by a file system that machines share, write into it. On another machine the first rank
//! makes one of the same path, since guests see it; after the run its hosts' files come over to rank 0, and it is removed. If they have not all
//! come, it stays, and a message says where.

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

/// The file that marks the folder of this run.
const MARK: &str = ".ranks";

/// Folders of a run.
#[derive(Default)]
pub struct Folders {
    /// The mark that this rank has made.
    mark: Mutex<Option<PathBuf>>,
    /// This rank's folder, if it is only needed until rank 0 has its content.
    passing: Mutex<Option<PathBuf>>,
    /// Such folders, once the run begins.
    apart: OnceLock<Apart>,
    /// Ranks whose folders' content rank 0 has.
    taken: Mutex<Vec<usize>>,
}

/// Folders of other machines, whose content comes over to rank 0.
struct Apart {
    /// Their path, the same on all machines.
    path: PathBuf,
    /// The ranks that have made them.
    keepers: Vec<usize>,
}

impl Folders {
    /// Leaves what is to stay.
    pub fn leave(&self) {
        if let Some(mark) = self.mark.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = fs::remove_file(mark);
        }
        if let Some(folder) = self.passing.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// What rank 0 asks of another one after the run.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// These files and folders of its results.
    Send(Vec<PathBuf>),
    /// The hashes of these files of its machine.
    Hash(Vec<OsString>),
    /// Nothing: all that its machine's hosts have written is at rank 0, so its folder may go.
    Taken,
}

impl Ranks {
    /// Makes the results folder by `create`, or finds rank 0's.
    pub fn folder(
        &self,
        path: &Path,
        create: impl FnOnce() -> Result<ResultsFolder, Failure>,
    ) -> Result<ResultsFolder, Failure> {
        // Drawn anew for each run: a token may be used again, and a killed run leaves its folder.
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
            // All ranks come to the same, and rank 0 says it.
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

    /// The end of a message after which not all results are at rank 0: where the others are.
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

    /// Hands this rank's part of the run to rank 0, and what that asks for. Returns the status of the run.
    pub fn deliver(&self, part: Result<Part, Failure>, folder: &ResultsFolder) -> Result<u8, Failure> {
        if part.is_err() {
            self.lines[0].tell(super::Event::Part);
        }
        // From here on it has results, which stay until rank 0 has them.
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

    /// Sends files and folders of the results, as far as they are there.
    fn send(&self, paths: &[PathBuf], folder: &ResultsFolder) {
        let line = &self.lines[0];
        let packed = pack(paths, folder.path(), Pieces { line, buffer: Vec::new() });
        // If rank 0 has gone, it is heard of next.
        let _ = line.send_piece(&[]);
        self.say(
            packed.map_err(|error| Failure::run(format!("the files of its hosts cannot be read: {error}"))),
        );
    }

    /// Collects the parts of all other ranks, whose files are in `folder` then; `mine` is rank 0's part. Beside them the first failure.
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
                // Nobody knows what hosts of a rank that is lost have written.
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
            // As they were made for all hosts; a link is no folder.
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
        // It must be able to say its last word.
        io::copy(&mut pieces, &mut io::sink()).map_err(|_| self.lost(rank))?;
        let packed = line.hear::<Result<(), Refusal>>().map_err(lost)?;
        packed.map_err(|refusal| self.refused(rank, refusal))?;
        unpacked.map_err(|error| {
            Failure::run(ResultsError::Write { path: folder.path().to_owned(), error: root_of(error) })
        })
    }

    /// Compares the files that hosts have read on any machine.
    fn compare_read<'a>(&self, parts: impl Iterator<Item = &'a Part>) -> Result<(), Failure> {
        let keepers = self.roster.other_keepers();
        if keepers.is_empty() {
            return Ok(());
        }
        let read: Set<OsString> = parts.flat_map(Part::files_read).cloned().collect();
        let request = Reply::GoOn(Request::Hash(read.iter().cloned().collect()));
        for keeper in &keepers {
            // One that has gone is missed when it is to answer.
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

/// The system's own error below those of the archive, whose text would name it twice.
fn root_of(error: io::Error) -> io::Error {
    let mut at = &error;
    loop {
        if let Some(code) = at.raw_os_error() {
            return io::Error::from_raw_os_error(code);
        }
        // Either wraps it, or is of the archive's own type, whose source it is.
        let inner = at.get_ref().and_then(|inner| {
            inner.downcast_ref::<io::Error>().or_else(|| inner.source()?.downcast_ref::<io::Error>())
        });
        match inner {
            Some(inner) => at = inner,
            None => return error,
        }
    }
}

/// True for a path that leads to something in a folder of the results, and to no folder of all hosts.
fn is_below(path: &Path) -> bool {
    path.components().count() > 1 && path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Packs files and folders below `root`, as far as they are there.
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

/// Writer of a stream as pieces on a line.
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
        // An empty one would end the stream.
        if !self.buffer.is_empty() {
            self.line.send_piece(&self.buffer).map_err(|Gone| io::ErrorKind::BrokenPipe)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// Reader of such a stream.
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
