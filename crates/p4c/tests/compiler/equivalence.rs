//! Equivalence to p4c: for each program of the conformance suite, our JSON and p4c's yield the same packets
//! for random packets and entries. Requires the suite and a checkout of p4c (`BELLJAR_P4C`).

use super::conformance::folders;
use belljar_base::{Seed, SimTime, Stream};
use belljar_p4::control::{ActionSpec, Entry, KeyMatch, MatchKind};
use belljar_p4::switch::{CloneSession, Replica};
use belljar_p4::{Program, Switch, SwitchConfig};
use belljar_p4c::{Options, compile};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Packets per program.
const PACKETS: usize = 1_000;
/// Packets between changes of the table entries.
const BATCH: usize = 20;

/// Programs whose results depend on reads that P4_16 leaves undefined, and the read.
const UNDEFINED: &[(&str, &str)] = &[
    ("gauntlet_short_circuit-bmv2", "do_function returns its out parameter, to which it gives no value"),
    ("gauntlet_uninitialized_bool_struct-bmv2", "dummy_action gives its out parameters no value"),
];

fn bytes(random: &mut Stream, width: u32) -> Vec<u8> {
    let mut value = vec![0; width.div_ceil(8) as usize];
    match random.below(4) {
        // Small values make equal draws likely.
        0 => {
            if let Some(last) = value.last_mut() {
                *last = random.below(4) as u8;
            }
        }
        _ => value.iter_mut().for_each(|byte| *byte = random.below(256) as u8),
    }
    if !width.is_multiple_of(8)
        && let Some(first) = value.first_mut()
    {
        *first &= (1 << (width % 8)) - 1;
    }
    value
}

/// Draws a value for a key: random, or cut out of a packet so that lookups hit.
fn key_value(random: &mut Stream, width: u32, packets: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut value = bytes(random, width);
    if random.below(3) > 0
        && width.is_multiple_of(8)
        && let Some((_, packet)) = packets.get(random.below(packets.len().max(1) as u64) as usize)
        && packet.len() >= value.len()
    {
        let at = random.below((packet.len() - value.len()) as u64 + 1) as usize;
        let length = value.len();
        value.copy_from_slice(&packet[at..at + length]);
    }
    value
}

fn key_match(random: &mut Stream, kind: MatchKind, width: u32, packets: &[(u16, Vec<u8>)]) -> KeyMatch {
    let value = key_value(random, width, packets);
    match kind {
        MatchKind::Exact | MatchKind::Valid => KeyMatch::Exact(value),
        MatchKind::Lpm => KeyMatch::Lpm { value, prefix: random.below(u64::from(width) + 1) as u32 },
        MatchKind::Ternary => KeyMatch::Ternary { value, mask: bytes(random, width) },
        MatchKind::Optional if random.below(2) == 0 => KeyMatch::Any,
        MatchKind::Optional => KeyMatch::Exact(value),
        MatchKind::Range => {
            let other = bytes(random, width);
            let (low, high) = if value <= other { (value, other) } else { (other, value) };
            KeyMatch::Range { low, high }
        }
    }
}

fn spec(random: &mut Stream, program: &Program, table: u32) -> Option<(String, Vec<Vec<u8>>)> {
    let actions = program.table_info(table).actions;
    let action = *actions.get(random.below(actions.len().max(1) as u64) as usize)?;
    let info = program.action_info(action);
    let arguments = info.parameters.iter().map(|parameter| bytes(random, parameter.width)).collect();
    Some((info.name, arguments))
}

