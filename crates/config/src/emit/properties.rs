//! Section `properties` as YAML.

use super::{Writer, quoted, time};
use crate::events::ProcessRef;
use crate::model::Experiment;
use crate::properties::{Claim, FileSet, Property};
use belljar_net::units::format_duration;
use belljar_properties::{After, HistoryClaim, HistoryModel, LineClaim, Pattern, Quantifier};

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
                property.files.iter().for_each(|files| out.plain(1, "assertions", file(files)))
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
            out.text(2, "matches", claim.pattern.text());
            out.plain(2, "within", format_duration(within));
            match after {
                After::Faults => out.plain(2, "after", "faults"),
                After::Time(at) => out.plain(2, "after", time(at)),
            }
        }
        _ => out.text(1, key, claim.pattern.text()),
    }
    let files: Vec<String> = property.files.iter().map(file).collect();
    out.plain(1, "files", format_args!("[{}]", files.join(", ")));
    if let Some(lines) = &claim.lines {
        out.text(1, "lines", Pattern::text(lines));
    }
    if !claim.comparisons.is_empty() {
        let all: Vec<String> = claim.comparisons.iter().map(|comparison| quoted(comparison.text())).collect();
        out.plain(1, "where", format_args!("[{}]", all.join(", ")));
    }
}

fn history(out: &mut Writer, property: &Property, claim: &HistoryClaim) {
    for files in &property.files {
        out.plain(1, "history", file(files));
    }
    let (HistoryModel::Named(model) | HistoryModel::Program(model)) = &claim.model;
    out.text(1, "model", model);
    if let Some(level) = claim.consistency {
        out.plain(1, "consistency", level.name());
    }
}

fn file(files: &FileSet) -> String {
    match files {
        FileSet::Stdout => "stdout".to_owned(),
        FileSet::Stderr => "stderr".to_owned(),
        FileSet::Matching(path) => quoted(path),
    }
}
