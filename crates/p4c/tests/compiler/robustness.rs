//! Robustness: damaged sources are rejected or compiled, but never crash the compiler.

use belljar_base::{Seed, Stream};
use belljar_p4c::{Options, compile};

const PROGRAM: &str = include_str!("../programs/router.p4");

/// Tokens that change the meaning of the following text.
const PIECES: &[&str] = &[
    "(",
    ")",
    "{",
    "}",
    "<",
    ">",
    "[",
    "]",
    ";",
    ",",
    "@",
    "#",
    "\"",
    "/*",
    "0",
    "-1",
    "255w",
    "8s",
    "bit<",
    "int",
    "varbit<9>",
    "header",
    "apply",
    "transition",
    "select",
    "default",
    "hdr",
    ".",
    "..",
    "&&&",
    "?",
    ":",
    "++",
    "=",
    "exit",
    "return",
    "table",
    "action",
    "state start",
    "#define",
    "#if",
    "#else\n",
    "\n#endif\n",
    "for (",
    "in",
    "out",
    "_",
    "...",
    "{#}",
];

/// Sources of our own tests.
fn programs() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/constructs");
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "p4"));
    files.sort();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    std::iter::once(PROGRAM.to_string()).chain(texts).collect()
}

/// Mutates a program: pieces are removed, duplicated, swapped, inserted, or taken from another program.
fn damaged(program: &str, other: &str, random: &mut Stream) -> String {
    let split = |text: &str| {
        text.split_inclusive(|c: char| !c.is_alphanumeric()).map(str::to_string).collect::<Vec<_>>()
    };
    let (mut words, others) = (split(program), split(other));
    for _ in 0..=random.below(4) {
        let at = random.below(words.len() as u64) as usize;
        let other = random.below(words.len() as u64) as usize;
        match random.below(6) {
            0 if words.len() > 1 => drop(words.remove(at)),
            0 | 1 => words.insert(at, words[other].clone()),
            2 => words.swap(at, other),
            3 => words[at] = PIECES[random.below(PIECES.len() as u64) as usize].to_string(),
            4 => {
                let from = random.below(others.len() as u64) as usize;
                let to = others.len().min(from + 1 + random.below(12) as usize);
                words.splice(at..at, others[from..to].iter().cloned());
            }
            _ => words.truncate(at.max(1)),
        }
    }
    words.concat()
}

/// `BELLJAR_FUZZ_ROUNDS` sets the number of rounds; further rounds draw other programs.
#[test]
fn damaged_programs_never_panic() {
    let rounds = std::env::var("BELLJAR_FUZZ_ROUNDS").ok().map(|rounds| rounds.parse().expect("a number"));
    let (seed, rounds) = rounds.map_or((7, 600), |rounds: u64| (rounds, rounds));
    let mut random = Seed(seed).stream(&["p4", "damage"]);
    let programs = programs();
    // The programs include files from this folder.
    let name = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/constructs/damaged.p4");
    let mut compiled = 0;
    for _ in 0..rounds {
        let mut any = || &programs[random.below(programs.len() as u64) as usize];
        let (program, other) = (any(), any());
        let text = damaged(program, other, &mut random);
        let done = std::panic::catch_unwind(|| compile(name, &text, &Options::default()));
        match done.unwrap_or_else(|_| panic!("this ends the compiler:\n{text}")) {
            Ok(_) => compiled += 1,
            Err(error) => {
                assert!(!error.list.is_empty(), "refused without a message:\n{text}");
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(compiled > 0 && compiled < rounds, "{compiled} of {rounds} compiled");
}

#[test]
fn the_undamaged_program_compiles() {
    let compiled =
        compile("router.p4", PROGRAM, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(compiled.p4info.contains("name: \"Route.routes\""), "{}", compiled.p4info);
    let ingress = &compiled.json["pipelines"][0];
    assert_eq!(
        (&ingress["name"], &ingress["source_info"]["source_fragment"]),
        (&"ingress".into(), &"Route".into())
    );
    assert_eq!(compiled.json["deparsers"][0]["source_info"]["filename"], "router.p4");
}
