//! Results as tables for a terminal.

use crate::names;
use crate::packets::counts_text;
use crate::read::{Results, series};
use crate::summary::bytes_text;
use belljar_base::Map;
use std::fmt::Write;

/// Subject of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Processes of the experiment and their final states.
    Processes,
    /// Properties and their verdicts.
    Properties,
    /// Traffic models by name, and the outcomes of their flows.
    Models,
    /// Hosts with their traffic and drops.
    Hosts,
    /// Links with the traffic and drops of each direction.
    Links,
    /// Locations of the network with the packets dropped there, by reason.
    Drops,
    /// Accounts of the packets of each location: received, originated, sent, consumed, dropped, held.
    Packets,
    /// Stations of radio channels with their traffic and losses.
    Radios,
    /// Tables of P4 switches and their lookups.
    P4Tables,
    /// Ports of P4 switches and their queues.
    P4Ports,
    /// Traffic of all hosts together, over time.
    Traffic,
    /// System calls by name, the most frequent first.
    Syscalls,
    /// Warnings: requests of programs that were not fully served.
    Warnings,
}

impl Section {
    /// All sections in the order in which they are shown.
    pub const ALL: [Section; 13] = [
        Section::Processes,
        Section::Properties,
        Section::Models,
        Section::Hosts,
        Section::Links,
        Section::Drops,
        Section::Packets,
        Section::Radios,
        Section::P4Tables,
        Section::P4Ports,
        Section::Traffic,
        Section::Syscalls,
        Section::Warnings,
    ];

    /// Heading of the section.
    pub fn title(self) -> &'static str {
        match self {
            Section::Processes => "processes",
            Section::Properties => "properties",
            Section::Models => "traffic models",
            Section::Hosts => "hosts",
            Section::Links => "links",
            Section::Drops => "dropped packets",
            Section::Packets => "accounts of packets",
            Section::Radios => "radio stations",
            Section::P4Tables => "P4 tables",
            Section::P4Ports => "P4 ports",
            Section::Traffic => "traffic over time",
            Section::Syscalls => "system calls",
            Section::Warnings => "warnings",
        }
    }
}

/// One section as aligned text of at most `rows` lines.
pub fn table(results: &Results, section: Section, rows: usize) -> String {
    match section {
        Section::Processes => processes(results, rows),
        Section::Properties => properties(results, rows),
        Section::Models => models(results, rows),
        Section::Hosts => hosts(results, rows),
        Section::Links => links(results, rows),
        Section::Drops => drops(results, rows),
        Section::Packets => packets(results, rows),
        Section::Radios => radios(results, rows),
        Section::P4Tables => p4_tables(results, rows),
        Section::P4Ports => p4_ports(results, rows),
        Section::Traffic => traffic(results, rows),
        Section::Syscalls => syscalls(results, rows),
        Section::Warnings => warnings(results, rows),
    }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |s| format!("{s:.6}"))
}

fn processes(results: &Results, rows: usize) -> String {
    let mut table = Table::new(&["", "host", "process", "started", "ended", "state", "problem"], &[3, 4]);
    for (name, host) in &results.statistics.hosts {
        for p in &host.processes {
            let process = p.pid.map_or(p.program.clone(), |pid| format!("{}.{pid}", p.program));
            let mark = if p.as_expected { "ok" } else { "FAIL" };
            let problem = p.problem.clone().unwrap_or_default();
            let cells =
                [mark.into(), name.clone(), process, seconds(p.started), seconds(p.ended), p.state.clone()];
            table.row(cells.into_iter().chain([problem]).collect());
        }
    }
    table.text(rows)
}

fn properties(results: &Results, rows: usize) -> String {
    let mut table = Table::new(&["", "kind", "property", "judged", "line", "problem"], &[3]);
    for property in &results.statistics.properties {
        let mark = if property.holds { "ok" } else { "FAIL" };
        table.row(vec![
            mark.to_owned(),
            property.kind.clone(),
            property.name.clone(),
            property.judged.to_string(),
            property.location().unwrap_or_else(|| "-".to_owned()),
            property.reason.clone().unwrap_or_default(),
        ]);
    }
    table.text(rows)
}

