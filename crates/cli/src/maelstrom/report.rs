//! Report after a test: what the checker says, and the number of messages.

use belljar_maelstrom::Workload;
use std::path::Path;

/// Prints the checker's report and the messages per operation, as far as the run has them.
pub fn print(results: &Path, workload: Workload) {
    let report = results.join("properties").join(format!("{}.txt", workload.name()));
    if let Ok(text) = std::fs::read_to_string(report) {
        print!("\n{text}");
    }
    if let Some(text) = messages(results) {
        println!("{text}");
    }
}

/// Messages that nodes have sent to each other and to services, of all and per operation.
fn messages(results: &Path) -> Option<String> {
    let mut between = 0u64;
    for host in std::fs::read_dir(results.join("hosts")).ok()?.flatten() {
        let Ok(text) = belljar_inputs::read_text(&host.path().join("messages.jsonl")) else { continue };
        between += text.lines().filter(|line| is_internal(line)).count() as u64;
    }
    let history = belljar_inputs::read_text(&results.join("hosts/clients/history.jsonl")).ok()?;
    let operations = history.lines().filter(|line| line.contains(r#""type":"invoke""#)).count();
    if operations == 0 {
        return None;
    }
    let each = between as f64 / operations as f64;
    Some(format!("messages between nodes and services: {between}, {each:.2} an operation"))
}

/// True for a message whose sender and receiver are no clients.
fn is_internal(line: &str) -> bool {
    let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { return false };
    let is_client = |name: &str| {
        let name = message[name].as_str().unwrap_or_default();
        name.strip_prefix('c').is_some_and(|number| number.parse::<u64>().is_ok())
    };
    !is_client("src") && !is_client("dest")
}
