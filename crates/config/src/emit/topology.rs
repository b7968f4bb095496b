//! Sections `switches`, `routers` and `links` as YAML.

use super::{Writer, quoted};
use crate::model::Experiment;
use crate::topology::{Interface, Line, Routing, StaticRoute};
use belljar_net::QueueConfig;
use belljar_net::units::{format_bandwidth, format_duration};

impl Experiment {
    pub(super) fn topology(&self, out: &mut Writer) {
        let topology = &self.topology;
        if !topology.switches.is_empty() {
            out.section(0, "switches");
        }
        for switch in &topology.switches {
            out.section(1, &quoted(&switch.name));
            out.plain(2, "ageing", format_duration(switch.ageing));
        }
        if !topology.routers.is_empty() {
            out.section(0, "routers");
        }
        for router in &topology.routers {
            out.section(1, &quoted(&router.name));
            interfaces(out, &router.interfaces);
            routing(out, &router.routing, &router.interfaces);
        }
        if !topology.links.is_empty() {
            // Those of hosts are theirs; switches and routers have these.
            out.section(0, "host_option_defaults");
            out.plain(1, "pcap_enabled", topology.pcap_enabled);
            out.plain(1, "pcap_capture_size", format_args!("{} B", topology.pcap_capture_size));
            out.section(0, "links");
        }
        for link in &topology.links {
            let end = |n: usize| {
                let end = &link.ends[n];
                let interface = &self.node_interfaces(end.node)[end.port];
                quoted(&format!("{}:{}", self.node_name(end.node), interface.name))
            };
            out.text(0, "- name", &link.name);
            out.plain(1, "between", format_args!("[{}, {}]", end(0), end(1)));
            line(out, 1, &link.ends[0].line);
            if link.ends[1].line != link.ends[0].line {
                out.section(1, "reverse");
                line(out, 2, &link.ends[1].line);
            }
            out.plain(1, "mtu", link.mtu);
            out.plain(1, "cost", link.cost);
        }
    }
}

fn line(out: &mut Writer, level: usize, line: &Line) {
    out.plain(level, "rate", line.rate.map_or("unlimited".to_owned(), format_bandwidth));
    out.plain(level, "latency", format_duration(line.latency));
    out.plain(level, "jitter", format_duration(line.jitter));
    out.plain(level, "packet_loss", line.loss);
    match line.queue {
        QueueConfig::Packets(n) => out.plain(level, "queue", format_args!("{{ packets: {n} }}")),
        QueueConfig::Bytes(n) => out.plain(level, "queue", format_args!("{{ bytes: {n} B }}")),
        QueueConfig::Codel { packets, codel } => {
            let (target, interval) = (format_duration(codel.target), format_duration(codel.interval));
            let codel = format!("{{ packets: {packets}, target: {target}, interval: {interval} }}");
            out.plain(level, "queue", format_args!("{{ codel: {codel} }}"));
        }
    }
    out.plain(level, "overhead", format_args!("{} B", line.overhead));
}

/// What a host or router says of its interfaces.
pub(super) fn interfaces(out: &mut Writer, interfaces: &[Interface]) {
    if !interfaces.is_empty() {
        out.section(2, "interfaces");
    }
    for interface in interfaces {
        out.section(3, &quoted(&interface.name));
        let addresses: Vec<String> = interface.addresses.iter().map(|own| own.to_string()).collect();
        out.plain(4, "addresses", format_args!("[{}]", addresses.join(", ")));
        if let Some([a, b, c, d, e, f]) = interface.mac {
            let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
            out.text(4, "mac", &mac);
        }
    }
}

/// Where its routes come from.
pub(super) fn routing(out: &mut Writer, routing: &Routing, interfaces: &[Interface]) {
    out.plain(2, "routing", if routing.computed { "shortest_path" } else { "static" });
    if !routing.routes.is_empty() {
        out.section(2, "routes");
    }
    for StaticRoute { to, via, device, metric } in &routing.routes {
        out.plain(2, "- to", to);
        let via: Vec<String> = via.iter().map(|ip| ip.to_string()).collect();
        if !via.is_empty() {
            out.plain(3, "via", format_args!("[{}]", via.join(", ")));
        }
        if let Some(device) = device {
            out.text(3, "dev", &interfaces[*device].name);
        }
        out.plain(3, "metric", metric);
    }
}
