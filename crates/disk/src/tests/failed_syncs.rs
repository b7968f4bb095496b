//! Syncs that fail: their pages count as written, and are not on the disk until they are written and synced again.

use super::fixture::{FileSystem, UNITS, steps};
use crate::{Profile, Tearing};
use belljar_base::Seed;

/// Contents of `a` after crashes, each once, sorted.
fn found(profile: Profile, text: &str) -> Vec<String> {
    let mut system = FileSystem::new(profile);
    steps(text).iter().for_each(|step| system.step(step));
    let mut all: Vec<String> = (0..300)
        .map(|seed| {
            let state = system.disk.crash(Tearing::None, &mut Seed(seed).stream(&["test"]));
            let content = system.tree(&state).get("a").cloned().flatten().expect("a file");
            content.iter().map(|byte| if *byte == 0 { '.' } else { char::from(*byte) }).collect()
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn what_a_sync_lost_is_lost() {
    assert_eq!(UNITS, 8);
    let begin = "create a; write a 0 8 o; write a 8 4 o; sync;";
    let old = "oooooooooooo";
    for profile in [Profile::Ordered, Profile::Any] {
        let cases: &[(&str, &[&str])] = &[
            ("write a 0 12 n; fsync a", &["nnnnnnnnnnnn"]),
            ("write a 0 12 n; fail a", &[old]),
            ("write a 0 12 n; fail a; fsync a; sync", &[old]),
            // A page is written as a whole.
            ("write a 0 12 n; fail a; write a 9 1 m; fsync a", &["oooooooonmnn"]),
            ("write a 0 12 n; fail a; write a 9 1 m", &[old, "oooooooonmnn"]),
            ("write a 0 12 n; fail a; write a 9 1 m; fail a; fsync a", &[old]),
            // What was appended is a hole.
            ("write a 12 8 n; fail a; sync", &["oooooooooooo........"]),
            ("write a 12 8 n; fail a; write a 19 1 m; sync", &["oooooooooooo....nnnm"]),
            ("write a 0 12 n; fail a; truncate a 0; write a 0 2 t; sync", &["tt"]),
        ];
        for (more, expected) in cases {
            let mut expected: Vec<&str> = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(found(profile, &format!("{begin} {more}")), expected, "{profile:?}: {more}");
        }
    }
}
