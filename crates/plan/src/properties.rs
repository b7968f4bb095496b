//! Verdicts on an experiment's properties, from the files of its results. The module is independent of the backend: simulations
//! leave the times of writes beside the files, and where there are none no line has a time.

use crate::judged_packets;
use belljar_base::{HostId, Map, SimTime, matches_wildcard};
use belljar_config::{Claim, Experiment, FileSet, Host, Property};
use belljar_model_program::ModelProgram;
use belljar_net::units::format_duration;
use belljar_properties::{
    After, AssertionJudge, AssertionVerdict, HistoryFile, HistoryVerdict, LineClaim, LineJudge, Quantifier,
    Verdict, Window, WriteTimes, judge_history,
};
use belljar_results::{PropertyStatistics, ResultsError, ResultsFolder, Statistics, names};
use serde_json::Value;
use std::cell::OnceCell;
use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// Process id of the first program in a whole machine.
const FIRST_IN_MACHINE: i32 = 1_001;
/// Folder of a host's own layer: the files that programs wrote elsewhere than in the host's folder.
const LAYER: &str = "fs";

/// Judges all properties of an experiment by the results of its run. Histories of several files, and the reports on histories, are
/// written to the folder `properties` of the results.
///
/// # Errors
/// The folder cannot be written.
pub fn judge_properties(
    experiment: &Experiment,
    folder: &ResultsFolder,
    statistics: &Statistics,
) -> Result<Vec<PropertyStatistics>, ResultsError> {
    let (mut records, last_fault) = (Map::new(), OnceCell::new());
    let mut all = Vec::new();
    for property in &experiment.properties {
        let (name, kind) = (&property.name, property.claim.key());
        match judge(experiment, folder, statistics, property, &mut records, &last_fault)? {
            Judged::One(verdict) => all.push(entry(name.clone(), kind, verdict)),
            Judged::Assertions(verdicts) if verdicts.is_empty() => {
                all.push(entry(name.clone(), kind, Verdict::failed("no program has declared an assertion")));
            }
            Judged::Assertions(verdicts) => all.extend(
                verdicts.into_iter().map(|one| entry(format!("{name}: {}", one.name), one.kind, one.verdict)),
            ),
        }
    }
    Ok(all)
}

/// Verdict on a property: one, or one for each assertion of programs.
enum Judged {
    One(Verdict),
    Assertions(Vec<AssertionVerdict>),
}

fn entry(name: String, kind: &str, verdict: Verdict) -> PropertyStatistics {
    let at = verdict.at;
    PropertyStatistics {
        name,
        kind: kind.to_owned(),
        holds: verdict.failure.is_none(),
        reason: verdict.failure,
        host: at.as_ref().map(|at| at.host.clone()),
        file: at.as_ref().map(|at| at.file.clone()),
        line: at.as_ref().map(|at| at.line as u64),
        time: at.as_ref().and_then(|at| at.time).map(SimTime::as_secs_f64),
        text: verdict.text,
        judged: verdict.judged,
    }
}

/// Record of a host's run that a simulation has left.
#[derive(Default)]
struct Record {
    /// Process ids of the starts of each process, by its index.
    started: Map<usize, Vec<i32>>,
    /// Times of writes, by file.
    times: Map<String, WriteTimes>,
}

/// File to be judged.
struct Found {
    host: HostId,
    /// Path relative to the host's folder.
    name: String,
    path: PathBuf,
}

