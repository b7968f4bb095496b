//! P4 switch: its ports are the ends of links, a [`SwitchDevice`] runs its program, and controllers connect
//! to its management interface ([`control`]).

mod control;
mod statistics;

use super::{Device, DeviceAccount};
use crate::fabric::Fabric;
use belljar_base::{HostId, SimTime};
use belljar_config::topology::P4Setup;
use belljar_config::{Experiment, topology};
use belljar_net::nic::Limit;
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, DropReason, NicChange, Packet, QueueConfig};
use belljar_p4::servers::CreateServers;
use belljar_p4::switch::QueueLimits;
use belljar_p4::{PortSettings, Switch, SwitchConfig, SwitchDevice};
use belljar_plan::{LinkChange, link_nic};
use belljar_results::Statistics;
use control::Control;

/// Maximum number of failed events that are reported individually.
const MAX_FAILURES: usize = 100;

/// P4 switch.
struct P4Switch {
    device: SwitchDevice,
    /// Names of the interfaces.
    names: Vec<String>,
    /// Attachments of the interfaces, by index.
    interfaces: Vec<Attachment>,
    /// Index of the interface of each P4 port.
    by_port: Vec<Option<usize>>,
    /// Queue limits of ports whose link defines none.
    limits: QueueLimits,
    /// Index of the management interface, and its servers, if the switch has one.
    control: Option<(usize, Box<Control>)>,
    /// Number of notifications (digests, messages, idle entries) issued without a server.
    told: u64,
    /// Packets sent by P4 ports without a link.
    unlinked: u64,
    /// Frames received by a management interface without servers.
    unserved: u64,
    /// True if the packet-processing decisions are traced.
    traced: bool,
    /// Reports of setups at the start and scheduled files or commands that failed.
    failures: Vec<String>,
}

/// Attachment of an interface.
#[derive(Clone, Copy, Debug)]
enum Attachment {
    /// P4 port, with its current settings.
    Port(u16, PortSettings),
    /// Management interface.
    Management,
}

/// Builds the switch that these settings describe, with its initial entries.
pub fn new(
    experiment: &Experiment,
    id: HostId,
    device: &topology::Device,
    settings: &topology::P4Switch,
    create_servers: Option<CreateServers>,
    fabric: &Fabric,
) -> Box<dyn Device> {
    let attachment = |(interface, port): (&topology::Interface, Option<u16>)| match port {
        None => Attachment::Management,
        Some(port) => {
            let nic = link_nic(experiment, interface);
            let limits = limits(&nic.queue, settings.config.limits);
            let (rate, overhead, token_bucket) = (nic.bandwidth_up, nic.overhead, nic.token_bucket);
            Attachment::Port(port, PortSettings { rate, overhead, limits, token_bucket })
        }
    };
    let ports = settings.ports(&device.interfaces);
    let interfaces: Vec<Attachment> =
        device.interfaces.iter().zip(ports.iter().copied()).map(attachment).collect();
    let mut by_port = vec![None; usize::from(settings.config.ports)];
    for (interface, port) in ports.iter().enumerate().filter_map(|(n, port)| Some((n, (*port)?))) {
        by_port[usize::from(port)] = Some(interface);
    }
    let config =
        SwitchConfig { name: device.name.clone(), seed: experiment.seed(), ..settings.config.clone() };
    let mut made = SwitchDevice::new(config.clone());
    for attachment in &interfaces {
        if let Attachment::Port(port, settings) = attachment {
            made.set_port(SimTime::ZERO, *port, *settings);
        }
    }
    for (port, interface) in by_port.iter().enumerate() {
        // A P4 port without a link has no carrier.
        if interface.is_none() {
            made.set_carrier(SimTime::ZERO, port as u16, false);
        }
    }
    let control = settings.management.as_ref().map(|management| {
        let create = create_servers.expect("a run with management interfaces has their servers");
        let control = Control::new(experiment, id, device, management, create, fabric);
        (management.interface, Box::new(control))
    });
    let mut failures = Vec::new();
    let mut switch = P4Switch {
        device: made,
        names: device.interfaces.iter().map(|i| i.name.clone()).collect(),
        interfaces,
        by_port,
        limits: settings.config.limits,
        control,
        told: 0,
        unlinked: 0,
        unserved: 0,
        traced: settings.trace,
        failures: Vec::new(),
    };
    if settings.trace {
        switch.device.trace();
    }
    if let Some(source) = &settings.source {
        let p4info = source.loaded.p4info.as_deref();
        let program = &source.loaded.program;
        match (&mut switch.control, p4info) {
            (Some((_, control)), Some(p4info)) => {
                failures.extend(control.install(&mut switch.device, source, p4info).err());
            }
            _ => switch.device.install(Switch::new(program.clone(), config)),
        }
        if let Some(made) = switch.device.switch() {
            // The files have been checked when the experiment was loaded.
            failures.extend(
                settings.setup.iter().filter_map(|setup| setup.apply(made).err()).map(|e| e.to_string()),
            );
        }
        if let Some((_, control)) = &mut switch.control {
            control.import(&mut switch.device);
        }
    }
    switch.failures = failures;
    Box::new(switch)
}

