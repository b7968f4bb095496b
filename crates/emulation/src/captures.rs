//! Captures of an emulation: a packet socket on each captured interface, and one thread that writes all of
//! them to the same pcap files as a simulation does.

use crate::clock::ExperimentClock;
use crate::error::{Error, Result};
use crate::nodes::Node;
use belljar_base::HostId;
use belljar_config::topology::DeviceKind;
use belljar_config::{CaptureFilter, Experiment};
use belljar_net::Filter;
use belljar_packetio::{Namespace, PacketOptions, PacketRing, Port, Timestamps};
use belljar_results::{CaptureWriter, Growing, ResultsFolder, Writer, names};
use belljar_wire::ethernet::HEADER_LEN;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Maximum number of packets taken from an interface at a time.
const BATCH: usize = 256;
/// Bytes kept of each packet that properties are about.
const JUDGED_BYTES: usize = 65_535;

/// Captured interface.
struct Captured {
    port: PacketRing,
    file: Arc<Growing>,
    keep: usize,
    filter: Option<Filter>,
    /// True if the file holds Ethernet frames instead of IP packets.
    ethernet: bool,
    path: PathBuf,
    /// Index of the node.
    node: usize,
}

/// All captures of a run.
pub struct Captures {
    interfaces: Vec<Captured>,
    writer: Writer,
}

impl Captures {
    /// Opens the captures that the experiment asks for.
    pub fn open(experiment: &Experiment, folder: &ResultsFolder, nodes: &[Node]) -> Result<Captures> {
        let mut captures = Captures { interfaces: Vec::new(), writer: Writer::new(false) };
        for (host, node) in experiment.hosts.iter().zip(nodes).filter(|(host, _)| host.options.pcap_enabled) {
            let place = Path::new("hosts").join(&host.name);
            let keep = host.options.pcap_capture_size as usize;
            let graph = host.node.map(|_| ("eth0", false));
            let links = host.interfaces.iter().map(|interface| (&*interface.name, true));
            for (name, ethernet) in [("lo", false)].into_iter().chain(graph).chain(links) {
                captures.add(
                    experiment,
                    folder,
                    node,
                    (&place, name),
                    (keep, ethernet),
                    &host.options.pcap_filter,
                )?;
            }
        }
        for (id, node) in (0..experiment.hosts.len() as u32).map(HostId).zip(nodes) {
            let host = &experiment.hosts[id.index()];
            let place = Path::new(names::PACKETS).join(&host.name);
            for name in host.interface_names() {
                // Packets that properties are about are apart from other captures.
                let Some(filter) = experiment.judged_packets(id, name) else { continue };
                let ethernet = host.interfaces.iter().any(|interface| interface.name == name);
                let filter = CaptureFilter::Packets(filter);
                captures.add(experiment, folder, node, (&place, name), (JUDGED_BYTES, ethernet), &filter)?;
            }
        }
        if experiment.topology.pcap_enabled {
            let topology = &experiment.topology;
            let devices = topology.devices.iter().zip(&nodes[experiment.hosts.len()..]);
            // A capture at a gateway would equal that of the link's other end.
            for (device, node) in devices.filter(|(d, _)| !matches!(d.kind, DeviceKind::Gateway(_))) {
                let place = Path::new(device.kind.noun().1).join(&device.name);
                for interface in &device.interfaces {
                    let keep = topology.pcap_capture_size as usize;
                    let name = (&*place, &*interface.name);
                    captures.add(experiment, folder, node, name, (keep, true), &topology.pcap_filter)?;
                }
            }
        }
        Ok(captures)
    }

    fn add(
        &mut self,
        experiment: &Experiment,
        folder: &ResultsFolder,
        node: &Node,
        (place, name): (&Path, &str),
        (keep, ethernet): (usize, bool),
        filter: &CaptureFilter,
    ) -> Result<()> {
        let Some(text) = filter.of(name) else { return Ok(()) };
        let parsed = Filter::parse(text, &|name| experiment.addresses_of(name)).map_err(Error::new)?;
        // A packet over `lo` is captured once, on reception.
        let options = PacketOptions {
            outgoing: name != "lo",
            promiscuous: false,
            timestamps: Timestamps::Kernel,
            ring_bytes: 4 << 20,
            ..PacketOptions::default()
        };
        let port = Namespace::Fd(node.fd()).run(|| PacketRing::open(name, &options));
        let port = match port {
            // The spanning tree has disabled the port.
            Err(belljar_packetio::Error::Down { .. }) => return Ok(()),
            other => other?,
        };
        let path = place.join(format!("{name}.pcap"));
        let file = self.writer.file(folder.create_file(&path)?);
        let filter = (!text.is_empty()).then_some(parsed);
        self.interfaces.push(Captured { port, file, keep, filter, ethernet, path, node: node.id.index() });
        Ok(())
    }

    /// True if no interface is captured.
    pub fn is_empty(&self) -> bool {
        self.interfaces.is_empty()
    }

    /// Writes packets until `stop` is set, and then those still queued. Time stamps are experiment times by
    /// the clocks of the nodes; the epoch of a file is the second in which the experiment began. Returns
    /// the number of packets that were missed.
    pub fn run(self, clocks: &[ExperimentClock], stop: &AtomicBool) -> Result<u64> {
        let mut open: Vec<(Captured, CaptureWriter)> = Vec::new();
        for captured in self.interfaces {
            let epoch_secs = clocks[captured.node].wall_at_beginning() / 1_000_000_000;
            let file =
                CaptureWriter::new(captured.file.clone(), epoch_secs, captured.keep, captured.ethernet);
            open.push((captured, file));
        }
        loop {
            let last = stop.load(Relaxed);
            let moved: usize =
                open.iter_mut().map(|(captured, file)| captured.take(file, &clocks[captured.node])).sum();
            match (moved, last) {
                (0, true) => break,
                (0, false) => {
                    let ports = open.iter();
                    let mut fds: Vec<PollFd<'_>> =
                        ports.map(|(c, _)| PollFd::from_borrowed_fd(c.port.fd(), PollFlags::IN)).collect();
                    let timeout = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                    let _ = poll(&mut fds, Some(&timeout));
                }
                _ => {}
            }
        }
        let mut missed = 0;
        for (mut captured, file) in open {
            let counters = captured.port.counters();
            missed += counters.dropped_kernel + counters.dropped_port;
            file.finish().map_err(|error| {
                Error::new(format!("the capture {} cannot be written: {error}", captured.path.display()))
            })?;
        }
        Ok(missed)
    }
}

impl Captured {
    fn take(&mut self, file: &mut CaptureWriter, clock: &ExperimentClock) -> usize {
        let Captured { port, filter, ethernet, .. } = self;
        let mut each = |frame: belljar_packetio::Frame<'_>| {
            let at = frame.time.map_or_else(|| clock.time(), |time| clock.at_wall(time.nanos));
            let packet = if *ethernet { Some(frame.bytes) } else { frame.bytes.get(HEADER_LEN..) };
            let is_ip = *ethernet || matches!(frame.bytes.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]));
            let Some(packet) = packet.filter(|_| is_ip) else { return };
            if filter.as_ref().is_none_or(|filter| filter.matches_captured(packet, *ethernet)) {
                file.write(at, packet);
            }
        };
        port.receive(BATCH, &mut each).unwrap_or(0)
    }
}
