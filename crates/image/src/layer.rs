//! Image layers stacked in a directory, with container semantics: the files of a layer replace those below,
//! its whiteouts (`.wh.NAME`, `.wh..wh..opq`) remove them.
//!
//! Layers are untrusted: they may name any path, and links of lower layers may point anywhere. Every path is
//! therefore resolved by the kernel with the directory as its root (`openat2`), and the last component is
//! never followed.

use crate::{Doing, Error, Result, open_directory, open_within};
use belljar_base::{Map, Set, hex};
use flate2::read::MultiGzDecoder;
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

const WHITEOUT: &[u8] = b".wh.";
/// Prefix of whiteouts with a special meaning.
const SPECIAL: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Directory tree into which layers are unpacked.
pub struct Tree {
    top: OwnedFd,
    /// True if files get their owners.
    owners: bool,
    /// Modification times of directories, set at the end because adding files changes them.
    directories: Map<PathBuf, u64>,
}

/// Stream that hashes the bytes read from it.
struct Hashed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(out)?;
        self.hash.update(&out[..got]);
        Ok(got)
    }
}

/// Decoder of all frames of a Zstandard stream in sequence (RFC 8878, section 3). Tools that compress in
/// parallel or support partial fetches (zstd:chunked) write many frames, and skippable ones with private
/// data.
struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(out);
            }
            if !self.decoder.is_finished() {
                let blocks = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, blocks).map_err(io::Error::other)?;
                continue;
            }
            if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {}
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

impl Tree {
    /// Creates a tree in an empty directory.
    pub fn new(at: &Path, owners: bool) -> Result<Tree> {
        let top = open_directory(at).doing("opening the directory")?;
        // Independent of the umask: the image's users must be able to enter the directory.
        rustix::fs::chmodat(&top, ".", Mode::from_raw_mode(0o755), AtFlags::empty())
            .doing("opening the directory")?;
        Ok(Tree { top, owners, directories: Map::new() })
    }

    /// Unpacks a layer on top. `digest` is that of its uncompressed archive.
    pub fn put(&mut self, part: impl Read, digest: &str) -> Result<()> {
        let mut hashed = Hashed { inner: decompressed(part)?, hash: Sha256::new() };
        let mut archive = tar::Archive::new(&mut hashed);
        let mut own = Set::new();
        for entry in archive.entries().doing("reading it")? {
            self.entry(entry.doing("reading it")?, &mut own)?;
        }
        io::copy(&mut hashed, &mut io::sink()).doing("reading it")?;
        match hex(&hashed.hash.finalize()) == digest {
            true => Ok(()),
            false => Err(Error::new("its content is not that of its digest")
                .help("the image is damaged: save it again")),
        }
    }

    /// Sets the modification times of directories.
    pub fn finish(&mut self) -> Result<()> {
        for (path, seconds) in std::mem::take(&mut self.directories) {
            // Skips a directory that a later layer removed.
            let Ok(parent) = self.parent(&path) else { continue };
            if let Some(name) = path.file_name() {
                set_time(&parent, name, seconds);
            }
        }
        Ok(())
    }

    fn entry(&mut self, mut entry: tar::Entry<'_, impl Read>, own: &mut Set<PathBuf>) -> Result<()> {
        let path = inside(&entry.path_bytes())?;
        let failed = || format!("unpacking '{}'", path.display());
        let header = entry.header().clone();
        let kind = header.entry_type();
        let mode = header.mode().doing(failed())? & 0o7777;
        let seconds = header.mtime().doing(failed())?;
        let Some(name) = path.file_name().map(OsStr::to_owned) else {
            // The entry is the root itself.
            return rustix::fs::chmodat(&self.top, ".", directory_mode(mode), AtFlags::empty())
                .doing(failed());
        };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let parent = self.made(&folder).doing(failed())?;
        if name.as_bytes() == OPAQUE {
            return self.clear(&parent, &folder, own).doing(failed());
        }
        if name.as_bytes().starts_with(SPECIAL) {
            return Ok(());
        }
        if let Some(removed) = name.as_bytes().strip_prefix(WHITEOUT) {
            let removed = OsStr::from_bytes(removed);
            if removed.is_empty() || removed == "." || removed == ".." {
                return Err(Error::new(format!("'{}' removes no file", path.display())));
            }
            return match own.contains(&folder.join(removed)) {
                true => Ok(()),
                false => remove(&parent, removed).doing(failed()),
            };
        }
        let there = kind_of(&parent, &name).doing(failed())?;
        if there.is_some_and(|there| !(there == FileType::Directory && kind.is_dir())) {
            remove(&parent, &name).doing(failed())?;
        }
        let link = entry.link_name_bytes().map(|link| link.into_owned());
        if kind.is_dir() {
            match rustix::fs::mkdirat(&parent, &name, Mode::RWXU) {
                Err(Errno::EXIST) | Ok(()) => {}
                Err(errno) => return Err(errno).doing(failed()),
            }
            self.directories.insert(path.clone(), seconds);
        } else if kind.is_symlink() {
            let link =
                link.ok_or_else(|| Error::new(format!("the link '{}' leads nowhere", path.display())))?;
            rustix::fs::symlinkat(OsStr::from_bytes(&link), &parent, &name).doing(failed())?;
        } else if kind.is_hard_link() {
            let link =
                link.ok_or_else(|| Error::new(format!("the link '{}' leads nowhere", path.display())))?;
            let target = inside(&link)?;
            let (from, last) =
                (self.parent(&target).doing(failed())?, target.file_name().unwrap_or_default());
            rustix::fs::linkat(&from, last, &parent, &name, AtFlags::empty()).doing(failed())?;
            // Owner, mode and time are those of the linked file.
            own.insert(path);
            return Ok(());
        } else if kind.is_file() || kind.is_gnu_sparse() {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&parent, &name, flags, Mode::RUSR | Mode::WUSR).doing(failed())?;
            io::copy(&mut entry, &mut File::from(file)).doing(failed())?;
        } else {
            // Devices and FIFOs are skipped: hosts have devices of their own.
            return Ok(());
        }
        if self.owners {
            let (uid, gid) = (header.uid().doing(failed())? as u32, header.gid().doing(failed())? as u32);
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            rustix::fs::chownat(&parent, &name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
                .doing(failed())?;
        }
        if !kind.is_symlink() {
            let mode = if kind.is_dir() { directory_mode(mode) } else { Mode::from_raw_mode(mode | 0o400) };
            rustix::fs::chmodat(&parent, &name, mode, AtFlags::empty()).doing(failed())?;
        }
        set_time(&parent, &name, seconds);
        own.insert(path);
        Ok(())
    }

