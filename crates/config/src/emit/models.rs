//! Traffic models as YAML.

use super::{Writer, quoted, time};
use crate::model::Model;
use belljar_base::{SimDuration, SimTime};
use belljar_models::{Direction, Draw, Endpoint, Kind, Pace, Spacing};
use belljar_net::units::{format_bandwidth, format_duration};

pub(super) fn model(out: &mut Writer, model: &Model) {
    let mut keys = Keys(Vec::new());
    let spec = &model.spec;
    let kind = match &spec.kind {
        Kind::Bulk(bulk) => {
            keys.endpoints(&bulk.to);
            match bulk.direction {
                Direction::Up => keys.add("size", unlimited_or(bulk.size, |size| draw(size, bytes))),
                Direction::Down => keys.add("direction", "down".to_owned()),
            }
            keys.pace(bulk.pace);
            "bulk"
        }
        Kind::Sink { port, udp } => {
            keys.add("port", port.to_string());
            keys.add("protocol", if *udp { "udp" } else { "tcp" }.to_owned());
            "sink"
        }
        Kind::Source { port, size } => {
            keys.add("port", port.to_string());
            keys.add("size", unlimited_or(*size, |size| draw(size, bytes)));
            "source"
        }
        Kind::Http(http) => {
            keys.endpoints(&http.to);
            keys.add("path", quoted(&http.path));
            keys.add("request_size", draw(http.request_size, bytes));
            keys.add("keep_alive", http.keep_alive.to_string());
            keys.add("timeout", format_duration(http.timeout));
            keys.pace(http.pace);
            "http"
        }
        Kind::HttpServer(server) => {
            keys.add("port", server.port.to_string());
            keys.add("response_size", draw(server.response_size, bytes));
            keys.add("delay", draw(server.delay, picos));
            "http_server"
        }
        Kind::Datagrams(datagrams) => {
            keys.endpoints(std::slice::from_ref(&datagrams.to));
            keys.add("rate", format_bandwidth(datagrams.rate));
            keys.add("datagram_size", bytes(datagrams.datagram_size));
            if let Some(duration) = datagrams.duration {
                keys.add("duration", format_duration(duration));
            }
            if let Some((on, off)) = datagrams.bursts {
                keys.add("burst", draw(on, picos));
                keys.add("silence", draw(off, picos));
            }
            if datagrams.bursts.is_some() { "on_off" } else { "constant_rate" }
        }
        Kind::Dns(dns) => {
            keys.endpoints(std::slice::from_ref(&dns.to));
            let names: Vec<String> = dns.names.iter().map(|name| quoted(name)).collect();
            keys.add("names", format!("[{}]", names.join(", ")));
            keys.add("timeout", format_duration(dns.timeout));
            keys.add("retries", dns.retries.to_string());
            keys.pace(dns.pace);
            "dns"
        }
        Kind::DnsServer { port, delay } => {
            keys.add("port", port.to_string());
            keys.add("delay", draw(*delay, picos));
            "dns_server"
        }
    };
    let name = if spec.name == kind { String::new() } else { format!(", name: {}", quoted(&spec.name)) };
    out.plain(2, "- model", format_args!("{{ type: {kind}{name}, {} }}", keys.0.join(", ")));
    match model.start_time {
        SimTime::ZERO => {}
        SimTime::MAX => out.plain(3, "start_time", "never"),
        start => out.plain(3, "start_time", time(start)),
    }
    if let Some(shutdown) = model.shutdown_time {
        out.plain(3, "shutdown_time", time(shutdown));
    }
}

/// `key: value` pairs in order.
struct Keys(Vec<String>);

impl Keys {
    fn add(&mut self, key: &str, value: String) {
        self.0.push(format!("{key}: {value}"));
    }
    fn endpoints(&mut self, to: &[Endpoint]) {
        let all: Vec<String> = to.iter().map(|endpoint| format!("\"{endpoint}\"")).collect();
        self.add("to", if let [one] = &all[..] { one.clone() } else { format!("[{}]", all.join(", ")) });
    }
    fn pace(&mut self, pace: Pace) {
        self.add("count", unlimited_or(pace.count, |count| count.to_string()));
        match pace.spacing {
            Spacing::Pause(pause) => self.add("pause", draw(pause, picos)),
            Spacing::Interval(interval) => self.add("interval", draw(interval, picos)),
        }
    }
}

fn unlimited_or<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or("unlimited".to_owned(), text)
}

fn bytes(value: u64) -> String {
    format!("{value} B")
}

fn picos(value: u64) -> String {
    format_duration(SimDuration::from_picos(value))
}

fn draw(draw: Draw, text: fn(u64) -> String) -> String {
    match draw {
        Draw::Fixed(value) => text(value),
        Draw::Uniform(least, most) => format!("{{ uniform: [{}, {}] }}", text(least), text(most)),
        Draw::Exponential(mean) => format!("{{ exponential: {} }}", text(mean)),
        Draw::Pareto { mean, shape, max } => {
            format!("{{ pareto: {{ mean: {}, shape: {shape}, max: {} }} }}", text(mean), text(max))
        }
    }
}
