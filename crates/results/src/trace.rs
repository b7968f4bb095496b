//! Trace of a run in Chrome's JSON format, for Perfetto (ui.perfetto.dev) and chrome://tracing. It contains a
//! group for each host, with a track for each thread that shows its waiting calls, tracks for packets, and
//! counters from the time series; and a group for each other simulator, with the messages of its channels.
//! Times are simulated microseconds.

use crate::Topology;
use crate::names;
use crate::read::{ReadError, Results, calls, packets, series};
use belljar_base::{Map, SimTime};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Id of the track for packets; no thread uses it.
const PACKETS: i32 = 0;

/// Reason why a trace cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The results cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The trace cannot be written.
    #[error("the trace cannot be written: {}", crate::folder::plain(.0))]
    Write(#[from] io::Error),
}

/// Writes the trace of a run. With `all` it includes calls that took no time, which are the majority.
pub fn trace(results: &Results, all: bool, out: impl Write) -> Result<(), TraceError> {
    let mut out = Events { out: io::BufWriter::new(out), first: true };
    out.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let topology =
        results.text(names::TOPOLOGY).and_then(|text| Topology::from_json(&text)).unwrap_or_default();
    let end = SimTime::from_nanos((results.statistics.simulated_seconds * 1e9) as u64);
    for (index, (name, host)) in results.statistics.hosts.iter().enumerate() {
        let group = index as i32 + 1;
        out.name(group, None, &format!("{name} ({})", host.address))?;
        for process in &host.processes {
            let (Some(pid), Some(started)) = (process.pid, process.started) else { continue };
            let ended = process.ended.map_or(end, |s| SimTime::from_nanos((s * 1e9).round() as u64));
            let started = SimTime::from_nanos((started * 1e9).round() as u64);
            out.name(group, Some(pid), &format!("{}.{pid}", process.program))?;
            let more = json!({"state": process.state, "as expected": process.as_expected});
            out.span((group, pid), &process.program, "process", (started, ended), more)?;
        }
        for (stem, path) in results.files(name, "strace") {
            let bytes = belljar_inputs::read(&path).map_err(|error| ReadError::io(&path, &error))?;
            system_calls(&mut out, group, &stem, &String::from_utf8_lossy(&bytes), all)?;
        }
        for (interface, path) in results.files(name, "pcap") {
            out.name(group, Some(PACKETS), "packets")?;
            for packet in packets(&path, topology.epoch_secs)? {
                let more = json!({"packet": packet.describe(), "bytes": packet.len});
                out.instant((group, PACKETS), &interface, "packet", packet.at, more)?;
            }
        }
    }
    counters(&mut out, results)?;
    for (index, (name, folder)) in results.nodes().into_iter().enumerate() {
        let path = folder.join(names::CHANNELS);
        if path.exists() {
            channels(&mut out, index as i32 + 1, &name, &path)?;
        }
    }
    out.out.write_all(b"\n]}\n")?;
    Ok(out.out.flush()?)
}

fn system_calls(
    out: &mut Events<impl Write>,
    group: i32,
    stem: &str,
    text: &str,
    all: bool,
) -> Result<(), TraceError> {
    // Computation takes no time: between the ends of two calls, a thread is in the later one.
    let mut before: Map<i32, SimTime> = Map::new();
    for call in calls(text) {
        let started = match before.insert(call.thread, call.at) {
            Some(started) => started,
            None => {
                out.name(group, Some(call.thread), &format!("{stem} thread {}", call.thread))?;
                call.at
            }
        };
        let track = (group, call.thread);
        if call.result.is_empty() && call.arguments.is_empty() {
            out.instant(track, call.name, "signal", call.at, json!({}))?;
        } else if started < call.at || all {
            let more = json!({"arguments": call.arguments, "result": call.result});
            out.span(track, call.name, "system call", (started, call.at), more)?;
        }
    }
    Ok(())
}

/// Messages of a simulator's channels: a message to the simulator spans the channel's latency, one from it is
/// shown at its arrival.
fn channels(
    out: &mut Events<impl Write>,
    group: i32,
    simulator: &str,
    path: &std::path::Path,
) -> Result<(), TraceError> {
    let table = series(path)?;
    let columns = ["time_ps", "port", "direction", "arrives_ps", "bytes"].map(|name| table.column(name));
    let [Some(time), Some(port), Some(direction), Some(arrives), Some(bytes)] = columns else {
        return Ok(());
    };
    out.name(group, None, &format!("simulator {simulator}"))?;
    let mut tracks: Map<(&str, &str), i32> = Map::new();
    for row in &table.rows {
        let picos = |column: usize| SimTime::from_picos(row[column].parse().unwrap_or(0));
        let next = tracks.len() as i32 + 1;
        let track = *tracks.entry((&row[port], &row[direction])).or_insert(next);
        if track == next {
            out.name(group, Some(track), &format!("{} {}", row[direction], row[port]))?;
        }
        let (sent, arrived) = (picos(time), picos(arrives));
        let more = json!({"bytes": row[bytes], "time in ps": row[time], "arrives in ps": row[arrives]});
        match &*row[direction] {
            "to" => out.span((group, track), "message", "channel", (sent, arrived), more)?,
            _ => out.instant((group, track), "message", "channel", arrived, more)?,
        }
    }
    Ok(())
}