/// Queue limits of a port, from its link's queue and the limits of its switch.
fn limits(queue: &QueueConfig, of_switch: QueueLimits) -> QueueLimits {
    match queue {
        QueueConfig::Fifo { limit: Limit::Packets(packets), .. } => {
            let packets = u32::try_from(*packets).unwrap_or(u32::MAX);
            // The loader uses the switch's packet limit for links without a queue; the switch's byte limit
            // then applies as well.
            let bytes = of_switch.bytes.filter(|_| packets == of_switch.packets);
            QueueLimits { packets, bytes, ..of_switch }
        }
        QueueConfig::Fifo { limit: Limit::Bytes(bytes), .. } => {
            QueueLimits { packets: u32::MAX, bytes: Some(*bytes as u64), ..of_switch }
        }
        // The loader refuses other kinds of queues.
        _ => of_switch,
    }
}

impl P4Switch {
    /// Runs the servers if they have work, and passes the switch's notifications to them.
    fn serve(&mut self, now: SimTime) {
        match &mut self.control {
            Some((_, control)) => {
                // Most packets do not involve a controller.
                if control.is_due(now) || self.device.look().is_some_and(Switch::has_notifications) {
                    control.run(now, &mut self.device);
                }
            }
            None => {
                while self.device.switch().is_some_and(|switch| switch.notification().is_some()) {
                    self.told += 1;
                }
            }
        }
    }
}

