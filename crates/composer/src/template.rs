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

/// Commands of a template, by kind, each kind sorted by name.
#[derive(Debug, Default, PartialEq)]
pub struct Template(Map<Kind, Vec<PathBuf>>);

/// Names of the templates in a folder, sorted.
///
/// # Errors
/// The folder cannot be read, or has no templates.
pub fn names(folder: &Path) -> Result<Vec<String>, String> {
    let names = sorted(folder)?.into_iter().filter(|path| path.is_dir());
    let names: Vec<String> = names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    if names.is_empty() {
        return Err(format!(
            "{} has no templates: a template is a folder with commands such as parallel_driver_write",
            folder.display()
        ));
    }
    Ok(names)
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

impl Template {
    /// Reads the commands of a folder.
    ///
    /// # Errors
    /// The folder cannot be read, a file has a name of no kind or is not executable, or there is no driver.
    pub fn read(folder: &Path) -> Result<Template, String> {
        let mut template = Template::default();
        for path in sorted(folder)?.into_iter().filter(|path| path.is_file()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(HELPER) || name.starts_with('.') {
                continue;
            }
            let kind = Kind::of(name).ok_or_else(|| {
                let prefixes: Vec<&str> = Kind::ALL.iter().map(|(prefix, _)| *prefix).collect();
                format!(
                    "{}: the name begins with none of {} and {HELPER}",
                    path.display(),
                    prefixes.join(", ")
                )
            })?;
            let is_executable = fs::metadata(&path).is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
            if !is_executable {
                return Err(format!("{} is not executable: chmod +x", path.display()));
            }
            template.0.entry(kind).or_default().push(path);
        }
        let has_work = [Kind::ParallelDriver, Kind::SerialDriver, Kind::SingletonDriver, Kind::Anytime];
        if has_work.iter().all(|kind| template.of(*kind).is_empty()) {
            return Err(format!(
                "{} has no driver: a name such as parallel_driver_write makes one",
                folder.display()
            ));
        }
        Ok(template)
    }

    /// Commands of a kind.
    pub fn of(&self, kind: Kind) -> &[PathBuf] {
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
        let template = Template::read(folder.path()).unwrap();
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let parallel: Vec<String> = template.of(Kind::ParallelDriver).iter().map(name).collect();
        assert_eq!(parallel, ["parallel_driver_a", "parallel_driver_b.py"]);
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
        let refused = |files: &[(&str, u32)]| Template::read(folder(files).path()).unwrap_err();
        assert!(
            refused(&[("driver_a", 0o755)])
                .contains("driver_a: the name begins with none of first_, parallel_driver_,")
        );
        assert!(refused(&[("anytime_a", 0o644)]).ends_with("anytime_a is not executable: chmod +x"));
        assert!(refused(&[("finally_a", 0o755)]).contains("has no driver"));
        assert!(names(folder(&[]).path()).unwrap_err().contains("has no templates"));
        assert!(names(Path::new("/no/such/folder")).unwrap_err().contains("/no/such/folder cannot be read"));
    }
}
