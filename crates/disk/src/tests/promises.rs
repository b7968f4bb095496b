//! Promises over many draws: what is synced is never lost, memory is bounded, torn pages are parted once.

use super::fixture::{FileSystem, Memory, Step, patched, steps};
use crate::{Disk, InodeId, Operation, PAGE, Profile, SECTOR, State, Sync, Tearing};
use belljar_base::{Map, Seed, Stream};

/// Draws a step that is possible, and returns the path that it concerns.
fn draw_step(
    system: &FileSystem,
    files: &[String],
    directories: &[String],
    draw: &mut Stream,
) -> Option<Step> {
    let any = |among: &[String], draw: &mut Stream| {
        (!among.is_empty()).then(|| among[draw.below(among.len() as u64) as usize].clone())
    };
    let free = |draw: &mut Stream| {
        let name = ["a", "b", "c", "d", "e"][draw.below(5) as usize];
        let directory = any(directories, draw).filter(|_| draw.below(2) == 0);
        let path = directory.map_or(name.to_string(), |directory| format!("{directory}/{name}"));
        system.disk.lookup(&system.slot(&path)).is_none().then_some(path)
    };
    Some(match draw.below(14) {
        0..=2 => Step::Create(free(draw)?),
        3 => Step::Mkdir(free(draw)?),
        4..=6 => Step::Write {
            path: any(files, draw)?,
            start: draw.below(20) as usize,
            len: 1 + draw.below(12) as usize,
            byte: b'a' + draw.below(26) as u8,
        },
        7 => Step::Truncate(any(files, draw)?, draw.below(24) as usize),
        8 => Step::Rename(any(files, draw)?, free(draw)?),
        9 => {
            let (from, to) = (any(files, draw)?, any(files, draw)?);
            (system.inode(&from) != system.inode(&to)).then_some(Step::Rename(from, to))?
        }
        10 => Step::Link(any(files, draw)?, free(draw)?),
        11 => {
            let (from, to) = (any(directories, draw)?, free(draw)?);
            (!to.starts_with(&format!("{from}/"))).then_some(Step::Rename(from, to))?
        }
        12 => Step::Unlink(any(files, draw)?),
        _ => Step::Close(any(files, draw)?),
    })
}

/// Paths of files and directories that programs see.
fn paths(system: &FileSystem) -> (Vec<String>, Vec<String>) {
    let tree = system.tree(&State::default());
    let of = |is_file: bool| {
        let chosen = tree.iter().filter(|(_, content)| content.is_some() == is_file);
        chosen.map(|(path, _)| path.clone()).collect()
    };
    (of(true), of(false))
}

/// Synced files: their inodes, with the content while it is unchanged.
type Synced = Map<InodeId, Option<Vec<u8>>>;

/// Checks a state: each synced file that still has a name has one, with its content.
fn check(system: &FileSystem, synced: &Synced, state: &State, case: u64) {
    // This also asserts that no directory has two names or is in itself.
    let tree = system.tree(state);
    for (inode, content) in synced {
        let names = system.disk.entries().filter(|(_, named)| named == inode).count();
        if names == 0 {
            continue;
        }
        let mut marked = state.clone();
        let mark =
            crate::FileState { size: 99 * SECTOR, pages: Map::from([(0, vec![1; PAGE as usize].into())]) };
        marked.files.insert(*inode, mark);
        let found: Vec<String> = system
            .tree(&marked)
            .iter()
            .filter(|(_, content)| content.as_ref().is_some_and(|content| content.len() == 99))
            .map(|(path, _)| path.clone())
            .collect();
        assert!(!found.is_empty(), "case {case}: {inode:?} is lost: {tree:?}");
        if let Some(content) = content {
            assert_eq!(tree[&found[0]].as_ref(), Some(content), "case {case}: {inode:?} changed");
        }
    }
}

/// Runs random steps and checks `draws` states after each sync; returns the number of checked states.
fn run(profile: Profile, case: u64, draws: u32) -> u32 {
    let mut draw = Seed(case).stream(&["promises"]);
    let mut system = FileSystem::new(profile);
    let (mut synced, mut checked) = (Synced::new(), 0);
    for _ in 0..60 {
        let (files, directories) = paths(&system);
        let Some(step) = draw_step(&system, &files, &directories, &mut draw) else { continue };
        if let Step::Write { path, .. } | Step::Truncate(path, _) = &step {
            synced.entry(system.inode(path)).and_modify(|content| *content = None);
        }
        system.step(&step);
        let (files, _) = paths(&system);
        match draw.below(8) {
            0 => {
                system.step(&Step::Sync);
                let tree = system.tree(&State::default());
                synced = files.iter().map(|path| (system.inode(path), tree[path].clone())).collect();
            }
            1 if !files.is_empty() => {
                let path = &files[draw.below(files.len() as u64) as usize];
                let inode = system.inode(path);
                system.step(&Step::Fsync(path.clone()));
                // Under `Any` its name may not be there.
                if profile == Profile::Ordered || synced.contains_key(&inode) {
                    let content = system.tree(&State::default())[path].clone();
                    synced.insert(inode, content);
                }
            }
            _ => {}
        }
        for _ in 0..draws {
            check(&system, &synced, &system.disk.crash(Tearing::Byte, &mut draw), case);
            checked += 1;
        }
    }
    checked
}

