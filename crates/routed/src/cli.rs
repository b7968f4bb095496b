//! Command line.

use crate::plane::Kind;
use belljar_routing::Prefix;
use clap::{Args, Parser, Subcommand};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

/// Default path of the control socket.
pub const CONTROL: &str = "/run/belljar-routed.sock";

/// Runs a routing protocol on interfaces of this machine, or of a host simulated by Belljar.
#[derive(Debug, Parser)]
#[command(name = "belljar-routed", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// OLSR (RFC 3626): proactive; routes to all nodes, before they are needed
    Olsr(Olsr),
    /// AODV (RFC 3561): reactive; routes are found when packets need them
    Aodv(Aodv),
    /// Belljar's bridge protocol: Ethernet between client ports of many bridges, below IP
    Bridge(Bridge),
    /// Changes routes on behalf of unprivileged daemons
    Updater(Updater),
    /// Forwards packets by the kernel's routes, set by any program, over another data plane than the kernel's
    Forward(Forward),
    /// Runs the command in a file: `protocol: olsr`, and the options of the command line as keys
    Run(Run),
    /// Shows the neighbours and routes of a running daemon
    Show(Show),
}

#[derive(Args, Debug)]
pub struct Common {
    /// An interface to run the protocol on; once for each
    #[arg(short, long = "interface", required = true, value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// The control socket that `belljar-routed show` connects to
    #[arg(long, default_value = CONTROL, value_name = "PATH")]
    pub control: PathBuf,
    /// The random seed of delays [default: another in each run]
    #[arg(long)]
    pub seed: Option<u64>,
}

#[derive(Args, Debug)]
pub struct Network {
    #[command(flatten)]
    pub common: Common,
    /// The address that identifies this node [default: that of the first interface]
    #[arg(long, value_name = "ADDRESS")]
    pub main_address: Option<Ipv4Addr>,
    /// Let an updater change the routes, over its socket
    #[arg(long, value_name = "PATH")]
    pub updater: Option<PathBuf>,
    /// The name of the network namespace that this daemon runs in, for an updater that serves several
    #[arg(long, value_name = "NAME", requires = "updater")]
    pub namespace: Option<String>,
    /// Forward packets between the interfaces over this data plane
    #[arg(long, value_enum, default_value_t, value_name = "PLANE")]
    pub data_plane: Kind,
    /// The UDP port [default: 698 for OLSR, 654 for AODV]
    #[arg(long)]
    pub port: Option<u16>,
    /// Ignore the kernel's reports of unreachable neighbours (ARP): only the protocol's own packets determine
    /// links
    #[arg(long)]
    pub no_link_layer: bool,
    /// The metric of the protocol's routes
    #[arg(long, default_value_t = 20)]
    pub metric: u32,
    /// Write each change of a route to standard output
    #[arg(long)]
    pub log_routes: bool,
}

#[derive(Args, Debug)]
pub struct Olsr {
    #[command(flatten)]
    pub network: Network,
    /// A network for which this node is a gateway; once for each
    #[arg(long, value_name = "ADDRESS/BITS")]
    pub hna: Vec<Prefix>,
    /// Interval between HELLO messages; neighbours expire after three of them
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub hello_interval: Duration,
    /// Interval between TC messages, and between MID and HNA; topology expires after three of them
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub tc_interval: Duration,
    /// Willingness to forward for other nodes, from 0 (never) to 7 (always)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub willingness: u8,
    /// Neighbours advertised in TC messages: 0 MPR selectors, 1 also MPRs, 2 all
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub tc_redundancy: u8,
    /// Establish links only after several HELLO messages (RFC 3626, section 14)
    #[arg(long)]
    pub hysteresis: bool,
    /// Send messages only at the intervals, not after changes
    #[arg(long)]
    pub no_triggered: bool,
}

#[derive(Args, Debug)]
pub struct Aodv {
    #[command(flatten)]
    pub network: Network,
    /// Interval between Hello messages; 0s to rely on the link layer alone
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub hello_interval: Duration,
    /// Lifetime of a route after its last use
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub active_route_timeout: Duration,
    /// Estimated latency of one hop
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = duration)]
    pub node_traversal_time: Duration,
    /// The largest number of hops between two nodes
    #[arg(long, default_value_t = 35)]
    pub net_diameter: u8,
    /// Request acknowledgments of replies, to detect neighbours that do not hear this node
    #[arg(long)]
    pub rrep_ack: bool,
    /// Repair broken routes of other nodes (RFC 3561, section 6.12)
    #[arg(long)]
    pub local_repair: bool,
    /// The node may have lost its sequence number in a reboot: wait for 15 seconds before it routes
    #[arg(long)]
    pub after_reboot: bool,
    /// Find routes to the interfaces' own networks as to any other: the stations of a radio channel share a
    /// network, of which only some are in range
    #[arg(long)]
    pub mesh: bool,
    /// The TUN interface over which packets without a route arrive
    #[arg(long, default_value = "aodv0", value_name = "NAME")]
    pub tun: String,
}

#[derive(Args, Debug)]
pub struct Bridge {
    #[command(flatten)]
    pub common: Common,
    /// An interface to which clients are attached; once for each
    #[arg(short, long = "client", value_name = "NAME")]
    pub clients: Vec<String>,
    /// Interval between HELLO messages; neighbours expire after three of them
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub hello_interval: Duration,
}

#[derive(Args, Debug)]
pub struct Updater {
    /// The socket to listen on
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// The user id that may connect [default: the user that runs the updater]
    #[arg(long, value_name = "UID")]
    pub owner: Option<u32>,
    /// The name of a network namespace that clients may use besides the updater's own; once for each
    #[arg(long, value_name = "NAME")]
    pub namespace: Vec<String>,
    /// Also open privileged descriptors for clients: the protocols' UDP ports, AODV's TUN interface and its
    /// raw and packet sockets, with which they can see and send any packet
    #[arg(long)]
    pub lend: bool,
    /// Forward packets between the interfaces over this data plane
    #[arg(long, value_enum, default_value_t, value_name = "PLANE", requires = "interfaces")]
    pub data_plane: Kind,
    /// An interface of the data plane; once for each
    #[arg(short, long = "interface", value_name = "NAME")]
    pub interfaces: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Forward {
    /// An interface to forward between; once for each
    #[arg(short, long = "interface", required = true, value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// The data plane
    #[arg(long, value_enum, default_value = "tc-bpf", value_name = "PLANE")]
    pub data_plane: Kind,
    /// Write the packets of each flow to standard output, once a second
    #[arg(long)]
    pub log_flows: bool,
}

#[derive(Args, Debug)]
pub struct Run {
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Args, Debug)]
pub struct Show {
    /// The daemon's control socket
    #[arg(long, default_value = CONTROL, value_name = "PATH")]
    pub control: PathBuf,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// Parses a time such as `2s`, `500ms` or `1.5s`, up to an hour.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a time: write a number with s or ms, for example 2s or 500ms");
    let (number, scale) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => return Err(wrong()),
    };
    let seconds = number.trim().parse::<f64>().map_err(|_| wrong())? * scale;
    if !(0.0..=3600.0).contains(&seconds) || (seconds > 0.0 && seconds < 0.01) {
        return Err(format!("'{text}' is not between 10ms and 3600s"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times() {
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert!(duration("2").unwrap_err().contains("write a number with s or ms"));
        assert!(
            duration("-1s").is_err()
                && duration("1ms").is_err()
                && duration("infs").is_err()
                && duration("NaNs").is_err()
        );
    }
}
