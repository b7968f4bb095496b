//! Data embedded in the report page.

use super::bins::Bins;
use super::links::{LinkCurves, link_curves};
use crate::names;
use crate::read::{ReadError, Results, Series, series};
use crate::{Statistics, Topology};
use belljar_base::Map;
use belljar_net::units;
use serde::Serialize;
use std::io::Read;
use std::path::Path;

/// Number of hosts with curves of their own; the rest is shown as a sum.
const CURVES: usize = 24;
/// Number of TCP connections with curves: those that carried the most bytes.
const CONNECTIONS: usize = 24;
/// Upper bound on the points of a connection's curve.
const POINTS: usize = 1_500;
/// Upper bound on the points in the distribution of a model's completion times.
const QUANTILES: usize = 200;
/// Number of outputs shown, and bytes of each.
const OUTPUTS: usize = 200;
const OUTPUT_BYTES: u64 = 2_000;

#[derive(Serialize)]
pub(super) struct Data<'a> {
    statistics: &'a Statistics,
    topology: Topology,
    /// End of the curves: the end of the run, unless its last part is idle.
    span: f64,
    /// Width of a bin of the curves, in seconds.
    width: f64,
    /// Per host, changes in each bin.
    hosts: Vec<HostCurves>,
    /// Per direction of a link, changes in each bin.
    links: Vec<LinkCurves>,
    connections: Vec<Connection>,
    /// Completion times of finished flows by the model's name, in seconds: selected quantiles in ascending
    /// order.
    completions: Map<String, Vec<f64>>,
    /// The experiment's `events:` section.
    events: Option<String>,
    outputs: Vec<Output>,
    omitted_outputs: usize,
    has_series: bool,
}

#[derive(Serialize)]
struct HostCurves {
    name: String,
    /// True for the sum of the hosts without curves of their own.
    is_sum: bool,
    bytes_out: Vec<u64>,
    bytes_in: Vec<u64>,
    drops: Vec<u64>,
    syscalls: Vec<u64>,
}

#[derive(Serialize)]
struct Connection {
    host: String,
    local: String,
    remote: String,
    bytes: u64,
    retransmitted: u64,
    /// Seconds, cwnd in segments, smoothed round-trip time in ms, bytes unacknowledged or unsent.
    points: Vec<(f64, f64, f64, f64)>,
}

#[derive(Serialize)]
struct Output {
    host: String,
    name: String,
    len: u64,
    text: String,
}

pub(super) fn data(results: &Results) -> Result<Data<'_>, ReadError> {
    let hosts = series(&results.path().join(names::HOST_METRICS))?;
    let tcp = series(&results.path().join(names::TCP_METRICS))?;
    let topology = results.text(names::TOPOLOGY).and_then(|text| Topology::from_json(&text));
    let (outputs, omitted_outputs) = outputs(results);
    let config = results.text(names::EXPERIMENT);
    let interval = config.as_deref().and_then(interval);
    let bins = Bins::new(span(&hosts, results.statistics.simulated_seconds), interval);
    Ok(Data {
        span: bins.span(),
        width: bins.width,
        links: link_curves(&series(&results.path().join(names::LINK_METRICS))?, &bins),
        statistics: &results.statistics,
        topology: topology.unwrap_or_default(),
        hosts: host_curves(&hosts, &bins),
        connections: connections(&tcp),
        completions: completions(&series(&results.path().join(names::FLOWS))?),
        events: config.and_then(|text| events(&text)),
        outputs,
        omitted_outputs,
        has_series: !hosts.columns.is_empty(),
    })
}

/// Sampling interval, in seconds.
fn interval(config: &str) -> Option<f64> {
    let mut lines = config.lines().skip_while(|line| line.trim() != "metrics:");
    let written = lines.nth(1)?.trim().strip_prefix("interval: ")?;
    Some(units::parse_duration(written).ok()?.as_secs_f64())
}

/// The number in a cell; 0 if there is none.
pub(super) fn number(row: &[String], column: Option<usize>) -> f64 {
    column.and_then(|column| row.get(column)).and_then(|cell| cell.parse().ok()).unwrap_or(0.0)
}

/// End of the interesting part of a run: if no bytes are sent in its last part, curves of the whole run would
/// compress the rest.
fn span(table: &Series, end: f64) -> f64 {
    const SILENT: f64 = 0.4;
    let columns = ["time", "host", "bytes_in", "bytes_out"].map(|name| table.column(name));
    let [Some(time), Some(host), Some(input), Some(output)] = columns else { return end };
    let mut before: Map<&str, (&str, &str)> = Map::new();
    let mut last = 0.0;
    for row in &table.rows {
        let now = (row[input].as_str(), row[output].as_str());
        if before.insert(&row[host], now).unwrap_or(("0", "0")) != now {
            last = number(row, Some(time));
        }
    }
    if last > 0.0 && last < end * (1.0 - SILENT) { last * 1.1 } else { end }
}

