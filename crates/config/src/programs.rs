//! Resolution of the files and programs that an experiment names.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// The default `PATH` of programs.
pub const GUEST_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Context of an experiment file, in which its names are resolved.
#[derive(Clone, Debug, Default)]
pub struct PathContext {
    /// Folder of the experiment file, the first base of relative paths.
    pub base_dir: PathBuf,
    /// Current folder, the second base of relative paths.
    pub current_dir: PathBuf,
    /// Home directory, for `~/`.
    pub home: Option<PathBuf>,
    /// Folders that are searched for programs named without a slash.
    pub search_path: Vec<PathBuf>,
    /// Folder for unpacked images.
    pub cache: Option<PathBuf>,
    /// Default kernel of whole machines; `None` for the newest in `/boot`.
    pub kernel: Option<PathBuf>,
    /// Files, programs, roots and machines of hosts may be missing: the network alone is of interest.
    pub network_only: bool,
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
            network_only: false,
        }
    }

    /// Expands `~/` at the start of a path to the home folder.
    pub(crate) fn expand(&self, path: &str) -> Result<PathBuf, String> {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => Ok(home.join(rest)),
            (Some(_), None) => Err("'~/' cannot be expanded: HOME is not set".to_owned()),
            (None, _) => Ok(PathBuf::from(path)),
        }
    }

    /// Candidate locations of the file `path`, in the order of the search.
    pub(crate) fn candidates(&self, path: &Path) -> Vec<PathBuf> {
        let mut places = vec![tidy(&self.base_dir.join(path))];
        let second = tidy(&self.current_dir.join(path));
        if second != places[0] {
            places.push(second);
        }
        places
    }

    /// Resolves a program: with a slash, a file; without one, a program in the search path. The error is the
    /// pair of the problem and the remedy.
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
        if self.network_only {
            return Ok(places.into_iter().next().unwrap_or(expanded));
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

    /// Default `argv[0]` of `program`, which the experiment names as `written`: that name, or the whole path
    /// if the name denotes another program in the guest's `PATH`. Python locates itself by `argv[0]`, and its
    /// packages relative to itself.
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
            None if name == "belljar-routed" => {
                "in a checkout, make -C examples built/belljar-routed makes it: give its path with a '/'"
                    .to_owned()
            }
            None => "install it, or give its path with a '/'".to_owned(),
        };
        (format!("there is no program '{name}' in PATH"), Some(help))
    }
}

/// The `examples` folder of a checkout if `place` is in its `built` folder: its Makefile builds the programs
/// there.
fn examples_that_build(place: &Path) -> Option<PathBuf> {
    let built = place.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "built"))?;
    let examples = built.parent()?.canonicalize().ok()?;
    (examples.ends_with("examples") && examples.join("Makefile").is_file()).then_some(examples)
}

fn is_program(place: &Path) -> bool {
    std::fs::metadata(place).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// True if `name` denotes `program` in the guest's `PATH`.
fn is_found_as(program: &Path, name: &str, guest_path: &str) -> bool {
    let found = std::env::split_paths(guest_path).find(|dir| is_program(&dir.join(name)));
    // Folders may be symbolic links (`/bin`). Links between programs prove nothing: the programs of Python
    // environments are such links.
    found
        .zip(program.parent())
        .is_some_and(|(found, dir)| found == dir || found.canonicalize().ok() == dir.canonicalize().ok())
}

/// The path without `..` components, which a host's file tree does not contain: symbolic links before them
/// are resolved.
fn without_parents(place: &Path) -> PathBuf {
    let climbs = place.components().any(|part| part == Component::ParentDir);
    match (place.parent(), place.file_name()) {
        (Some(folder), Some(name)) if climbs => {
            folder.canonicalize().map_or_else(|_| place.to_owned(), |folder| folder.join(name))
        }
        _ => place.to_owned(),
    }
}

/// The path without `.` components. `..` stays, because its meaning depends on symbolic links.
fn tidy(path: &Path) -> PathBuf {
    path.components().filter(|c| !matches!(c, Component::CurDir)).collect()
}
