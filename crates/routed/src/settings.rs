//! Configuration files: the options of the command line as a YAML mapping.
//!
//! ```yaml
//! protocol: olsr              # olsr, aodv, bridge or updater
//! interface: [eth0, eth1]
//! hello-interval: 2s
//! log-routes: true
//! ```
//!
//! A key is the long name of an option, so there is one list of options and one parser of their values.
//! Errors include the line in the file.

use crate::cli::Cli;
use crate::error::Error;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};
use saphyr_parser::{Event, Parser as YamlParser};
use std::path::{Path, PathBuf};

/// The subcommands that a file may choose, by its key `protocol`.
const PROTOCOLS: [&str; 4] = ["olsr", "aodv", "bridge", "updater"];

/// Options from a file, each with its line.
#[derive(Debug)]
pub struct Settings {
    path: PathBuf,
    protocol: String,
    entries: Vec<Entry>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    key: String,
    values: Vec<String>,
    line: usize,
}

impl Settings {
    /// Parses a file.
    pub fn read(path: &Path) -> Result<Settings, Error> {
        let text = belljar_inputs::read_text(path)
            .map_err(|source| Error::Io { doing: format!("read {}", path.display()), source })?;
        let at = |line, text: String| Error::Settings { path: path.to_owned(), line, text };
        let mut entries = entries(&text).map_err(|(line, text)| at(line, text))?;
        let place = entries.iter().position(|entry| entry.key == "protocol");
        let Some(place) = place else {
            return Err(at(1, format!("there is no 'protocol': write one of {}", PROTOCOLS.join(", "))));
        };
        let Entry { values, line, .. } = entries.remove(place);
        let protocol = values.first().cloned().unwrap_or_default();
        if values.len() != 1 || !PROTOCOLS.contains(&protocol.as_str()) {
            let text = format!("'protocol' is not one of {}", PROTOCOLS.join(", "));
            return Err(at(line, text));
        }
        Ok(Settings { path: path.to_owned(), protocol, entries })
    }

    /// The command for the file.
    pub fn command(&self) -> Result<Cli, Error> {
        let command = Cli::command();
        let known = command.find_subcommand(&self.protocol).into_iter().flat_map(|sub| sub.get_arguments());
        let known: Vec<_> = known.filter_map(|arg| Some((arg.get_long()?, arg.get_action()))).collect();
        let mut args = vec!["belljar-routed".to_owned(), self.protocol.clone()];
        for entry in &self.entries {
            let Some((_, action)) = known.iter().find(|(long, _)| *long == entry.key) else {
                let names: Vec<&str> = known.iter().map(|(long, _)| *long).collect();
                let protocol = &self.protocol;
                return Err(self.at(
                    entry.line,
                    format!("'{}' is not a key of {protocol}: there are {}", entry.key, names.join(", ")),
                ));
            };
            match (action.takes_values(), &entry.values[..]) {
                (true, values) => args.extend(values.iter().map(|value| format!("--{}={value}", entry.key))),
                (false, [value]) if value == "true" => args.push(format!("--{}", entry.key)),
                (false, [value]) if value == "false" => {}
                (false, _) => return Err(self.at(entry.line, format!("'{}' is true or false", entry.key))),
            }
        }
        Cli::try_parse_from(args).map_err(|error| self.explain(&error))
    }

    /// Converts an error of clap to one with the line of the offending option.
    fn explain(&self, error: &clap::Error) -> Error {
        let name = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.clone()),
            Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
            _ => None,
        };
        let about = name(ContextKind::InvalidArg).unwrap_or_default();
        let entry = self.entries.iter().find(|entry| about.contains(&format!("--{} ", entry.key)));
        let text = match (name(ContextKind::InvalidValue), entry) {
            (Some(value), Some(entry)) => {
                // The reason is at the end of clap's first line; otherwise the possible values are listed.
                let said = error.to_string();
                let first = said.lines().next().unwrap_or_default();
                let reason = first.split_once(">': ").map(|(_, reason)| reason.to_owned());
                let reason =
                    reason.or_else(|| Some(format!("possible are {}", name(ContextKind::ValidValue)?)));
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                format!("'{}' cannot be '{value}'{reason}", entry.key)
            }
            (_, Some(entry)) => format!("'{}' is given more than once, and takes one value", entry.key),
            _ => format!(
                "there is no '{}'",
                about.trim_start_matches('-').split(' ').next().unwrap_or_default()
            ),
        };
        self.at(entry.map_or(1, |entry| entry.line), text)
    }

    /// Adds the line of the offending value to an error that occurred when the command ran.
    pub fn locate(&self, error: Error) -> Error {
        let about = match &error {
            Error::NoInterface(name) | Error::NoAddress(name) | Error::Twice(name) => name.clone(),
            Error::NotOwn(address) => address.to_string(),
            Error::NobodyThere { path, .. } => path.display().to_string(),
            _ => return error,
        };
        match self.entries.iter().find(|entry| entry.values.contains(&about)) {
            Some(entry) => self.at(entry.line, error.to_string()),
            None => error,
        }
    }

    fn at(&self, line: usize, text: String) -> Error {
        Error::Settings { path: self.path.clone(), line, text }
    }
}

