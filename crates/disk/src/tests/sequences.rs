//! Drawn states equal the references' states, for sequences of file operations.

use super::fixture::{FileSystem, Tree, steps};
use super::{any_reference, ordered_reference};
use crate::Profile;
use belljar_base::{Seed, Set};

/// Sequences; `any` leaves out renames of directories, for which [`super::promises`] has tests.
const SEQUENCES: [&str; 22] = [
    "create a; write a 0 3 x",
    "create a; write a 0 3 x; write a 3 2 y; sync; write a 1 1 z; write a 5 5 w",
    "create a; write a 0 20 x; fsync a; write a 4 8 y; write a 0 1 z",
    "create a; write a 0 2 o; sync; create t; write t 0 2 n; rename t a",
    "create a; write a 0 2 o; sync; create t; write t 0 2 n; fsync t; rename t a",
    "create a; write a 0 2 o; sync; create t; write t 0 2 n; fsync t; rename t a; fsync .",
    "create a; write a 0 12 o; sync; truncate a 0; write a 0 12 n; close a",
    "create a; write a 0 12 o; sync; truncate a 0; write a 0 12 n; close a; write a 0 1 p",
    "create a; write a 0 16 o; sync; truncate a 8; write a 0 1 x; write a 8 4 y; fdatasync a",
    "create a; write a 0 16 o; sync; truncate a 8; write a 0 1 x; write a 8 4 y",
    "create a; create b; fsync a; write a 0 1 x; write b 0 9 y; fsync a",
    "create a; write a 0 9 o; create b; sync; write a 0 9 n; write b 0 1 x; fdatasync a",
    "create a; sync; write a 8 8 x; write a 0 8 y; create b; fsync b",
    "create a; write a 0 1 x; sync; link a b; unlink a; create a; write a 0 1 y",
    "create a; write a 0 1 x; sync; rename a b; rename b c; fsync c",
    "mkdir d; create d/a; write d/a 0 1 x; fsync d/a; create b",
    "mkdir d; create d/a; write d/a 0 1 x; fsync d/a; fsync d; fsync .; rename d/a d/b; fsync d",
    "mkdir d; mkdir e; create d/a; sync; rename d/a e/a; fsync d; create d/b",
    "mkdir d; create d/a; write d/a 0 1 x; sync; rename d/a b; unlink d; create c; fdatasync c",
    "create a; truncate a 20; write a 2 2 x; write a 17 2 y; sync; truncate a 4; truncate a 12; write a 9 1 z",
    "create a; write a 0 8 x; create b; fsync b; write a 8 8 y; rename a b",
    "create a; write a 0 1 x; write a 1 1 y; write a 2 8 z; unlink a; create a; sync; unlink a",
];

fn drawn(profile: Profile, text: &str, count: u32) -> Set<Tree> {
    let mut system = FileSystem::new(profile);
    steps(text).iter().for_each(|step| system.step(step));
    let mut draw = Seed(1).stream(&["disk", text]);
    (0..count).map(|_| system.crash(&mut draw)).collect()
}

fn compare(profile: Profile, text: &str, reference: Set<Tree>) {
    let drawn = drawn(profile, text, 4_000 + 400 * reference.len() as u32);
    let impossible: Vec<_> = drawn.difference(&reference).take(3).collect();
    let missing: Vec<_> = reference.difference(&drawn).take(3).collect();
    assert!(
        impossible.is_empty() && missing.is_empty(),
        "{profile:?} {text}: {} drawn, {} expected; impossible {impossible:?}, never drawn {missing:?}",
        drawn.len(),
        reference.len()
    );
}

#[test]
fn ordered_states_are_those_that_a_machine_can_leave() {
    for text in SEQUENCES {
        compare(Profile::Ordered, text, ordered_reference::states(&steps(text)));
    }
}

#[test]
fn any_states_are_all_combinations_that_keep_what_is_synced() {
    for text in SEQUENCES {
        compare(Profile::Any, text, any_reference::states(&steps(text)));
    }
}