fn models(results: &Results, rows: usize) -> String {
    let columns =
        ["model", "count", "done", "failed", "cut", "out", "in", "mean", "median", "90 %", "99 %", "why"];
    let mut table = Table::new(&columns, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    for (name, m) in &results.statistics.models {
        let times = m.completion.as_ref();
        let time = |pick: fn(&crate::Quantiles) -> f64| seconds(times.map(pick));
        let failed = Some(counts_text(&m.failed)).filter(|text| !text.is_empty());
        let why: Vec<String> = failed.into_iter().chain(m.problems.iter().cloned()).collect();
        table.row(vec![
            name.clone(),
            m.models.to_string(),
            m.done.to_string(),
            m.failed.values().sum::<u64>().to_string(),
            m.cut.to_string(),
            bytes_text(m.bytes_out),
            bytes_text(m.bytes_in),
            time(|t| t.mean),
            time(|t| t.median),
            time(|t| t.p90),
            time(|t| t.p99),
            why.join(", "),
        ]);
    }
    table.text(rows)
}

fn hosts(results: &Results, rows: usize) -> String {
    let has_cpu = results.statistics.hosts.values().any(|host| host.cpu.is_some());
    let mut columns = vec!["host", "address", "packets out", "out", "packets in", "in", "dropped", "why"];
    if has_cpu {
        columns.extend(["cpu busy", "longest backlog"]);
    }
    let mut table = Table::new(&columns, &[2, 3, 4, 5, 6, 8, 9][..columns.len() - 3]);
    for (name, host) in &results.statistics.hosts {
        let mut row = vec![
            name.clone(),
            host.address.clone(),
            host.packets_out.to_string(),
            bytes_text(host.bytes_out),
            host.packets_in.to_string(),
            bytes_text(host.bytes_in),
            host.drops.values().sum::<u64>().to_string(),
            counts_text(&host.drops),
        ];
        if has_cpu {
            let cpu = host.cpu.as_ref();
            row.push(cpu.map_or(String::new(), |cpu| format!("{:.1} %", 100.0 * cpu.busy)));
            row.push(cpu.map_or(String::new(), |cpu| cpu.longest_backlog.to_string()));
        }
        table.row(row);
    }
    table.text(rows)
}

fn radios(results: &Results, rows: usize) -> String {
    let columns =
        ["radio", "station", "to all", "to one", "retries", "received", "dropped", "sending", "busy", "why"];
    let mut table = Table::new(&columns, &[2, 3, 4, 5, 6, 7, 8]);
    let seconds = results.statistics.simulated_seconds;
    let share = |part: f64| format!("{:.2} %", if seconds > 0.0 { 100.0 * part / seconds } else { 0.0 });
    for (radio, of_radio) in &results.statistics.radios {
        for (name, station) in &of_radio.stations {
            table.row(vec![
                radio.clone(),
                name.clone(),
                station.broadcasts.to_string(),
                station.unicasts.to_string(),
                station.retries.to_string(),
                station.received.to_string(),
                station.drops.values().sum::<u64>().to_string(),
                share(station.airtime_seconds),
                share(station.busy_seconds),
                counts_text(&station.drops),
            ]);
        }
    }
    table.text(rows)
}

fn drops(results: &Results, rows: usize) -> String {
    let mut table = Table::new(&["location", "reason", "packets"], &[2]);
    for drop in results.statistics.all_drops() {
        table.row(vec![drop.location.to_owned(), drop.reason.to_owned(), drop.packets.to_string()]);
    }
    table.text(rows)
}

fn packets(results: &Results, rows: usize) -> String {
    let columns =
        ["location", "received", "originated", "sent", "consumed", "dropped", "held", "by", "imbalance"];
    let mut table = Table::new(&columns, &[1, 2, 3, 4, 5, 6]);
    for (location, account) in &results.statistics.packets {
        let sum = |counts: &Map<String, u64>| counts.values().sum::<u64>().to_string();
        let named = [("from", &account.originated), ("to", &account.consumed), ("dropped", &account.drops)];
        let by = named.into_iter().filter(|(_, counts)| !counts.is_empty());
        let by = by.map(|(what, counts)| format!("{what} {}", counts_text(counts)));
        let imbalance = account.imbalance();
        table.row(vec![
            location.clone(),
            account.received.to_string(),
            sum(&account.originated),
            account.sent.to_string(),
            sum(&account.consumed),
            sum(&account.drops),
            account.held.to_string(),
            by.collect::<Vec<_>>().join("; "),
            if imbalance == 0 { String::new() } else { format!("{imbalance:+}") },
        ]);
    }
    table.text(rows)
}

fn links(results: &Results, rows: usize) -> String {
    let longest = longest_queues(results);
    let mut columns = vec!["link", "direction", "frames", "bytes", "dropped"];
    if longest.is_some() {
        columns.push("longest queue");
    }
    columns.push("why");
    let mut table = Table::new(&columns, &[2, 3, 4, 5][..columns.len() - 3]);
    for (name, directions) in &results.statistics.links {
        for (direction, sent) in directions {
            let dropped = sent.drops.values().sum::<u64>().to_string();
            let mut row = vec![
                name.clone(),
                direction.clone(),
                sent.frames.to_string(),
                bytes_text(sent.bytes),
                dropped,
            ];
            if let Some(longest) = &longest {
                row.push(longest.get(&(name.clone(), direction.clone())).unwrap_or(&0).to_string());
            }
            row.push(counts_text(&sent.drops));
            table.row(row);
        }
    }
    table.text(rows)
}

fn p4_tables(results: &Results, rows: usize) -> String {
    let mut table = Table::new(&["switch", "table", "entries", "hits", "misses"], &[2, 3, 4]);
    for (name, switch) in &results.statistics.p4_switches {
        for (own, counts) in &switch.tables {
            let numbers = [counts.entries, counts.hits, counts.misses].map(|number| number.to_string());
            table.row([name.clone(), own.clone()].into_iter().chain(numbers).collect());
        }
    }
    table.text(rows)
}

fn p4_ports(results: &Results, rows: usize) -> String {
    let columns = ["switch", "port", "packets in", "packets out", "most queued", "queue full"];
    let mut table = Table::new(&columns, &[2, 3, 4, 5]);
    for (name, switch) in &results.statistics.p4_switches {
        for (own, port) in &switch.ports {
            let numbers = [port.packets_in, port.packets_out, port.most_queued, port.queue_full];
            let numbers = numbers.map(|number| number.to_string());
            table.row([name.clone(), own.clone()].into_iter().chain(numbers).collect());
        }
    }
    table.text(rows)
}

/// Longest sampled queue lengths in frames, by link and direction; `None` without time series.
fn longest_queues(results: &Results) -> Option<belljar_base::Map<(String, String), u64>> {
    let table = series(&results.path().join(names::LINK_METRICS)).ok()?;
    let columns = ["link", "from", "to", "queue"].map(|name| table.column(name));
    let [Some(link), Some(from), Some(to), Some(queue)] = columns else { return None };
    let mut longest = belljar_base::Map::new();
    for row in &table.rows {
        let direction = (row[link].clone(), format!("{} to {}", row[from], row[to]));
        let most: &mut u64 = longest.entry(direction).or_default();
        *most = row[queue].parse().unwrap_or(0).max(*most);
    }
    Some(longest)
}

/// Bytes sent by all hosts in each of at most `rows` equal periods.
fn traffic(results: &Results, rows: usize) -> String {
    const NONE: &str =
        "  no time series: run with belljar: {metrics: {interval: 100 ms}} in the experiment\n";
    let Ok(table) = series(&results.path().join(names::HOST_METRICS)) else { return NONE.into() };
    let columns = ["time", "host", "bytes_out", "packets_out"].map(|name| table.column(name));
    let [Some(time), Some(host), Some(bytes), Some(packets)] = columns else { return NONE.into() };
    let end = results.statistics.simulated_seconds.max(1e-9);
    let stretches = rows.clamp(1, 20);
    let mut sums = vec![(0, 0); stretches];
    let mut before = belljar_base::Map::new();
    for row in &table.rows {
        let number = |column: usize| row[column].parse::<u64>().unwrap_or(0);
        let at = row[time].parse::<f64>().unwrap_or(0.0);
        // A row describes the interval that ends at its time.
        let stretch = ((at / end * stretches as f64).ceil() as usize).clamp(1, stretches) - 1;
        let (b, p) = (number(bytes), number(packets));
        let (b0, p0) = before.insert(row[host].clone(), (b, p)).unwrap_or((0, 0));
        sums[stretch].0 += b.saturating_sub(b0);
        sums[stretch].1 += p.saturating_sub(p0);
    }
    let most = sums.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0).max(1);
    let mut shown = Table::new(&["from", "to", "packets sent", "sent", ""], &[0, 1, 2, 3]);
    for (n, (bytes, packets)) in sums.iter().enumerate() {
        let at = |n: usize| format!("{:.3}", end * n as f64 / stretches as f64);
        let bar = "#".repeat((bytes * 30).div_ceil(most) as usize);
        shown.row(vec![at(n), at(n + 1), packets.to_string(), bytes_text(*bytes), bar]);
    }
    shown.text(rows)
}

