//! Input manifest: the files of the machine that guests have read, with their hashes. Runs are guaranteed
//! to be identical only if these files are. Verified by `sha256sum -c manifest.sha256`.

use crate::node::HostNode;
use belljar_base::{Map, Set, hex};
use belljar_kernel::Host;
use belljar_results::{AttendedProgram, names};
use belljar_results::{ResultsError, ResultsFolder};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Files outside of the results that hosts have read.
pub fn files_read(nodes: &[HostNode], folder: &ResultsFolder) -> Set<OsString> {
    let files = nodes.iter().filter_map(|node| node.host.linux()).flat_map(Host::files_read);
    files.filter(|path| !path.starts_with(folder.path())).map(PathBuf::into_os_string).collect()
}

/// Writes the manifest of these files, after a comment for each program that a user has added: with the same files such a
/// run is not the same.
pub fn write(
    files: &Set<OsString>,
    attended: &[AttendedProgram],
    folder: &ResultsFolder,
) -> Result<(), ResultsError> {
    // A file that has been removed since cannot be hashed.
    let lines = files.iter().map(Path::new).filter_map(|path| Some(line(path, &hash(path).ok()?)));
    let comments = attended.iter().map(|program| {
        // A line break would end the comment.
        let command = program.command.replace(['\n', '\r'], " ");
        format!("# attended, cannot be reproduced: {command} on {} at {} s\n", program.host, program.started)
    });
    folder.write(names::MANIFEST, comments.chain(lines).collect::<String>().as_bytes())
}

/// Hashes of those of the files that exist on this machine.
pub fn hashes<'a>(files: impl IntoIterator<Item = &'a OsString>) -> Map<OsString, String> {
    files.into_iter().filter_map(|file| Some((file.clone(), hash(Path::new(file)).ok()?))).collect()
}

/// Difference between the files of two machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The other machine has a different file of this path.
    Other(PathBuf),
    /// The other machine lacks this file.
    Missing(PathBuf),
    /// Only the other machine has this file.
    Added(PathBuf),
}

/// Differences between the files `here` and `there`: those of `here` ordered by path, then the added ones.
pub fn differences(here: &Map<OsString, String>, there: &Map<OsString, String>) -> Vec<Difference> {
    let changed = here.iter().filter_map(|(path, hash)| match there.get(path) {
        None => Some(Difference::Missing(path.into())),
        Some(other) => (hash != other).then(|| Difference::Other(path.into())),
    });
    let added = there.keys().filter(|path| !here.contains_key(*path));
    changed.chain(added.map(|path| Difference::Added(path.into()))).collect()
}

fn hash(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut belljar_inputs::open(path)?, &mut hasher)?;
    Ok(hex(&hasher.finalize()))
}

/// Line in the format of sha256sum(1), which escapes backslashes and newlines.
fn line(path: &Path, hash: &str) -> String {
    let name = path.to_string_lossy();
    match name.contains(['\n', '\\']) {
        true => format!("\\{hash}  {}\n", name.replace('\\', "\\\\").replace('\n', "\\n")),
        false => format!("{hash}  {name}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_of_machines_are_told_apart() {
        let files = |all: &[(&str, &str)]| all.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let found = differences(
            &files(&[("/a", "1"), ("/b", "2"), ("/c", "3")]),
            &files(&[("/a", "1"), ("/b", "9"), ("/d", "4")]),
        );
        let expected = [
            Difference::Other("/b".into()),
            Difference::Missing("/c".into()),
            Difference::Added("/d".into()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn files_are_hashed_and_odd_names_escaped() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let file = std::env::temp_dir().join(format!("belljar-empty-{}", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let found = hash(&file);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(found.unwrap(), empty);
        assert!(hash(Path::new("/dev/null")).is_err());
        assert_eq!(line(Path::new("/a b"), "00"), "00  /a b\n");
        assert_eq!(line(Path::new("/a\n\\"), "00"), "\\00  /a\\n\\\\\n");
    }
}
