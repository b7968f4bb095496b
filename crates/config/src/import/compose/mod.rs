//! Compose: each service becomes a host on a switch of 1 Gbit/s, with its image as `root`. An image is an archive or a folder beside
//! the file. Services without a common network do not reach each other.

mod service;
mod values;
mod variables;
mod write;

use super::{Imported, Importer, Input};
use crate::error::Problem;
use crate::yaml;
use crate::yaml::section::mapping;
use belljar_base::Map;
use service::{Service, Waits};
use values::Reader;

/// Keys of the file that have no effect, or are read where a service names them.
const PLAIN_KEYS: [&str; 4] = ["version", "services", "networks", "volumes"];

/// `compose.yaml` of the Compose specification.
pub(super) struct Compose;

impl Importer for Compose {
    fn name(&self) -> &'static str {
        "compose"
    }
    fn has_extension(&self, extension: &str) -> bool {
        matches!(extension, "yml" | "yaml")
    }
    fn recognises(&self, text: &str) -> bool {
        text.lines().any(|line| line.trim_end() == "services:")
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        let tree =
            yaml::parse(&input.source.text)?.ok_or_else(|| Problem::whole_file("this file is empty"))?;
        let mut reader = Reader::new(input)?;
        let mut project = String::new();
        for entry in mapping(&tree, "a Compose file")? {
            match entry.key.as_str() {
                "name" => project = reader.text(&entry.value, "name")?,
                key if PLAIN_KEYS.contains(&key) || key.starts_with("x-") => {}
                key => {
                    reader.note(entry.key_span.line, format!("'{key}' of a Compose file is not taken over"))
                }
            }
        }
        let services = tree.entry("services").ok_or_else(|| {
            Problem::at(tree.span, "there is no 'services' in this file").help("this is no Compose file")
        })?;
        let mut all = Vec::new();
        for entry in mapping(&services.value, "'services'")? {
            all.extend(service::read(entry, &project, &mut reader)?);
        }
        if all.is_empty() {
            return Err(services.value.problem("there are no services"));
        }
        order(&mut all, &mut reader)?;
        for (name, line) in std::mem::take(&mut reader.variables.missing) {
            reader.note(line, format!("variable '{name}' has no value in the file .env and is empty"));
        }
        write::experiment(&all, &mut reader)
    }
}

/// Sets the start times: each service starts after those that it depends on.
fn order(all: &mut [Service], reader: &mut Reader<'_>) -> Result<(), Problem> {
    let numbers: Map<String, usize> =
        all.iter().enumerate().map(|(n, service)| (service.name.clone(), n)).collect();
    let mut done = vec![false; all.len()];
    for _ in 0..all.len() {
        for n in 0..all.len() {
            let depends = all[n].depends.clone();
            let found = |name: &String| numbers.get(name).copied();
            if done[n] || depends.iter().any(|(name, _)| found(name).is_some_and(|other| !done[other])) {
                continue;
            }
            for (name, waits) in depends {
                let Some(other) = found(&name) else {
                    reader.note(
                        all[n].line,
                        format!("service '{}' does not wait for '{name}', which is not there", all[n].name),
                    );
                    continue;
                };
                let after = match waits {
                    Waits::Started => 1_000,
                    Waits::Healthy => all[other].healthy_after,
                    Waits::Completed => 10_000,
                };
                all[n].start = all[n].start.max(all[other].start + after);
                if waits == Waits::Completed {
                    all[other].expects = "{exited: 0}".to_owned();
                }
                let why = match waits {
                    Waits::Started => "has started",
                    Waits::Healthy => "is taken to be healthy then",
                    Waits::Completed => "is taken to have ended then",
                };
                let text = format!(
                    "service '{}' starts {} s after '{name}', which {why}",
                    all[n].name,
                    after as f64 / 1_000.0
                );
                reader.note(all[n].line, text);
            }
            done[n] = true;
        }
    }
    match all.iter().zip(&done).find(|(_, done)| !**done) {
        Some((service, _)) => {
            Err(Problem::at(service.span, format!("service '{}' depends on itself", service.name))
                .help("leave one of the services of the circle out of 'depends_on'"))
        }
        None => Ok(()),
    }
}
