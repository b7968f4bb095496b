//! Section `explore`.

use super::events_values::{World, host_set, probability, range, set_disk};
use super::{cpu, events};
use crate::error::{Problem, Span};
use crate::event_kinds::{
    UPGRADES, call_results, check_process_name, cpu_period, cpu_share, dns_answer, dns_names,
};
use crate::events::{Action, CrashFiles, HostSet, ResetEnds};
use crate::exploration::{DiskFaultKind, Exploration, FaultKind};
use crate::scheduling::Scheduling;
use crate::yaml::{Entry, Node, Section, Value, section};
use belljar_base::{HostId, SimDuration, SimTime};
use belljar_net::dns::DnsAnswer;
use belljar_net::suggest::nearest;
use belljar_net::units::format_duration;

const KEYS: &[&str] = &["hosts", "between", "faults", "for", "scheduling", "kinds"];
/// Largest number of faults in a run.
const MOST_FAULTS: u64 = 1_000;

pub(super) fn read(node: &Node, world: &World, stop: SimTime) -> Result<Exploration, Problem> {
    let s = Section::new(node, "section 'explore'", KEYS, true)?;
    let mut explore = Exploration::of(world.hosts, stop);
    let set = &mut explore;
    s.read("hosts", |node, key| hosts(node, key, world))?.into_iter().for_each(|hosts| set.hosts = hosts);
    s.read("between", |node, key| range(node, key, section::time))?.inspect(|times| set.between = *times);
    s.read("faults", |node, key| range(node, key, |node, key| section::whole(node, key, MOST_FAULTS)))?
        .inspect(|(least, most)| set.faults = (*least as u32, *most as u32));
    s.read("for", |node, key| range(node, key, section::duration))?.inspect(|times| set.lasting = *times);
    s.read("scheduling", orders)?.into_iter().for_each(|orders| set.scheduling = orders);
    if let Some(node) = s.get("kinds") {
        set.kinds = kinds(node, world)?;
    }
    let (from, until) = explore.between;
    let at = |key: &str| s.get(key).unwrap_or(node);
    let shown = |time: SimTime| format_duration(time.since(SimTime::ZERO));
    if until > stop {
        return Err(at("between")
            .problem(format!("the simulation stops at {}, before the latest end of a fault", shown(stop)))
            .help(format!("write at most {}, and leave time to recover", shown(stop))));
    }
    let (shortest, longest) = explore.lasting;
    if from + shortest > until {
        return Err(at("between").problem(format!(
            "no fault of {} fits between {} and {}",
            format_duration(shortest),
            shown(from),
            shown(until)
        )));
    }
    if shortest == SimDuration::ZERO || longest == SimDuration::ZERO {
        return Err(at("for").problem("a fault without duration is none").help("write for: [100 ms, 10 s]"));
    }
    if explore.faults.1 == 0 {
        return Err(at("faults").problem("no fault is drawn").help("write faults: [1, 5]"));
    }
    if explore.hosts.is_empty() {
        return Err(at("hosts").problem("no host runs a program, so none can fail"));
    }
    Ok(explore)
}

/// Named hosts, which all run programs.
fn hosts(node: &Node, key: &str, world: &World) -> Result<Vec<HostId>, Problem> {
    let hosts = match host_set(node, key, world)? {
        HostSet::All => (0..world.hosts.len() as u32).map(HostId).collect(),
        HostSet::Some(hosts) => hosts,
        HostSet::OneOf(_) => {
            return Err(node
                .problem("hosts are drawn from all that are named here")
                .help("leave 'one_of' out, as in hosts: [alice, bob]"));
        }
    };
    match hosts.iter().find(|id| world.hosts[id.index()].programs().is_empty()) {
        Some(id) => {
            let name = &world.hosts[id.index()].name;
            Err(node.problem(format!("host '{name}' runs no program that a fault could hit")))
        }
        None => Ok(hosts),
    }
}

/// One order of threads, or several.
fn orders(node: &Node, key: &str) -> Result<Vec<Scheduling>, Problem> {
    let order = |node: &Node, key: &str| section::choice(node, key, Scheduling::NAMES);
    section::one_or_several(node, key, "write scheduling: [fifo, random]", order)
}

