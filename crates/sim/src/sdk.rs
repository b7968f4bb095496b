//! Files for Antithesis' SDKs on hosts with a property `assertions`: the library that the SDKs load, and the folder of the counts of edges.
//!
//! During the run each module of instrumented code has a file of counts on each host (see `crates/shim/program/voidstar.rs`): the
//! number of edges in 8 bytes, little-endian, the module's name, which a zero byte ends, and from byte 4096 a count of 8 bytes for
//! each edge from 0. At the end they become one file in the host's folder.

use belljar_base::{HostId, Map};
use belljar_config::{Claim, Experiment, FileSet, Host as HostSettings};
use belljar_objects::sdk::{LIBRARY, SdkFiles};
use belljar_platform::sdk;
use belljar_results::{Coverage, ResultsError, ResultsFolder, names};
use std::path::Path;
use std::{fs, io};

/// Bytes before the counts in a file of them.
const HEADER: usize = 4_096;

/// Files for the SDKs on a host; `None` if it has no such property. A host whose root has a symbolic link at `/usr/lib` has none
/// either: its SDKs write to their file themselves.
pub fn files(experiment: &Experiment, settings: &HostSettings, folder: &ResultsFolder) -> Option<SdkFiles> {
    output(experiment, settings)?;
    let root = settings.root.as_ref().map_or(Path::new("/"), |root| &*root.directory);
    let place = root.join(LIBRARY.trim_start_matches('/'));
    if place
        .parent()
        .and_then(|parent| parent.symlink_metadata().ok())
        .is_some_and(|found| found.is_symlink())
    {
        return None;
    }
    let of_all = folder.path().join(names::SDK_SCRATCH);
    Some(SdkFiles {
        library: of_all.join(format!("{}.so", settings.name)),
        size: sdk::LIBRARY.len() as u64,
        counts: of_all.join(&settings.name),
    })
}

/// File of assertions of a host's programs.
fn output<'a>(experiment: &'a Experiment, settings: &HostSettings) -> Option<&'a str> {
    let id = experiment.host_by_name(&settings.name)?;
    if settings.machine.is_some() {
        return None;
    }
    let mut properties = experiment.properties.iter().filter(|property| property.concerns(id, settings));
    properties.find_map(|property| match (&property.claim, property.files.first()) {
        (Claim::Assertions, Some(FileSet::Matching(path))) => Some(path.as_str()),
        _ => None,
    })
}

/// Writes the files of the hosts that are `mine`.
///
/// # Errors
/// A file cannot be written.
pub fn install(
    experiment: &Experiment,
    mine: impl Fn(HostId) -> bool,
    folder: &ResultsFolder,
) -> Result<(), ResultsError> {
    let ids = (0..experiment.hosts.len() as u32).map(HostId);
    for (_, settings) in ids.zip(&experiment.hosts).filter(|(id, _)| mine(*id)) {
        let (Some(files), Some(output)) = (files(experiment, settings, folder), output(experiment, settings))
        else {
            continue;
        };
        let output = folder.host(&settings.name).join(output);
        let failed = |error| ResultsError::Write { path: files.library.clone(), error };
        fs::create_dir_all(&files.counts).map_err(failed)?;
        fs::write(&files.library, sdk::library(&output, &files.counts)).map_err(failed)?;
    }
    Ok(())
}

/// Writes the coverage of these hosts into their folders, where programs have reported some, and removes the files of
/// [`install`].
///
/// # Errors
/// A file cannot be read or written.
pub fn finish(
    experiment: &Experiment,
    ids: impl Iterator<Item = HostId>,
    folder: &ResultsFolder,
) -> Result<(), ResultsError> {
    for settings in ids.map(|id| &experiment.hosts[id.index()]) {
        let Some(SdkFiles { library, counts, .. }) = files(experiment, settings, folder) else { continue };
        let failed = |error| ResultsError::Write { path: counts.clone(), error };
        let coverage = read(&counts).map_err(failed)?;
        if !coverage.0.is_empty() {
            let file = format!("hosts/{}/{}", settings.name, names::SDK_COVERAGE);
            folder.write(&file, coverage.text().as_bytes())?;
        }
        fs::remove_dir_all(&counts).and_then(|()| fs::remove_file(&library)).map_err(failed)?;
    }
    // Other processes of the run may have files there still.
    let _ = fs::remove_dir(folder.path().join(names::SDK_SCRATCH));
    Ok(())
}

/// Counts in the files of a folder. A file without a header is of no module.
fn read(folder: &Path) -> io::Result<Coverage> {
    let mut coverage = Coverage::default();
    for entry in fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()? {
        if !entry.file_type()?.is_file() {
            continue;
        }
        let bytes = fs::read(entry.path())?;
        let Some((head, counts)) = bytes.split_at_checked(HEADER) else { continue };
        let (words, _) = counts.as_chunks::<8>();
        let edges = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
        if edges.checked_add(1) != Some(words.len() as u64) {
            continue;
        }
        let name = head[8..].split(|byte| *byte == 0).next().unwrap_or_default();
        let counts = (0..).zip(words.iter().map(|word| u64::from_le_bytes(*word)));
        let reached: Map<u64, u64> = counts.filter(|(_, count)| *count > 0).collect();
        coverage.0.insert((String::from_utf8_lossy(name).into_owned(), edges), reached);
    }
    Ok(coverage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_header_are_of_no_module() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = vec![0u8; HEADER + 24];
        file[0] = 2;
        file[8..11].copy_from_slice(b"app");
        file[HEADER + 8] = 7;
        fs::write(folder.path().join("a"), &file).unwrap();
        fs::write(folder.path().join("b"), "text").unwrap();
        file[0] = 3;
        fs::write(folder.path().join("c"), &file).unwrap();
        let coverage = read(folder.path()).unwrap();
        assert_eq!(coverage.0, Map::from_iter([(("app".to_owned(), 2), Map::from_iter([(1, 7)]))]));
    }
}
