//! Robustness: damaged sources are rejected or compiled, but never crash the compiler.

#![allow(clippy::disallowed_methods)] // Real time detects programs that hang.

use belljar_base::{Seed, SimTime, Stream};
use belljar_p4::{Program, Switch, SwitchConfig};
use belljar_p4c::{Options, compile};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit of a compilation, and of a run of four packets.
const LONGEST: Duration = Duration::from_secs(20);

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

/// Sources of our own tests, and of p4c's if `BELLJAR_P4C` names a checkout.
fn programs() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/constructs");
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "p4"));
    files.sort();
    if let Some(data) = std::env::var_os("BELLJAR_P4C") {
        files.extend(super::samples::samples(&PathBuf::from(data).join("testdata")));
    }
    let texts = files.iter().map(|file| String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned());
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

/// Seed and number of rounds: `BELLJAR_FUZZ_ROUNDS` sets both, so that further rounds draw other programs.
fn rounds(seed: u64, usual: u64) -> (u64, u64) {
    let rounds = std::env::var("BELLJAR_FUZZ_ROUNDS").ok().map(|rounds| rounds.parse().expect("a number"));
    rounds.map_or((seed, usual), |rounds: u64| (rounds, rounds))
}

#[test]
fn damaged_programs_never_panic() {
    let (seed, rounds) = rounds(7, 600);
    let mut random = Seed(seed).stream(&["p4", "damage"]);
    let programs = programs();
    // The programs include files from this folder.
    let name = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/constructs/damaged.p4");
    let mut compiled = 0;
    for _ in 0..rounds {
        let mut any = || &programs[random.below(programs.len() as u64) as usize];
        let (program, other) = (any(), any());
        let text = damaged(program, other, &mut random);
        let start = Instant::now();
        let done = std::panic::catch_unwind(|| compile(name, &text, &Options::default()));
        assert!(start.elapsed() < LONGEST, "this takes {:?}:\n{text}", start.elapsed());
        match done.unwrap_or_else(|_| panic!("this ends the compiler:\n{text}")) {
            Ok(program) => {
                compiled += 1;
                let loaded = Program::from_text(&program.json.to_string());
                assert!(loaded.is_ok(), "the switch refuses it: {:?}:\n{text}", loaded.err());
            }
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

/// Collects the scalars of a JSON value.
fn scalars(value: &Value, list: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| scalars(item, list)),
        Value::Object(map) => map.values().for_each(|item| scalars(item, list)),
        scalar => list.push(scalar.clone()),
    }
}

/// Mutates a JSON value: elements are removed and duplicated, scalars replaced by those in `others`.
fn twist(value: &mut Value, others: &[Value], chance: f64, random: &mut Stream) {
    match value {
        Value::Array(items) => {
            if !items.is_empty() && random.chance(chance) {
                let at = random.below(items.len() as u64) as usize;
                match random.below(3) {
                    0 => drop(items.remove(at)),
                    1 => items.push(items[at].clone()),
                    _ => items.reverse(),
                }
            }
            items.iter_mut().for_each(|item| twist(item, others, chance, random));
        }
        Value::Object(map) => {
            let key = map.keys().nth(random.below(map.len().max(1) as u64) as usize).cloned();
            if let Some(key) = key.filter(|_| random.chance(chance)) {
                map.remove(&key);
            }
            map.values_mut().for_each(|item| twist(item, others, chance, random));
        }
        scalar if random.chance(chance) => {
            *scalar = match random.below(8) {
                0 => json!(u64::MAX),
                1 => json!(-1),
                2 => json!("0xffffffffffffffffffffffffffffffffffffffff"),
                _ => others[random.below(others.len() as u64) as usize].clone(),
            };
        }
        _ => {}
    }
}

/// The JSON of our own programs, damaged: it is refused, or runs; neither takes long.
#[test]
fn damaged_json_is_refused_or_runs() {
    let (seed, rounds) = rounds(7, 300);
    let mut random = Seed(seed).stream(&["p4", "json"]);
    let name = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/constructs/damaged.p4");
    let compiled = programs().into_iter().map(|text| compile(name, &text, &Options::default()));
    let jsons = compiled.filter_map(|compiled| Some(compiled.ok()?.json)).collect::<Vec<_>>();
    let mut values = Vec::new();
    jsons.iter().for_each(|json| scalars(json, &mut values));
    let (mut ran, mut slowest) = (0, Duration::ZERO);
    for round in 0..rounds {
        let mut json = jsons[random.below(jsons.len() as u64) as usize].clone();
        twist(&mut json, &values, [0.0003, 0.001, 0.005][round as usize % 3], &mut random);
        let text = json.to_string();
        let start = Instant::now();
        let run = std::panic::AssertUnwindSafe(|| match Program::from_text(&text) {
            Ok(program) => {
                let mut switch = Switch::new(Arc::new(program), SwitchConfig::default());
                for packet in 0..4u64 {
                    let mut bytes = vec![0; 64];
                    random.fill(&mut bytes);
                    bytes[0] = packet as u8;
                    switch.receive(SimTime::from_nanos(packet * 1_000), packet as u16, bytes);
                    while switch.poll(SimTime::from_nanos(packet * 1_000)).is_some() {}
                }
                true
            }
            Err(error) => error.to_string().is_empty(),
        });
        let done = std::panic::catch_unwind(run).unwrap_or_else(|_| panic!("this ends the switch:\n{text}"));
        ran += u64::from(done);
        slowest = slowest.max(start.elapsed());
        assert!(start.elapsed() < LONGEST, "this takes {:?}:\n{text}", start.elapsed());
    }
    eprintln!("{ran} of {rounds} ran, the slowest for {slowest:?}");
    assert!(ran > 0 && ran < rounds, "{ran} of {rounds} ran");
}
