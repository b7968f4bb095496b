//! Files that a program needs: itself, its interpreter, its libraries.

use crate::Error;
use crate::cpio::Archive;
use belljar_machine::elf::ElfHeader;
use belljar_machine::needed::needed;
use belljar_machine::script::Shebang;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Library folders in the search order of Debian's loader.
const LIBRARIES: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib", "/lib64", "/usr/lib64"];

/// Adds a file and its dependencies, or a directory with its contents but without their dependencies.
pub fn add(archive: &mut Archive, path: &Path) -> Result<(), Error> {
    let found = std::fs::metadata(path).map_err(|error| Error::with(path, &error))?;
    if found.is_dir() {
        return copy(archive, path, &Path::to_owned);
    }
    if !found.is_file() {
        return Err(Error(format!("{} is neither a file nor a directory", path.display())));
    }
    if archive.has(path) {
        return Ok(());
    }
    let content = std::fs::read(path).map_err(|error| Error::with(path, &error))?;
    let others = others(path, &content)?;
    archive
        .file(path, found.permissions().mode(), content)
        .map_err(|_| Error(format!("{} is too long for an initramfs", path.display())))?;
    others.iter().try_for_each(|other| add(archive, other))
}

/// Files named by this one.
fn others(path: &Path, content: &[u8]) -> Result<Vec<PathBuf>, Error> {
    if let Some(script) = Shebang::parse(content) {
        return Ok(vec![PathBuf::from(std::ffi::OsString::from_vec(script.interpreter))]);
    }
    if ElfHeader::parse(content).is_err() {
        return Ok(Vec::new());
    }
    let names = needed(content);
    let mut all: Vec<PathBuf> =
        names.interpreter.iter().map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name))).collect();
    for name in names.libraries {
        let name = Path::new(std::ffi::OsStr::from_bytes(name));
        let found = LIBRARIES.iter().map(|folder| Path::new(folder).join(name)).find(|place| place.is_file());
        let Some(found) = found else {
            return Err(Error(format!(
                "{} needs the library {}, which is in none of the folders that the loader looks in: give the host a 'root'",
                path.display(),
                name.display()
            )));
        };
        all.push(found);
    }
    Ok(all)
}

/// Adds the contents of the directory `root` as the root of a machine.
pub fn root(archive: &mut Archive, root: &Path) -> Result<(), Error> {
    copy(archive, root, &|path| path.strip_prefix(root).unwrap_or(path).to_owned())
}

fn copy(archive: &mut Archive, directory: &Path, place: &dyn Fn(&Path) -> PathBuf) -> Result<(), Error> {
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| Error::with(&path, &error)
    };
    let found = std::fs::symlink_metadata(directory).map_err(wrong(directory))?;
    archive.directory(&place(directory), found.permissions().mode());
    for entry in std::fs::read_dir(directory).map_err(wrong(directory))? {
        let path = entry.map_err(wrong(directory))?.path();
        let found = std::fs::symlink_metadata(&path).map_err(wrong(&path))?;
        let mode = found.permissions().mode();
        if found.is_dir() {
            copy(archive, &path, place)?;
        } else if found.is_symlink() {
            let to = std::fs::read_link(&path).map_err(wrong(&path))?;
            archive.link(&place(&path), to.as_os_str().as_bytes());
        } else if found.is_file() {
            let content = std::fs::read(&path).map_err(wrong(&path))?;
            archive
                .file(&place(&path), mode, content)
                .map_err(|_| Error(format!("{} is too long for an initramfs", path.display())))?;
        }
    }
    Ok(())
}
