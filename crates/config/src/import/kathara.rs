//! Kathara: `machine[0]="A"` attaches an interface to a collision domain. A domain of two interfaces becomes
//! a link, every other one a switch. Machines become hosts, or routers if they start a routing daemon.
//!
//! A machine begins with a copy of its folder beside lab.conf. Then it runs `shared.startup`, its own
//! `<machine>.startup` and its `[exec]` commands.

use super::beside::Beside;
use super::draft::{At, Cable, Command, CommandKind, Draft, Kind, Member};
use super::mounts::{Mount, MountKind};
use super::{Imported, Importer, Input, hardware_address, node_name, settings};
use crate::error::{Problem, Source, Span};
use belljar_base::{Map, Set};

/// `lab.conf` of Kathara, with `<machine>.startup` beside it.
pub(super) struct Kathara;

impl Importer for Kathara {
    fn name(&self) -> &'static str {
        "kathara"
    }
    fn has_extension(&self, extension: &str) -> bool {
        extension == "conf"
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        Ok(draft(input.source, input.beside)?.finish(&input.source.name, input.options))
    }
}

/// The lines of lab.conf while they are being read.
#[derive(Default)]
struct Reader {
    draft: Draft,
    /// Machines by their names in lab.conf.
    machines: Map<String, Machine>,
    /// Ends of interfaces by collision domain.
    domains: Map<String, Vec<String>>,
}

#[derive(Default)]
struct Machine {
    name: String,
    interfaces: Set<u32>,
    exec: Vec<Command>,
    entrypoint: Option<(At, Vec<String>)>,
    arguments: Vec<String>,
}

fn draft(source: &Source, beside: &Beside) -> Result<Draft, Problem> {
    let mut reader = Reader::default();
    for (n, line) in source.text.lines().enumerate() {
        let span = Span { line: n + 1, column: 1, len: line.chars().count() };
        reader.line(line, span, beside)?;
    }
    let Reader { mut draft, machines, domains } = reader;
    note_files(&mut draft, &machines, beside);
    let has_shared = beside.path("shared").is_dir();
    let shared = beside.text("shared.startup")?;
    for (written, machine) in machines {
        start(&mut draft, &written, machine, shared.as_ref(), beside, has_shared)?;
    }
    join(&mut draft, domains);
    if draft.cables.is_empty() {
        return Err(
            Problem::whole_file("no machine of this lab has an interface").help("write machine[0]=\"A\"")
        );
    }
    draft.remove_unlinked();
    Ok(draft)
}

impl Reader {
    fn line(&mut self, line: &str, span: Span, beside: &Beside) -> Result<(), Problem> {
        let text = without_comment(line).trim();
        if text.is_empty() {
            return Ok(());
        }
        if let Some((key, value)) = text.split_once('=').filter(|(key, _)| key.starts_with("LAB_")) {
            let value = value.trim().trim_matches(['"', '\'']);
            self.draft.comments.push(format!("{}: {value}", key.trim()));
            return Ok(());
        }
        let Some((written, key, value)) = assignment(text) else {
            return Err(Problem::at(span, "this is not a line of lab.conf")
                .help("write machine[0]=\"A\" for an interface, or machine[option]=\"value\""));
        };
        let name = node_name(written);
        if name.is_empty() {
            return Err(Problem::at(span, format!("'{written}' cannot be a host's name")));
        }
        if !self.machines.contains_key(written) {
            if name != written {
                self.draft.note_at(span.line, format!("'{written}' is called '{name}' here"));
            }
            // Kathara's machines have IPv6 only if an option enables it.
            let member = Member { ipv6: Some(false), ..Member::new(Kind::Host) };
            if self.draft.members.insert(name.clone(), member).is_some() {
                return Err(Problem::at(
                    span,
                    format!("there are two machines that would be called '{name}'"),
                )
                .help("rename one of them"));
            }
            let machine = Machine { name, ..Machine::default() };
            self.machines.insert(written.to_owned(), machine);
        }
        match key.parse::<u32>() {
            Ok(number) => self.interface(written, number, value, span),
            Err(_) => self.option(written, key, value, span, beside),
        }
    }