/// The entries of a mapping of scalars to scalars or lists of scalars. An error includes its line.
fn entries(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let mut out: Vec<Entry> = Vec::new();
    // The key whose value comes next, and whether its value is a list.
    let mut key: Option<Entry> = None;
    let mut in_list = false;
    let mut depth = 0;
    for event in YamlParser::new_from_str(text) {
        let (event, span) =
            event.map_err(|error| (error.marker().line(), format!("this is not YAML: {}", error.info())))?;
        let line = span.start.line();
        match event {
            Event::MappingStart(..) if depth == 0 => depth = 1,
            Event::Scalar(word, ..) if depth == 1 => match &mut key {
                None => {
                    if out.iter().any(|entry| entry.key == word) {
                        return Err((line, format!("'{word}' stands here for the second time")));
                    }
                    key = Some(Entry { key: word.into_owned(), values: Vec::new(), line });
                }
                Some(entry) => {
                    entry.values.push(word.into_owned());
                    if !in_list {
                        out.extend(key.take());
                    }
                }
            },
            Event::SequenceStart(..) if key.is_some() && !in_list => in_list = true,
            Event::SequenceEnd => {
                in_list = false;
                out.extend(key.take());
            }
            Event::Scalar(..) | Event::MappingStart(..) | Event::SequenceStart(..) | Event::Alias(..) => {
                return Err((
                    line,
                    "a file has keys with a word or a list of words each, no more".to_owned(),
                ));
            }
            _ => {}
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("routed-settings-{}-{count}.yaml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let done = Settings::read(&path).and_then(|settings| settings.command().map(|_| ()));
        std::fs::remove_file(&path).unwrap();
        let said = done.err().map_or("fine".to_owned(), |error| error.to_string());
        said.rsplit_once(".yaml:").map_or(said.clone(), |(_, said)| said.to_owned())
    }

    #[test]
    fn a_file_is_a_command_line() {
        let text = "# a node\nprotocol: olsr\ninterface: [eth0, eth1]\nhello-interval: 500ms\nhysteresis: true\n\
                    log-routes: false\nhna:\n- 10.0.0.0/8\n";
        assert_eq!(said(text), "fine");
        assert_eq!(said("protocol: bridge\ninterface: eth0\nclient: [eth1]\n"), "fine");
    }

    #[test]
    fn errors_name_the_line() {
        assert!(said("interface: eth0\n").starts_with("1: there is no 'protocol': write one of olsr"));
        assert!(said("interface: eth0\nprotocol: rip\n").starts_with("2: 'protocol' is not one of"));
        assert_eq!(said("protocol: olsr\n"), "1: there is no 'interface'");
        let wrong = said("protocol: olsr\ninterface: eth0\n\nhelo-interval: 2s\n");
        assert!(
            wrong.starts_with("4: 'helo-interval' is not a key of olsr: there are interface, "),
            "{wrong}"
        );
        let wrong = said("protocol: olsr\ninterface: eth0\nhello-interval: 2\n");
        assert_eq!(
            wrong,
            "3: 'hello-interval' cannot be '2': '2' is not a time: write a number with s or ms, for example 2s or 500ms"
        );
        let wrong = said("protocol: olsr\ninterface: eth0\ndata-plane: fpga\n");
        assert_eq!(wrong, "3: 'data-plane' cannot be 'fpga': possible are kernel, tc-bpf, af-xdp");
        let wrong = said("protocol: olsr\ninterface: eth0\nport: [1, 2]\n");
        assert_eq!(wrong, "3: 'port' is given more than once, and takes one value");
        assert_eq!(
            said("protocol: olsr\nhysteresis: maybe\ninterface: eth0\n"),
            "2: 'hysteresis' is true or false"
        );
        assert!(
            said("protocol: olsr\nport: 1\nport: 2\n")
                .starts_with("3: 'port' stands here for the second time")
        );
        assert!(said("protocol: olsr\ninterface: {eth0: 1}\n").starts_with("2: a file has keys"));
        assert!(said("protocol: olsr\ninterface: [eth0\n").contains(": this is not YAML"));
    }
}
