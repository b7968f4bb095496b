//! `belljar compare`.

mod measures;
mod page;

use crate::failure::Failure;
use belljar_base::{Map, Set};
use belljar_emulation::truth::Truthfulness;
use belljar_results::names;
use belljar_results::read::Results;
pub use measures::truthfulness;
use measures::{Kind, Measures, measure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Puts runs of one experiment side by side: completion times, throughput, loss, round trips, what programs measured, and
/// processor time. Says by how much simulated and emulated runs differ, and whether it matters: a difference does not
/// matter if it is small, or within the spread of repeated runs.
///
/// Folders of emulated runs are known by their verdict. If all are of one kind, the first is compared with the others. Emulated
/// runs in real time and with time dilated by different factors are each compared with the simulated ones, and the end says by how
/// much each world differs.
///
/// The exit status is 0 if nothing differs that matters, 1 if something does, 2 if the runs cannot be compared.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar compare sim emu\n  belljar compare sim-1 sim-2 sim-3 emu-1 emu-2 emu-3 --html page.html\n  belljar compare sim emu --tolerance 10"
)]
pub struct Arguments {
    /// The results folders, in any order
    #[arg(required = true, num_args = 2.., value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// Largest difference of medians, in percent, that does not matter
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    tolerance: f64,
    /// Write a page with the tables and the spread of all values
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Values of one measure in several runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Band {
    /// Values in ascending order.
    values: Vec<f64>,
}

impl Band {
    fn new(mut values: Vec<f64>) -> Band {
        values.sort_by(f64::total_cmp);
        Band { values }
    }
    fn median(&self) -> Option<f64> {
        let n = self.values.len();
        match n {
            0 => None,
            _ if n % 2 == 1 => Some(self.values[n / 2]),
            _ => Some((self.values[n / 2 - 1] + self.values[n / 2]) / 2.0),
        }
    }
    fn ends(&self) -> Option<(f64, f64)> {
        Some((*self.values.first()?, *self.values.last()?))
    }
    fn text(&self) -> String {
        match (self.median(), self.ends()) {
            (Some(median), Some((least, most))) if self.values.len() > 1 => {
                format!("{} [{}, {}]", number(median), number(least), number(most))
            }
            (Some(median), _) => number(median),
            _ => "-".into(),
        }
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        x if x >= 100.0 => format!("{value:.1}"),
        x if x >= 1.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// Verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The difference is below the tolerance.
    Same,
    /// The difference is above the tolerance, but within the spread of repeated runs.
    Spread,
    /// The difference is significant.
    Differs,
    /// One group has no value.
    Alone,
}

impl Judgement {
    fn text(self) -> &'static str {
        match self {
            Judgement::Same => "same",
            Judgement::Spread => "within spread",
            Judgement::Differs => "DIFFERS",
            Judgement::Alone => "",
        }
    }
}

/// One measure of both groups of runs.
pub struct Row {
    kind: Kind,
    name: String,
    bands: [Band; 2],
    /// Difference of the medians, in percent of the first.
    difference: Option<f64>,
    judgement: Judgement,
}

impl Row {
    fn new(kind: Kind, name: String, bands: [Band; 2], tolerance: f64) -> Row {
        let medians = (bands[0].median(), bands[1].median());
        let (Some(a), Some(b)) = medians else {
            // A process that ended in one group alone is a difference, whatever its completion time.
            let judgement = if kind == Kind::Completion { Judgement::Differs } else { Judgement::Alone };
            return Row { kind, name, bands, difference: None, judgement };
        };
        let difference = (a != 0.0).then(|| 100.0 * (b - a) / a.abs());
        let small = (b - a).abs() <= kind.floor().max(a.abs() * tolerance / 100.0);
        // A spread takes several runs.
        let overlap = match (bands[0].ends(), bands[1].ends()) {
            (Some(a), Some(b)) => bands.iter().any(|band| band.values.len() >= 3) && a.0 <= b.1 && b.0 <= a.1,
            _ => false,
        };
        let judgement = match (small, overlap) {
            (true, _) => Judgement::Same,
            (false, true) => Judgement::Spread,
            (false, false) => Judgement::Differs,
        };
        Row { kind, name, bands, difference, judgement }
    }

