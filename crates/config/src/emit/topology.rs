//! Sections `switches`, `routers`, `simulators`, `radios`, `gateways`, `nics` and `links` as YAML.

use super::line::line;
use super::{Writer, quoted};
use crate::model::Experiment;
use crate::topology::{
    Device, DeviceKind, Gateway, Interface, P4Setup, P4Switch, PciDriverKind, Routing, Simulator, StaticRoute,
};
use belljar_net::MssClamp;
use belljar_net::routes::Ip;
use belljar_net::units::format_duration;

impl Experiment {
    pub(super) fn topology(&self, out: &mut Writer) {
        let topology = &self.topology;
        let mut section = "";
        for device in &topology.devices {
            let (_, of_kind) = device.kind.noun();
            if section != of_kind {
                section = of_kind;
                out.section(0, section);
            }
            out.section(1, &quoted(&device.name));
            match &device.kind {
                DeviceKind::Switch(switch) => out.plain(2, "ageing", format_duration(switch.ageing)),
                DeviceKind::P4(p4) => p4_switch(out, p4, &device.interfaces),
                DeviceKind::Router(router) => {
                    interfaces(out, &device.interfaces);
                    routing(out, &router.routing, &device.interfaces);
                    match router.clamp_mss {
                        None => {}
                        Some(MssClamp::PathMtu) => out.plain(2, "clamp_mss", "path_mtu"),
                        Some(MssClamp::To(bytes)) => out.plain(2, "clamp_mss", bytes),
                    }
                }
                DeviceKind::Simulator(settings) => {
                    simulator(out, device, settings);
                    self.devices_of(out, &device.interfaces);
                }
                DeviceKind::Nic(nic) => {
                    if let Some(mac) = nic.mac {
                        out.text(2, "mac", &mac_text(mac));
                    }
                    out.plain(2, "fetch", format_duration(nic.fetch));
                    out.plain(2, "write_back", format_duration(nic.write_back));
                    out.plain(2, "register", format_duration(nic.register));
                }
                DeviceKind::Memory(memory) => {
                    out.plain(2, "size", format_args!("{} B", memory.size));
                    out.plain(2, "access", format_duration(memory.access));
                }
                DeviceKind::Radio(radio) => self.radio(out, device, radio),
                DeviceKind::Gateway(settings) => gateway(out, settings),
            }
        }
        if !topology.links.is_empty() {
            // These options apply to devices; hosts have their own.
            out.section(0, "host_option_defaults");
            out.plain(1, "pcap_enabled", topology.pcap_enabled);
            out.plain(1, "pcap_capture_size", format_args!("{} B", topology.pcap_capture_size));
            super::capture_filter(out, 1, &topology.pcap_filter);
            out.section(0, "links");
        }
        for link in topology.links.iter().filter(|link| link.pci.is_none()) {
            let end = |n: usize| {
                let end = &link.ends[n];
                let interface = &self.node_interfaces(end.node)[end.port];
                quoted(&format!("{}:{}", self.node_name(end.node), interface.name))
            };
            out.text(0, "- name", &link.name);
            out.plain(1, "between", format_args!("[{}, {}]", end(0), end(1)));
            let [there, back] = link.ends.each_ref().map(|end| &end.properties);
            if topology.is_channel(link, self.hosts.len()) {
                out.plain(1, "latency", format_duration(there.latency));
                if back.latency != there.latency {
                    out.section(1, "reverse");
                    out.plain(2, "latency", format_duration(back.latency));
                }
            } else {
                line(out, 1, there);
                if back != there {
                    out.section(1, "reverse");
                    line(out, 2, back);
                }
                out.plain(1, "mtu", link.mtu);
            }
            out.plain(1, "cost", link.cost);
        }
    }
}

