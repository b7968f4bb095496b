use super::*;
use belljar_config::PathContext;
use belljar_results::{HostStatistics, ProcessStatistics};

const WORLD: &str = "\
general: { stop_time: 60 s }
network: { graph: { type: 1_gbit_switch } }
hosts:
  a: { network_node_id: 0, processes: [ { path: /bin/sh }, { path: /bin/sh }, { path: /bin/cat } ] }
  b: { network_node_id: 0, processes: [ { path: /bin/cat } ] }
events:
- { at: 10 s, crash: a, for: 2 s }
- { every: 1 s, between: [20 s, 20 s], start: cat, hosts: b }
properties:
";

/// Results of a run: files of hosts with their content, and records.
struct Run {
    _folder: tempfile::TempDir,
    folder: ResultsFolder,
    statistics: Statistics,
}

fn run(files: &[(&str, &str)]) -> Run {
    let outer = tempfile::tempdir().unwrap();
    let folder = ResultsFolder::create(&outer.path().join("data"), ["a", "b"].into_iter()).unwrap();
    for (name, content) in files {
        folder.write(name, content.as_bytes()).unwrap();
    }
    let process = |program: &str, pid| ProcessStatistics {
        program: program.to_owned(),
        pid: Some(pid),
        started: None,
        ended: None,
        shell_status: None,
        state: String::new(),
        as_expected: true,
        problem: None,
        waits_in: Vec::new(),
    };
    let host = |processes| HostStatistics { processes, ..HostStatistics::default() };
    let hosts = [
        ("a".to_owned(), host(vec![process("sh", 1000), process("sh", 1001), process("cat", 1002)])),
        ("b".to_owned(), host(vec![process("cat", 1000)])),
    ];
    let statistics =
        Statistics { hosts: hosts.into_iter().collect(), simulated_seconds: 60.0, ..Statistics::default() };
    Run { _folder: outer, folder, statistics }
}

impl Run {
    fn judge(&self, properties: &str) -> Vec<PropertyStatistics> {
        let text = format!("{WORLD}{properties}");
        let experiment = Experiment::parse_in("test.yaml", &text, &PathContext::default());
        let experiment = experiment.unwrap_or_else(|error| panic!("{error}\n{text}"));
        judge_properties(&experiment, &self.folder, &self.statistics).unwrap()
    }
    /// Reason, and file and line of the only property.
    #[track_caller]
    fn one(&self, property: &str) -> (Option<String>, Option<(String, String, u64)>) {
        let mut all = self.judge(&format!("- {{ name: x, {property} }}\n"));
        let one = all.remove(0);
        assert_eq!(one.holds, one.reason.is_none());
        (one.reason, one.host.zip(one.file).zip(one.line).map(|((host, file), line)| (host, file, line)))
    }
}

fn at(host: &str, file: &str, line: u64) -> Option<(String, String, u64)> {
    Some((host.into(), file.into(), line))
}

#[test]
fn outputs_are_those_of_the_selected_processes() {
    let run = run(&[
        ("hosts/a/sh.1000.stdout", "one\n"),
        ("hosts/a/sh.1001.stdout", "two\n"),
        ("hosts/a/sh.1001.stderr", "bad\n"),
        ("hosts/a/sh.other.stdout", "bad\n"),
        ("hosts/a/cat.1002.stdout", "cat\n"),
        ("hosts/a/bash.1009.stdout", "bad\n"),
        ("hosts/b/cat.1000.stdout", "cat\n"),
    ]);
    let count = |property: &str| run.judge(&format!("- {{ name: x, {property} }}\n"))[0].judged;
    assert_eq!(run.one("never: bad, files: stdout"), (None, None));
    assert_eq!(count("never: bad, files: stdout"), 4);
    assert_eq!(count("never: bad, files: stdout, process: sh"), 2);
    assert_eq!(count("never: bad, files: stdout, process: cat"), 2);
    assert_eq!(count("never: bad, files: stdout, process: 1, hosts: a"), 1);
    assert_eq!(run.one("always: one, files: stdout, process: 0, hosts: a"), (None, None));
    let (reason, line) = run.one("never: bad");
    assert_eq!((reason.as_deref(), line), (Some("a line matches 'bad'"), at("a", "sh.1001.stderr", 1)));
    // A number is that of a process, also after restarts.
    let times = "{\"process\":1,\"pid\":1000,\"time\":0}\n{\"process\":0,\"pid\":1001,\"time\":0}\n";
    run.folder.write("times/a.jsonl", times.as_bytes()).unwrap();
    assert_eq!(run.one("always: two, files: stdout, process: 0, hosts: a"), (None, None));
}

