//! Files in the folder of a topology file.

use crate::error::{Problem, Source, plain};
use std::path::{Path, PathBuf};

/// The folder of a topology file.
pub(super) struct Beside {
    folder: PathBuf,
}

impl Beside {
    /// The folder of the file at `path`.
    pub(super) fn of(path: &Path) -> Beside {
        let folder = path.parent().unwrap_or(Path::new(""));
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // Without symbolic links: a directory that hosts share with the machine is named by its real path.
        Beside { folder: folder.canonicalize().unwrap_or(folder.to_owned()) }
    }

    /// Absolute path of the file `name`, which may begin with `~/`.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let home = || std::env::var_os("HOME").filter(|home| !home.is_empty());
        match name.strip_prefix("~/").zip(home()) {
            Some((rest, home)) => PathBuf::from(home).join(rest),
            None => self.folder.join(name.trim_start_matches("./")),
        }
    }

    /// Text of a file; `None` if there is no such file.
    pub(super) fn text(&self, name: &str) -> Result<Option<Source>, Problem> {
        let path = self.path(name);
        match belljar_inputs::read_text(&path) {
            Ok(text) => Ok(Some(Source { name: name.to_owned(), text })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Problem::whole_file(format!("'{name}' cannot be read: {}", plain(&error)))),
        }
    }

    /// Names in the folder, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}