impl Experiment {
    /// Writes the PCI connections of a host or simulator with these interfaces.
    pub(super) fn devices_of(&self, out: &mut Writer, interfaces: &[Interface]) {
        // In the order of the links, which is the order in the file; interfaces are sorted by name.
        let mut own: Vec<_> = interfaces.iter().filter(|interface| interface.end == 0).collect();
        own.sort_by_key(|interface| interface.link);
        let mut first = true;
        for interface in own {
            let link = &self.topology.links[interface.link];
            let Some(pci) = &link.pci else { continue };
            if std::mem::take(&mut first) {
                out.section(2, "devices");
            }
            let is_memory = |device: &Device| matches!(device.kind, DeviceKind::Memory(_));
            let key =
                if self.device(link.ends[1].node).is_some_and(is_memory) { "- memory" } else { "- pci" };
            out.text(2, key, self.node_name(link.ends[1].node));
            out.text(3, "interface", &interface.name);
            out.plain(3, "latency", format_duration(pci.latency));
            if let Some(driver) = &pci.driver {
                out.plain(3, "driver", driver.kind.name());
                out.plain(3, "mtu", link.mtu);
                if driver.kind == PciDriverKind::E1000 {
                    out.plain(3, "interrupts", if driver.msi { "msi" } else { "intx" });
                    out.plain(3, "interrupt_interval", format_duration(driver.interrupt_interval));
                }
                out.plain(3, "ring", driver.ring);
            }
        }
    }
}