fn counters(out: &mut Events<impl Write>, results: &Results) -> Result<(), TraceError> {
    let table = series(&results.path().join(names::HOST_METRICS))?;
    let columns = ["time", "host", "bytes_in", "bytes_out", "egress_queue"].map(|name| table.column(name));
    let [Some(time), Some(host), Some(input), Some(output), Some(queue)] = columns else { return Ok(()) };
    let groups: Map<&str, i32> =
        results.statistics.hosts.keys().enumerate().map(|(n, name)| (name.as_str(), n as i32 + 1)).collect();
    for row in &table.rows {
        let number = |column: usize| row[column].parse::<f64>().unwrap_or(0.0);
        let Some(group) = groups.get(row[host].as_str()) else { continue };
        let at = number(time) * 1e6;
        for (name, values) in [
            ("bytes", json!({"received": number(input), "sent": number(output)})),
            ("egress queue", json!({"packets": number(queue)})),
        ] {
            out.event(&json!({"ph": "C", "name": name, "pid": group, "ts": at, "args": values}))?;
        }
    }
    Ok(())
}

struct Events<W: Write> {
    out: io::BufWriter<W>,
    first: bool,
}

impl<W: Write> Events<W> {
    fn event(&mut self, event: &Value) -> io::Result<()> {
        if !std::mem::take(&mut self.first) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut self.out, event).map_err(io::Error::from)
    }
    fn name(&mut self, group: i32, track: Option<i32>, name: &str) -> io::Result<()> {
        let what = if track.is_some() { "thread_name" } else { "process_name" };
        self.event(&json!({"ph": "M", "name": what, "pid": group, "tid": track, "args": {"name": name}}))
    }
    fn span(
        &mut self,
        (group, track): (i32, i32),
        name: &str,
        kind: &str,
        (from, to): (SimTime, SimTime),
        more: Value,
    ) -> io::Result<()> {
        let duration = to.since(from).as_nanos() as f64 / 1e3;
        self.event(
            &json!({"ph": "X", "name": name, "cat": kind, "pid": group, "tid": track, "ts": micros(from),
            "dur": duration, "args": more}),
        )
    }
    fn instant(
        &mut self,
        (group, track): (i32, i32),
        name: &str,
        kind: &str,
        at: SimTime,
        more: Value,
    ) -> io::Result<()> {
        self.event(&json!({"ph": "i", "s": "t", "name": name, "cat": kind, "pid": group, "tid": track,
            "ts": micros(at), "args": more}))
    }
}

fn micros(at: SimTime) -> f64 {
    at.as_nanos() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostStatistics, Statistics};

    #[test]
    fn a_call_spans_the_time_since_the_one_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().join("hosts/alice");
        std::fs::create_dir_all(&host).unwrap();
        let hosts = Map::from([("alice".to_owned(), HostStatistics::default())]);
        let statistics = Statistics { hosts, ..Statistics::default() };
        std::fs::write(dir.path().join(names::STATISTICS), statistics.to_json()).unwrap();
        let log = "1.000000000 [7] getpid() = 7\n1.000000000 [7] getpid() = 7\n1.500000000 [7] read(0, \"\", 1) = 0\n";
        std::fs::write(host.join("p.7.strace"), log).unwrap();
        let box_ = dir.path().join("simulators/box");
        std::fs::create_dir_all(&box_).unwrap();
        let messages = "time_ps,port,direction,arrives_ps,bytes\n2000000,left,to,2500000,98\n3000001,left,from,3000001,60\n";
        std::fs::write(box_.join(names::CHANNELS), messages).unwrap();
        let results = Results::open(dir.path()).unwrap();
        let mut out = Vec::new();
        trace(&results, false, &mut out).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        let of_channels = value["traceEvents"].as_array().unwrap().iter().filter(|e| e["cat"] == "channel");
        let of_channels: Vec<_> =
            of_channels.map(|e| (&e["ph"], &e["ts"], &e["dur"], &e["args"]["bytes"])).collect();
        let (span, instant) = (json!("X"), json!("i"));
        assert_eq!(of_channels.len(), 2);
        assert_eq!(of_channels[0], (&span, &json!(2.0), &json!(0.5), &json!("98")));
        assert_eq!((of_channels[1].0, of_channels[1].3), (&instant, &json!("60")));
        let spans = |all| {
            let mut out = Vec::new();
            trace(&results, all, &mut out).unwrap();
            let value: Value = serde_json::from_slice(&out).unwrap();
            let events = value["traceEvents"].as_array().unwrap().clone();
            events.into_iter().filter(|e| e["ph"] == "X" && e["cat"] != "channel").collect::<Vec<_>>()
        };
        assert_eq!(spans(true).len(), 3);
        let waiting = spans(false);
        assert_eq!(waiting.len(), 1);
        assert_eq!(
            (&waiting[0]["name"], &waiting[0]["ts"], &waiting[0]["dur"]),
            (&json!("read"), &json!(1e6), &json!(5e5))
        );
    }
}
