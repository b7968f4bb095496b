//! Text form of a comparison.

use super::{Comparison, Difference, Kind};
use std::fmt;

/// Number of files that are listed; further ones are only counted.
const LIST: usize = 20;

impl Comparison {
    /// True if the two runs are equal.
    pub fn is_same(&self) -> bool {
        self.differences.is_empty()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = &self.names;
        if self.is_same() {
            return write!(f, "the same: {} files of {a} and {b}", self.files);
        }
        writeln!(f, "{} of {} files differ", self.differences.len(), self.files)?;
        let (inputs, outcome): (Vec<_>, Vec<_>) =
            self.differences.iter().partition(|d| d.kind <= Kind::Manifest);
        for input in &inputs {
            let what = match input.kind {
                Kind::Experiment => "they were not asked to do the same",
                _ => "the machine's files were not the same",
            };
            writeln!(f, "\n{what}: {}, {}", input.file.display(), input.place)?;
            sides(f, input, &self.names)?;
        }
        let Some((first, others)) = outcome.split_first() else { return Ok(()) };
        writeln!(f, "\nfirst divergence {}", headline(first))?;
        sides(f, first, &self.names)?;
        if !others.is_empty() {
            writeln!(f, "\nthen")?;
        }
        for other in others.iter().take(LIST) {
            writeln!(f, "  {}", headline(other))?;
        }
        if others.len() > LIST {
            writeln!(f, "  and {} files more", others.len() - LIST)?;
        }
        Ok(())
    }
}

fn headline(difference: &Difference) -> String {
    let when = match difference.at {
        Some(at) => format!("at {at} s"),
        None => "at a time not known".to_owned(),
    };
    let parts: Vec<String> =
        difference.file.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
    let whose = match (&parts[..], difference.kind) {
        ([_, host, file], Kind::Strace | Kind::Output) => {
            let process = file.rsplit_once('.').map_or(file.as_str(), |(process, _)| process);
            let stream = if difference.kind == Kind::Output { file.rsplit('.').next() } else { None };
            let stream = stream.map_or(String::new(), |stream| format!(", {stream}"));
            format!("host {host}, process {process}{stream}")
        }
        ([kind, node, file], Kind::Capture) => {
            let kind = match kind.as_str() {
                "switches" => "switch",
                "routers" => "router",
                "simulators" => "simulator",
                "radios" => "radio",
                _ => "host",
            };
            format!("{kind} {node}, interface {}", file.trim_end_matches(".pcap"))
        }
        _ => difference.file.display().to_string(),
    };
    format!("{when}: {whose}, {}", difference.place)
}

fn sides(f: &mut fmt::Formatter<'_>, difference: &Difference, names: &[String; 2]) -> fmt::Result {
    for line in &difference.before {
        writeln!(f, "    {line}")?;
    }
    for ((lines, mark), name) in difference.sides.iter().zip(['-', '+']).zip(names) {
        writeln!(f, "  {mark} in {name}:")?;
        for line in lines {
            writeln!(f, "  {mark} {line}")?;
        }
    }
    Ok(())
}
