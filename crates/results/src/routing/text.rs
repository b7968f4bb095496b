//! Routing analysis as tables for a terminal.

use super::Routing;
use crate::summary::bytes_text;
use crate::tables::Table;

/// The tables, each with at most `rows` lines.
pub fn text(routing: &Routing, rows: usize) -> String {
    [
        format!("routes\n{}", hosts(routing, rows)),
        format!("convergence\n{}", convergence(routing, rows)),
        format!("loops\n{}", loops(routing, rows)),
        format!("paths over time\n{}", paths(routing, rows)),
    ]
    .join("\n")
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |seconds| format!("{seconds:.3}"))
}

fn hosts(routing: &Routing, rows: usize) -> String {
    let columns =
        ["host", "changes", "last change", "routes", "control packets", "control bytes", "protocols"];
    let mut table = Table::new(&columns, &[1, 2, 3, 4, 5]);
    for (name, host) in &routing.hosts {
        let sum = |of: fn(&super::Sent) -> u64| host.control.values().map(of).sum::<u64>();
        let captured = !host.control.is_empty();
        let shown = |text: String| if captured { text } else { "-".to_owned() };
        table.row(vec![
            name.clone(),
            host.changes.to_string(),
            seconds(host.last_change),
            host.routes.to_string(),
            shown(sum(|sent| sent.packets).to_string()),
            shown(bytes_text(sum(|sent| sent.bytes))),
            host.control.keys().cloned().collect::<Vec<_>>().join(", "),
        ]);
    }
    table.text(rows)
}

fn convergence(routing: &Routing, rows: usize) -> String {
    let mut table = Table::new(&["time", "event", "changes", "hosts", "converged after"], &[0, 2, 3, 4]);
    for event in &routing.convergence {
        table.row(vec![
            format!("{:.3}", event.time),
            event.event.clone(),
            event.changes.to_string(),
            event.hosts.to_string(),
            seconds(event.seconds),
        ]);
    }
    table.text(rows)
}

fn loops(routing: &Routing, rows: usize) -> String {
    let mut table = Table::new(&["from", "until", "destination", "through"], &[0, 1]);
    for found in &routing.loops {
        table.row(vec![
            seconds(Some(found.from)),
            seconds(found.until),
            found.destination.clone(),
            found.hosts.join(", "),
        ]);
    }
    table.text(rows)
}

/// Path samples, averaged over a few periods of the run.
fn paths(routing: &Routing, rows: usize) -> String {
    let columns =
        ["from", "connected pairs", "working", "delivered", "no route", "black hole", "loop", "stretch"];
    let mut table = Table::new(&columns, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let length = routing.paths.len().div_ceil(rows.clamp(1, 20)).max(1);
    for samples in routing.paths.chunks(length) {
        let sum = |of: fn(&super::PathSample) -> u64| samples.iter().map(of).sum::<u64>();
        let connected = sum(|sample| sample.connected).max(1) as f64;
        let percent = |part: f64| format!("{:.1} %", 100.0 * part / connected);
        let share = |part: u64| percent(part as f64);
        let delivered = samples.iter().filter_map(|sample| Some(sample.delivered? * sample.connected as f64));
        let stretch = samples.iter().filter_map(|sample| Some((sample.stretch?, sample.working as f64)));
        let (weighed, pairs) =
            stretch.fold((0.0, 0.0), |(sum, count), (mean, n)| (sum + mean * n, count + n));
        table.row(vec![
            format!("{:.0}", samples[0].time),
            format!("{:.1}", sum(|sample| sample.connected) as f64 / samples.len() as f64),
            share(sum(|sample| sample.working)),
            percent(delivered.fold(0.0, |sum, share| sum + share)),
            share(sum(|sample| sample.no_route)),
            share(sum(|sample| sample.lost)),
            share(sum(|sample| sample.looping)),
            if pairs > 0.0 { format!("{:.3}", weighed / pairs) } else { "-".to_owned() },
        ]);
    }
    table.text(rows)
}
