//! Whole machines: QEMU, unpatched, as the program of a simulated host. The machine in it has the host's place in the network.
//!
//! * [`Setup`]: a machine with what its kernel is told of the network. [`Setup::arguments`] and [`environment`](Setup::environment)
//!   are those of QEMU; [`Setup::write`] makes the files that it reads.
//! * `initramfs`: the machine's files as an archive ([`cpio`]): busybox, the [modules](modules) of its kernel, the host's root or the
//!   [programs](programs) that it runs, and the [script](script) that starts them.
//! * [`CLOCK`]: the library that ties QEMU's virtual clock to the simulated one (`crates/shim/program/qemu.rs`).
//!
//! Everything here follows from the experiment and from files of this machine: same files, same bytes.
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

/// The library that QEMU loads, an ELF image.
pub const CLOCK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

/// The folder of a machine's own files, in its host's folder.
const FOLDER: &str = "machine";
/// Number of a host's first process, in the names of its output. QEMU has it.
const FIRST_PROCESS: usize = 1000;

/// An interface of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Cable {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// The longest IP packet.
    pub mtu: usize,
    /// Its addresses with the lengths of their networks.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// A route, in the words of ip-route(8).
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The block of addresses.
    pub to: String,
    /// The next hops: the router, if any, and the name of the interface.
    pub hops: Vec<(Option<String>, String)>,
    /// Its metric.
    pub metric: u32,
}

/// A machine with what its kernel is told of the network.
pub struct Setup<'a> {
    /// The host whose place it has.
    pub host: &'a Host,
    /// The machine.
    pub machine: &'a WholeMachine,
    /// Seconds since 1970 at which it is switched on.
    pub start_date: u64,
    /// Its interfaces.
    pub cables: Vec<Cable>,
    /// Its routes beyond those of its interfaces.
    pub routes: Vec<Route>,
}

/// Failure to make a machine's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The error of the system with a file.
    fn with(path: &Path, error: &std::io::Error) -> Error {
        let text = error.to_string();
        Error(format!("{}: {}", path.display(), text.split(" (os error").next().unwrap_or_default()))
    }
}

impl Setup<'_> {
    /// Writes the machine's initramfs and the library for QEMU into its host's folder. `names` are those of the network.
    pub fn write(&self, folder: &Path, names: &[(String, IpAddr)]) -> Result<(), Error> {
        let own = folder.join(FOLDER);
        let write = |name: &str, bytes: &[u8]| {
            let path = own.join(name);
            std::fs::write(&path, bytes).map_err(|error| Error::with(&path, &error))
        };
        std::fs::create_dir_all(&own).map_err(|error| Error::with(&own, &error))?;
        write("clock.so", CLOCK)?;
        // A copy: hosts do not see all of this machine's folders.
        let kernel = &self.machine.kernel;
        self.check_kernel()?;
        write("kernel", &std::fs::read(kernel).map_err(|error| Error::with(kernel, &error))?)?;
        write("initramfs.cpio", &self.initramfs(names)?)
    }

    /// The machine ends QEMU by a port, which takes a kernel that lets programs write to ports. Its configuration lies beside it.
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

    /// The file, in its host's folder, of a program's output: `stdout` or `stderr`.
    fn output(&self, place: usize, stream: &str) -> String {
        let name = self.machine.programs[place].program_name();
        format!("{name}.{}.{stream}", FIRST_PROCESS + 1 + place)
    }
}