    /// Name of the measure without the world.
    fn measure(&self) -> &str {
        self.name.rsplit_once(" [").map_or(&self.name, |(measure, _)| measure)
    }

    fn difference(&self) -> String {
        self.difference.map_or_else(String::new, |percent| format!("{percent:+.1} %"))
    }
}

/// Computes the measures, compares them and prints the tables.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut runs = Vec::new();
    for path in &arguments.results {
        let results = Results::open(path).map_err(Failure::usage)?;
        let truth = truthfulness(&results);
        let measured = measure(&results).map_err(Failure::usage)?;
        let hosts: Set<String> = results.statistics.hosts.keys().cloned().collect();
        runs.push((path.clone(), truth, measured, hosts));
    }
    if let Some((path, ..)) = runs.iter().find(|(_, _, _, hosts)| *hosts != runs[0].3) {
        return Err(Failure::usage(format!(
            "{} and {} are not of one experiment: they have other hosts",
            runs[0].0.display(),
            path.display()
        )));
    }
    let places: Vec<Place> = runs.iter().map(|run| place_of(&run.0, run.1.is_some())).collect();
    let (least, most) = (places.iter().min(), places.iter().max());
    let mixed = least != most;
    let second = |n: usize| if mixed { Some(&places[n]) != least } else { n > 0 };
    let names = match (mixed, least, most) {
        (true, Some(least), Some(most)) => [least.name(), most.name()],
        _ => ["first", "others"],
    };
    let group = |wanted: bool| -> Vec<&Measures> {
        (0..runs.len()).filter(|n| second(*n) == wanted).map(|n| &runs[n].2).collect()
    };
    let mut worlds: Vec<Option<f64>> = runs.iter().filter_map(|run| run.1.as_ref().map(world_of)).collect();
    worlds.sort_by(|a, b| a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0)));
    worlds.dedup();
    let mut by_world = String::new();
    let rows = if mixed && worlds.len() > 1 {
        let mut all = Vec::new();
        for world in worlds {
            let of_world =
                runs.iter().filter(|run| run.1.as_ref().is_some_and(|truth| world_of(truth) == world));
            let of_world: Vec<&Measures> = of_world.map(|run| &run.2).collect();
            let name = match world {
                None => "real time".into(),
                Some(tdf) if tdf.is_infinite() => "time dilated as needed".into(),
                Some(tdf) => format!("time dilated by {tdf}"),
            };
            let mut own = rows(&group(false), &of_world, arguments.tolerance);
            let _ = writeln!(by_world, "{name}: {}", distance(&own));
            own.iter_mut().for_each(|row| row.name += &format!(" [{name}]"));
            all.extend(own);
        }
        // Rows of one measure are adjacent.
        all.sort_by(|a, b| (a.kind, a.measure()).cmp(&(b.kind, b.measure())));
        all
    } else {
        rows(&group(false), &group(true), arguments.tolerance)
    };
    let mut verdicts = String::new();
    for (path, truth, ..) in &runs {
        if let Some(truth) = truth {
            let _ = writeln!(verdicts, "{}: {}", path.display(), truth.summary());
        }
    }
    let text = table(&rows, names);
    let differ = rows.iter().filter(|row| row.judgement == Judgement::Differs).count();
    let compared = rows.iter().filter(|row| row.judgement != Judgement::Alone).count();
    let conclusion = match differ {
        0 => format!(
            "{compared} measures compared: none differs by more than {} % or its spread",
            arguments.tolerance
        ),
        _ => format!(
            "{differ} of {compared} measures differ by more than {} % and their spread",
            arguments.tolerance
        ),
    };
    print!("{text}{verdicts}{by_world}");
    println!("{conclusion}");
    if let Some(file) = &arguments.html {
        let page = page::page(&rows, names, &verdicts, &conclusion);
        std::fs::write(file, page)
            .map_err(|error| Failure::usage(format!("{} cannot be written: {error}", file.display())))?;
    }
    Ok(if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// World in which a run took place, in order from simulated to real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Simulated,
    Emulated,
    Deployed,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Simulated => "simulated",
            Place::Emulated => "emulated",
            Place::Deployed => "deployed",
        }
    }
}