    /// Removes the files of lower layers from a directory.
    fn clear(&self, directory: &OwnedFd, path: &Path, own: &Set<PathBuf>) -> rustix::io::Result<()> {
        for (name, kind) in listed(directory)? {
            let path = path.join(&name);
            // The directory may be a parent of a file of this layer.
            let kept = own.range(path.clone()..).next().is_some_and(|next| next.starts_with(&path));
            if !kept {
                remove(directory, &name)?;
            } else if kind == FileType::Directory {
                self.clear(&open_child(directory, &name)?, &path, own)?;
            }
        }
        Ok(())
    }

    /// Opens the parent directory of a path.
    fn parent(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        open_folder(&self.top, path.parent().unwrap_or(Path::new("")))
    }

    /// Opens a directory of the tree; creates it and its parents if missing.
    fn made(&mut self, path: &Path) -> rustix::io::Result<OwnedFd> {
        match open_folder(&self.top, path) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        let mut at = PathBuf::new();
        let mut folder = open_folder(&self.top, &at)?;
        for part in path.components() {
            at.push(part);
            match rustix::fs::mkdirat(&folder, part.as_os_str(), Mode::from_raw_mode(0o755)) {
                Ok(()) => drop(self.directories.insert(at.clone(), 0)),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            folder = open_folder(&self.top, &at)?;
        }
        Ok(folder)
    }
}

/// Mode of a directory; its owner keeps full permissions, so that the contents can be removed.
fn directory_mode(mode: u32) -> Mode {
    Mode::from_raw_mode(mode | 0o700)
}

fn open_folder(top: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    open_within(top, path, OFlags::DIRECTORY | OFlags::RDONLY)
}

fn open_child(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

fn listed(directory: &OwnedFd) -> rustix::io::Result<Vec<(std::ffi::OsString, FileType)>> {
    let mut all = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            let kind = kind_of(directory, &name)?.unwrap_or(FileType::Unknown);
            all.push((name, kind));
        }
    }
    Ok(all)
}

fn kind_of(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<Option<FileType>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Removes a file or a directory with its contents, if present.
fn remove(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    match kind_of(directory, name)? {
        None => Ok(()),
        Some(FileType::Directory) => {
            let inner = open_child(directory, name)?;
            for (name, _) in listed(&inner)? {
                remove(&inner, &name)?;
            }
            rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)
        }
        Some(_) => rustix::fs::unlinkat(directory, name, AtFlags::empty()),
    }
}

/// Sets a modification time. Errors are ignored, since times do not affect programs.
fn set_time(directory: &OwnedFd, name: &OsStr, seconds: u64) {
    let time = Timespec { tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX), tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    let _ = rustix::fs::utimensat(directory, name, &times, AtFlags::SYMLINK_NOFOLLOW);
}

/// Path of a layer entry, relative to the root.
fn inside(bytes: &[u8]) -> Result<PathBuf> {
    let path = Path::new(OsStr::from_bytes(bytes));
    let mut own = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => own.push(name),
            Component::ParentDir => {
                return Err(Error::new(format!("the path '{}' leads out of the image", path.display()))
                    .help("no program that makes images writes this: do not use it"));
            }
            _ => {}
        }
    }
    Ok(own)
}

/// Decompressed archive of a layer, whatever its compression.
fn decompressed<'a>(part: impl Read + 'a) -> Result<Box<dyn Read + 'a>> {
    let mut part = BufReader::with_capacity(1 << 16, part);
    let mut magic = Vec::new();
    (&mut part).take(4).read_to_end(&mut magic).doing("reading it")?;
    let whole = io::Cursor::new(magic.clone()).chain(part);
    Ok(match magic[..] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(whole)),
        // The first frame may be skippable (RFC 8878, section 3.1.2).
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            Box::new(ZstdFrames { source: whole, decoder: FrameDecoder::new() })
        }
        _ => Box::new(whole),
    })
}
