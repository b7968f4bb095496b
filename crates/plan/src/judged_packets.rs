//! Verdicts on properties about packets, from the captures of a run's results.

use belljar_base::HostId;
use belljar_config::{Experiment, PacketSet, Property};
use belljar_net::Filter;
use belljar_properties::{Condition, LineClaim, LineJudge, Location, Verdict, Window};
use belljar_results::read::each_packet;
use belljar_results::{ResultsFolder, Topology, names};
use std::fs;
use std::io;
use std::path::Path;

/// Verdict on a claim about these packets.
pub(crate) fn judge(
    experiment: &Experiment,
    folder: &ResultsFolder,
    property: &Property,
    packets: &PacketSet,
    claim: &LineClaim,
    window: Option<Window>,
) -> Verdict {
    let parse = |text: &str| Filter::parse(text, &|name| experiment.addresses_of(name));
    let condition = match &claim.condition {
        Condition::Passes(text) => parse(text).map(Some),
        Condition::Matches(_) => Ok(None),
    };
    let (filter, condition) = match (parse(&packets.filter), condition) {
        (Ok(filter), Ok(condition)) => (filter, condition),
        (Err(why), _) | (_, Err(why)) => {
            return Verdict::in_doubt(&format!("the filter cannot be read: {why}"));
        }
    };
    let mut judge = LineJudge::of_packets(claim, window, &packets.filter);
    let epoch_secs = epoch_secs(experiment, folder);
    let mut has_interface = false;
    for (number, host) in experiment.hosts.iter().enumerate() {
        if !property.concerns(HostId(number as u32), host) {
            continue;
        }
        let captures = match captures(&folder.path().join(names::PACKETS).join(&host.name), packets) {
            Ok(captures) => captures,
            Err(why) => {
                return Verdict::in_doubt(&format!(
                    "the packets of host '{}' cannot be read: {why}",
                    host.name
                ));
            }
        };
        if captures.is_empty() && property.hosts.is_some() {
            return Verdict::in_doubt(&format!("host '{}' has no {}", host.name, described(packets)));
        }
        has_interface |= !captures.is_empty();
        for capture in captures {
            let path = folder.path().join(names::PACKETS).join(&host.name).join(&capture);
            let mut number = 0;
            let read = each_packet(&path, epoch_secs, |packet| {
                number += 1;
                let passes = |filter: &Filter| filter.matches_captured(&packet.bytes, packet.ethernet);
                if !passes(&filter) {
                    return;
                }
                let location = || Location {
                    host: host.name.clone(),
                    file: format!("{}/{}/{capture}", names::PACKETS, host.name),
                    line: number,
                    time: Some(packet.at),
                };
                let nanos = packet.at.as_nanos();
                let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
                let description = format!("{seconds}.{nanos:09} {}", packet.describe());
                judge.take_packet(location, &description, condition.as_ref().is_some_and(passes));
            });
            if let Err(why) = read {
                return Verdict::in_doubt(&why.to_string());
            }
        }
    }
    match has_interface {
        true => judge.finish(),
        false => Verdict::in_doubt(&format!("no host has {}", described(packets))),
    }
}

/// Second since 1970 in which the run began by the clock of the captures: in an emulation, that of this machine.
fn epoch_secs(experiment: &Experiment, folder: &ResultsFolder) -> u64 {
    let topology = fs::read(folder.path().join(names::TOPOLOGY)).ok();
    let topology = topology.and_then(|text| serde_json::from_slice::<Topology>(&text).ok());
    topology.map_or(experiment.belljar.start_date, |topology| topology.epoch_secs)
}

/// Interfaces in words, for a message.
pub(crate) fn described(packets: &PacketSet) -> String {
    format!("interface '{}'", packets.interfaces.join("', '"))
}

/// Names of the captures in a folder that have these packets, sorted.
fn captures(directory: &Path, packets: &PacketSet) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?.collect::<io::Result<Vec<_>>>()?,
    };
    let names = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
    let judged = |name: &String| name.strip_suffix(".pcap").is_some_and(|interface| packets.is_at(interface));
    let mut names: Vec<String> = names.filter(judged).collect();
    names.sort();
    Ok(names)
}