/// A list of names, or a mapping from names to bounds.
fn kinds(node: &Node, world: &World) -> Result<Vec<FaultKind>, Problem> {
    let mut kinds = Vec::new();
    match &node.value {
        Value::Sequence(items) => {
            for item in items {
                kinds.push(unbounded(item)?);
            }
        }
        Value::Mapping(entries) => {
            for entry in entries {
                kinds.push(bounded(entry, world)?);
            }
        }
        Value::Scalar(_) => kinds.push(unbounded(node)?),
    }
    kinds.sort_by_key(FaultKind::name);
    kinds.dedup_by_key(|kind| kind.name());
    match kinds.is_empty() {
        true => Err(node.problem("'kinds' names no kind of fault").help("write kinds: [crash, partition]")),
        false => Ok(kinds),
    }
}

/// A kind that is named without bounds.
fn unbounded(node: &Node) -> Result<FaultKind, Problem> {
    let kind = named(node.span, section::string(node, "kinds")?)?;
    with_bounds(&kind).map_err(|message| node.problem(message).help(UPGRADES_HELP))?;
    Ok(kind)
}

/// Example of the bound that has no default.
const UPGRADES_EXAMPLE: &str = "upgrades: [{ upgrade: server, to: server-2, hosts: node* }]";
/// The same in the section.
const UPGRADES_HELP: &str =
    "write kinds: { upgrade: { upgrades: [{ upgrade: server, to: server-2, hosts: node* }] } }";

/// Fails for a kind that lacks a bound which has no default.
fn with_bounds(kind: &FaultKind) -> Result<(), &'static str> {
    match kind {
        FaultKind::Upgrade { upgrades } if upgrades.is_empty() => {
            Err("kind 'upgrade' needs the programs which replace others")
        }
        _ => Ok(()),
    }
}

/// The kind with a name, with its default bounds.
fn named(span: Span, name: &str) -> Result<FaultKind, Problem> {
    let all = FaultKind::all();
    if let Some(kind) = all.iter().find(|kind| kind.name() == name) {
        return Ok(kind.clone());
    }
    let names: Vec<&str> = all.iter().map(FaultKind::name).collect();
    let help = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("the kinds are {}", names.join(", ")),
    };
    Err(Problem::at(span, format!("'{name}' is no kind of fault")).help(help))
}

/// One fault of disks, or several.
fn disk_faults(node: &Node, key: &str) -> Result<Vec<DiskFaultKind>, Problem> {
    let fault = |node: &Node, key: &str| section::choice(node, key, DiskFaultKind::NAMES);
    let mut faults = section::one_or_several(node, key, "write faults: [sync_time, sync_errors]", fault)?;
    faults.sort();
    faults.dedup();
    Ok(faults)
}

/// One set of ends that notice a reset, or several.
fn reset_ends(node: &Node, key: &str) -> Result<Vec<ResetEnds>, Problem> {
    let ends = |node: &Node, key: &str| section::choice(node, key, ResetEnds::NAMES);
    section::one_or_several(node, key, "write ends: [both, first, second]", ends)
}

/// One event that replaces programs, or several, each without its time.
fn upgrades(node: &Node, key: &str, world: &World) -> Result<Vec<Action>, Problem> {
    let action = |node: &Node, _: &str| events::undated(node, UPGRADES, world);
    let all = section::one_or_several(node, key, UPGRADES_HELP, action)?;
    match (1..all.len()).any(|n| all[..n].contains(&all[n])) {
        true => Err(node.problem("one of these upgrades is there twice").help("leave one out")),
        false => Ok(all),
    }
}

/// One answer of the name server, or several.
fn dns_answers(node: &Node, key: &str) -> Result<Vec<DnsAnswer>, Problem> {
    section::one_or_several(node, key, "write answers: [SERVFAIL, timeout]", dns_answer)
}

/// One name of processes, or several.
fn process_names(node: &Node, key: &str) -> Result<Vec<String>, Problem> {
    let name = |node: &Node, key: &str| {
        let name = section::string(node, key)?;
        check_process_name(node, name, "names: [redis-server]").map(|()| name.to_owned())
    };
    section::one_or_several(node, key, "leave it out for the host's own processes", name)
}

