//! Kernel modules of a machine and their dependencies.

use crate::Error;
use belljar_base::{Map, Set};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Modules of one kernel: files by name.
pub struct Modules {
    folder: PathBuf,
    files: Map<String, PathBuf>,
    built_in: Set<String>,
}

/// Module with its content.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    /// Module name.
    pub name: String,
    /// Content as accepted by insmod.
    pub content: Vec<u8>,
}

impl Modules {
    /// Finds the modules in a folder such as `/lib/modules/6.1.0-18-amd64`.
    pub fn of(folder: &Path) -> Result<Modules, Error> {
        let mut files = Map::new();
        collect(&folder.join("kernel"), &mut files)?;
        let list = std::fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let built_in = list.lines().filter_map(|line| module_name(Path::new(line))).collect();
        Ok(Modules { folder: folder.to_owned(), files, built_in })
    }

    /// The wanted modules and their dependencies, in load order.
    pub fn closure(&self, wanted: &[&str]) -> Result<Vec<Module>, Error> {
        let mut loaded = Vec::new();
        let mut seen = Set::new();
        for name in wanted {
            self.add(name, &mut seen, &mut loaded)?;
        }
        Ok(loaded)
    }

    fn add(&self, name: &str, seen: &mut Set<String>, loaded: &mut Vec<Module>) -> Result<(), Error> {
        if self.built_in.contains(name) || !seen.insert(name.to_owned()) {
            return Ok(());
        }
        let Some(path) = self.files.get(name) else {
            return Err(Error(format!(
                "the kernel has no module '{name}' in {}: take the kernel of Debian's package linux-image-amd64, or give 'machine' another 'nic'",
                self.folder.display()
            )));
        };
        let content = read(path)?;
        for needed in depends(&content) {
            self.add(&needed, seen, loaded)?;
        }
        loaded.push(Module { name: name.to_owned(), content });
        Ok(())
    }
}

/// Name of the module in a file: `virtio-rng.ko.xz` contains `virtio_rng`.
fn module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (stem, ending) = name.split_once(".ko")?;
    matches!(ending, "" | ".xz" | ".gz" | ".zst").then(|| stem.replace('-', "_"))
}

fn collect(folder: &Path, files: &mut Map<String, PathBuf>) -> Result<(), Error> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::with(folder, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| Error::with(folder, &error))?;
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&path, files)?,
            _ => drop(module_name(&path).map(|name| files.insert(name, path))),
        }
    }
    Ok(())
}

/// Reads and decompresses a module.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let content = std::fs::read(path).map_err(|error| Error::with(path, &error))?;
    if content.starts_with(b"\x7fELF") {
        return Ok(content);
    }
    let mut unpacked = Vec::new();
    match lzma_rs::xz_decompress(&mut Cursor::new(&content), &mut unpacked) {
        Ok(()) if unpacked.starts_with(b"\x7fELF") => Ok(unpacked),
        _ => Err(Error(format!("{} is no module that can be read: unpack it first", path.display()))),
    }
}

/// Names in `depends=` of a module's `.modinfo`.
fn depends(content: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = content.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let text = content[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(text);
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}
