//! `belljar capture`.

use crate::failure::Failure;
use belljar_config::Experiment;
use belljar_net::Filter;
use belljar_results::names;
use belljar_results::read::Results;
use belljar_results::{Topology, merge};
use std::cell::LazyCell;
use std::fs::File;
use std::io::BufWriter;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes the packets that a run has captured (--pcap) into one pcapng file for Wireshark, in the order of
/// time, each with its host and interface.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar capture first.data\n  belljar capture first.data -o web.pcapng --host server --filter 'tcp port 80 and not host berlin'\n\nFilters are those of tcpdump: ip, ip6, arp, tcp, udp, icmp, icmp6, [src|dst] host, net, port, portrange, and, or, not, ( ).\nHosts go by their names. To capture no more than that in the first place: belljar run --pcap-filter."
)]
pub struct Arguments {
    /// The results folder
    results: PathBuf,
    /// The capture [default: all.pcapng in the results folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only what this host, switch or router has captured; may be given several times
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Only these packets
    #[arg(long, value_name = "FILTER", default_value = "")]
    filter: String,
}

impl Arguments {
    /// All packets of these results, into this file.
    pub fn whole(results: PathBuf, output: PathBuf) -> Arguments {
        Arguments { results, output: Some(output), host: Vec::new(), filter: String::new() }
    }
}

/// Merges the captures into one file, and says how many packets it has.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    println!("{}", write(arguments)?);
    Ok(ExitCode::SUCCESS)
}

/// Merges the captures into one file; returns a line about it.
pub fn write(arguments: &Arguments) -> Result<String, Failure> {
    let results = Results::open(&arguments.results).map_err(Failure::usage)?;
    let hosts = &results.statistics.hosts;
    let nodes = results.nodes();
    if let Some(unknown) = arguments.host.iter().find(|name| nodes.iter().all(|(known, _)| known != *name)) {
        return Err(Failure::usage(format!(
            "there is no host '{unknown}' in {}",
            arguments.results.display()
        )));
    }
    let topology =
        results.text(names::TOPOLOGY).and_then(|text| Topology::from_json(&text)).unwrap_or_default();
    // Results whose experiment can no longer be loaded (for instance because a program was removed) give one
    // address per host.
    let experiment = LazyCell::new(|| Experiment::load(&arguments.results.join(names::EXPERIMENT)).ok());
    let addresses = |name: &str| -> Vec<IpAddr> {
        let all = experiment.as_ref().map(|experiment| experiment.addresses_of(name)).unwrap_or_default();
        if !all.is_empty() {
            return all;
        }
        let of_results = hosts.get(name).map(|host| host.address.as_str());
        let drawn = topology.hosts.iter().find(|host| host.name == name).map(|host| host.address.as_str());
        of_results.or(drawn).and_then(|text| text.parse().ok()).into_iter().collect()
    };
    let filter = Filter::parse(&arguments.filter, &addresses)
        .map_err(|why| Failure::usage(format!("--filter '{}': {why}", arguments.filter)))?;
    let path = arguments.output.clone().unwrap_or_else(|| arguments.results.join(names::ALL_CAPTURES));
    let failed = |error| Failure::run(format!("{} cannot be written: {error}", path.display()));
    let file = File::create(&path).map_err(failed)?;
    let wanted = |name: &str| arguments.host.is_empty() || arguments.host.iter().any(|host| host == name);
    let count = match merge(&results, wanted, &filter, BufWriter::new(file)) {
        Ok(count) => count,
        Err(error) => {
            // Removes the incomplete output. Only regular files are removed, not devices.
            if path.is_file() {
                let _ = std::fs::remove_file(&path);
            }
            return Err(Failure::run(error));
        }
    };
    Ok(format!("{}: {count} packets", path.display()))
}
