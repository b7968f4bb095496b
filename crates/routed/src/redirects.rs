//! ICMP redirects (RFC 792), which the nodes of a mesh must not send: the shorter path that a redirect
//! suggests may be out of range.

use crate::error::{Doing, Error, warn};
use belljar_base::Set;

/// The entry for all interfaces, in addition to each interface's own: the kernel sends redirects unless both
/// are 0 (`ip-sysctl`).
const ALL: &str = "all";

/// Interfaces whose redirects were disabled here. Dropping the value restores their settings.
#[derive(Debug, Default)]
pub struct Redirects {
    changed: Set<String>,
}

impl Redirects {
    /// Disables redirects on an interface. If they are disabled already, by another program on this machine,
    /// they stay disabled later.
    pub fn switch_off(&mut self, interface: &str) -> Result<(), Error> {
        if !is_interface_name(interface) {
            return Err(Error::NoInterface(interface.to_owned()));
        }
        for entry in [ALL, interface] {
            let path = path(entry);
            let reading = format!("read {path}");
            if std::fs::read_to_string(&path).doing(reading)?.trim() != "0" {
                std::fs::write(&path, "0").doing(format!("write {path}"))?;
                self.changed.insert(entry.to_owned());
            }
        }
        Ok(())
    }

    /// True if redirects were disabled here.
    pub fn are_off(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Restores the interfaces' settings; must be called in the network namespace in which they were changed.
    /// Interfaces may have been removed meanwhile.
    pub fn restore(&mut self) {
        for entry in std::mem::take(&mut self.changed) {
            let path = path(&entry);
            if let Err(error) = std::fs::write(&path, "1")
                && error.kind() != std::io::ErrorKind::NotFound
            {
                warn(format_args!("ICMP redirects stay off: cannot write {path}: {error}"));
            }
        }
    }
}

impl Drop for Redirects {
    fn drop(&mut self) {
        self.restore();
    }
}

fn path(entry: &str) -> String {
    format!("/proc/sys/net/ipv4/conf/{entry}/send_redirects")
}

/// True if the name can be an interface's, so that it names no other file.
fn is_interface_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains('/')
}