fn judge(
    experiment: &Experiment,
    folder: &ResultsFolder,
    statistics: &Statistics,
    property: &Property,
    records: &mut Map<HostId, Record>,
    last_fault: &OnceCell<SimTime>,
) -> Result<Judged, ResultsError> {
    let failed = |reason: String| Judged::One(Verdict::failed(reason));
    let in_doubt = |why: &str| Judged::One(Verdict::in_doubt(why));
    let reached = SimTime::from_nanos((statistics.simulated_seconds * 1e9).round() as u64);
    if let (Some(packets), Claim::Lines(claim)) = (property.packets(), &property.claim) {
        let window = window(experiment, reached, claim, last_fault);
        return Ok(Judged::One(judged_packets::judge(experiment, folder, property, packets, claim, window)));
    }
    let mut found = Vec::new();
    let ids = (0..experiment.hosts.len() as u32).map(HostId);
    let concerned = ids.filter(|id| property.concerns(*id, &experiment.hosts[id.index()]));
    let mut missing = vec![true; property.files.len()];
    for id in concerned {
        let host = &experiment.hosts[id.index()];
        let record = records.entry(id).or_insert_with(|| Record::read(folder, &host.name));
        for (number, files) in property.files.iter().enumerate() {
            let of_host = match files_of(folder, statistics, property, host, files, record) {
                Ok(of_host) => of_host,
                Err(error) => {
                    return Ok(failed(format!("the files of host '{}' cannot be read: {error}", host.name)));
                }
            };
            if of_host.is_empty() && property.hosts.is_some() {
                return Ok(in_doubt(&format!("host '{}' has no {}", host.name, described(files))));
            }
            missing[number] &= of_host.is_empty();
            found.extend(of_host.into_iter().map(|(name, path)| Found { host: id, name, path }));
        }
    }
    if let Some((files, _)) = property.files.iter().zip(&missing).find(|(_, missing)| **missing) {
        return Ok(in_doubt(&format!("no host has {}", described(files))));
    }
    let name = |id: HostId| experiment.hosts[id.index()].name.as_str();
    let times = |found: &Found| records.get(&found.host).and_then(|record| record.times.get(&found.name));
    let unreadable = |found: &Found, error: &io::Error| {
        failed(format!("{} of host '{}' cannot be judged: {error}", found.name, name(found.host)))
    };
    match &property.claim {
        Claim::Lines(claim) => {
            let mut judge = LineJudge::new(claim, window(experiment, reached, claim, last_fault));
            for found in &found {
                let taken = belljar_inputs::open(&found.path).and_then(|file| {
                    judge.take(name(found.host), &found.name, times(found), BufReader::new(file))
                });
                if let Err(error) = taken {
                    return Ok(unreadable(found, &error));
                }
            }
            Ok(Judged::One(judge.finish()))
        }
        Claim::Assertions => {
            let mut judge = AssertionJudge::default();
            for found in &found {
                let taken = belljar_inputs::open(&found.path).and_then(|file| {
                    judge.take(name(found.host), &found.name, times(found), BufReader::new(file))
                });
                if let Err(error) = taken {
                    return Ok(unreadable(found, &error));
                }
            }
            Ok(Judged::Assertions(judge.finish()))
        }
        Claim::History(claim) => {
            let mut files = Vec::new();
            for found in &found {
                let content = match belljar_inputs::read(&found.path) {
                    Ok(content) => content,
                    Err(error) => return Ok(unreadable(found, &error)),
                };
                let (host, file) = (name(found.host).to_owned(), found.name.clone());
                files.push(HistoryFile { host, file, content, times: times(found).cloned() });
            }
            let HistoryVerdict { verdict, merged, explanation } =
                judge_history(claim, &files, |path| Box::new(ModelProgram::new(Path::new(path))));
            let stem = format!("{}/{}", names::PROPERTIES, property.name);
            if let Some(merged) = merged {
                folder.write(&format!("{stem}.jsonl"), &merged)?;
            }
            if let Some(explanation) = explanation {
                folder.write(&format!("{stem}.txt"), explanation.as_bytes())?;
            }
            Ok(Judged::One(verdict))
        }
    }
}

/// Files in words, for a message.
fn described(files: &FileSet) -> String {
    match files {
        FileSet::Stdout => "standard output of a process that has started".to_owned(),
        FileSet::Stderr => "standard error of a process that has started".to_owned(),
        FileSet::Matching(pattern) => format!("file '{pattern}'"),
        FileSet::Packets(packets) => judged_packets::described(packets),
    }
}

/// Window in which a line must appear. The time of the last fault is worked out once, for the first property that needs it.
fn window(
    experiment: &Experiment,
    reached: SimTime,
    claim: &LineClaim,
    last_fault: &OnceCell<SimTime>,
) -> Option<Window> {
    let Quantifier::Eventually { within, after } = claim.quantifier else { return None };
    let from = match after {
        After::Time(at) => at,
        After::Faults => *last_fault.get_or_init(|| time_of_last_fault(experiment)),
    };
    Some(Window { from, to: from.saturating_add(within), reached })
}

fn time_of_last_fault(experiment: &Experiment) -> SimTime {
    let stop = experiment.general.stop_time;
    let all = crate::occurrences(experiment).into_iter();
    let faults = all.filter(|occurrence| occurrence.at < stop && occurrence.action.is_fault());
    faults.map(|occurrence| occurrence.at).max().unwrap_or(SimTime::ZERO)
}