impl Device for P4Switch {
    fn receive(&mut self, now: SimTime, port: usize, frame: Packet) {
        match (self.interfaces[port], &mut self.control) {
            (Attachment::Port(port, _), _) => self.device.receive(now, port, frame.into_bytes()),
            (Attachment::Management, Some((_, control))) => control.receive(now, frame),
            (Attachment::Management, None) => self.unserved += 1,
        }
    }
    fn on_timeout(&mut self, now: SimTime) {
        self.device.set_time(now);
        self.serve(now);
    }
    fn change(&mut self, now: SimTime, change: LinkChange) {
        self.device.set_time(now);
        let at = |port: &usize| self.interfaces[*port];
        match (&change, &mut self.control) {
            (LinkChange::Carrier(port, on), control) => match (at(port), control) {
                (Attachment::Port(port, _), _) => self.device.set_carrier(now, port, *on),
                (Attachment::Management, Some((_, control))) => control.change(now, change),
                (Attachment::Management, None) => {}
            },
            (LinkChange::Nic(port, nic), control) => match (&mut self.interfaces[*port], control) {
                (Attachment::Port(port, settings), _) => match nic {
                    // Queue limits set by commands remain.
                    NicChange::Rate(rate) => {
                        settings.rate = *rate;
                        self.device.set_rate(now, *port, *rate);
                    }
                    NicChange::Queue(queue) => {
                        settings.limits = limits(queue, self.limits);
                        self.device.set_port(now, *port, *settings);
                    }
                    NicChange::TokenBucket(bucket) => {
                        settings.token_bucket = *bucket;
                        self.device.set_token_bucket(now, *port, *bucket);
                    }
                },
                (Attachment::Management, Some((_, control))) => control.change(now, change),
                (Attachment::Management, None) => {}
            },
            (LinkChange::Routes(_) | LinkChange::Routes6(_), Some((_, control))) => {
                control.change(now, change)
            }
            (LinkChange::Blocked(_) | LinkChange::Routes(_) | LinkChange::Routes6(_), _) => {}
        }
    }
    fn set_up(&mut self, now: SimTime, setup: &[P4Setup]) {
        self.device.set_time(now);
        let failed = P4Setup::apply_event(setup, self.device.switch()).err();
        if let Some((_, control)) = &mut self.control {
            control.import(&mut self.device);
        }
        let told = self.failures.len();
        match failed {
            Some(failure) if told < MAX_FAILURES => {
                self.failures.push(format!("at {:.6} s: {failure}", now.as_secs_f64()));
            }
            Some(_) if told == MAX_FAILURES => self.failures.push("refused further events".to_owned()),
            _ => {}
        }
    }
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        loop {
            if let Some(leaving) = self.device.poll(now) {
                // The egress port of a program may have no link and thus no carrier.
                let Some(port) = self.by_port.get(usize::from(leaving.port)).copied().flatten() else {
                    self.unlinked += 1;
                    continue;
                };
                let packet = Packet::new(leaving.packet);
                return Some(EgressFrame { port, at: leaving.at, departs: leaving.departs, packet });
            }
            self.serve(now);
            if let Some((interface, control)) = &mut self.control
                && let Some((departs, packet)) = control.departure()
            {
                return Some(EgressFrame { port: *interface, at: now, departs, packet });
            }
            if self.device.next_event().is_none_or(|at| at > now) {
                return None;
            }
        }
    }
    fn next_event(&self) -> Option<SimTime> {
        let control = self.control.as_ref().and_then(|(_, control)| control.next_event());
        [self.device.next_event(), control].into_iter().flatten().min()
    }
    fn counters(&self, port: usize) -> Counters {
        let port = match (self.interfaces[port], &self.control) {
            (Attachment::Port(port, _), _) => port,
            (Attachment::Management, Some((_, control))) => return control.counters(),
            (Attachment::Management, None) => return Counters::default(),
        };
        let switch = self.device.look();
        let port = switch.and_then(|switch| switch.port_counters(port)).copied().unwrap_or_default();
        let mut counters = Counters::default();
        (counters.packets_in, counters.bytes_in) = (port.packets_in, port.bytes_in);
        (counters.packets_out, counters.bytes_out) = (port.packets_out, port.bytes_out);
        counters.add_drops(DropReason::EgressFull, port.queue_full);
        counters.add_drops(DropReason::LinkDown, port.link_down);
        counters
    }
    fn queue_len(&self, port: usize) -> usize {
        match (self.interfaces[port], &self.control) {
            (Attachment::Port(port, _), _) => self.device.look().map_or(0, |switch| switch.queue_len(port)),
            (Attachment::Management, Some((_, control))) => control.queue_len(),
            (Attachment::Management, None) => 0,
        }
    }
    fn packet_accounts(&self) -> Vec<DeviceAccount> {
        let mut account = self.device.packet_account();
        account.sent -= self.unlinked;
        account.drop_for("unlinked_port", self.unlinked);
        account.received += self.unserved;
        account.drop_for("no_server", self.unserved);
        let mut accounts = vec![DeviceAccount::whole(account)];
        if let Some((port, control)) = &self.control {
            accounts.extend(control.packet_accounts(*port));
        }
        accounts
    }
    fn take_log(&mut self) -> String {
        match self.traced {
            true => self.device.switch().map(Switch::take_trace).unwrap_or_default(),
            false => String::new(),
        }
    }
    fn state_files(&self) -> Vec<(&'static str, String)> {
        let Some(switch) = self.device.look() else { return Vec::new() };
        let files = [
            ("tables.csv", switch.tables_as_csv()),
            ("counters.csv", switch.counters_as_csv()),
            ("registers.csv", switch.registers_as_csv()),
        ];
        // Files without rows are omitted.
        files.into_iter().filter(|(_, text)| text.lines().nth(1).is_some()).collect()
    }
    fn add_statistics(&self, name: &str, statistics: &mut Statistics) {
        statistics.p4_switches.insert(name.to_owned(), self.statistics());
        for failure in &self.failures {
            *statistics.warnings.entry(format!("switch '{name}' {failure}")).or_default() += 1;
        }
    }
}