/// Draws entries and adds them to both switches; returns the first difference in acceptance.
fn change_entries(
    random: &mut Stream,
    reference: &mut Switch,
    own: &mut Switch,
    packets: &[(u16, Vec<u8>)],
) -> Result<(), String> {
    let program = reference.program().clone();
    for table in 0..program.table_names().count() as u32 {
        let info = program.table_info(table);
        if info.constant || info.profile.is_some() || info.key.is_empty() || info.name.starts_with("tbl_") {
            continue;
        }
        let other = own.program().table(&info.name).map_err(|error| error.message)?;
        reference.clear_table(table).map_err(|error| error.message)?;
        own.clear_table(other).map_err(|error| error.message)?;
        for _ in 0..random.below(12) {
            let key = info.key.iter().map(|key| key_match(random, key.kind, key.width, packets));
            let key = key.collect::<Vec<_>>();
            let priority = if info.priorities { random.below(1_000) as i32 + 1 } else { 0 };
            let Some((name, arguments)) = spec(random, &program, table) else { continue };
            let entry = |program: &Program, table: u32| {
                let action = program.action_of(table, &name).map_err(|error| error.message)?;
                let action = ActionSpec::Direct { action, arguments: arguments.clone() };
                Ok::<Entry, String>(Entry { key: key.clone(), priority, action, idle_timeout: None })
            };
            let first = reference.add_entry(table, &entry(&program, table)?);
            let second = own.add_entry(other, &entry(own.program(), other)?);
            if first.is_ok() != second.is_ok() {
                return Err(format!(
                    "an entry of {} is accepted by one only: {first:?}, {second:?}",
                    info.name
                ));
            }
        }
    }
    Ok(())
}

/// Packets sent by the packet test of a program.
fn seeds(script: &str) -> Vec<(u16, Vec<u8>)> {
    let mut list = Vec::new();
    for line in script.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        if words.next().is_none_or(|word| word != "packet") {
            continue;
        }
        let Some(port) = words.next().and_then(|port| port.parse().ok()) else { continue };
        let digits = words.collect::<String>();
        let byte = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        list.push((port, (0..digits.len() / 2).filter_map(|at| byte(at * 2)).collect()));
    }
    list
}

/// Draws a packet: random, or a mutation of a test packet.
fn packet(random: &mut Stream, seeds: &[(u16, Vec<u8>)]) -> (u16, Vec<u8>) {
    let mut draw = |limit: usize| random.below(limit.max(1) as u64) as usize;
    if seeds.is_empty() || draw(5) == 0 {
        let length = draw(90);
        return (draw(8) as u16, (0..length).map(|_| draw(256) as u8).collect());
    }
    let (port, mut data) = seeds[draw(seeds.len())].clone();
    for _ in 0..draw(4) {
        if data.is_empty() {
            break;
        }
        let at = draw(data.len());
        match draw(5) {
            0 => data.truncate(at),
            1 => data[at] ^= 1 << draw(8),
            2 => data[at] = draw(4) as u8,
            3 => data.push(draw(256) as u8),
            _ => data[at] = draw(256) as u8,
        }
    }
    (port, data)
}

fn switch(program: Program) -> Switch {
    let config = SwitchConfig { name: "s1".to_owned(), ports: 512, ..SwitchConfig::default() };
    let mut switch = Switch::new(Arc::new(program), config);
    for session in [1, 5, 100] {
        let replicas = vec![Replica { port: 6, instance: 0 }];
        let made = switch.set_clone_session(session, CloneSession { replicas, ..CloneSession::default() });
        made.expect("the session is valid");
    }
    let replicas = [Replica { port: 2, instance: 1 }, Replica { port: 3, instance: 2 }];
    switch.create_multicast_group(1).expect("the group is valid");
    switch.set_multicast_group(1, &replicas).expect("the replicas are valid");
    switch
}

fn leaving(switch: &mut Switch, now: SimTime) -> Vec<(u16, Vec<u8>)> {
    let mut list = Vec::new();
    while let Some(leaving) = switch.poll(now) {
        list.push((leaving.port, leaving.packet));
    }
    while switch.notification().is_some() {}
    list
}

