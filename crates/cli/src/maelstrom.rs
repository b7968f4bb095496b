//! `belljar maelstrom`: a test of Maelstrom as an experiment, which is written or run.

mod experiment;
mod nemesis;
mod report;

use crate::failure::Failure;
use belljar_maelstrom::{Topology, Workload};
use clap::ValueEnum;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// Tests a node of Maelstrom on simulated hosts: one host a node, messages over the network between them.
///
/// The node is unchanged: it reads messages as lines of JSON from standard input and writes them to standard output. The options are those of
/// `maelstrom test`. The test is an ordinary experiment, which --write writes instead of running it: events, 'belljar explore', sweeps and
/// captures apply to it.
///
/// The exit status is 0 if the node is right, 1 if it is not.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar maelstrom -w echo --bin ./echo.py\n  belljar maelstrom -w broadcast --bin ./broadcast --node-count 25 --rate 100 --latency 100 --topology tree4\n  belljar maelstrom -w g-set --bin ./set.py --nemesis partition --write set.yaml && belljar explore set.yaml"
)]
pub struct Arguments {
    /// Workload
    #[arg(short, long, default_value = "lin-kv")]
    workload: Workload,
    /// Program of a node
    #[arg(long, value_name = "FILE")]
    bin: PathBuf,
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    node_count: u32,
    /// Number of clients, or with an n the number for each node, such as 2n
    #[arg(long, value_name = "N", default_value = "1n", value_parser = parse_concurrency)]
    concurrency: Concurrency,
    /// Requests per second, of all clients together
    #[arg(long, value_name = "N", default_value_t = 5.0, value_parser = above_zero)]
    rate: f64,
    /// Seconds during which requests are sent
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = above_zero)]
    time_limit: f64,
    /// Mean latency of messages between nodes in ms
    #[arg(long, value_name = "MS", default_value_t = 0)]
    latency: u32,
    /// Distribution of the latency
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = Distribution::Constant)]
    latency_dist: Distribution,
    /// Faults
    #[arg(long, value_enum, value_name = "FAULT")]
    nemesis: Option<Nemesis>,
    /// Mean number of seconds between the beginning of a fault and its end, and until the next
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = above_zero)]
    nemesis_interval: f64,
    /// Topology that 'broadcast' offers to nodes
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = Topology::Grid)]
    topology: Topology,
    /// Isolation level of transactions
    #[arg(long, value_name = "LEVEL", default_value = "strict-serializable")]
    consistency_models: belljar_histories::Level,
    /// Share of the requests that must succeed: 'total' or a number up to 1
    #[arg(long, value_name = "SHARE", value_parser = parse_availability)]
    availability: Option<String>,
    /// Number of keys in use at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    key_count: Option<u32>,
    /// Largest number of operations of a transaction
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    max_txn_length: u32,
    /// Number of writes of a key, after which another takes its place
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    max_writes_per_key: u32,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Results folder
    #[arg(short, long, value_name = "DIR", default_value = "maelstrom.data")]
    output: PathBuf,
    /// Replace an existing results folder
    #[arg(long)]
    force: bool,
    /// Write the experiment to a file, without running it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "force"])]
    write: Option<PathBuf>,
    /// Arguments of the node's program
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Number of clients.
#[derive(Clone, Copy, Debug)]
struct Concurrency {
    number: u32,
    is_per_node: bool,
}

/// Distribution of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Distribution {
    /// The mean
    Constant,
    /// From zero to twice the mean
    Uniform,
}

/// Faults that the test has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Nemesis {
    /// Partitions between nodes, drawn from the seed
    Partition,
}

fn parse_concurrency(text: &str) -> Result<Concurrency, String> {
    let (number, is_per_node) = text.strip_suffix('n').map_or((text, false), |number| (number, true));
    let number = number.parse().ok().filter(|number| (1..=10_000).contains(number));
    let number = number.ok_or("a number such as 10 or 2n is needed")?;
    Ok(Concurrency { number, is_per_node })
}

fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1e6).contains(number) && *number > 0.0);
    number.ok_or_else(|| "a number above 0 is needed, up to a million".to_owned())
}

fn parse_availability(text: &str) -> Result<String, String> {
    let fits = text == "total" || text.parse::<f64>().is_ok_and(|share| (0.0..=1.0).contains(&share));
    fits.then(|| text.to_owned()).ok_or_else(|| "'total' or a number from 0 to 1 is needed".to_owned())
}

/// Writes the experiment, or runs it and prints what the checker says.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let text = experiment::text(arguments)?;
    if let Some(file) = &arguments.write {
        std::fs::write(file, text)
            .map_err(|error| Failure::usage(format!("{} cannot be written: {error}", file.display())))?;
        return Ok(ExitCode::SUCCESS);
    }
    let own = std::env::current_exe().map_err(Failure::run)?;
    let mut options: Vec<OsString> =
        vec!["run".into(), "-".into(), "-o".into(), arguments.output.clone().into()];
    options.extend(arguments.force.then(|| "--force".into()));
    let mut child = Command::new(own).args(options).stdin(Stdio::piped()).spawn().map_err(Failure::run)?;
    if let Some(mut input) = child.stdin.take() {
        // A run that ends early says why itself.
        let _ = input.write_all(text.as_bytes());
    }
    let status = child.wait().map_err(Failure::run)?;
    report::print(&arguments.output, arguments.workload);
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
