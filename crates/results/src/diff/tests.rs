use super::*;
use crate::names;
use crate::{CaptureWriter, Statistics, Writer};
use std::path::Path;

struct Folders {
    _dir: tempfile::TempDir,
    paths: [PathBuf; 2],
}

/// Two equal results folders with one host, `alice`.
fn folders() -> Folders {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["first", "second-run"].map(|name| dir.path().join(name));
    for path in &paths {
        let host = path.join("hosts/alice");
        fs::create_dir_all(&host).unwrap();
        fs::write(path.join(names::STATISTICS), Statistics::default().to_json()).unwrap();
        let config = format!("general:\n  seed: 1\n  data_directory: {}\n", path.display());
        fs::write(path.join(names::EXPERIMENT), config).unwrap();
        let own = host.canonicalize().unwrap();
        let calls = ["a", "b", "c"].map(|n| format!("1.00000000{} [7] write(1, \"x\\n\", 2) = 2\n", n.len()));
        fs::write(host.join("p.7.strace"), format!("{}0.5\n{}", own.display(), calls.concat())).unwrap();
        fs::write(host.join("p.7.stdout"), "x\nx\nx\n").unwrap();
        capture(&host.join("eth0.pcap"), &[1, 2, 3]);
    }
    Folders { _dir: dir, paths }
}

fn capture(path: &Path, firsts: &[u8]) {
    let mut writer =
        CaptureWriter::new(Writer::new(false).file(fs::File::create(path).unwrap()), 0, 99, false);
    for (n, first) in firsts.iter().enumerate() {
        writer.write(SimTime::from_secs(n as u64), &[0x60, *first]);
    }
    writer.finish().unwrap();
}

#[test]
fn equal_runs_are_equal_whatever_their_folders_are_called() {
    let folders = folders();
    let same = compare(&folders.paths[0], &folders.paths[1]).unwrap();
    assert!(same.is_same(), "{same}");
    assert_eq!(same.files, 5);
}

#[test]
fn the_first_in_simulated_time_is_told_first() {
    let folders = folders();
    let host = folders.paths[1].join("hosts/alice");
    fs::write(host.join("p.7.stdout"), "x\ny\nx\n").unwrap();
    capture(&host.join("eth0.pcap"), &[1, 2, 4]);
    let both = compare(&folders.paths[0], &folders.paths[1]).unwrap();
    assert_eq!(both.differences.len(), 2);
    let text = both.to_string();
    assert!(
        text.contains("first divergence at 1.000000001 s: host alice, process p.7, stdout, line 2"),
        "{text}"
    );
    assert!(text.contains("at 2.000000000 s: host alice, interface eth0, packet 3"), "{text}");
    assert!(text.contains("- x") && text.contains("+ y"), "{text}");
}

#[test]
fn packets_that_look_alike_are_shown_by_their_bytes() {
    let folders = folders();
    capture(&folders.paths[1].join("hosts/alice/eth0.pcap"), &[1, 9, 3]);
    let text = compare(&folders.paths[0], &folders.paths[1]).unwrap().to_string();
    assert!(text.contains("packet 2") && text.contains("from byte 1 on: 02"), "{text}");
    assert!(text.contains("from byte 1 on: 09"), "{text}");
}

#[test]
fn another_seed_is_said_before_everything_else() {
    let folders = folders();
    fs::write(folders.paths[1].join(names::EXPERIMENT), "general:\n  seed: 2\n").unwrap();
    fs::write(folders.paths[1].join("hosts/alice/more"), [0, 1]).unwrap();
    let text = compare(&folders.paths[0], &folders.paths[1]).unwrap().to_string();
    let asked = text.find("they were not asked to do the same").unwrap();
    assert!(asked < text.find("first divergence").unwrap(), "{text}");
    assert!(text.contains("more, only in the second"), "{text}");
}

#[test]
fn what_is_no_results_folder_is_said_with_what_to_do() {
    let folders = folders();
    let missing = folders.paths[0].join("none");
    let error = compare(&missing, &folders.paths[1]).unwrap_err().to_string();
    assert!(error.contains("there is no results folder") && error.contains("belljar run"), "{error}");
    let error = compare(&folders.paths[0].join("hosts"), &folders.paths[1]).unwrap_err().to_string();
    assert!(error.contains("has no sim-stats.json"), "{error}");
}
