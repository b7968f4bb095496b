//! Histories: files of one or several clients, merged by the simulated times of their lines and judged by a model.

use crate::{HistoryClaim, HistoryModel, Location, Verdict, WriteTimes};
use belljar_base::SimTime;
use belljar_histories::{
    ABSENCE, Finding, History, HistoryError, Limits, Report, Steps, Verdict as Judgement, check, check_steps,
};
use serde_json::{Value, json};

/// File of a history.
pub struct HistoryFile {
    /// Host that wrote it.
    pub host: String,
    /// File, relative to the host's folder.
    pub file: String,
    /// Content.
    pub content: Vec<u8>,
    /// Times of its bytes, if they are known.
    pub times: Option<WriteTimes>,
}

/// Verdict on a history, with the texts that explain it.
pub struct HistoryVerdict {
    /// Verdict.
    pub verdict: Verdict,
    /// History that was judged, if it is that of several files. The explanation has its lines.
    pub merged: Option<Vec<u8>>,
    /// Report of the checker, unless the history was refused.
    pub explanation: Option<String>,
}

/// Line of a file.
struct Line<'a> {
    /// Index of the file.
    of: usize,
    /// Number in it, from 1.
    number: usize,
    text: &'a [u8],
    time: Option<SimTime>,
}

/// Judges the history that one or several files make up. Several are merged by the times of their lines, which are those of the
/// simulation: clocks of clients may differ. Of lines of the same time, invocations come first, which is the order that excludes
/// least. Processes of several files are different clients, and get the names `host:process`. `program` is the step function of the
/// program at a path.
pub fn judge_history(
    claim: &HistoryClaim,
    files: &[HistoryFile],
    program: impl FnOnce(&str) -> Box<dyn Steps>,
) -> HistoryVerdict {
    let lines: Vec<Vec<Line>> = files.iter().enumerate().map(|(of, file)| lines_of(of, file)).collect();
    let refused = |failure: String, at: Option<Location>, merged| {
        let verdict = Verdict { failure: Some(failure), at, ..Verdict::default() };
        HistoryVerdict { verdict, merged, explanation: None }
    };
    let location = |line: &Line| Location {
        host: files[line.of].host.clone(),
        file: files[line.of].file.clone(),
        line: line.number,
        time: line.time,
    };
    let (ordered, merged) = match files {
        [one] => (lines.into_iter().flatten().collect(), Ok(one.content.clone())),
        _ => {
            if let Some(untimed) = lines.iter().flatten().find(|line| line.time.is_none()) {
                let why = format!(
                    "no simulated time is known of this line, and an order of {} files needs it",
                    files.len()
                );
                return refused(why, Some(location(untimed)), None);
            }
            let ordered = merge(lines);
            let merged = merged_text(files, &ordered);
            (ordered, merged)
        }
    };
    let locate = |number: usize| number.checked_sub(1).and_then(|index| ordered.get(index)).map(&location);
    let content = match merged {
        Ok(content) => content,
        Err((line, problem)) => return refused(problem, locate(line), None),
    };
    let merged = || (files.len() > 1).then(|| content.clone());
    let refuse = |error: HistoryError| {
        // An error with a file is about the model.
        let file = error.file.map_or(String::new(), |file| format!("{}: ", file.display()));
        refused(format!("{file}{}; {}", error.problem, error.remedy), locate(error.line), merged())
    };
    let history = match History::read(&content[..]) {
        Ok(history) if history.operations.is_empty() => {
            return refused("the history has no operations".to_owned(), None, merged());
        }
        Ok(history) => history,
        Err(error) => return refuse(error),
    };
    let limits = Limits::default();
    let report = match &claim.model {
        HistoryModel::Named(model) => check(&history, model, claim.consistency.unwrap_or_default(), limits),
        HistoryModel::Program(path) => {
            let name = path.rsplit('/').next().unwrap_or(path);
            check_steps(&history, name, program(path), limits)
        }
    };
    let report = match report {
        Ok(report) => report,
        Err(error) => return refuse(error),
    };
    let failure = failure(&report);
    let decisive = failure.as_ref().and_then(|_| report.findings.first()).and_then(decisive_line);
    let at = decisive.and_then(locate);
    let text = decisive
        .and_then(|line| ordered.get(line - 1))
        .map(|line| String::from_utf8_lossy(line.text).into_owned());
    let verdict = Verdict { failure, at, text, judged: history.operations.len() as u64 };
    HistoryVerdict { verdict, merged: merged(), explanation: Some(format!("{report}\n")) }
}

/// Lines of a file with their times.
fn lines_of(of: usize, file: &HistoryFile) -> Vec<Line<'_>> {
    let (mut start, mut lines) = (0, Vec::new());
    for (index, whole) in file.content.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let end = start + whole.len() as u64;
        let time = file.times.as_ref().and_then(|times| times.complete(start, end));
        let text = whole.strip_suffix(b"\n").unwrap_or(whole);
        lines.push(Line { of, number: index + 1, text, time });
        start = end;
    }
    lines
}