fn syscalls(results: &Results, rows: usize) -> String {
    let total: u64 = results.statistics.syscalls.values().sum();
    let mut calls: Vec<_> = results.statistics.syscalls.iter().collect();
    calls.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut table = Table::new(&["call", "count", "share"], &[1, 2]);
    for (name, count) in calls {
        let share = 100.0 * *count as f64 / total.max(1) as f64;
        table.row(vec![name.clone(), count.to_string(), format!("{share:.1} %")]);
    }
    table.text(rows)
}

fn warnings(results: &Results, rows: usize) -> String {
    let mut table = Table::new(&["count", "what"], &[0]);
    for (what, count) in &results.statistics.warnings {
        table.row(vec![count.to_string(), what.clone()]);
    }
    for (program, count) in &results.statistics.preempted {
        table.row(vec![count.to_string(), format!("{program} preempted: not deterministic from there on")]);
    }
    table.text(rows)
}

/// A table whose columns are as wide as their cells.
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    pub(crate) fn new(columns: &[&str], right: &[usize]) -> Table {
        let columns = columns.iter().map(|c| (*c).to_owned()).collect();
        Table { columns, rows: Vec::new(), right: right.to_vec() }
    }
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
    pub(crate) fn text(&self, limit: usize) -> String {
        if self.rows.is_empty() {
            return "  none\n".to_owned();
        }
        let shown = &self.rows[..self.rows.len().min(limit)];
        let width = |column: usize| {
            let cells = std::iter::once(&self.columns).chain(shown);
            cells.map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for row in std::iter::once(&self.columns).chain(shown) {
            let mut line = String::new();
            for (n, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ = match self.right.contains(&n) {
                    true => write!(line, "  {cell:>width$}"),
                    false => write!(line, "  {cell:<width$}"),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        if self.rows.len() > limit {
            let _ = writeln!(text, "  and {} more", self.rows.len() - limit);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_long_tables_cut() {
        let mut table = Table::new(&["name", "count"], &[1]);
        for (name, count) in [("a", "1"), ("longer", "12345678"), ("c", "2")] {
            table.row(vec![name.into(), count.into()]);
        }
        assert_eq!(
            table.text(2),
            "  name       count\n  a              1\n  longer  12345678\n  and 1 more\n"
        );
        assert_eq!(Table::new(&["x"], &[]).text(5), "  none\n");
    }
}
