//! Nodes of Containerlab and their settings.

use super::inherited::Inherited;
use super::scalar;
use crate::error::Problem;
use crate::import::beside::Beside;
use crate::import::draft::{At, Command, CommandKind, Draft, Kind, Member};
use crate::import::mounts::{Mount, MountKind};
use crate::import::{node_name, settings};
use crate::yaml::section::{self, mapping};
use crate::yaml::{Entry, Node};

/// Kinds of nodes that forward frames, and kinds that run programs.
const BRIDGES: [&str; 2] = ["bridge", "ovs-bridge"];
const CONTAINERS: [&str; 4] = ["linux", "k8s-kind", "host", "ext-container"];
/// Keys that select the inherited settings.
const SELECTORS: [&str; 2] = ["kind", "group"];
/// Programs that only keep a container running while nobody is logged in.
const SHELLS: [&str; 4] = ["sh", "bash", "ash", "zsh"];

/// Values of the variables in commands and paths.
struct Variables<'a> {
    node: &'a str,
    /// Directory that Containerlab makes for the lab.
    directory: String,
    lab: String,
}

impl Variables<'_> {
    fn replace(&self, text: &str) -> String {
        text.replace("__clabNodeDir__", &format!("{}/{}", self.directory, self.node))
            .replace("__clabNodeName__", self.node)
            .replace("__clabDir__", &self.directory)
            .replace("__clabLabName__", &self.lab)
    }
}

pub(super) fn add(
    draft: &mut Draft,
    node: &Entry,
    inherited: &Inherited<'_>,
    beside: &Beside,
    lab: &str,
) -> Result<(), Problem> {
    let name = node_name(&node.key);
    if name != node.key {
        draft.note_at(node.key_span.line, format!("'{}' is called '{name}' here", node.key));
    }
    let own = match node.value.is_null() {
        true => &[][..],
        false => mapping(&node.value, &format!("node '{}'", node.key))?,
    };
    let (settings, kind) = inherited.of(own)?;
    let becomes = match &*kind {
        kind if BRIDGES.contains(&kind) => Kind::Switch,
        kind if CONTAINERS.contains(&kind) => Kind::Host,
        _ => Kind::Router,
    };
    let line = node.key_span.line;
    match becomes {
        Kind::Router => {
            draft.note_at(
                line,
                format!("'{name}' of kind '{kind}' becomes a router with routes of shortest paths"),
            );
        }
        Kind::Host if kind != "linux" => {
            draft.note_at(line, format!("'{name}' of kind '{kind}' becomes a host like any other"));
        }
        _ => {}
    }
    if draft.members.insert(name.clone(), Member::new(becomes)).is_some() {
        return Err(Problem::at(node.key_span, format!("there are two nodes that would be called '{name}'"))
            .help("names here have lower case only: rename one of them"));
    }
    let lab = format!("clab-{lab}");
    let directory = beside.path(&lab).display().to_string();
    let variables = Variables { node: &node.key, directory, lab };
    let mut main = Main::default();
    for entries in settings {
        for setting in entries.iter().filter(|setting| !setting.value.is_null()) {
            let mut own = Own { draft, name: &name, variables: &variables, beside, main: &mut main };
            own.take(setting)?;
        }
    }
    main.finish(draft, &name)
}

/// A node whose settings are being imported.
struct Own<'a> {
    draft: &'a mut Draft,
    name: &'a str,
    variables: &'a Variables<'a>,
    beside: &'a Beside,
    main: &'a mut Main,
}