/// A kind with bounds of its own.
fn bounded(entry: &Entry, world: &World) -> Result<FaultKind, Problem> {
    let kind = named(entry.key_span, &entry.key)?;
    if entry.value.is_null() {
        with_bounds(&kind).map_err(|message| Problem::at(entry.key_span, message).help(UPGRADES_HELP))?;
        return Ok(kind);
    }
    let place = format!("kind '{}'", entry.key);
    let keys: &[&str] = match kind {
        FaultKind::Calls { .. } => &["results", "share"],
        FaultKind::Clock { .. } => &["step"],
        FaultKind::Crash { .. } => &["files", "disk"],
        FaultKind::Disk { .. } => &["faults", "sync_time"],
        FaultKind::Dns { .. } => &["names", "answers"],
        FaultKind::Cpu { .. } => &["share", "period"],
        FaultKind::Kill { .. } | FaultKind::PauseProcess { .. } => &["names"],
        FaultKind::Lossy { .. } => &["packet_loss"],
        FaultKind::Memory { .. } => &["limit"],
        FaultKind::Slow { .. } => &["latency"],
        FaultKind::Reset { .. } => &["ends"],
        FaultKind::Upgrade { .. } => &["upgrades"],
        FaultKind::OneWay | FaultKind::Partition | FaultKind::Pause | FaultKind::Stop => &[],
    };
    let s = Section::new(&entry.value, &place, keys, false)?;
    let latency = s.read("latency", |node, key| range(node, key, section::duration))?;
    let loss = s.read("packet_loss", |node, key| range(node, key, probability))?;
    let step = s.read("step", section::duration)?;
    let files = s.read("files", files)?;
    let results = s.read("results", call_results)?;
    let is_cpu = matches!(kind, FaultKind::Cpu { .. });
    let one_share = if is_cpu { cpu_share } else { probability };
    let share = s.read("share", |node, key| range(node, key, one_share))?;
    let period = s.read("period", |node, key| range(node, key, cpu_period))?;
    let is_dns = matches!(kind, FaultKind::Dns { .. });
    let names = s.read("names", if is_dns { dns_names } else { process_names })?;
    let answers = s.read("answers", dns_answers)?;
    let limit = s.read("limit", |node, key| range(node, key, cpu::memory))?;
    let disk_faults = s.read("faults", disk_faults)?;
    let ends = s.read("ends", reset_ends)?;
    let sync_time = s.read("sync_time", |node, key| range(node, key, section::duration))?;
    if let Some(node) = s.get("sync_time").filter(|_| sync_time.is_some_and(|(least, _)| least.is_zero())) {
        return Err(node.problem("a sync that takes no time is no fault"));
    }
    if let Some(node) = s.get("share").filter(|_| share.is_some_and(|(least, _)| least == 0.0)) {
        return Err(node.problem("'share' is 0: no call would fail"));
    }
    Ok(match kind {
        FaultKind::Calls { results: default, share: usual } => {
            FaultKind::Calls { results: results.unwrap_or(default), share: share.unwrap_or(usual) }
        }
        FaultKind::Disk { faults: default, sync_time: usual } => {
            FaultKind::Disk { faults: disk_faults.unwrap_or(default), sync_time: sync_time.unwrap_or(usual) }
        }
        FaultKind::Clock { step: default } => FaultKind::Clock { step: step.unwrap_or(default) },
        FaultKind::Crash { files: default } => {
            let mut files = files.unwrap_or(default);
            set_disk(&s, &mut files)?;
            FaultKind::Crash { files }
        }
        FaultKind::Dns { names: default, answers: usual } => {
            FaultKind::Dns { names: names.unwrap_or(default), answers: answers.unwrap_or(usual) }
        }
        FaultKind::Kill { names: default } => FaultKind::Kill { names: names.unwrap_or(default) },
        FaultKind::PauseProcess { names: default } => {
            FaultKind::PauseProcess { names: names.unwrap_or(default) }
        }
        FaultKind::Cpu { share: default, period: usual } => {
            FaultKind::Cpu { share: share.unwrap_or(default), period: period.unwrap_or(usual) }
        }
        FaultKind::Lossy { loss: default } => FaultKind::Lossy { loss: loss.unwrap_or(default) },
        FaultKind::Memory { limit: default } => FaultKind::Memory { limit: limit.unwrap_or(default) },
        FaultKind::Slow { latency: default } => FaultKind::Slow { latency: latency.unwrap_or(default) },
        FaultKind::Reset { ends: default } => FaultKind::Reset { ends: ends.unwrap_or(default) },
        FaultKind::Upgrade { .. } => {
            let node = s.required("upgrades", UPGRADES_EXAMPLE)?;
            FaultKind::Upgrade { upgrades: upgrades(node, "upgrades", world)? }
        }
        FaultKind::OneWay | FaultKind::Partition | FaultKind::Pause | FaultKind::Stop => kind,
    })
}

/// One fate of files in a crash, or several.
fn files(node: &Node, key: &str) -> Result<Vec<CrashFiles>, Problem> {
    let fate = |node: &Node, key: &str| section::choice(node, key, CrashFiles::NAMES);
    section::one_or_several(node, key, "write files: [kept, unsynced]", fate)
}