#[test]
fn nothing_synced_is_lost_in_100_000_draws() {
    for profile in [Profile::Ordered, Profile::Any] {
        let checked: u32 = (0..60).map(|case| run(profile, case, 26)).sum();
        assert!(checked > 50_000, "{checked}");
    }
}

#[test]
fn a_synced_disk_has_one_state_and_no_memory() {
    for profile in [Profile::Ordered, Profile::Any] {
        let mut system = FileSystem::new(profile);
        steps("mkdir d; create d/a; write d/a 0 20 x; rename d/a b; create c; unlink c; sync")
            .iter()
            .for_each(|step| system.step(step));
        let state = system.disk.crash(Tearing::Byte, &mut Seed(1).stream(&[]));
        assert_eq!((state, system.disk.memory()), (State::default(), 0));
        // Of a file alone, its content.
        steps("write b 0 9 y; fdatasync b").iter().for_each(|step| system.step(step));
        assert_eq!(system.disk.crash(Tearing::Byte, &mut Seed(1).stream(&[])).files.len(), 0);
    }
}

#[test]
fn memory_is_bounded() {
    for profile in [Profile::Ordered, Profile::Any] {
        let mut disk = Disk::new(profile);
        disk.set_limit(1 << 20);
        let slot = |name: u64| (InodeId(0), name.to_string().into_bytes().into());
        let mut memory = Memory::default();
        for inode in 1..20_000 {
            disk.apply(
                Operation::Create { slot: slot(inode), inode: InodeId(inode), is_directory: false },
                &mut memory,
            );
            disk.apply(Operation::Write { inode: InodeId(inode), offset: 0, data: &[7; 900] }, &mut memory);
            assert!(disk.memory() <= 1 << 20, "{}", disk.memory());
        }
        // What is older than the limit is on disk.
        let state = disk.crash(Tearing::None, &mut Seed(1).stream(&[]));
        assert!(state.entries.len() < 1_000 && !state.files.contains_key(&InodeId(1)));
    }
}

#[test]
fn a_torn_page_is_parted_once_at_its_grain() {
    for (tearing, grain) in [(Tearing::Sector, SECTOR), (Tearing::Byte, 1), (Tearing::None, PAGE)] {
        let mut system = FileSystem::new(Profile::Ordered);
        steps("create a; write a 0 8 o; sync; write a 0 8 n").iter().for_each(|step| system.step(step));
        let inode = system.inode("a");
        let (mut draw, mut torn) = (Seed(3).stream(&[]), 0);
        for _ in 0..2_000 {
            let state = system.disk.crash(tearing, &mut draw);
            let content = patched(&system.memory.0[&inode], &state.files[&inode]);
            assert_eq!(content.len() as u64, PAGE);
            let bounds: Vec<usize> =
                (1..content.len()).filter(|at| content[at - 1] != content[*at]).collect();
            assert!(
                bounds.len() <= 1 && bounds.iter().all(|at| (*at as u64).is_multiple_of(grain)),
                "{bounds:?}"
            );
            torn += bounds.len();
        }
        assert_eq!(torn > 100, tearing != Tearing::None, "{tearing:?}: {torn}");
    }
}

#[test]
fn new_blocks_are_not_torn_under_ordered() {
    let mut system = FileSystem::new(Profile::Ordered);
    steps("create a; write a 0 8 n; fsync .").iter().for_each(|step| system.step(step));
    let inode = system.inode("a");
    let mut draw = Seed(4).stream(&[]);
    for _ in 0..1_000 {
        let state = system.disk.crash(Tearing::Byte, &mut draw);
        let content = patched(&system.memory.0[&inode], &state.files[&inode]);
        assert!(content.iter().all(|byte| *byte == b'n'));
    }
}

#[test]
fn attributes_are_in_one_of_their_versions() {
    for profile in [Profile::Ordered, Profile::Any] {
        let mut disk = Disk::new(profile);
        disk.declare((InodeId(0), b"a"[..].into()), InodeId(1), false, 0);
        for (old, new) in [(10, 11), (11, 12)] {
            disk.apply(Operation::SetAttributes { inode: InodeId(1), old, new }, &mut Memory::default());
        }
        let mut draw = Seed(5).stream(&[]);
        let drawn = |disk: &Disk, draw: &mut Stream| {
            let mut seen: Vec<u64> =
                (0..100).flat_map(|_| disk.crash(Tearing::None, draw).attributes.into_values()).collect();
            seen.sort_unstable();
            seen.dedup();
            seen
        };
        assert_eq!(drawn(&disk, &mut draw), [10, 11, 12]);
        disk.sync(Sync::Data(InodeId(1)));
        assert_eq!(drawn(&disk, &mut draw), [10, 11, 12]);
        disk.sync(Sync::Inode(InodeId(1)));
        assert_eq!(drawn(&disk, &mut draw), Vec::<u64>::new());
    }
}

#[test]
fn an_exchange_swaps_both_entries() {
    for profile in [Profile::Ordered, Profile::Any] {
        let mut system = FileSystem::new(profile);
        steps("create a; write a 0 1 x; mkdir d; create d/b; sync").iter().for_each(|step| system.step(step));
        let slots = [system.slot("a"), system.slot("d")];
        system.disk.apply(Operation::Exchange { slots }, &mut system.memory);
        let mut draw = Seed(6).stream(&[]);
        let mut seen: Vec<Vec<String>> =
            (0..200).map(|_| system.crash(&mut draw).keys().cloned().collect()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, [["a", "a/b", "d"], ["a", "d", "d/b"]]);
    }
}