/// Notes about properties whose window ends after the simulation does.
pub fn cut_windows(experiment: &Experiment) -> Vec<String> {
    let (stop, last_fault) = (experiment.general.stop_time, OnceCell::new());
    let notes = experiment.properties.iter().filter_map(|property| {
        let Claim::Lines(claim) = &property.claim else { return None };
        let Window { from, to, .. } = window(experiment, stop, claim, &last_fault)?;
        let time = |at: SimTime| format_duration(at.since(SimTime::ZERO));
        (to > stop).then(|| {
            let (name, from, to, stop) = (&property.name, time(from), time(to), time(stop));
            format!("property '{name}': its window from {from} to {to} is cut, since the simulation stops at {stop}")
        })
    });
    notes.collect()
}

impl Record {
    /// Reads the record of a host; empty if there is none.
    fn read(folder: &ResultsFolder, host: &str) -> Record {
        let path = folder.path().join(names::TIMES).join(format!("{host}.jsonl"));
        let mut record = Record::default();
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            if let (Some(process), Some(pid)) = (line["process"].as_u64(), line["pid"].as_i64()) {
                record.started.entry(process as usize).or_default().push(pid as i32);
            }
            let (Some(file), Some(writes)) = (line["file"].as_str(), line["writes"].as_array()) else {
                continue;
            };
            let times = record.times.entry(file.to_owned()).or_default();
            for write in writes {
                if let (Some(start), Some(end), Some(at)) =
                    (write[0].as_u64(), write[1].as_u64(), write[2].as_u64())
                {
                    times.write(start, end, SimTime::from_nanos(at));
                }
            }
        }
        record
    }
}

/// Files of a host that are judged: their paths relative to its folder, sorted, and their paths.
fn files_of(
    folder: &ResultsFolder,
    statistics: &Statistics,
    property: &Property,
    host: &Host,
    files: &FileSet,
    record: &Record,
) -> io::Result<Vec<(String, PathBuf)>> {
    let directory = folder.host(&host.name);
    let kind = match files {
        FileSet::Stdout => "stdout",
        FileSet::Stderr => "stderr",
        FileSet::Matching(pattern) => {
            let pattern = match pattern.strip_prefix('/') {
                Some(elsewhere) => format!("{LAYER}/{elsewhere}"),
                None => pattern.clone(),
            };
            let mut found = Vec::new();
            let parts: Vec<&str> = pattern.split('/').collect();
            matching(&directory, "", &parts, &mut found)?;
            return Ok(found);
        }
        FileSet::Packets(_) => return Ok(Vec::new()),
    };
    let mut outputs = Vec::new();
    matching(&directory, "", &[&format!("*.{kind}")], &mut outputs)?;
    let processes = statistics.hosts.get(&host.name).map(|host| &host.processes[..]).unwrap_or_default();
    let by_number = matches!(property.process, Some(belljar_config::ProcessRef::Number(_)));
    let is_judged = |name: &str| {
        property.processes_of(host).any(|(number, process)| {
            let pid = name.strip_prefix(&format!("{}.", process.program_name()));
            let pid =
                pid.and_then(|rest| rest.strip_suffix(&format!(".{kind}"))).and_then(|pid| pid.parse().ok());
            let started = |pid: i32| match record.started.get(&number) {
                _ if host.machine.is_some() => pid == FIRST_IN_MACHINE + number as i32,
                Some(pids) => pids.contains(&pid),
                None => processes.get(number).is_some_and(|process| process.pid == Some(pid)),
            };
            pid.is_some_and(|pid| !by_number || started(pid))
        })
    };
    outputs.retain(|(name, _)| is_judged(name));
    Ok(outputs)
}

/// Adds the regular files below a directory that match a pattern by its parts, sorted.
fn matching(
    directory: &Path,
    before: &str,
    parts: &[&str],
    found: &mut Vec<(String, PathBuf)>,
) -> io::Result<()> {
    let Some((part, rest)) = parts.split_first() else { return Ok(()) };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?.collect::<io::Result<Vec<_>>>()?,
    };
    let names = entries.iter().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| matches_wildcard(part, name)).collect();
    names.sort();
    for name in names {
        let path = directory.join(&name);
        // A link may lead out of the results, and a FIFO blocks its reader.
        let status = fs::symlink_metadata(&path)?;
        let name = format!("{before}{name}");
        match rest.is_empty() {
            true if status.is_file() => found.push((name, path)),
            false if status.is_dir() => matching(&path, &format!("{name}/"), rest, found)?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "properties_tests.rs"]
mod tests;