/// Lines of all files in the order of their times; at the same time invocations first, then by file.
fn merge(files: Vec<Vec<Line<'_>>>) -> Vec<Line<'_>> {
    let mut rest: Vec<_> = files.into_iter().map(|lines| lines.into_iter().peekable()).collect();
    let mut merged = Vec::new();
    loop {
        let heads = rest.iter_mut().enumerate();
        let heads =
            heads.filter_map(|(of, lines)| lines.peek().map(|line| (line.time, !is_invocation(line), of)));
        let Some((_, _, of)) = heads.min() else { return merged };
        merged.extend(rest[of].next());
    }
}

fn is_invocation(line: &Line<'_>) -> bool {
    let parsed = serde_json::from_slice::<Value>(line.text);
    parsed.is_ok_and(|event| event.get("type").and_then(Value::as_str) == Some("invoke"))
}

/// Merged history: each event with the time of its line, and the name of its process with that of its host. The error is that of a
/// line, by its number in the merged history.
fn merged_text(files: &[HistoryFile], lines: &[Line<'_>]) -> Result<Vec<u8>, (usize, String)> {
    let mut text = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if line.text.trim_ascii().is_empty() {
            text.push(b'\n');
            continue;
        }
        let parsed: Value = serde_json::from_slice(line.text).map_err(|error| {
            (
                index + 1,
                format!("not valid JSON: {}", error.to_string().replace(" at line 1 column ", " at column ")),
            )
        })?;
        let Value::Object(mut event) = parsed else { return Err((index + 1, "not an object".to_owned())) };
        let HistoryFile { host, file, .. } = &files[line.of];
        let is_alone = files.iter().filter(|other| other.host == *host).count() == 1;
        let owner = if is_alone { host.clone() } else { format!("{host}:{file}") };
        match event.get("process") {
            Some(Value::String(name)) if name == "nemesis" => {}
            Some(Value::String(name)) => {
                drop(event.insert("process".to_owned(), json!(format!("{owner}:{name}"))))
            }
            Some(Value::Number(number)) => {
                event.insert("process".to_owned(), json!(format!("{owner}:{number}")));
            }
            // The reader refuses it.
            _ => {}
        }
        let time = line.time.map_or(0, SimTime::as_nanos);
        event.insert("time".to_owned(), json!(time));
        text.extend_from_slice(Value::Object(event).to_string().as_bytes());
        text.push(b'\n');
    }
    Ok(text)
}

/// Reason for which a report is not a pass.
fn failure(report: &Report) -> Option<String> {
    let key = |finding: &Finding| finding.key.as_ref().map_or(String::new(), |key| format!(", key {key}"));
    match report.verdict {
        Judgement::Valid => None,
        Judgement::Unknown => Some(format!("not decided: {}", report.doubts.join("; "))),
        Judgement::Invalid => Some(match report.findings.first() {
            Some(finding) => {
                let more = match report.findings.len() {
                    1 => String::new(),
                    count => format!(" ({} more)", count - 1),
                };
                let first = finding.sections.first().filter(|section| section.name == ABSENCE);
                let first = first.and_then(|section| section.steps.first());
                let first = first.map_or(String::new(), |step| format!(": {}", step.text));
                format!("{}: {}{}{first}{more}", report.model, finding.kind, key(finding))
            }
            None => format!("{}: not {}", report.model, report.consistency),
        }),
    }
}

/// Line of the operation that cannot be: the completion that no order continues with, or the last line of the first part of an
/// explanation. None decides that something has not happened.
fn decisive_line(finding: &Finding) -> Option<usize> {
    let refused = finding.sections.iter().find(|section| section.name == "refused");
    let section = refused.or(finding.sections.first()).filter(|section| section.name != ABSENCE)?;
    section.steps.iter().flat_map(|step| &step.lines).copied().max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(model: &str) -> HistoryClaim {
        HistoryClaim { model: HistoryModel::Named(model.to_owned()), consistency: None }
    }

    fn judge_history(claim: &HistoryClaim, files: &[HistoryFile]) -> HistoryVerdict {
        super::judge_history(claim, files, |path| panic!("{path} is no model here"))
    }

    /// File whose lines are written at these times, in milliseconds.
    fn file(host: &str, lines: &[(u64, &str)]) -> HistoryFile {
        let (mut content, mut times) = (Vec::new(), WriteTimes::default());
        for (at, line) in lines {
            let start = content.len() as u64;
            content.extend_from_slice(line.as_bytes());
            content.push(b'\n');
            times.write(start, content.len() as u64, SimTime::from_nanos(at * 1_000_000));
        }
        HistoryFile { host: host.to_owned(), file: "h.jsonl".to_owned(), content, times: Some(times) }
    }

    const WRITE: [&str; 2] = [
        r#"{"process": 0, "type": "invoke", "f": "write", "value": 1}"#,
        r#"{"process": 0, "type": "ok", "f": "write", "value": 1}"#,
    ];
    const READ: [&str; 2] = [
        r#"{"process": 0, "time": 7, "type": "invoke", "f": "read"}"#,
        r#"{"process": 0, "time": 5, "type": "ok", "f": "read", "value": null}"#,
    ];

    #[test]
    fn histories_of_several_hosts_are_merged_by_simulated_time() {
        let writer = file("w", &[(10, WRITE[0]), (20, WRITE[1])]);
        // The clients' own times go back, and both call themselves 0: neither matters.
        let stale = file("r", &[(30, READ[0]), (40, READ[1])]);
        let done = judge_history(&claim("register"), &[stale, writer]);
        assert_eq!(done.verdict.failure.as_deref(), Some("register: not linearizable"));
        let at = Location {
            host: "r".into(),
            file: "h.jsonl".into(),
            line: 2,
            time: Some(SimTime::from_nanos(40_000_000)),
        };
        assert_eq!(done.verdict.at, Some(at));
        assert_eq!(done.verdict.text.as_deref(), Some(READ[1]));
        assert!(done.explanation.unwrap().contains("lines 3-4: process \"r:0\", read -> null"));
        let merged = String::from_utf8(done.merged.unwrap()).unwrap();
        assert!(
            merged.starts_with(r#"{"process":"w:0","type":"invoke","f":"write","value":1,"time":10000000}"#),
            "{merged}"
        );

        // Begun before the write is over, the read may be stale, at the same instant too.
        for begin in [15, 20] {
            let writer = file("w", &[(10, WRITE[0]), (20, WRITE[1])]);
            let fresh = file("r", &[(begin, READ[0]), (40, READ[1])]);
            let done = judge_history(&claim("register"), &[writer, fresh]);
            assert_eq!(done.verdict, Verdict { judged: 2, ..Verdict::default() });
        }
    }

    #[test]
    fn one_file_is_judged_as_it_is() {
        let done = judge_history(&claim("register"), &[file("a", &[(1, WRITE[0]), (2, WRITE[1])])]);
        assert_eq!((done.verdict.failure, done.merged), (None, None));
        let mut untimed =
            file("a", &[(1, WRITE[0]), (2, WRITE[1]), (3, READ[0].replace("\"time\": 7, ", "").as_str())]);
        untimed.times = None;
        assert_eq!(judge_history(&claim("register"), &[untimed]).verdict.failure, None);
    }

    #[test]
    fn no_line_decides_that_something_is_missing() {
        let [invoke, ok] =
            ["invoke", "ok"].map(|kind| WRITE[0].replace("invoke", kind).replace("write", "add"));
        let read = [
            READ[0].replace("\"time\": 7, ", ""),
            READ[1].replace("\"time\": 5, ", "").replace("null", "[]"),
        ];
        let history = file("a", &[(1, &invoke), (2, &ok), (3, &read[0]), (4, &read[1])]);
        let verdict = judge_history(&claim("g-set"), &[history]).verdict;
        let failure = "g-set: lost element: 1, known from lines 1-2, is missing in the read of lines 3-4";
        assert_eq!((verdict.failure.as_deref(), verdict.at), (Some(failure), None));
    }

    #[test]
    fn what_cannot_be_judged_fails_with_its_line() {
        let failed = |model: &str, files: &[HistoryFile]| {
            let verdict = judge_history(&claim(model), files).verdict;
            let at = verdict.at.map(|at| format!("{}:{}", at.host, at.line));
            (verdict.failure.unwrap(), at)
        };
        let (why, at) = failed("register", &[file("a", &[(1, WRITE[0]), (2, "{]")])]);
        assert!(why.starts_with("not valid JSON") && at.as_deref() == Some("a:2"), "{why} {at:?}");
        let (why, at) =
            failed("register", &[file("a", &[(1, WRITE[0])]), file("b", &[(2, READ[0]), (3, "nothing")])]);
        assert!(why.starts_with("not valid JSON") && at.as_deref() == Some("b:2"), "{why} {at:?}");
        let (why, at) = failed("queue", &[file("a", &[(1, WRITE[0]), (2, WRITE[1])])]);
        assert!(why.contains("\"f\" is \"write\"") && at.as_deref() == Some("a:1"), "{why} {at:?}");
        assert_eq!(failed("register", &[file("a", &[])]), ("the history has no operations".into(), None));
        let untimed = HistoryFile { times: None, ..file("b", &[(1, READ[0])]) };
        let (why, at) = failed("register", &[file("a", &[(1, WRITE[0])]), untimed]);
        assert!(
            why.starts_with("no simulated time is known of this line") && at.as_deref() == Some("b:1"),
            "{why}"
        );
    }
}
