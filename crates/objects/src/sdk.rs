//! Files of a host for Antithesis' SDKs: the library that they load where it exists, and the folder in which it counts edges of
//! instrumented programs. The library is `crates/shim/program/voidstar.rs`.

use std::path::PathBuf;

/// Path at which the SDKs look for the library.
pub const LIBRARY: &str = "/usr/lib/libvoidstar.so";
/// Flag of `getrandom(2)` with which the library asks for 8 bytes of the host's stream `sdk`. Linux has no such flag.
pub const CHOICE: u32 = 0x8000_0000;

/// Native files for the SDKs on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdkFiles {
    /// The library.
    pub library: PathBuf,
    /// Size of the library in bytes.
    pub size: u64,
    /// Folder for counts of edges. Programs find it at the same path, and crashes leave it alone.
    pub counts: PathBuf,
}
