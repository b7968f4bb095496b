//! ICMP redirects (RFC 792), which the nodes of a mesh must not send: the shorter way of which one tells may lead out of reach.

use crate::error::{Doing, Error, warn};
use belljar_base::Set;

/// The entry that counts for all interfaces, beside each one's own: the kernel sends redirects unless both are 0 (`ip-sysctl`).
const ALL: &str = "all";

/// Interfaces on which the kernel sent redirects until they were switched off here. They get back what they had when this is dropped.
#[derive(Debug, Default)]
pub struct Redirects {
    changed: Set<String>,
}

impl Redirects {
    /// Switches redirects off on an interface. Another program that runs here may have done it already; then it stays so afterwards, too.
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

    /// True if some were switched off here.
    pub fn are_off(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Gives the interfaces back what they had: in the network namespace that they were switched off in. Some may have gone meanwhile.
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

/// True if the kernel takes it for the name of an interface, so that it names no other file.
fn is_interface_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains('/')
}
