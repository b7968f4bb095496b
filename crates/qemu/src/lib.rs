//! Whole machines: unmodified QEMU as the program of a simulated host, whose network interfaces belong to the
//! machine in QEMU.
//!
//! * [`Setup`]: a machine and its network configuration. [`Setup::arguments`] and
//!   [`environment`](Setup::environment) are those of QEMU; [`Setup::write`] creates the files that QEMU
//!   reads.
//! * `initramfs`: the machine's files as an archive ([`cpio`]): busybox, the [modules](modules) of its
//!   kernel, the host's root or its [programs](programs), and the start [script](script).
//! * [`CLOCK`]: the library that ties QEMU's virtual clock to simulated time (`crates/shim/program/qemu.rs`).
//!
//! The output depends on the experiment and on files of this machine only: equal inputs yield equal bytes.
#![forbid(unsafe_code)]

mod command;
mod cpio;
mod initramfs;
mod modules;
mod programs;
mod script;
#[cfg(test)]
mod tests;

use belljar_config::{Host, WholeMachine};
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

/// Library that QEMU loads, an ELF image.
pub const CLOCK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

/// Folder of the machine's files, inside its host's folder.
const FOLDER: &str = "machine";
/// Process id of a host's first process (QEMU), used in the names of output files.
const FIRST_PROCESS: usize = 1000;

/// Network interface of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Cable {
    /// Name of the interface.
    pub name: String,
    /// Hardware address.
    pub mac: [u8; 6],
    /// MTU in bytes.
    pub mtu: usize,
    /// Addresses and prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// Route in the syntax of ip-route(8).
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Destination prefix.
    pub to: String,
    /// Next hops: gateway, if any, and name of the interface.
    pub hops: Vec<(Option<String>, String)>,
    /// Route metric.
    pub metric: u32,
}

/// Machine with its network configuration.
pub struct Setup<'a> {
    /// Host that runs the machine.
    pub host: &'a Host,
    /// Configuration of the machine.
    pub machine: &'a WholeMachine,
    /// Time of power-on in seconds since 1970.
    pub start_date: u64,
    /// Network interfaces.
    pub cables: Vec<Cable>,
    /// Routes other than those of the interfaces' prefixes.
    pub routes: Vec<Route>,
}

/// Failure to create the machine's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Error {
    /// Error of the operating system with the path of a file.
    fn with(path: &Path, error: &std::io::Error) -> Error {
        let text = error.to_string();
        Error(format!("{}: {}", path.display(), text.split(" (os error").next().unwrap_or_default()))
    }
}

impl Setup<'_> {
    /// Writes the machine's initramfs, its kernel and the clock library to its host's folder. `names` are the
    /// host names of the network.
    pub fn write(&self, folder: &Path, names: &[(String, IpAddr)]) -> Result<(), Error> {
        let own = folder.join(FOLDER);
        let write = |name: &str, bytes: &[u8]| {
            let path = own.join(name);
            std::fs::write(&path, bytes).map_err(|error| Error::with(&path, &error))
        };
        std::fs::create_dir_all(&own).map_err(|error| Error::with(&own, &error))?;
        write("clock.so", CLOCK)?;
        // A copy, because hosts do not see all folders of this machine.
        let kernel = &self.machine.kernel;
        self.check_kernel()?;
        write("kernel", &std::fs::read(kernel).map_err(|error| Error::with(kernel, &error))?)?;
        write("initramfs.cpio", &self.initramfs(names)?)
    }

    /// Checks the kernel's configuration file, if present. The machine ends QEMU by writing to an I/O port,
    /// which the kernel must allow.
    fn check_kernel(&self) -> Result<(), Error> {
        let kernel = &self.machine.kernel;
        let name = kernel.file_name().map(|name| name.to_string_lossy().replace("vmlinuz-", "config-"));
        let config = std::fs::read_to_string(kernel.with_file_name(name.unwrap_or_default()));
        match config {
            Ok(text) if text.contains("# CONFIG_DEVPORT is not set") => Err(Error(format!(
                "the kernel {} has no /dev/port, as those for clouds: take the one of Debian's package linux-image-amd64",
                kernel.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Path, in the host's folder, of a program's output: `stdout` or `stderr`.
    fn output(&self, place: usize, stream: &str) -> String {
        let name = self.machine.programs[place].program_name();
        format!("{name}.{}.{stream}", FIRST_PROCESS + 1 + place)
    }
}
