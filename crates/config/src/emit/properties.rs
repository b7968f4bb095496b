//! Section `properties` as YAML.

use super::{Writer, quoted, time};
use crate::events::ProcessRef;
use crate::model::Experiment;
use crate::properties::{Claim, FileSet, Property};
use belljar_net::units::format_duration;
use belljar_properties::{After, Condition, HistoryClaim, HistoryModel, LineClaim, Pattern, Quantifier};

impl Experiment {
    pub(super) fn properties(&self, out: &mut Writer) {
        if !self.properties.is_empty() {
            out.section(0, "properties");
        }
        for property in &self.properties {
            self.property(out, property);
        }
    }

    fn property(&self, out: &mut Writer, property: &Property) {
        out.text(0, "- name", &property.name);
        match &property.claim {
            Claim::Lines(claim) => lines(out, property, claim),
            Claim::History(claim) => history(out, property, claim),
            Claim::Assertions => {
                property.files.iter().filter_map(file).for_each(|path| out.plain(1, "assertions", path))
            }
        }
        if let Some(hosts) = &property.hosts {
            let names: Vec<String> = hosts.iter().map(|id| quoted(self.node_name(*id))).collect();
            out.plain(1, "hosts", format_args!("[{}]", names.join(", ")));
        }
        match &property.process {
            Some(ProcessRef::Number(number)) => out.plain(1, "process", number),
            // In quotes, so that a program whose name is a number is not taken for an index.
            Some(ProcessRef::Program(name)) => {
                out.plain(1, "process", format_args!("\"{}\"", quoted(name).trim_matches('"')));
            }
            None => {}
        }
    }
}

fn lines(out: &mut Writer, property: &Property, claim: &LineClaim) {
    let key = claim.quantifier.key();
    match claim.quantifier {
        Quantifier::Eventually { within, after } => {
            out.section(1, key);
            match &claim.condition {
                Condition::Matches(pattern) => out.text(2, "matches", pattern.text()),
                Condition::Passes(filter) => out.text(2, "filter", filter),
            }
            out.plain(2, "within", format_duration(within));
            match after {
                After::Faults => out.plain(2, "after", "faults"),
                After::Time(at) => out.plain(2, "after", time(at)),
            }
        }
        _ => match &claim.condition {
            Condition::Matches(pattern) => out.text(1, key, pattern.text()),
            Condition::Passes(filter) => {
                out.section(1, key);
                out.text(2, "filter", filter);
            }
        },
    }
    match property.packets() {
        Some(packets) => {
            let interfaces: Vec<String> = packets.interfaces.iter().map(|name| quoted(name)).collect();
            out.plain(1, "packets", format_args!("[{}]", interfaces.join(", ")));
            if !packets.filter.is_empty() {
                out.text(1, "filter", &packets.filter);
            }
        }
        None => {
            let files: Vec<String> = property.files.iter().filter_map(file).collect();
            out.plain(1, "files", format_args!("[{}]", files.join(", ")));
        }
    }
    if let Some(lines) = &claim.lines {
        out.text(1, "lines", Pattern::text(lines));
    }
    if !claim.comparisons.is_empty() {
        let all: Vec<String> = claim.comparisons.iter().map(|comparison| quoted(comparison.text())).collect();
        out.plain(1, "where", format_args!("[{}]", all.join(", ")));
    }
}

fn history(out: &mut Writer, property: &Property, claim: &HistoryClaim) {
    for path in property.files.iter().filter_map(file) {
        out.plain(1, "history", path);
    }
    let (HistoryModel::Named(model) | HistoryModel::Program(model)) = &claim.model;
    out.text(1, "model", model);
    if let Some(level) = claim.consistency {
        out.plain(1, "consistency", level.name());
    }
}

fn file(files: &FileSet) -> Option<String> {
    match files {
        FileSet::Stdout => Some("stdout".to_owned()),
        FileSet::Stderr => Some("stderr".to_owned()),
        FileSet::Matching(path) => Some(quoted(path)),
        FileSet::Packets(_) => None,
    }
}
