//! The input manifest: which of the machine's files the guests have read, with their hashes. Runs are
//! promised to be equal only where these are. Checked by `sha256sum -c manifest.sha256`.

use crate::node::HostNode;
use belljar_base::Set;
use belljar_kernel::Host;
use belljar_results::names;
use belljar_results::{ResultsError, ResultsFolder};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The files that hosts have read outside the results.
pub fn files_read(nodes: &[HostNode], folder: &ResultsFolder) -> Set<OsString> {
    let files = nodes.iter().filter_map(|node| node.host.linux()).flat_map(Host::files_read);
    files.filter(|path| !path.starts_with(folder.path())).map(PathBuf::into_os_string).collect()
}

/// Writes the manifest of these files.
pub fn write(files: &Set<OsString>, folder: &ResultsFolder) -> Result<(), ResultsError> {
    // One that has gone since cannot be told any more.
    let lines = files.iter().map(Path::new).filter_map(|path| Some(line(path, &hash(path).ok()?)));
    folder.write(names::MANIFEST, lines.collect::<String>().as_bytes())
}

fn hash(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// As sha256sum(1) writes it, which escapes what would break the line.
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
    fn files_are_hashed_and_odd_names_escaped() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash(Path::new("/dev/null")).unwrap(), empty);
        assert_eq!(line(Path::new("/a b"), "00"), "00  /a b\n");
        assert_eq!(line(Path::new("/a\n\\"), "00"), "\\00  /a\\n\\\\\n");
    }
}
