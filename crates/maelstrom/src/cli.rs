//! The command line of `belljar-maelstrom`.

use crate::{Service, Topology};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;

/// UDP port of messages.
pub const PORT: u16 = 7400;

/// Carries Maelstrom's messages between hosts: runs a node, a service or the clients of a workload.
#[derive(Parser)]
#[command(name = "belljar-maelstrom", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a node, whose name is that of the host, and carry its messages
    Node(Node),
    /// Answer the requests of nodes
    Service(ServiceOptions),
    /// Send the requests of a workload and note them as a history
    Client(Client),
}

#[derive(Args)]
pub struct Node {
    /// Name of the node
    #[arg(long)]
    pub id: String,
    /// Names of all nodes, which are those of their hosts
    #[arg(long, value_delimiter = ',', required = true)]
    pub nodes: Vec<String>,
    /// Host of the clients, whose names are c1, c2, ...
    #[arg(long, default_value = "clients")]
    pub clients: String,
    /// Neighbours that the node is given after its initialization
    #[arg(long)]
    pub topology: Option<Topology>,
    /// The node's program with its arguments
    #[arg(last = true, required = true)]
    pub program: Vec<OsString>,
}

#[derive(Args)]
pub struct ServiceOptions {
    /// Service, whose name is that of the host
    pub service: Service,
    /// Host of the clients
    #[arg(long, default_value = "clients")]
    pub clients: String,
}

#[derive(Args)]
pub struct Client {
    /// Workload
    #[arg(short, long)]
    pub workload: Workload,
    /// Names of all nodes
    #[arg(long, value_delimiter = ',', required = true)]
    pub nodes: Vec<String>,
    /// Requests per second, of all clients together
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub rate: f64,
    /// Seconds during which requests are sent
    #[arg(long, default_value_t = 20.0, value_parser = positive)]
    pub time_limit: f64,
    /// Seconds of rest before the final reads
    #[arg(long, default_value_t = 10.0)]
    pub recovery: f64,
    /// Number of clients with a request each at a time; as many as nodes if left out
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub concurrency: Option<u32>,
    /// Milliseconds after which the outcome of a request counts as unknown
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// Number of keys in use at a time
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub key_count: Option<u32>,
    /// Largest number of operations of a transaction
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_txn_length: u32,
    /// Number of writes of a key, after which another takes its place
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_writes_per_key: u32,
    /// Share of the requests that must succeed: `total` or a number up to 1
    #[arg(long, value_parser = availability)]
    pub availability: Option<f64>,
    /// File of the history
    #[arg(long, default_value = "history.jsonl")]
    pub history: String,
}

/// Workload: the requests that clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Replies repeat the request
    Echo,
    /// Messages reach all nodes
    Broadcast,
    /// A set that only grows
    GSet,
    /// A counter that only grows
    GCounter,
    /// A counter
    PnCounter,
    /// Identifiers that are unique
    UniqueIds,
    /// Logs
    Kafka,
    /// Linearizable registers
    LinKv,
    /// Transactions of appends to lists
    TxnListAppend,
    /// Transactions of writes of registers
    TxnRwRegister,
}

impl Workload {
    /// Name, as the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Echo => "echo",
            Workload::Broadcast => "broadcast",
            Workload::GSet => "g-set",
            Workload::GCounter => "g-counter",
            Workload::PnCounter => "pn-counter",
            Workload::UniqueIds => "unique-ids",
            Workload::Kafka => "kafka",
            Workload::LinKv => "lin-kv",
            Workload::TxnListAppend => "txn-list-append",
            Workload::TxnRwRegister => "txn-rw-register",
        }
    }

    /// Model of histories by which the workload is judged.
    pub fn model(self) -> &'static str {
        match self {
            Workload::GCounter => "pn-counter",
            Workload::LinKv => "cas-register",
            Workload::TxnListAppend => "list-append",
            Workload::TxnRwRegister => "rw-register",
            other => other.name(),
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "a number above 0 is needed".to_owned())
}

/// Share of requests: `total`, or a number from 0 to 1.
fn availability(text: &str) -> Result<f64, String> {
    let share = if text == "total" { Some(1.0) } else { text.parse::<f64>().ok() };
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "'total' or a number from 0 to 1 is needed".to_owned())
}
