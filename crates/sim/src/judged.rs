//! Captures of the packets that properties are about, which are judged after the run.
//!
//! They are apart from the captures that the experiment asks for: these have filters and a length of their own.

use crate::captures::Capture;
use belljar_base::{HostId, Map};
use belljar_config::{Experiment, PacketSet};
use belljar_net::Filter;
use belljar_netstack::CapturedRun;
use belljar_results::{ResultsError, names};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes kept of each packet.
pub const KEPT: usize = 65_535;

/// Captures of a host's packets.
pub struct JudgedPackets {
    /// Folder of the captures, relative to the results.
    folder: PathBuf,
    /// Packets that properties are about.
    properties: Vec<(PacketSet, Filter)>,
    /// Interfaces whose file is created even without packets; the flag is true for Ethernet frames.
    expected: Vec<(Arc<str>, bool)>,
    /// Interfaces with the indices of the properties that are about their packets.
    interfaces: Map<Arc<str>, Vec<usize>>,
    captures: Map<Arc<str>, Capture>,
}

impl JudgedPackets {
    /// Captures of a host; `None` if no property is about its packets.
    pub fn new(experiment: &Experiment, id: HostId) -> Option<Box<JudgedPackets>> {
        let parse = |text: &str| {
            let filter = Filter::parse(text, &|name| experiment.addresses_of(name));
            filter.expect("loading has checked the filter")
        };
        let properties: Vec<(PacketSet, Filter)> = experiment
            .packet_properties(id)
            .map(|packets| (packets.clone(), parse(&packets.filter)))
            .collect();
        if properties.is_empty() {
            return None;
        }
        let settings = &experiment.hosts[id.index()];
        let is_linked = |name: &str| settings.interfaces.iter().any(|interface| interface.name == name);
        let judged = |name: &&str| properties.iter().any(|(packets, _)| packets.is_at(name));
        let expected = settings.interface_names().filter(judged);
        let expected = expected.map(|name| (Arc::from(name), is_linked(name))).collect();
        let folder = Path::new(names::PACKETS).join(&settings.name);
        let (interfaces, captures) = (Map::new(), Map::new());
        Some(Box::new(JudgedPackets { folder, properties, expected, interfaces, captures }))
    }

    /// Writes those packets of a run that properties are about. `create` makes a capture with a path relative to the results; its
    /// flag is true for Ethernet frames.
    ///
    /// # Errors
    /// Errors of `create`.
    pub fn take(
        &mut self,
        run: &CapturedRun,
        create: impl FnOnce(&Path, bool) -> Result<Capture, ResultsError>,
    ) -> Result<(), ResultsError> {
        let JudgedPackets { folder, properties, interfaces, captures, .. } = self;
        if !interfaces.contains_key(run.interface) {
            let there =
                properties.iter().enumerate().filter(|(_, (packets, _))| packets.is_at(run.interface));
            interfaces.insert(run.interface.clone(), there.map(|(number, _)| number).collect());
        }
        let there = &interfaces[run.interface];
        let is_judged = |packet: &[u8]| {
            there.iter().any(|number| properties[*number].1.matches_captured(packet, run.ethernet))
        };
        let mut judged = run.iter().filter(|(_, packet)| is_judged(packet)).peekable();
        if judged.peek().is_none() {
            return Ok(());
        }
        if !captures.contains_key(run.interface) {
            let capture = create(&folder.join(format!("{}.pcap", run.interface)), run.ethernet)?;
            captures.insert(run.interface.clone(), capture);
        }
        if let Some((_, writer)) = captures.get_mut(run.interface) {
            judged.for_each(|(at, packet)| writer.write(at, packet));
        }
        Ok(())
    }

    /// All captures, those without packets too.
    ///
    /// # Errors
    /// Errors of `create`.
    pub fn finish(
        mut self,
        create: impl Fn(&Path, bool) -> Result<Capture, ResultsError>,
    ) -> Result<Vec<Capture>, ResultsError> {
        for (interface, ethernet) in self.expected {
            if !self.captures.contains_key(&interface) {
                let capture = create(&self.folder.join(format!("{interface}.pcap")), ethernet)?;
                self.captures.insert(interface, capture);
            }
        }
        Ok(self.captures.into_values().collect())
    }
}
