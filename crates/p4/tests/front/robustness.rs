//! Damaged sources are refused, or compiled, but never crash the compiler.

use belljar_base::{Seed, Stream};
use belljar_p4::front::{self, Options};

const PROGRAM: &str = include_str!("../programs/router.p4");

/// Pieces that change what follows them.
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

/// One damaged copy: pieces removed, doubled, swapped or put in.
fn damaged(random: &mut Stream) -> String {
    let mut words =
        PROGRAM.split_inclusive(|c: char| !c.is_alphanumeric()).map(str::to_string).collect::<Vec<_>>();
    for _ in 0..=random.below(4) {
        let at = random.below(words.len() as u64) as usize;
        let other = random.below(words.len() as u64) as usize;
        match random.below(5) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, words[other].clone()),
            2 => words.swap(at, other),
            3 => words[at] = PIECES[random.below(PIECES.len() as u64) as usize].to_string(),
            _ => words.truncate(at.max(1)),
        }
    }
    words.concat()
}

#[test]
fn damaged_programs_never_panic() {
    let mut random = Seed(7).stream(&["p4", "damage"]);
    for _ in 0..400 {
        let text = damaged(&mut random);
        if let Err(error) = front::compile("damaged.p4", &text, &Options::default()) {
            assert!(!error.list.is_empty(), "refused without a message:\n{text}");
            assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn the_undamaged_program_compiles() {
    let compiled =
        front::compile("router.p4", PROGRAM, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(compiled.p4info.contains("name: \"Route.routes\""), "{}", compiled.p4info);
    assert_eq!(compiled.json["pipelines"][0]["name"], "ingress");
}
