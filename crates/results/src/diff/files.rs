//! First difference of one file.

use super::{Difference, Kind};
use crate::Topology;
use crate::names;
use crate::read::{ReadError, Results, packets, time_of_line, written_to};
use belljar_base::SimTime;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Number of lines or packets shown before the first difference, and on each side from it on.
const CONTEXT: usize = 3;
/// Length at which lines are truncated.
const LINE: usize = 240;

/// Keys of the experiment that do not affect the simulated results.
const STEERING: [&str; 6] =
    ["data_directory:", "parallelism:", "use_cpu_pinning:", "heartbeat_interval:", "progress:", "log_level:"];

/// One of the two folders.
pub(super) struct Side {
    root: PathBuf,
    /// Path of the folder as guests of this run saw it; it is replaced so that the names of folders are not
    /// compared.
    own_path: String,
    epoch_secs: u64,
}

impl Side {
    pub(super) fn new(results: &Results) -> Side {
        let topology = results.text(names::TOPOLOGY).and_then(|text| Topology::from_json(&text));
        let root = results.path().to_owned();
        let own_path = root.canonicalize().unwrap_or_else(|_| root.clone()).display().to_string();
        Side { root, own_path, epoch_secs: topology.unwrap_or_default().epoch_secs }
    }

    fn read(&self, file: &Path) -> Result<Option<Vec<u8>>, ReadError> {
        let path = self.root.join(file);
        match belljar_inputs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ReadError::io(&path, &error)),
        }
    }

    /// The text of a file with the folder's own path replaced.
    fn text(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).replace(&self.own_path, "$RESULTS")
    }
}

/// The first difference of `file`, if any.
pub(super) fn difference(
    file: &Path,
    kind: Kind,
    sides: &[Side; 2],
) -> Result<Option<Difference>, ReadError> {
    let contents = [sides[0].read(file)?, sides[1].read(file)?];
    let found = |at, place: String, before, shown| {
        Some(Difference { file: file.to_owned(), at, place, before, sides: shown, kind })
    };
    let [Some(a), Some(b)] = &contents else {
        let shown = contents.clone().map(|c| match c {
            Some(bytes) => vec![format!("{} bytes", bytes.len())],
            None => vec!["no such file".to_owned()],
        });
        let place = if contents[0].is_some() { "only in the first" } else { "only in the second" };
        let bytes = contents.iter().flatten().next();
        let at =
            bytes.filter(|_| kind == Kind::Strace).and_then(|b| time_of_line(&String::from_utf8_lossy(b)));
        return Ok(found(at, place.to_owned(), Vec::new(), shown));
    };
    if a == b {
        return Ok(None);
    }
    if kind == Kind::Capture {
        return captures(file, sides);
    }
    if [a, b].iter().any(|bytes| bytes.contains(&0)) {
        let offset = a.iter().zip(b).take_while(|(x, y)| x == y).count();
        let shown = [a, b].map(|bytes| {
            let some: Vec<String> = bytes.iter().skip(offset).take(16).map(|x| format!("{x:02x}")).collect();
            vec![if some.is_empty() { "ends here".to_owned() } else { some.join(" ") }]
        });
        return Ok(found(None, format!("byte {offset}"), Vec::new(), shown));
    }
    let texts = [sides[0].text(a), sides[1].text(b)];
    let [one, two] = texts.each_ref().map(|text| lines(text, kind));
    let Some(first) = (0..one.len().max(two.len())).find(|i| one.get(*i) != two.get(*i)) else {
        // Only the folder's name or the end of the last line differs.
        return Ok(None);
    };
    let at = [&one, &two].into_iter().filter_map(|l| l.get(first)).filter_map(|l| time(l, kind)).min();
    let at = match kind {
        Kind::Output => {
            let offset: usize = one.iter().take(first).map(|line| line.len() + 1).sum();
            sides.iter().filter_map(|side| time_of_output(side, file, offset as u64)).min()
        }
        // Indented lines belong to the packet above them, whose line contains the time.
        Kind::Decisions => [&one, &two].into_iter().filter_map(|l| time_of_line(heading(l, first)?)).min(),
        _ => at,
    };
    let place = match kind {
        Kind::Decisions => {
            let packet = [&one, &two].into_iter().find_map(|l| packet(heading(l, first)?));
            packet.map_or_else(
                || format!("line {}", first + 1),
                |packet| format!("{packet}, line {}", first + 1),
            )
        }
        Kind::Strace => format!("system call {}", first + 1),
        _ => format!("line {}", first + 1),
    };
    // The lines of an experiment are largely independent.
    let after = if kind == Kind::Experiment { 1 } else { CONTEXT };
    let before = one[first.saturating_sub(CONTEXT)..first].iter().map(|line| cut(line)).collect();
    let shown = [&one, &two].map(|lines| match lines.get(first..) {
        Some(rest) if !rest.is_empty() => rest.iter().take(after).map(|line| cut(line)).collect(),
        _ => vec!["ends here".to_owned()],
    });
    Ok(found(at, place, before, shown))
}