    fn interface(&mut self, machine: &str, number: u32, value: &str, span: Span) -> Result<(), Problem> {
        let machine = self.machines.get_mut(machine).expect("it was just made");
        let name = &machine.name;
        let (domain, mac) = value.split_once('/').map_or((value, None), |(d, mac)| (d, Some(mac)));
        let interface = format!("eth{number}");
        if !machine.interfaces.insert(number) {
            return Err(Problem::at(span, format!("'{name}' has two interfaces {number}")));
        }
        if let Some(mac) = mac {
            let own = hardware_address(mac)
                .ok_or_else(|| Problem::at(span, format!("'{mac}' is not a hardware address")))?;
            self.draft.macs.insert((name.clone(), interface.clone()), own);
        }
        self.domains.entry(domain.to_owned()).or_default().push(format!("{name}:{interface}"));
        Ok(())
    }

    /// Imports an option of a machine, or notes its omission.
    fn option(
        &mut self,
        machine: &str,
        key: &str,
        value: &str,
        span: Span,
        beside: &Beside,
    ) -> Result<(), Problem> {
        let line = span.line;
        let machine = self.machines.get_mut(machine).expect("it was just made");
        let member = self.draft.members.get_mut(&machine.name).expect("it was just made");
        let words = || {
            shell_words::split(value).map_err(|_| Problem::at(span, "a quote in this command is not closed"))
        };
        match key {
            "exec" => {
                let at = At::line(line);
                machine.exec.push(Command { at, text: value.to_owned(), kind: CommandKind::Shell });
            }
            "entrypoint" => machine.entrypoint = Some((At::line(line), words()?)),
            "args" => machine.arguments = words()?,
            "sysctl" => {
                let (setting, given) = value.split_once('=').unwrap_or((value, ""));
                if !settings::sysctl(member, line, setting.trim(), given) {
                    self.draft.note_at(line, format!("the setting '{value}' has no effect here"));
                }
            }
            "env" => match value.split_once('=') {
                Some((variable, value)) if !variable.trim().is_empty() => {
                    let own = (line, value.trim().to_owned());
                    member.environment.insert(variable.trim().to_owned(), own);
                }
                _ => {
                    return Err(
                        Problem::at(span, format!("'{value}' sets no variable")).help("write NAME=value")
                    );
                }
            },
            "ipv6" => match value.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" | "y" | "t" => member.ipv6 = Some(true),
                "0" | "false" | "no" | "off" | "n" | "f" => member.ipv6 = Some(false),
                _ => return Err(Problem::at(span, "'ipv6' is true or false")),
            },
            "volume" => {
                let parts: Vec<&str> = value.split('|').filter(|part| !part.is_empty()).collect();
                let (source, target, kind) = match parts[..] {
                    [source, target] | [source, target, "ro" | "rx"] => (source, target, MountKind::ReadOnly),
                    [source, target, "rw"] => (source, target, MountKind::ReadWrite),
                    _ => {
                        return Err(Problem::at(span, format!("'{value}' is not a volume"))
                            .help("write path|/path/in/the/machine|ro"));
                    }
                };
                let source = beside.path(source);
                if !source.exists() {
                    let text = format!("'{value}' is not mounted: there is no {}", source.display());
                    self.draft.note_at(line, text);
                    return Ok(());
                }
                let mount =
                    Mount { at: At::line(line), source: Some(source), target: target.to_owned(), kind };
                let note = mount.note();
                member.mounts.push(mount);
                if let Some(text) = note {
                    self.draft.note_at(line, text);
                }
            }
            "image" => {
                let text = "programs are those of this machine, not of the image: a host's 'root' takes an image as 'docker save' writes it";
                self.draft.note_at(line, text);
            }
            _ => self.draft.note_at(line, format!("option '{key}' of machines is not taken over")),
        }
        Ok(())
    }
}

/// A line without the comment at its end.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if line[..at].ends_with(|before: char| before.is_whitespace()) || at == 0 => {
                return &line[..at];
            }
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    line
}

