//! Selection of the packets that are captured at a node's interfaces.

use belljar_base::Map;
use belljar_config::{CaptureFilter, Experiment};
use belljar_net::Filter;
use belljar_results::{CaptureWriter, ResultsError, ResultsFolder, Writer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Capture filter of each interface of a node.
pub struct Captures(Map<Arc<str>, Option<Filter>>);

impl Captures {
    /// Parses the filters that `settings` define for these interfaces.
    pub fn new<'a>(
        experiment: &Experiment,
        settings: &CaptureFilter,
        interfaces: impl IntoIterator<Item = &'a str>,
    ) -> Captures {
        let one = |interface: &str| {
            let text = settings.of(interface)?;
            let filter = Filter::parse(text, &|name| experiment.addresses_of(name));
            Some(filter.expect("loading has checked the filter"))
        };
        // An empty map captures everything without lookups.
        match settings {
            CaptureFilter::All => Captures(Map::new()),
            _ => Captures(interfaces.into_iter().map(|name| (name.into(), one(name))).collect()),
        }
    }

    /// True if a packet is captured.
    pub fn wants(&self, interface: &str, packet: &[u8], ethernet: bool) -> bool {
        match self.0.get(interface) {
            None => true,
            Some(None) => false,
            Some(Some(filter)) => filter.matches_captured(packet, ethernet),
        }
    }
}

/// Capture file with its path.
pub type Capture = (PathBuf, CaptureWriter);

/// Creates a capture file, with its path relative to the results, that keeps so many bytes of each packet; the flag is true for
/// Ethernet frames.
pub fn create(
    folder: &ResultsFolder,
    writer: &Arc<Writer>,
    name: &Path,
    epoch_secs: u64,
    (kept, ethernet): (usize, bool),
) -> Result<Capture, ResultsError> {
    let file = writer.file(folder.create_file(name)?);
    Ok((folder.path().join(name), CaptureWriter::new(file, epoch_secs, kept, ethernet)))
}
