//! The library that Antithesis' SDKs load: `crates/shim/program/voidstar.rs`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The library, a shared object that depends on no other. Its settings are empty.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/voidstar.so"));

/// Mark before the settings, and the size of each.
const MARK: &[u8] = b"belljar-settings";
const SETTING: usize = 4_096;

/// The library for one host: `output` is the file of assertions for processes without a variable that names one, `counts` the folder in
/// which it counts edges.
pub fn library(output: &Path, counts: &Path) -> Vec<u8> {
    let mut image = LIBRARY.to_vec();
    if let Some(at) = image.windows(MARK.len()).position(|bytes| bytes == MARK) {
        for (number, path) in [output, counts].into_iter().enumerate() {
            let path = path.as_os_str().as_bytes();
            let from = at + MARK.len() + number * SETTING;
            // A path that is too long for the kernel is too long here.
            if path.len() < SETTING {
                image[from..from + path.len()].copy_from_slice(path);
            }
        }
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_has_its_settings_after_the_only_mark() {
        let marks = LIBRARY.windows(MARK.len()).filter(|bytes| *bytes == MARK).count();
        assert_eq!(marks, 1);
        let image = library(Path::new("/out"), Path::new("/counts"));
        let at = image.windows(MARK.len()).position(|bytes| bytes == MARK).unwrap() + MARK.len();
        assert_eq!((&image[at..at + 5], image.len()), (&b"/out\0"[..], LIBRARY.len()));
        assert_eq!(&image[at + SETTING..at + SETTING + 8], b"/counts\0");
        assert!(LIBRARY[at..at + 2 * SETTING].iter().all(|byte| *byte == 0));
    }
}
