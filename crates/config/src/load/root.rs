//! Root file system of a host that does not use the machine's files, and the programs in it.

use super::process::Surroundings;
use crate::PathContext;
use crate::error::Problem;
use crate::model::Root;
use crate::yaml::{Node, section};
use belljar_base::Map;
use std::path::{Path, PathBuf};

const S_IFMT: u32 = 0o170000;
const S_IFDIR: u32 = 0o040000;
const S_IFREG: u32 = 0o100000;

/// An opened root file system.
pub(super) struct Files {
    pub(super) model: Root,
    root: belljar_image::Root,
}

pub(super) fn read(node: &Node, around: &PathContext) -> Result<Files, Problem> {
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

    /// The path in the root of a program in the experiment. The error is the pair of the problem and the
    /// remedy.
    pub(super) fn program(
        &self,
        host: &Surroundings<'_>,
        written: &str,
        search: &str,
    ) -> Result<PathBuf, (String, Option<String>)> {
        let path = Path::new(written);
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