/// First difference between two programs, or the number of packets that left both.
fn compare(name: &str, reference: Program, own: Program, script: &str) -> Result<usize, String> {
    let mut random = Seed(2_026).stream(&["p4", "equivalence", name]);
    let seeds = seeds(script);
    let (mut reference, mut own) = (switch(reference), switch(own));
    let mut count = 0;
    for number in 0..PACKETS {
        if number % BATCH == 0 {
            change_entries(&mut random, &mut reference, &mut own, &seeds)?;
        }
        let (port, data) = packet(&mut random, &seeds);
        let now = SimTime::from_nanos(number as u64 * 1_000_000);
        reference.receive(now, port, data.clone());
        own.receive(now, port, data.clone());
        let (wanted, got) = (leaving(&mut reference, now), leaving(&mut own, now));
        if wanted != got {
            return Err(format!(
                "packet {number}, in by {port}: {data:02x?}\n  p4c {wanted:02x?}\n  own {got:02x?}"
            ));
        }
        count += got.len();
    }
    Ok(count)
}

#[test]
fn random_packets_leave_as_from_the_reference() {
    let Some((data, sources)) = folders() else {
        eprintln!("skipped: set BELLJAR_P4C to a checkout of p4c and BELLJAR_P4_CONFORMANCE to the suite");
        return;
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(data.join("v1model")).expect("the suite is readable") {
        let path = entry.expect("the suite is readable").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        names.extend(name.strip_suffix(".json").map(str::to_string));
    }
    names.sort();
    let (mut wrong, mut left) = (Vec::new(), 0);
    for name in &names {
        let source = sources.join(format!("{name}.p4"));
        let text = std::fs::read_to_string(&source).expect("the source is readable");
        let script = std::fs::read_to_string(source.with_extension("stf")).unwrap_or_default();
        let json = data.join("v1model").join(format!("{name}.json"));
        let reference = std::fs::read_to_string(&json).expect("the reference is readable");
        let reference = Program::from_text(&reference).expect("the reference is valid");
        let compiled = compile(&source.display().to_string(), &text, &Options::default());
        let json = compiled.unwrap_or_else(|error| panic!("{error}")).json.to_string();
        let own = Program::from_text(&json).expect("the program is valid");
        match compare(name, reference, own, &script) {
            Ok(count) => left += count,
            Err(difference) => match UNDEFINED.iter().find(|(other, _)| other == name) {
                Some((_, read)) => eprintln!("{name} differs, as it may: {read}"),
                None => wrong.push(format!("{name}: {difference}")),
            },
        }
    }
    eprintln!("{} programs, {left} packets left both", names.len());
    assert!(names.len() > 100 && left > PACKETS * names.len() / 4, "too little was compared");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Pairs of programs that should do the same, in the file that `BELLJAR_P4_PAIRS` names: a line has a source, its
/// JSON by p4c or another source, and optionally a packet test whose packets are mutated, separated by tabs.
#[test]
fn pairs_of_a_list_do_the_same() {
    let Some(list) = std::env::var_os("BELLJAR_P4_PAIRS") else { return };
    let list = std::fs::read_to_string(list).expect("the list is readable");
    let (mut wrong, mut left, mut pairs) = (Vec::new(), 0, 0);
    for line in list.lines() {
        let mut columns = line.split('\t').map(std::path::Path::new);
        let (Some(source), Some(reference)) = (columns.next(), columns.next()) else { continue };
        let script = columns.next().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        pairs += 1;
        let result = match (loaded(reference), loaded(source)) {
            (Ok(reference), Ok(own)) => {
                let name = source.display().to_string();
                let run = || compare(&name, reference, own, &script);
                catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("a panic".into()))
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        match result {
            Ok(count) => left += count,
            Err(difference) => wrong.push(format!("{line}: {difference}")),
        }
    }
    eprintln!("{} of {pairs} pairs do the same, {left} packets left both", pairs - wrong.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Program of a source (`.p4`) or of JSON.
fn loaded(path: &std::path::Path) -> Result<Program, String> {
    let text = String::from_utf8_lossy(&std::fs::read(path).map_err(|error| error.to_string())?).into_owned();
    let json = if path.extension().is_some_and(|end| end == "p4") {
        let compiled = compile(&path.display().to_string(), &text, &Options::default());
        compiled.map_err(|errors| errors.to_string())?.json.to_string()
    } else {
        text
    };
    Program::from_text(&json).map_err(|error| error.to_string())
}
