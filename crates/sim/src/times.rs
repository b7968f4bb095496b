//! Times of the writes to files that properties are about, and of the results that faults gave to calls.

use belljar_config::{Experiment, FileSet, Host as HostSettings};
use belljar_kernel::ProcessReport;
use belljar_machine::ForcedResult;
use belljar_objects::call_faults::LoggedResult;
use belljar_objects::write_log::{TimedFiles, WriteLog};
use serde_json::json;
use std::path::Path;

/// Log for a host's writes, if a property is about one of its files.
pub fn log(experiment: &Experiment, settings: &HostSettings) -> Option<Box<WriteLog>> {
    let id = experiment.host_by_name(&settings.name)?;
    let properties = experiment.properties.iter().filter(|property| property.concerns(id, settings));
    let files = properties.flat_map(|property| &property.files);
    let files: Vec<&FileSet> = files.filter(|files| !matches!(files, FileSet::Packets(_))).collect();
    let all = files.iter().any(|files| matches!(files, FileSet::Matching(_)));
    let timed = if all { TimedFiles::All } else { TimedFiles::Outputs };
    (!files.is_empty()).then(|| Box::new(WriteLog::new(timed)))
}

/// A result that a fault gave to a system call, as a line of JSON.
pub fn of_result(given: &LoggedResult) -> String {
    let ForcedResult { pid, call, number, result } = &given.forced;
    let (at, since) = (given.at.as_secs_f64(), given.since.as_secs_f64());
    let line = json!({"time": at, "since": since, "pid": pid, "call": call, "number": number, "result": result.name()});
    format!("{line}\n")
}

/// The log as JSON lines: a line for each start of a process with its process id, and one for each file with its writes, each the
/// first byte, the byte after the last one, and the time in nanoseconds.
pub fn text(log: &WriteLog, directory: &Path, reports: &[ProcessReport]) -> String {
    let mut text = String::new();
    for report in reports {
        if let ProcessReport::Started { spec, pid, at } = report {
            text.push_str(&format!("{}\n", json!({"process": spec, "pid": pid, "time": at.as_nanos()})));
        }
    }
    for (path, writes) in log.settled() {
        let Ok(file) = path.strip_prefix(directory) else { continue };
        let writes: Vec<_> =
            writes.iter().map(|(bytes, at)| (bytes.start, bytes.end, at.as_nanos())).collect();
        text.push_str(&format!("{}\n", json!({"file": file.to_string_lossy(), "writes": writes})));
    }
    text
}
