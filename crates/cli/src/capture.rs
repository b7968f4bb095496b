//! `belljar capture`.

use crate::failure::Failure;
use belljar_results::read::Results;
use belljar_results::{Filter, Topology, merge};
use std::fs::File;
use std::io::BufWriter;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes the packets that a run has captured (--pcap) into one pcapng file for Wireshark, in the order of
/// time, each with its host and interface.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar capture first.data\n  belljar capture first.data -o web.pcapng --host server --filter 'tcp port 80 and not host berlin'\n\nFilters are those of tcpdump: ip, tcp, udp, icmp, [src|dst] host, net, port, portrange, and, or, not, ( ).\nHosts go by their names."
)]
pub struct Arguments {
    /// The results folder
    results: PathBuf,
    /// The capture [default: all.pcapng in the results folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only what this host has captured; may be given several times
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Only these packets
    #[arg(long, value_name = "FILTER", default_value = "")]
    filter: String,
}

/// Merges.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let results = Results::open(&arguments.results).map_err(Failure::usage)?;
    let hosts = &results.statistics.hosts;
    if let Some(unknown) = arguments.host.iter().find(|name| !hosts.contains_key(*name)) {
        return Err(Failure::usage(format!(
            "there is no host '{unknown}' in {}",
            arguments.results.display()
        )));
    }
    let topology =
        results.text("topology.json").and_then(|text| Topology::from_json(&text)).unwrap_or_default();
    let address = |name: &str| -> Option<Ipv4Addr> {
        let of_results = hosts.get(name).map(|host| host.address.as_str());
        let drawn = topology.hosts.iter().find(|host| host.name == name).map(|host| host.address.as_str());
        of_results.or(drawn)?.parse().ok()
    };
    let filter = Filter::parse(&arguments.filter, &address)
        .map_err(|why| Failure::usage(format!("--filter '{}': {why}", arguments.filter)))?;
    let path = arguments.output.clone().unwrap_or_else(|| arguments.results.join("all.pcapng"));
    let failed = |error| Failure::run(format!("{} cannot be written: {error}", path.display()));
    let file = File::create(&path).map_err(failed)?;
    let wanted = |name: &str| arguments.host.is_empty() || arguments.host.iter().any(|host| host == name);
    let count = match merge(&results, wanted, &filter, BufWriter::new(file)) {
        Ok(count) => count,
        Err(error) => {
            // Nothing half done is left behind.
            let _ = std::fs::remove_file(&path);
            return Err(Failure::run(error));
        }
    };
    println!("{}: {count} packets", path.display());
    Ok(ExitCode::SUCCESS)
}
