use std::fmt;

/// Index of a host in the list of the experiment's hosts **sorted by name**. It is part of the order of
/// events, so it must not depend on workers or on the order of hosts in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

impl HostId {
    /// Index into a vector with one entry per host.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host#{}", self.0)
    }
}