fn host_curves(table: &Series, bins: &Bins) -> Vec<HostCurves> {
    let column = |name: &str| table.column(name);
    let Some(host_column) = column("host") else { return Vec::new() };
    let counters = [column("bytes_out"), column("bytes_in"), None, column("syscalls")];
    let first_drop = column("bytes_out").map_or(0, |c| c + 1);
    let drops = first_drop..column("egress_queue").unwrap_or(first_drop);
    let mut curves: Map<&str, ([Vec<u64>; 4], [u64; 4])> = Map::new();
    for row in &table.rows {
        let Some(bin) = bins.place(number(row, column("time"))) else { continue };
        let mut now = counters.map(|c| number(row, c) as u64);
        now[2] = drops.clone().map(|c| number(row, Some(c)) as u64).sum();
        let empty = || (std::array::from_fn(|_| vec![0; bins.count]), [0; 4]);
        let (sums, before) = curves.entry(&row[host_column]).or_insert_with(empty);
        for n in 0..4 {
            sums[n][bin] += now[n].saturating_sub(before[n]);
        }
        *before = now;
    }
    let mut all: Vec<HostCurves> = curves
        .into_iter()
        .map(|(name, ([bytes_out, bytes_in, drops, syscalls], _))| HostCurves {
            name: name.to_owned(),
            is_sum: false,
            bytes_out,
            bytes_in,
            drops,
            syscalls,
        })
        .collect();
    if all.len() > CURVES {
        let weight = |c: &HostCurves| c.bytes_out.iter().chain(&c.bytes_in).sum::<u64>();
        all.sort_by_key(|curves| std::cmp::Reverse(weight(curves)));
        let rest = all.split_off(CURVES - 1);
        let sum = |of: fn(&HostCurves) -> &Vec<u64>| {
            (0..bins.count).map(|bin| rest.iter().map(|curves| of(curves)[bin]).sum()).collect()
        };
        all.push(HostCurves {
            name: format!("{} others", rest.len()),
            is_sum: true,
            bytes_out: sum(|c| &c.bytes_out),
            bytes_in: sum(|c| &c.bytes_in),
            drops: sum(|c| &c.drops),
            syscalls: sum(|c| &c.syscalls),
        });
    }
    all
}

fn connections(table: &Series) -> Vec<Connection> {
    let column = |name: &str| table.column(name);
    let (Some(host), Some(local), Some(remote)) = (column("host"), column("local"), column("remote")) else {
        return Vec::new();
    };
    let mut found: Map<(&str, &str, &str), Connection> = Map::new();
    for row in &table.rows {
        let key = (&*row[host], &*row[local], &*row[remote]);
        let connection = found.entry(key).or_insert_with(|| Connection {
            host: row[host].clone(),
            local: row[local].clone(),
            remote: row[remote].clone(),
            bytes: 0,
            retransmitted: 0,
            points: Vec::new(),
        });
        let of = |name: &str| number(row, column(name));
        connection.bytes = (of("bytes_acked") + of("bytes_received")) as u64;
        connection.retransmitted = of("retransmitted") as u64;
        let queue = of("unacked") + of("unsent");
        connection.points.push((of("time"), of("cwnd"), of("rtt_us") / 1e3, queue));
    }
    let mut all: Vec<Connection> = found.into_values().collect();
    all.sort_by_key(|connection| std::cmp::Reverse(connection.bytes));
    all.truncate(CONNECTIONS);
    for connection in &mut all {
        let step = connection.points.len().div_ceil(POINTS).max(1);
        let mut n = 0;
        connection.points.retain(|_| {
            n += 1;
            (n - 1) % step == 0
        });
    }
    all
}

/// Completion times of the finished flows of each model.
fn completions(flows: &Series) -> Map<String, Vec<f64>> {
    let columns = ["model", "started", "ended", "outcome"].map(|name| flows.column(name));
    let [Some(model), started, ended, Some(outcome)] = columns else { return Map::new() };
    let mut times: Map<String, Vec<f64>> = Map::new();
    for row in flows.rows.iter().filter(|row| row[outcome] == "done") {
        let took = number(row, ended) - number(row, started);
        times.entry(row[model].clone()).or_default().push(took);
    }
    for all in times.values_mut() {
        all.sort_by(f64::total_cmp);
        if all.len() > QUANTILES {
            let at = |n: usize| all[(all.len() - 1) * n / (QUANTILES - 1)];
            *all = (0..QUANTILES).map(at).collect();
        }
    }
    times
}