/// `machine[key]=value`, the value in quotes or not.
fn assignment(text: &str) -> Option<(&str, &str, &str)> {
    let (left, value) = text.split_once('=')?;
    let (machine, key) = left.trim().strip_suffix(']')?.split_once('[')?;
    let value = value.trim();
    let inner = value.strip_prefix(['"', '\'']).and_then(|v| v.strip_suffix(['"', '\'']));
    Some((machine, key.trim_matches(['"', '\'']), inner.unwrap_or(value)))
}

/// Notes the files of the lab that are not imported.
fn note_files(draft: &mut Draft, machines: &Map<String, Machine>, beside: &Beside) {
    for file in beside.names() {
        let at = At { file: Some(file.clone()), line: 0 };
        match file.rsplit_once('.') {
            Some(("lab", "dep")) => draft.note_in(at, "machines start at the same time, not in this order"),
            Some(("lab", "ext")) => draft.note_in(at, "links to interfaces of this machine are left out"),
            Some((_, "shutdown")) => draft.note_in(at, "commands at the end of a machine are not run"),
            Some((machine, "startup")) if machine != "shared" && !machines.contains_key(machine) => {
                draft.note_in(at, format!("not run: lab.conf has no machine '{machine}'"));
            }
            _ => {}
        }
    }
}

/// Imports the files and commands with which a machine starts.
fn start(
    draft: &mut Draft,
    written: &str,
    machine: Machine,
    shared: Option<&Source>,
    beside: &Beside,
    has_shared: bool,
) -> Result<(), Problem> {
    let Some(member) = draft.members.get_mut(&machine.name) else { return Ok(()) };
    // Kathara's machines forward packets.
    member.forwarding.get_or_insert(machine.interfaces.len() > 1);
    let mut notes = Vec::new();
    if has_shared {
        let at = At { file: Some("shared".to_owned()), line: 0 };
        let source = Some(beside.path("shared"));
        let mount = Mount { at, source, target: "/shared".to_owned(), kind: MountKind::ReadWrite };
        notes.extend(mount.note().map(|text| (mount.at.clone(), text)));
        member.mounts.push(mount);
    }
    let folder = beside.path(written);
    if folder.is_dir() {
        let at = At { file: Some(written.to_owned()), line: 0 };
        let mount = Mount { at, source: Some(folder), target: "/".to_owned(), kind: MountKind::Copy };
        member.mounts.push(mount);
    }
    let own = beside.text(&format!("{written}.startup"))?;
    for (n, script) in shared.into_iter().chain(own.as_ref()).enumerate() {
        for (line, text) in script.text.lines().enumerate() {
            let at = At { file: Some(script.name.clone()), line: line + 1 };
            member.commands.push(Command { at, text: text.to_owned(), kind: CommandKind::File(n) });
        }
    }
    member.commands.extend(machine.exec);
    match machine.entrypoint {
        Some((at, mut words)) => {
            words.extend(machine.arguments);
            member.main = Some((at, words));
        }
        None if !machine.arguments.is_empty() => {
            let text =
                format!("'args' of '{}' are not used: they are arguments of the image's program", written);
            notes.push((At::default(), text));
        }
        None => {}
    }
    for (at, text) in notes {
        draft.note_in(at, text);
    }
    Ok(())
}

fn join(draft: &mut Draft, domains: Map<String, Vec<String>>) {
    for (domain, ends) in domains {
        if let [first, second] = &ends[..]
            && first.split(':').next() != second.split(':').next()
        {
            let cable = Cable::between(first.clone(), second.clone());
            draft.cables.push(Cable { name: Some(domain), ..cable });
            continue;
        }
        let base = node_name(&domain);
        let taken = |name: &String| draft.members.contains_key(name);
        let mut names = std::iter::once(base.clone()).chain((1..).map(|n| format!("{base}-{n}")));
        let name = names.find(|name| !name.is_empty() && !taken(name)).expect("numbers don't end");
        draft.members.insert(name.clone(), Member::new(Kind::Switch));
        for (n, end) in ends.into_iter().enumerate() {
            draft.cables.push(Cable::between(end, format!("{name}:p{}", n + 1)));
        }
    }
}
