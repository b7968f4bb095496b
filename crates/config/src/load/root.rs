//! Root file system of a host that does not use the machine's files, and the programs in it.

use super::process::Surroundings;
use crate::error::Problem;
use crate::model::{Host, Process, Program, Root};
use crate::yaml::{Node, section};
use crate::{GUEST_PATH, PathContext};
use belljar_base::Map;
use std::path::{Component, Path, PathBuf};

const S_IFMT: u32 = 0o170000;
const S_IFDIR: u32 = 0o040000;
const S_IFREG: u32 = 0o100000;

/// An opened root file system.
pub(crate) struct Files {
    pub(crate) model: Root,
    root: belljar_image::Root,
}

/// The root that `node` names; `None` if it is missing and the network alone is of interest.
pub(super) fn of_host(node: &Node, around: &PathContext) -> Result<Option<Files>, Problem> {
    match read(node, around) {
        Err(_) if around.network_only => Ok(None),
        files => files.map(Some),
    }
}

pub(crate) fn read(node: &Node, around: &PathContext) -> Result<Files, Problem> {
    let written = section::string(node, "root")?;
    let expanded = around.expand(written).map_err(|message| node.problem(message))?;
    let places = around.candidates(&expanded);
    let Some(source) = places.iter().find(|place| place.exists()) else {
        let looked: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(node
            .problem(format!("there is neither a directory nor an image '{written}'"))
            .help(format!("looked for {}", looked.join(" and "))));
    };
    let refused = |error: belljar_image::Error| {
        node.problem(format!("'{written}' cannot be a root: {}", error.message)).maybe_help(error.help)
    };
    let root = belljar_image::Root::open(source, around.cache.as_deref()).map_err(refused)?;
    let working_directory = root.settings.working_directory.clone();
    if let Some(missing) = working_directory.as_ref().filter(|path| !is_directory(&root, path)) {
        let message = format!("'{written}' is to be run in '{}', which is not in it", missing.display());
        return Err(node.problem(message).help("make the image again, with this directory"));
    }
    let model = Root { source: source.clone(), directory: root.directory.clone(), working_directory };
    Ok(Files { model, root })
}

fn is_directory(root: &belljar_image::Root, path: &Path) -> bool {
    root.find(path).is_some_and(|found| found.st_mode & S_IFMT == S_IFDIR)
}

impl Files {
    /// Environment variables set by the image.
    pub(super) fn environment(&self) -> Map<String, String> {
        self.root.settings.environment.iter().cloned().collect()
    }

    /// The user as which the image's programs run.
    pub(super) fn user(&self) -> Option<String> {
        self.root.settings.user.clone()
    }

    /// The image's program, if it has one; sets `args` to all arguments after the program's name.
    pub(super) fn command(&self, args: &mut Option<Vec<String>>) -> Option<String> {
        let settings = &self.root.settings;
        let given = args.clone().unwrap_or_else(|| settings.command.clone());
        let mut words = settings.entrypoint.iter().cloned().chain(given);
        // Arguments without an entry point name no program.
        if settings.entrypoint.is_empty() && args.is_some() {
            return None;
        }
        let program = words.next()?;
        *args = Some(words.collect());
        Some(program)
    }

    /// Programs of a host's processes, were this its root. The error is the pair of the problem and the remedy.
    pub(crate) fn programs_of(
        &self,
        host: &Host,
        around: &PathContext,
    ) -> Result<Vec<Program>, (String, Option<String>)> {
        let surroundings = Surroundings {
            host: &host.name,
            placement: Default::default(),
            around,
            root: Some(self),
            shared: &host.options.shared,
        };
        host.processes.iter().map(|process| self.program_of(process, &surroundings)).collect()
    }

    fn program_of(
        &self,
        process: &Process,
        host: &Surroundings<'_>,
    ) -> Result<Program, (String, Option<String>)> {
        let written = process.written.as_deref().cloned().unwrap_or_default();
        let mut environment = self.environment();
        environment.extend(written.environment);
        let search = environment.get("PATH").map_or(GUEST_PATH, String::as_str);
        if process.is_setup {
            let path = self.program(host, "sh", search)?;
            let (arg0, args) = (process.arg0.clone(), process.args.clone());
            return Ok(Program { path, arg0, args, environment, user: None });
        }
        let mut args = written.args;
        let name = match written.path {
            Some(path) => path,
            None => self.command(&mut args).ok_or_else(|| {
                let message =
                    format!("the root '{}' does not say which program it runs", self.model.source.display());
                (message, Some("give the process a path".to_owned()))
            })?,
        };
        let path = self.program(host, &name, search)?;
        let user = written.user.or_else(|| self.user());
        Ok(Program {
            path,
            arg0: written.arg0.unwrap_or(name),
            args: args.unwrap_or_default(),
            environment,
            user,
        })
    }