/// The lines of the `events` section of a resolved experiment.
fn events(config: &str) -> Option<String> {
    let lines = config.lines().skip_while(|line| *line != "events:").skip(1);
    let text: Vec<&str> = lines.take_while(|line| line.starts_with([' ', '-'])).collect();
    (!text.is_empty()).then(|| text.join("\n"))
}

fn outputs(results: &Results) -> (Vec<Output>, usize) {
    let mut shown = Vec::new();
    let mut omitted = 0;
    for host in results.statistics.hosts.keys() {
        for kind in ["stdout", "stderr"] {
            for (name, path) in results.files(host, kind) {
                let len = path.metadata().map_or(0, |meta| meta.len());
                match (len, shown.len()) {
                    (0, _) => {}
                    (_, OUTPUTS..) => omitted += 1,
                    _ => shown.push(Output {
                        host: host.clone(),
                        name: format!("{name}.{kind}"),
                        len,
                        text: beginning(&path),
                    }),
                }
            }
        }
    }
    (shown, omitted)
}

fn beginning(path: &Path) -> String {
    let mut bytes = Vec::new();
    // An unreadable file is shown as empty; its length reveals that there is more.
    let _ = belljar_inputs::open(path).and_then(|file| file.take(OUTPUT_BYTES).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Series {
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect());
        Series { columns: lines.next().unwrap(), rows: lines.collect() }
    }

    #[test]
    fn counters_become_what_each_stretch_of_time_added() {
        let curves = host_curves(
            &table(
                "time,host,packets_in,bytes_in,packets_out,bytes_out,codel,packet_loss,egress_queue,syscalls\n\
                 1.0,a,0,5,0,10,0,1,0,3\n2.0,a,0,5,0,30,2,1,0,4\n2.0,b,0,0,0,7,0,0,0,0",
            ),
            &Bins::new(2.0, Some(1.0)),
        );
        assert_eq!(curves.len(), 2);
        let a = &curves[0];
        assert_eq!((&a.bytes_out[..], &a.drops[..]), (&[10, 20][..], &[1, 2][..]));
        assert_eq!(a.bytes_in.iter().sum::<u64>(), 5);
    }

    #[test]
    fn many_hosts_are_summed_up_and_nothing_gets_lost() {
        let mut text = "time,host,bytes_in,bytes_out,egress_queue,syscalls\n".to_owned();
        for n in 0..100 {
            text += &format!("1.0,h{n:02},0,{n},0,0\n");
        }
        let curves = host_curves(&table(text.trim_end()), &Bins::new(1.0, None));
        assert_eq!(curves.len(), CURVES);
        assert_eq!(curves.last().unwrap().name, "77 others");
        assert_eq!(curves.iter().position(|curves| curves.is_sum), Some(CURVES - 1));
        assert_eq!(curves.iter().flat_map(|c| &c.bytes_out).sum::<u64>(), 99 * 100 / 2);
    }

    #[test]
    fn a_silent_end_is_left_out() {
        let text = "time,host,bytes_in,bytes_out,egress_queue,syscalls\n1.0,a,0,8,0,1\n90.0,a,0,8,0,2";
        assert!((span(&table(text), 100.0) - 1.1).abs() < 1e-9);
        assert_eq!(span(&table(text), 1.5), 1.5);
        assert_eq!(span(&Series::default(), 7.0), 7.0);
        let curves = host_curves(&table(text), &Bins::new(1.1, None));
        assert_eq!((curves[0].bytes_out.iter().sum::<u64>(), curves[0].syscalls.iter().sum::<u64>()), (8, 1));
    }

    #[test]
    fn times_of_flows_become_quantiles_in_order() {
        let mut text = "host,model,started,ended,outcome\nh,slow,1.0,3.5,done\nh,slow,0,9,refused".to_owned();
        (0..1_000).for_each(|n| text += &format!("\nh,fast,0,{},done", 999 - n));
        let times = completions(&table(&text));
        assert_eq!(times["slow"], [2.5]);
        let fast = &times["fast"];
        assert_eq!((fast.len(), fast[0], fast[QUANTILES - 1]), (QUANTILES, 0.0, 999.0));
        assert!(fast.is_sorted());
        assert!(completions(&Series::default()).is_empty());
    }

    #[test]
    fn the_interval_is_that_of_the_experiment() {
        let text = "belljar:\n  placement: auto\n  metrics:\n    interval: 250 ms\n  dns: {}\n";
        assert_eq!(interval(text), Some(0.25));
        assert_eq!(interval("belljar:\n  placement: auto\n"), None);
    }

    #[test]
    fn events_are_taken_from_the_experiment() {
        let text = "hosts:\n  a: 1\nevents:\n- at: 1 s\n  heal: all\n";
        assert_eq!(events(text).as_deref(), Some("- at: 1 s\n  heal: all"));
        assert_eq!(events("hosts:\n  a: 1\n"), None);
    }
}
