//! The experiment of a test: hosts for nodes, services and clients, the network, faults and the property.

use super::{Arguments, Distribution, nemesis};
use crate::failure::Failure;
use belljar_maelstrom::{Service, Workload};
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Seconds at the start before requests are sent.
const START: u32 = 1;
/// Seconds of rest before the final reads, in which nodes recover.
const RECOVERY: u32 = 10;
/// Seconds for operations that are open, and for the final reads.
const END: f64 = 30.0;
/// Latency in microseconds where none is given, and between clients and nodes.
const LEAST_LATENCY: u32 = 100;

/// Writes the experiment.
///
/// # Errors
/// The node's program or the one that carries its messages does not exist.
pub fn text(arguments: &Arguments) -> Result<String, Failure> {
    let node = absolute(&arguments.bin)?;
    let carrier = carrier()?;
    let nodes: Vec<String> = (0..arguments.node_count).map(|index| format!("n{index}")).collect();
    let mut text = String::from("# A test of Maelstrom, made by 'belljar maelstrom'.\n");
    let stop = f64::from(START + RECOVERY) + arguments.time_limit + END;
    let _ = writeln!(text, "general: {{stop_time: {stop} s, seed: {}}}\n", arguments.seed);
    text.push_str(&network(arguments));
    text.push_str("\nhosts:\n");
    for node_id in &nodes {
        let mut words =
            vec![json!("node"), json!("--id"), json!(node_id), json!("--nodes"), json!(nodes.join(","))];
        if arguments.workload == Workload::Broadcast {
            words.extend([json!("--topology"), json!(arguments.topology.name())]);
        }
        words.extend([json!("--"), json!(node)]);
        words.extend(arguments.arguments.iter().map(|argument| json!(argument)));
        host(&mut text, node_id, 0, &carrier, &json!(words), "running", None);
    }
    for service in Service::ALL {
        let words = json!(["service", service.name()]);
        host(&mut text, service.name(), 0, &carrier, &words, "running", None);
    }
    host(&mut text, "clients", 1, &carrier, &client(arguments, &nodes), "{exited: 0}", Some(START));
    text.push_str(&nemesis::events(arguments, &nodes, START));
    text.push_str(&properties(arguments.workload, arguments));
    text.push_str(&explore(arguments, &nodes));
    Ok(text)
}

fn host(
    text: &mut String,
    name: &str,
    at: u32,
    path: &str,
    words: &serde_json::Value,
    end: &str,
    start: Option<u32>,
) {
    let start = start.map_or(String::new(), |start| format!(", start_time: {start} s"));
    let _ = writeln!(
        text,
        "  {name}:\n    network_node_id: {at}\n    processes:\n    - {{path: {path}, args: {words}{start}, expected_final_state: {end}}}"
    );
}

/// Graph: nodes and services at one of its nodes, clients at the other.
fn network(arguments: &Arguments) -> String {
    let latency = match arguments.latency {
        0 => LEAST_LATENCY,
        latency => latency.saturating_mul(1000),
    };
    let jitter = match arguments.latency_dist {
        Distribution::Constant => String::new(),
        Distribution::Uniform => format!(" jitter \"{} us\"", latency - 1),
    };
    let node = |id: u32| {
        format!("        node [ id {id} host_bandwidth_up \"1 Gbit\" host_bandwidth_down \"1 Gbit\" ]\n")
    };
    let edge = |one: u32, other: u32, latency: u32, more: &str| {
        format!("        edge [ source {one} target {other} latency \"{latency} us\"{more} ]\n")
    };
    let mut text = String::from(
        "network:\n  use_shortest_path: false\n  graph:\n    type: gml\n    inline: |\n      graph [\n        directed 0\n",
    );
    text += &(node(0) + &node(1));
    text += &edge(0, 0, latency, &jitter);
    text += &edge(0, 1, LEAST_LATENCY, "");
    text += &edge(1, 1, LEAST_LATENCY, "");
    text + "      ]\n"
}

/// Arguments of the clients.
fn client(arguments: &Arguments, nodes: &[String]) -> serde_json::Value {
    let concurrency = arguments.concurrency;
    let concurrency =
        if concurrency.is_per_node { concurrency.number * arguments.node_count } else { concurrency.number };
    let timeout = match arguments.workload {
        Workload::LinKv => u64::from(arguments.latency).saturating_mul(10).max(1000),
        _ => 5000,
    };
    let mut words = vec![
        "client".to_owned(),
        format!("--workload={}", arguments.workload.name()),
        format!("--nodes={}", nodes.join(",")),
        format!("--rate={}", arguments.rate),
        format!("--time-limit={}", arguments.time_limit),
        format!("--recovery={RECOVERY}"),
        format!("--concurrency={concurrency}"),
        format!("--timeout={timeout}"),
    ];
    words.extend(arguments.key_count.map(|count| format!("--key-count={count}")));
    if matches!(arguments.workload, Workload::TxnListAppend | Workload::TxnRwRegister) {
        words.push(format!("--max-txn-length={}", arguments.max_txn_length));
        words.push(format!("--max-writes-per-key={}", arguments.max_writes_per_key));
    }
    words.extend(arguments.availability.as_ref().map(|share| format!("--availability={share}")));
    json!(words)
}

fn properties(workload: Workload, arguments: &Arguments) -> String {
    let level = match workload {
        Workload::TxnListAppend | Workload::TxnRwRegister => {
            format!(", consistency: {}", arguments.consistency_models.name())
        }
        _ => String::new(),
    };
    let (name, model) = (workload.name(), workload.model());
    format!(
        "\nproperties:\n- {{name: {name}, history: history.jsonl, model: {model}{level}, hosts: clients}}\n"
    )
}

/// Faults that `belljar explore` draws: those of networks and of slow nodes. Nodes need not survive a crash.
fn explore(arguments: &Arguments, nodes: &[String]) -> String {
    let end = f64::from(START) + arguments.time_limit;
    format!(
        "\nexplore:\n  hosts: [{}]\n  between: [{START} s, {end} s]\n  kinds: {{partition: , slow: , lossy: , one_way: , pause: }}\n",
        nodes.join(", ")
    )
}

/// Absolute path of the node's program.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let found = std::fs::canonicalize(path);
    found.map_err(|error| Failure::usage(format!("--bin: {} cannot be used: {error}", path.display())))
}

/// Path of the program that carries messages: it is beside this one.
fn carrier() -> Result<String, Failure> {
    let own = std::env::current_exe().map_err(Failure::run)?;
    let path = own.with_file_name("belljar-maelstrom");
    if !path.is_file() {
        return Err(Failure::run(format!(
            "{} is missing: 'cargo build --release -p belljar' builds it",
            path.display()
        )));
    }
    Ok(json!(path).to_string())
}