    /// The path in the root of a program in the experiment. The error is the pair of the problem and the
    /// remedy.
    pub(super) fn program(
        &self,
        host: &Surroundings<'_>,
        written: &str,
        search: &str,
    ) -> Result<PathBuf, (String, Option<String>)> {
        let path = Path::new(written);
        if host.around.network_only {
            return Ok(path.to_owned());
        }
        if host.shared.iter().any(|shared| path.starts_with(shared)) {
            return host.around.program(written);
        }
        let source = self.model.source.display();
        if !written.contains('/') {
            let places = std::env::split_paths(search).filter(|place| place.is_absolute());
            let found = places.map(|place| place.join(path)).find(|place| self.check(place).is_ok());
            return found.ok_or_else(|| {
                let help = format!("PATH there is {search}: give the program's path in the root");
                (format!("there is no program '{written}' in PATH of the root '{source}'"), Some(help))
            });
        }
        if !path.is_absolute() {
            let help = "write its absolute path in the root; programs of this machine can be put below a directory of 'shared'";
            return Err((
                format!(
                    "'{written}' is a path of this machine, and host '{}' has a root of its own",
                    host.host
                ),
                Some(help.to_owned()),
            ));
        }
        match self.check(path) {
            Ok(()) => Ok(path.to_owned()),
            Err(what) => Err((format!("'{written}' in the root '{source}' {what}"), None)),
        }
    }

    /// Checks that the path is an executable program. The error is a phrase for messages.
    fn check(&self, path: &Path) -> Result<(), &'static str> {
        match self.root.find(path).map(|found| found.st_mode) {
            None => Err("does not exist"),
            Some(mode) if mode & S_IFMT == S_IFDIR => Err("is a directory, not a program"),
            Some(mode) if mode & S_IFMT != S_IFREG => Err("is not a regular file"),
            Some(mode) if mode & 0o111 == 0 => Err("is not executable"),
            Some(_) => Ok(()),
        }
    }
}

/// Directories of a host that are no part of its root, or are emptied when it starts.
const NOT_KEPT: [&str; 6] = ["/dev", "/proc", "/run", "/sys", "/tmp", "/var/run"];

/// Folders that stay when a host gets another one of these roots.
pub(crate) fn kept_folders(node: &Node, roots: &[&Root]) -> Result<Vec<PathBuf>, Problem> {
    let mut all: Vec<PathBuf> = Vec::new();
    for item in section::list(node, "keep")? {
        let text = section::string(item, "a path of 'keep'")?;
        let path = PathBuf::from(text);
        let is_plain = |part: Component| matches!(part, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(is_plain) {
            return Err(item
                .problem(format!("'{text}' is no absolute path of a folder"))
                .help("write its path on the host, such as /var/lib/data"));
        }
        // Without slashes at the end and in a row.
        let path: PathBuf = path.components().collect();
        if path == Path::new("/") {
            return Err(item
                .problem("'/' would keep all files, so the root would not change")
                .help("name the folders with data, such as /var/lib/data"));
        }
        if let Some(directory) = NOT_KEPT.iter().find(|directory| path.starts_with(directory)) {
            return Err(item
                .problem(format!("a host that starts has nothing of before in '{directory}'"))
                .help("name a folder of the disk, such as /var/lib/data"));
        }
        if let Some(other) = all.iter().find(|other| path.starts_with(other) || other.starts_with(&path)) {
            let message = format!("'{text}' and '{}' contain each other", other.display());
            return Err(item.problem(message).help("name the outer one alone"));
        }
        for root in roots {
            check_folder(item, &path, root)?;
        }
        all.push(path);
    }
    Ok(all)
}

/// Refuses a path that is something else than a folder in a root, or leads through such a thing.
fn check_folder(item: &Node, path: &Path, root: &Root) -> Result<(), Problem> {
    let mut seen = PathBuf::new();
    for part in path.components().skip(1) {
        seen.push(part);
        let Ok(found) = root.directory.join(&seen).symlink_metadata() else { return Ok(()) };
        if !found.is_dir() {
            let kind = if found.is_symlink() { "a link" } else { "no folder" };
            let message = format!("'/{}' is {kind} in '{}'", seen.display(), root.source.display());
            return Err(item.problem(message).help("'keep' takes paths of folders, without links"));
        }
    }
    Ok(())
}
