//! Templates: folders of commands whose names begin with their kind.

use belljar_base::Map;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Kind of a command: when it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Before all others
    First,
    /// Beside other parallel drivers
    ParallelDriver,
    /// As the only driver at a time
    SerialDriver,
    /// As the only driver of a run
    SingletonDriver,
    /// Beside any command after the first
    Anytime,
    /// After the time, all others ended by force
    Eventually,
    /// After the drivers have ended
    Finally,
}

impl Kind {
    const ALL: [(&'static str, Kind); 7] = [
        ("first_", Kind::First),
        ("parallel_driver_", Kind::ParallelDriver),
        ("serial_driver_", Kind::SerialDriver),
        ("singleton_driver_", Kind::SingletonDriver),
        ("anytime_", Kind::Anytime),
        ("eventually_", Kind::Eventually),
        ("finally_", Kind::Finally),
    ];

    fn of(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, kind)| *kind)
    }
}

/// Beginning of the names of files that commands use.
const HELPER: &str = "helper_";

/// Command of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its host: 0 is this one, others follow in the order of `--hosts`.
    pub host: usize,
    /// Name of its file
    pub name: String,
}

/// Commands of a template, by kind, each kind sorted by host and name.
#[derive(Debug, Default, PartialEq)]
pub struct Template(Map<Kind, Vec<Command>>);

/// Names of the templates in a folder, sorted.
///
/// # Errors
/// The folder cannot be read, or has no templates.
pub fn names(folder: &Path) -> Result<Vec<String>, String> {
    let names = sorted(folder)?.into_iter().filter(|path| path.is_dir());
    let names: Vec<String> = names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    names.iter().try_for_each(|name| check_name(folder, name))?;
    if names.is_empty() {
        return Err(format!(
            "{} has no templates: a template is a folder with commands such as parallel_driver_write",
            folder.display()
        ));
    }
    Ok(names)
}

/// Refuses a name that does not fit into a line of a message.
fn check_name(folder: &Path, name: &str) -> Result<(), String> {
    match name.contains('\n') {
        true => Err(format!("{name:?} in {}: a name has no line break", folder.display())),
        false => Ok(()),
    }
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{} cannot be read: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    paths.sort();
    Ok(paths)
}

/// File names of the commands in a folder, sorted.
///
/// # Errors
/// The folder cannot be read, a file has a name of no kind or is not executable.
pub fn commands(folder: &Path) -> Result<Vec<String>, String> {
    let mut commands = Vec::new();
    for path in sorted(folder)?.into_iter().filter(|path| path.is_file()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(HELPER) || name.starts_with('.') {
            continue;
        }
        check_name(folder, name)?;
        if Kind::of(name).is_none() {
            let prefixes: Vec<&str> = Kind::ALL.iter().map(|(prefix, _)| *prefix).collect();
            return Err(format!(
                "{}: the name begins with none of {} and {HELPER}",
                path.display(),
                prefixes.join(", ")
            ));
        }
        let is_executable = fs::metadata(&path).is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
        if !is_executable {
            return Err(format!("{} is not executable: chmod +x", path.display()));
        }
        commands.push(name.to_owned());
    }
    Ok(commands)
}

impl Template {
    /// Adds the commands of a host.
    pub fn add(&mut self, host: usize, names: &[String]) {
        for name in names {
            if let Some(kind) = Kind::of(name) {
                self.0.entry(kind).or_default().push(Command { host, name: name.clone() });
            }
        }
    }

    /// Whether there is anything to do.
    pub fn has_work(&self) -> bool {
        let kinds = [Kind::ParallelDriver, Kind::SerialDriver, Kind::SingletonDriver, Kind::Anytime];
        kinds.iter().any(|kind| !self.of(*kind).is_empty())
    }

    /// Commands of a kind.
    pub fn of(&self, kind: Kind) -> &[Command] {
        self.0.get(&kind).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, u32)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in files {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        folder
    }

    #[test]
    fn commands_have_kinds_by_their_names() {
        let names = [
            "first_a",
            "parallel_driver_b.py",
            "parallel_driver_a",
            "serial_driver_a",
            "singleton_driver_a",
            "anytime_a",
            "eventually_a",
            "finally_a",
        ];
        let files: Vec<(&str, u32)> =
            names.iter().map(|name| (*name, 0o755)).chain([("helper_x", 0o644)]).collect();
        let folder = folder(&files);
        let mut template = Template::default();
        template.add(0, &commands(folder.path()).unwrap());
        let parallel: Vec<&str> =
            template.of(Kind::ParallelDriver).iter().map(|command| command.name.as_str()).collect();
        assert_eq!(parallel, ["parallel_driver_a", "parallel_driver_b.py"]);
        assert!(template.has_work());
        for kind in [
            Kind::First,
            Kind::SerialDriver,
            Kind::SingletonDriver,
            Kind::Anytime,
            Kind::Eventually,
            Kind::Finally,
        ] {
            assert_eq!(template.of(kind).len(), 1);
        }
    }

    #[test]
    fn other_files_are_refused() {
        let refused = |files: &[(&str, u32)]| commands(folder(files).path()).unwrap_err();
        assert!(
            refused(&[("driver_a", 0o755)])
                .contains("driver_a: the name begins with none of first_, parallel_driver_,")
        );
        assert!(refused(&[("anytime_a", 0o644)]).ends_with("anytime_a is not executable: chmod +x"));
        assert!(refused(&[("anytime_a\nb", 0o755)]).contains("a name has no line break"));
        assert!(names(folder(&[]).path()).unwrap_err().contains("has no templates"));
        assert!(names(Path::new("/no/such/folder")).unwrap_err().contains("/no/such/folder cannot be read"));
    }
}