impl Own<'_> {
    fn member(&mut self) -> &mut Member {
        self.draft.members.get_mut(self.name).expect("it was just made")
    }

    /// Imports one setting of the node, or notes its omission.
    fn take(&mut self, setting: &Entry) -> Result<(), Problem> {
        let line = setting.key_span.line;
        match &*setting.key {
            "exec" => {
                for command in section::list(&setting.value, "exec")? {
                    self.exec(command)?;
                }
            }
            "entrypoint" => self.main.entrypoint = Some(words(setting)?),
            "cmd" => self.main.command = Some(words(setting)?),
            "sysctls" => {
                for sysctl in mapping(&setting.value, "'sysctls'")? {
                    let value = scalar(&sysctl.value)?;
                    let line = sysctl.key_span.line;
                    if !settings::sysctl(self.member(), line, &sysctl.key, &value) {
                        let text = format!("the setting '{}={value}' has no effect here", sysctl.key);
                        self.draft.note_at(line, text);
                    }
                }
            }
            "env" => {
                for variable in mapping(&setting.value, "'env'")? {
                    let line = variable.key_span.line;
                    let value = self.variables.replace(&scalar(&variable.value)?);
                    if variable.key == "__IMPORT_ENVS" {
                        self.draft.note_at(line, "the environment of this machine is not imported");
                        continue;
                    }
                    check_variable(&variable.key, || Problem::at(variable.key_span, ""))?;
                    self.member().environment.insert(variable.key.clone(), (line, value));
                }
            }
            "env-files" => {
                for file in section::list(&setting.value, "env-files")? {
                    self.environment_file(file)?;
                }
            }
            key @ ("binds" | "volumes") => {
                for bind in section::list(&setting.value, key)? {
                    self.bind(bind, key == "volumes")?;
                }
            }
            "image" => {
                let text = "programs are those of this machine, not of the image: a host's 'root' takes an image as 'docker save' writes it";
                self.draft.note_at(line, text);
            }
            "mgmt-ipv4" | "mgmt-ipv6" => {
                let text = format!("'{}' is left out: there is no management network", setting.key);
                self.draft.note_at(line, text);
            }
            key if SELECTORS.contains(&key) => {}
            key => self.draft.note_at(line, format!("'{key}' of nodes is not taken over")),
        }
        Ok(())
    }

    /// A command with its arguments, which no shell reads.
    fn exec(&mut self, command: &Node) -> Result<(), Problem> {
        let text = self.variables.replace(section::string(command, "exec")?);
        if shell_words::split(&text).is_err() {
            return Err(command.problem("a quote in this command is not closed"));
        }
        let at = At::line(command.span.line);
        self.member().commands.push(Command { at, text, kind: CommandKind::Program });
        Ok(())
    }

    /// A file with lines `NAME=value`.
    fn environment_file(&mut self, node: &Node) -> Result<(), Problem> {
        let written = self.variables.replace(section::string(node, "env-files")?);
        let file = self.beside.text(&written).map_err(|problem| node.problem(problem.message))?;
        let file = file.ok_or_else(|| node.problem(format!("there is no file '{written}'")))?;
        for (n, line) in file.text.lines().enumerate() {
            let line = line.trim();
            let line = line.strip_prefix("export ").unwrap_or(line);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once('=') {
                Some((name, value)) if is_variable(name.trim()) => {
                    let value = value.trim().trim_matches(['"', '\'']).to_owned();
                    let own = (node.span.line, value);
                    self.member().environment.insert(name.trim().to_owned(), own);
                }
                _ => {
                    let at = At { file: Some(file.name.clone()), line: n + 1 };
                    self.draft.note_in(at, format!("'{line}' sets no variable"));
                }
            }
        }
        Ok(())
    }

    /// `source:target` or `source:target:options`, or only a target, which is a new volume. The source of a volume may
    /// be a name.
    fn bind(&mut self, bind: &Node, is_volume: bool) -> Result<(), Problem> {
        let text = section::string(bind, "a bind")?;
        let line = bind.span.line;
        let parts: Vec<&str> = text.split(':').collect();
        let (source, target, options) = match parts[..] {
            [target] => (None, target, ""),
            [source, target] => (Some(source), target, ""),
            [source, target, options] => (Some(source), target, options),
            _ => return Err(bind.problem(format!("'{text}' is not a bind")).help("write source:target")),
        };
        if !target.starts_with('/') {
            return Err(bind
                .problem(format!("'{target}' is not an absolute path"))
                .help("write source:/target"));
        }
        let mut kind = MountKind::ReadWrite;
        for option in options.split(',').filter(|option| !option.is_empty()) {
            match option {
                "ro" => kind = MountKind::ReadOnly,
                // Labels of SELinux, which hosts do not have.
                "rw" | "z" | "Z" => {}
                other => {
                    self.draft.note_at(line, format!("option '{other}' of the bind '{text}' is left out"))
                }
            }
        }
        let source = match source {
            None => None,
            Some(named) if is_volume && !named.contains('/') => {
                self.draft.note_at(line, format!("the volume '{named}' is empty, and each host has its own"));
                None
            }
            Some(written) => {
                let path = self.beside.path(&self.variables.replace(written));
                if !path.exists() {
                    self.draft
                        .note_at(line, format!("'{text}' is not bound: there is no {}", path.display()));
                    return Ok(());
                }
                Some(path)
            }
        };
        let mount = Mount { at: At::line(line), source, target: target.to_owned(), kind };
        if let Some(text) = mount.note() {
            self.draft.note_at(line, text);
        }
        // A later bind replaces an inherited one of the same target.
        let mounts = &mut self.member().mounts;
        mounts.retain(|other| other.target != mount.target);
        mounts.push(mount);
        Ok(())
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0', ' '])
}

fn check_variable(name: &str, problem: impl Fn() -> Problem) -> Result<(), Problem> {
    match is_variable(name) {
        true => Ok(()),
        false => Err(Problem { message: format!("'{name}' cannot be the name of a variable"), ..problem() }),
    }
}

/// The program of a node: the entry point of its image, or that of the topology.
#[derive(Default)]
struct Main {
    entrypoint: Option<(At, Vec<String>)>,
    command: Option<(At, Vec<String>)>,
}

fn words(setting: &Entry) -> Result<(At, Vec<String>), Problem> {
    let text = section::string(&setting.value, &setting.key)?;
    let words = shell_words::split(text);
    let words = words.map_err(|_| setting.value.problem("a quote in this command is not closed"))?;
    Ok((At::line(setting.key_span.line), words))
}

impl Main {
    fn finish(self, draft: &mut Draft, name: &str) -> Result<(), Problem> {
        let (at, words) = match (self.entrypoint, self.command) {
            (Some((at, mut words)), command) => {
                words.extend(command.into_iter().flat_map(|(_, words)| words));
                (at, words)
            }
            (None, Some((at, words))) => {
                if words.first().is_none_or(|first| first.starts_with('-')) {
                    draft.note_in(at, "'cmd' is not run: these are arguments of the image's program");
                    return Ok(());
                }
                if !is_shell(&words) {
                    let text = "'cmd' is run as a program of its own, not by the entry point of the image";
                    draft.note_in(at.clone(), text);
                }
                (at, words)
            }
            (None, None) => return Ok(()),
        };
        if is_shell(&words) {
            draft.note_in(at, format!("'{}' is not run: it has no terminal", words.join(" ")));
            return Ok(());
        }
        if let Some(member) = draft.members.get_mut(name) {
            member.main = Some((at, words));
        }
        Ok(())
    }
}

/// True for a shell that reads its commands from a terminal.
fn is_shell(words: &[String]) -> bool {
    matches!(words, [first] if SHELLS.contains(&first.rsplit('/').next().unwrap_or(first)))
}