fn place_of(results: &Path, emulated: bool) -> Place {
    match (results.join(names::DEPLOYMENT).is_file(), emulated) {
        (true, _) => Place::Deployed,
        (false, true) => Place::Emulated,
        (false, false) => Place::Simulated,
    }
}

/// Dilation factor of runs under `auto`, which adapt the factor to the machine: each run has its own.
const AS_NEEDED: f64 = f64::INFINITY;

/// Dilation factor of an emulated run.
fn world_of(truth: &Truthfulness) -> Option<f64> {
    if truth.tdf_auto { Some(AS_NEEDED) } else { truth.tdf }
}

/// Describes the distance of a group from the simulation: the mean of all comparable differences, and the
/// number of significant ones.
fn distance(rows: &[Row]) -> String {
    let counted = rows.iter().filter(|row| row.kind.floor().is_finite() && row.judgement != Judgement::Alone);
    let (mut sum, mut count, mut matter) = (0.0, 0usize, 0usize);
    for row in counted {
        count += 1;
        matter += usize::from(row.judgement == Judgement::Differs);
        sum += row.difference.map_or(0.0, f64::abs);
    }
    format!(
        "{:.1} % from the simulation in the mean of {count} measures; {matter} differ",
        sum / count.max(1) as f64
    )
}

/// Pairs the measures of both groups, by kind and name.
fn rows(first: &[&Measures], second: &[&Measures], tolerance: f64) -> Vec<Row> {
    let mut all: Map<(Kind, String), [Vec<f64>; 2]> = Map::new();
    for (group, runs) in [first, second].into_iter().enumerate() {
        for (key, value) in runs.iter().flat_map(|run| run.iter()) {
            all.entry(key.clone()).or_default()[group].push(*value);
        }
    }
    let row = |((kind, name), values): ((Kind, String), [Vec<f64>; 2])| {
        Row::new(kind, name, values.map(Band::new), tolerance)
    };
    // A number that one group alone printed comes from a line with different words; emulations have no accounts
    // of stacks.
    let paired = |kind| matches!(kind, Kind::Printed | Kind::StackLoss);
    let shown = |row: &Row| !paired(row.kind) || row.judgement != Judgement::Alone;
    all.into_iter().map(row).filter(shown).collect()
}

fn table(rows: &[Row], names: [&str; 2]) -> String {
    let mut text = String::new();
    let mut kind = None;
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).min(72);
    for row in rows {
        if kind != Some(row.kind) {
            kind = Some(row.kind);
            let _ = writeln!(
                text,
                "{:<width$}  {:>26}  {:>26}  {:>10}  matters",
                row.kind.heading(),
                names[0],
                names[1],
                "difference"
            );
        }
        let _ = writeln!(
            text,
            "  {:<width$}{:>26}  {:>26}  {:>10}  {}",
            row.name,
            row.bands[0].text(),
            row.bands[1].text(),
            row.difference(),
            row.judgement.text()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(kind: Kind, a: &[f64], b: &[f64]) -> Judgement {
        Row::new(kind, "x".into(), [Band::new(a.to_vec()), Band::new(b.to_vec())], 5.0).judgement
    }

    #[test]
    fn differences_matter_beyond_tolerance_and_spread() {
        assert_eq!(judge(Kind::Throughput, &[100.0], &[96.0]), Judgement::Same);
        assert_eq!(judge(Kind::Throughput, &[100.0], &[90.0]), Judgement::Differs);
        assert_eq!(judge(Kind::Throughput, &[100.0], &[80.0, 90.0, 101.0]), Judgement::Spread);
        assert_eq!(
            judge(Kind::Throughput, &[100.0], &[80.0, 101.0]),
            Judgement::Differs,
            "two are no spread"
        );
        assert_eq!(judge(Kind::Completion, &[0.001], &[0.03]), Judgement::Same, "below what starting takes");
        assert_eq!(judge(Kind::Cpu, &[1.0], &[9.0]), Judgement::Same, "only shown");
        assert_eq!(judge(Kind::Loss, &[], &[9.0]), Judgement::Alone);
    }

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(Band::new(vec![3.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(Band::new(vec![4.0, 1.0, 2.0, 3.0]).median(), Some(2.5));
        assert_eq!(Band::new(vec![3.0, 1.0, 2.0]).text(), "2.000 [1.000, 3.000]");
    }
}