fn mac_text([a, b, c, d, e, f]: [u8; 6]) -> String {
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

fn simulator(out: &mut Writer, device: &Device, simulator: &Simulator) {
    if !simulator.command.is_empty() {
        let command: Vec<String> = simulator.command.iter().map(|argument| quoted(argument)).collect();
        out.plain(2, "command", format_args!("[{}]", command.join(", ")));
    }
    if !simulator.environment.is_empty() {
        out.section(2, "environment");
    }
    for (name, value) in &simulator.environment {
        out.text(3, &quoted(name), value);
    }
    if !simulator.working_directory.as_os_str().is_empty() {
        out.path(2, "working_directory", &simulator.working_directory);
    }
    out.plain(2, "sync", simulator.sync);
    out.plain(2, "latency", format_duration(simulator.latency));
    out.plain(2, "sync_interval", format_duration(simulator.sync_interval));
    out.plain(2, "start_timeout", format_duration(simulator.start_timeout));
    out.plain(2, "ends", simulator.ends.name());
    out.section(2, "ports");
    for (interface, port) in device.interfaces.iter().zip(&simulator.ports) {
        out.section(3, &quoted(&interface.name));
        out.plain(4, "role", if port.listens { "listen" } else { "connect" });
        if let Some(socket) = &port.socket {
            out.path(4, "socket", socket);
        }
    }
}

fn gateway(out: &mut Writer, gateway: &Gateway) {
    out.text(2, "interface", &gateway.interface);
    if let Some(address) = &gateway.address {
        out.plain(2, "address", address);
    }
    if let Some(namespace) = &gateway.namespace {
        out.text(2, "namespace", namespace);
    }
    if let Some(limit) = gateway.hard_limit {
        out.plain(2, "hard_limit", format_duration(limit));
    }
}

/// Writes the settings of a P4 switch.
fn p4_switch(out: &mut Writer, p4: &P4Switch, interfaces: &[Interface]) {
    if let Some(source) = &p4.source {
        out.path(2, "p4", &source.path);
        let folders: Vec<String> =
            source.include.iter().map(|path| quoted(&path.to_string_lossy())).collect();
        if !folders.is_empty() {
            out.plain(2, "include", format_args!("[{}]", folders.join(", ")));
        }
        if !source.define.is_empty() {
            out.section(2, "define");
        }
        for (name, value) in &source.define {
            out.text(3, name, value);
        }
        if let Some(path) = &source.p4info {
            out.path(2, "p4info", path);
        }
    }
    p4_setups(out, 2, &p4.setup);
    let config = &p4.config;
    if config.limits.packets != u32::MAX {
        out.plain(2, "queue_packets", config.limits.packets);
    }
    if let Some(bytes) = config.limits.bytes {
        out.plain(2, "queue_bytes", format_args!("{bytes} B"));
    }
    out.plain(2, "queues", config.queues);
    out.plain(2, "input_packets", config.input_packets);
    out.plain(2, "latency", format_duration(config.latency));
    if let Some(rate) = config.packets_per_second {
        out.plain(2, "packets_per_second", rate);
    }
    out.plain(2, "timestamps", if config.nanoseconds { "ns" } else { "us" });
    if let Some(port) = config.cpu_port {
        out.plain(2, "cpu_port", port);
    }
    out.plain(2, "trace", p4.trace);
    let Some(management) = &p4.management else { return };
    let interface = &interfaces[management.interface];
    out.section(2, "management");
    out.text(3, "interface", &interface.name);
    if let Some(address) = interface.addresses.first() {
        out.plain(3, "address", address);
    }
    let ports: Vec<String> = management.ports.iter().map(u16::to_string).collect();
    out.plain(3, "port", format_args!("[{}]", ports.join(", ")));
    out.plain(3, "thrift_port", management.thrift_port);
    out.plain(3, "device_id", management.device_id);
    out.plain(3, "control_latency", format_duration(management.control_latency));
}

/// Writes runtime files and commands: names of files, and blocks of text.
pub(crate) fn p4_setups(out: &mut Writer, level: usize, setup: &[P4Setup]) {
    for (key, commands) in [("runtime", false), ("commands", true)] {
        let mut all =
            setup.iter().filter(|setup| matches!(setup, P4Setup::Commands(..)) == commands).peekable();
        if all.peek().is_none() {
            continue;
        }
        out.section(level, key);
        for one in all {
            match one.path().as_os_str().is_empty() {
                true => out.block_item(level, one.text()),
                false => out.item(level, &quoted(&one.path().to_string_lossy())),
            }
        }
    }
}

/// Writes the interfaces of a host or router.
pub(super) fn interfaces(out: &mut Writer, interfaces: &[Interface]) {
    if !interfaces.is_empty() {
        out.section(2, "interfaces");
    }
    for interface in interfaces {
        out.section(3, &quoted(&interface.name));
        let v4 = interface.addresses.iter().map(|own| own.to_string());
        let v6 = interface.addresses6.iter().map(|own| quoted(&own.to_string()));
        let slaac = interface.slaac.then(|| "slaac".to_owned());
        let addresses: Vec<String> = v4.chain(v6).chain(slaac).collect();
        out.plain(4, "addresses", format_args!("[{}]", addresses.join(", ")));
        if interface.advertise {
            out.plain(4, "advertise", "true");
        }
        if let Some(mac) = interface.mac {
            out.text(4, "mac", &mac_text(mac));
        }
    }
}

/// Writes the routing method and the static routes.
pub(super) fn routing(out: &mut Writer, routing: &Routing, interfaces: &[Interface]) {
    out.plain(2, "routing", if routing.computed { "shortest_path" } else { "static" });
    if !routing.routes.is_empty() || !routing.routes6.is_empty() {
        out.section(2, "routes");
    }
    routing.routes.iter().for_each(|each| route(out, each, interfaces));
    routing.routes6.iter().for_each(|each| route(out, each, interfaces));
}

fn route<A: Ip>(out: &mut Writer, route: &StaticRoute<A>, interfaces: &[Interface]) {
    let StaticRoute { to, via, device, metric } = route;
    // A default route shows its address family by its next hop or its prefix.
    out.text(2, "- to", &to.to_string());
    let via: Vec<String> = via.iter().map(|ip| quoted(&ip.to_string())).collect();
    if !via.is_empty() {
        out.plain(3, "via", format_args!("[{}]", via.join(", ")));
    }
    if let Some(device) = device {
        out.text(3, "dev", &interfaces[*device].name);
    }
    out.plain(3, "metric", metric);
}
