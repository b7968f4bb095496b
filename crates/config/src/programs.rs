//! Where files and programs are that an experiment names.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// The `PATH` of programs for which an experiment sets none.
pub const GUEST_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// PathContext of an experiment file, against which names in it are resolved.
#[derive(Clone, Debug, Default)]
pub struct PathContext {
    /// The folder of the experiment file: where relative paths are looked for first.
    pub base_dir: PathBuf,
    /// The current folder: where relative paths are looked for next.
    pub current_dir: PathBuf,
    /// The directory that `~/` stands for.
    pub home: Option<PathBuf>,
    /// The folders in which programs are looked for that are named without a slash.
    pub search_path: Vec<PathBuf>,
    /// The folder for unpacked images.
    pub cache: Option<PathBuf>,
    /// The kernel of whole machines that name none; without it the newest in `/boot`.
    pub kernel: Option<PathBuf>,
}

impl PathContext {
    /// The context of this process, with the experiment file in `base_dir`.
    pub fn of_this_process(base_dir: &Path) -> PathContext {
        let current_dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let search: OsString =
            std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        PathContext {
            base_dir: current_dir.join(base_dir),
            home: std::env::var_os("HOME").filter(|h| !h.is_empty()).map(PathBuf::from),
            search_path: std::env::split_paths(&search).filter(|p| p.is_absolute()).collect(),
            current_dir,
            cache: belljar_image::default_cache(),
            kernel: std::env::var_os("BELLJAR_KERNEL").filter(|path| !path.is_empty()).map(PathBuf::from),
        }
    }

    /// `~/` at the start of a path replaced by the home folder.
    pub(crate) fn expand(&self, path: &str) -> Result<PathBuf, String> {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => Ok(home.join(rest)),
            (Some(_), None) => Err("'~/' cannot be expanded: HOME is not set".to_owned()),
            (None, _) => Ok(PathBuf::from(path)),
        }
    }

    /// The places where a file may be that is named by `path`, in the order in which they are tried.
    pub(crate) fn candidates(&self, path: &Path) -> Vec<PathBuf> {
        let mut places = vec![tidy(&self.base_dir.join(path))];
        let second = tidy(&self.current_dir.join(path));
        if second != places[0] {
            places.push(second);
        }
        places
    }

    /// The program that `path` names: with a slash, a file; without one, a program in the search
    /// path. The error is (what is wrong, what to do).
    pub(crate) fn program(&self, path: &str) -> Result<PathBuf, (String, Option<String>)> {
        let expanded = self.expand(path).map_err(|message| (message, None))?;
        let by_name = !path.contains('/');
        let places = match by_name {
            true => self.search_path.iter().map(|dir| dir.join(&expanded)).collect(),
            false => self.candidates(&expanded),
        };
        if let Some(found) = places.iter().find(|place| is_program(place)) {
            return Ok(without_parents(found));
        }
        let existing = places.iter().find_map(|place| Some((place, std::fs::metadata(place).ok()?)));
        Err(match existing {
            Some((place, meta)) if meta.is_dir() && !by_name => {
                (format!("'{}' is a directory, not a program", place.display()), None)
            }
            Some((place, meta)) if meta.is_file() => (
                format!("'{}' is not executable", place.display()),
                Some(format!("chmod +x '{}', or run its interpreter", place.display())),
            ),
            Some((place, meta)) if !meta.is_dir() => {
                (format!("'{}' is not a regular file", place.display()), None)
            }
            _ if by_name => self.not_in_search_path(path),
            _ => {
                let looked: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
                let mut help = format!("looked for {}", looked.join(" and "));
                if let Some(examples) = places.iter().find_map(|place| examples_that_build(place)) {
                    help += &format!("; to build it: make -C {}", examples.display());
                }
                (format!("there is no program '{path}'"), Some(help))
            }
        })
    }

    /// The `argv[0]` of `program`, which an experiment names as `written`, if nothing else is said: that name, or its whole
    /// path where the guest's `PATH` has another program for it. Python looks for itself by it, and for its packages beside it.
    pub(crate) fn arg0(&self, written: &str, program: &Path, guest_path: &str) -> String {
        let seen = match written.contains('/') || is_found_as(program, written, guest_path) {
            true => self.expand(written).unwrap_or_default(),
            false => program.to_owned(),
        };
        seen.to_string_lossy().into_owned()
    }

    fn not_in_search_path(&self, name: &str) -> (String, Option<String>) {
        let beside = self.candidates(Path::new(name)).into_iter().find(|place| place.is_file());
        let help = match beside {
            Some(_) => format!("a file of this name lies beside: write './{name}'"),
            None => "install it, or give its path with a '/'".to_owned(),
        };
        (format!("there is no program '{name}' in PATH"), Some(help))
    }
}

/// The folder `examples` of a checkout, if `place` lies in its `built`: its Makefile builds the programs there.
fn examples_that_build(place: &Path) -> Option<PathBuf> {
    let built = place.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "built"))?;
    let examples = built.parent()?.canonicalize().ok()?;
    (examples.ends_with("examples") && examples.join("Makefile").is_file()).then_some(examples)
}

fn is_program(place: &Path) -> bool {
    std::fs::metadata(place).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// True if `program` is what its `name` stands for in the guest's `PATH`.
fn is_found_as(program: &Path, name: &str, guest_path: &str) -> bool {
    let found = std::env::split_paths(guest_path).find(|dir| is_program(&dir.join(name)));
    // Folders may be links (`/bin`). That programs are links to each other says nothing: those of Python's environments are.
    found
        .zip(program.parent())
        .is_some_and(|(found, dir)| found == dir || found.canonicalize().ok() == dir.canonicalize().ok())
}

/// The same place without `..` components, which the tree of a host's files has no names for: links before them are
/// followed.
fn without_parents(place: &Path) -> PathBuf {
    let climbs = place.components().any(|part| part == Component::ParentDir);
    match (place.parent(), place.file_name()) {
        (Some(folder), Some(name)) if climbs => {
            folder.canonicalize().map_or_else(|_| place.to_owned(), |folder| folder.join(name))
        }
        _ => place.to_owned(),
    }
}

/// The same path without `.` components. `..` stays: what it means depends on links.
fn tidy(path: &Path) -> PathBuf {
    path.components().filter(|c| !matches!(c, Component::CurDir)).collect()
}