/// The lines to compare.
fn lines(text: &str, kind: Kind) -> Vec<&str> {
    let steers = |line: &str| {
        let key = line.trim_start();
        STEERING.iter().any(|k| key.starts_with(k))
    };
    text.lines().filter(|line| kind != Kind::Experiment || !steers(line)).collect()
}

/// The heading of the packet to which a line belongs.
fn heading<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    let until = lines.get(..lines.len().min(at + 1))?;
    until.iter().rev().find(|line| !line.starts_with(' ')).copied()
}

/// The `packet 7` in a heading of a switch's log.
fn packet(heading: &str) -> Option<&str> {
    heading.split_once(' ')?.1.split_once(':').map(|(packet, _)| packet)
}

fn time(line: &str, kind: Kind) -> Option<SimTime> {
    match kind {
        Kind::Strace => time_of_line(line),
        Kind::Series => time_of_line(&format!("{} ", line.split(',').next()?)),
        _ => None,
    }
}

/// Time at which a process wrote the byte at `offset` of its output, if its system calls were logged.
fn time_of_output(side: &Side, file: &Path, offset: u64) -> Option<SimTime> {
    let fd = if file.extension()? == "stdout" { 1 } else { 2 };
    // A log is named after the process's last program, so the file names have only the pid in common.
    let stem = file.file_stem()?.to_str()?;
    let end = format!(".{}.strace", stem.rsplit('.').next()?);
    let logs = fs::read_dir(side.root.join(file).parent()?).ok()?.flatten();
    let mut logs = logs.filter(|entry| entry.file_name().to_string_lossy().ends_with(&end));
    written_to(&String::from_utf8_lossy(&belljar_inputs::read(&logs.next()?.path()).ok()?), fd, offset)
}

fn captures(file: &Path, sides: &[Side; 2]) -> Result<Option<Difference>, ReadError> {
    let read = |side: &Side| packets(&side.root.join(file), side.epoch_secs);
    let (a, b) = (read(&sides[0])?, read(&sides[1])?);
    let Some(first) = (0..a.len().max(b.len())).find(|i| a.get(*i) != b.get(*i)) else { return Ok(None) };
    let line = |p: &crate::read::CapturedPacket| format!("{} {}", p.at, p.describe());
    let at = [a.get(first), b.get(first)].into_iter().flatten().map(|p| p.at).min();
    let mut shown = [&a, &b].map(|packets| match packets.get(first..) {
        Some(rest) if !rest.is_empty() => rest.iter().take(CONTEXT).map(line).collect(),
        _ => vec!["ends here".to_owned()],
    });
    if let (Some(x), Some(y)) = (a.get(first), b.get(first))
        && line(x) == line(y)
    {
        let offset = x.bytes.iter().zip(&y.bytes).take_while(|(p, q)| p == q).count();
        for (side, packet) in shown.iter_mut().zip([x, y]) {
            let some: Vec<_> =
                packet.bytes.iter().skip(offset).take(16).map(|x| format!("{x:02x}")).collect();
            side.insert(1, format!("  from byte {offset} on: {}", some.join(" ")));
        }
    }
    Ok(Some(Difference {
        file: file.to_owned(),
        at,
        place: format!("packet {}", first + 1),
        before: a[first.saturating_sub(CONTEXT)..first].iter().map(line).collect(),
        sides: shown,
        kind: Kind::Capture,
    }))
}

fn cut(line: &str) -> String {
    let shown: String = line.chars().take(LINE).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if shown.len() < line.len() { shown + " ..." } else { shown }
}