#[test]
fn a_file_that_is_not_there_is_no_pass() {
    let run = run(&[("hosts/a/log/1.txt", "x\n"), ("hosts/a/fs/var/log/app.log", "y\n")]);
    assert_eq!(run.one("never: z, files: 'log/*.txt'").0, None);
    assert_eq!(run.one("sometimes: y, files: /var/log/app.log").0, None);
    let missing = |property: &str| run.one(property).0.unwrap();
    assert_eq!(
        missing("never: z, files: 'log/*.txt', hosts: all-like*".replace("all-like*", "'*'").as_str()),
        "in doubt: host 'b' has no file 'log/*.txt'"
    );
    assert_eq!(missing("never: z, files: 'log/*.log'"), "in doubt: no host has file 'log/*.log'");
    assert_eq!(missing("never: z, files: ['log/*.txt', other]"), "in doubt: no host has file 'other'");
    assert_eq!(
        missing("never: z, files: stderr"),
        "in doubt: no host has standard error of a process that has started"
    );
    assert_eq!(missing("history: h.jsonl, model: register"), "in doubt: no host has file 'h.jsonl'");
    std::os::unix::fs::symlink("/dev/zero", run.folder.host("a").join("endless")).unwrap();
    assert_eq!(missing("never: z, files: endless"), "in doubt: no host has file 'endless'");
}

#[test]
fn lines_have_times_and_the_last_fault_opens_the_window() {
    let run = run(&[("hosts/b/out", "served\nserved\n")]);
    let times = |second: u64| {
        let ns = second * 1_000_000_000;
        let text = format!("{{\"file\":\"out\",\"writes\":[[0,7,5000000000],[7,14,{ns}]]}}\n");
        run.folder.write("times/b.jsonl", text.as_bytes()).unwrap();
    };
    let property = "eventually: { matches: served, within: 30 s, after: faults }, files: out";
    for second in [12, 42] {
        times(second);
        let all = run.judge(&format!("- {{ name: x, {property} }}\n"));
        assert!(all[0].holds && all[0].line == Some(2) && all[0].time == Some(second as f64), "{all:?}");
    }
    times(43);
    let late = "no line matches 'served' from 12.000000 s to 42.000000 s; the first one after it is out:2 at b, at 43.000000 s";
    assert_eq!(run.one(property), (Some(late.to_owned()), None));
    // The start of a program is no fault.
    assert_eq!(run.one("eventually: { matches: served, within: 1 s, after: 43 s }, files: out").0, None);
}

#[test]
fn histories_leave_their_report() {
    let write = "{\"process\": 0, \"type\": \"invoke\", \"f\": \"write\", \"value\": 1}\n\
                 {\"process\": 0, \"type\": \"ok\", \"f\": \"write\", \"value\": 1}\n";
    let read = "{\"process\": 0, \"type\": \"invoke\", \"f\": \"read\"}\n\
                {\"process\": 0, \"type\": \"ok\", \"f\": \"read\", \"value\": null}\n";
    let run = run(&[("hosts/a/h.jsonl", write), ("hosts/b/h.jsonl", read)]);
    for (host, text, first) in [("a", write, 1), ("b", read, 3)] {
        let middle = text.find('\n').unwrap() + 1;
        let record = format!(
            "{{\"file\":\"h.jsonl\",\"writes\":[[0,{middle},{first}],[{middle},{},{}]]}}\n",
            text.len(),
            first + 1
        );
        run.folder.write(&format!("times/{host}.jsonl"), record.as_bytes()).unwrap();
    }
    let found = run.one("history: h.jsonl, model: register");
    assert_eq!(found, (Some("register: not linearizable".into()), at("b", "h.jsonl", 2)));
    let text = |name: &str| fs::read_to_string(run.folder.path().join(name)).unwrap();
    assert!(
        text("properties/x.txt").contains("read -> null")
            && text("properties/x.jsonl").contains("\"process\":\"b:0\"")
    );
    assert_eq!(run.one("history: h.jsonl, model: register, hosts: a"), (None, None));
}
