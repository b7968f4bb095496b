//! VLANs of a bridge port, or of the bridge itself.

use belljar_base::Map;

/// The VLANs of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VlanSet {
    /// Members, with true for those whose frames leave untagged.
    members: Map<u16, bool>,
    /// VLAN of untagged frames.
    pub pvid: Option<u16>,
}

impl VlanSet {
    /// Adds a VLAN or changes its flags. Returns false if nothing has changed.
    pub fn add(&mut self, vid: u16, untagged: bool, pvid: bool) -> bool {
        let before = (self.members.insert(vid, untagged), self.pvid);
        if pvid {
            self.pvid = Some(vid);
        } else if self.pvid == Some(vid) {
            self.pvid = None;
        }
        before != (Some(untagged), self.pvid)
    }
    /// Removes a VLAN. Returns false if the port is not a member.
    pub fn remove(&mut self, vid: u16) -> bool {
        if self.pvid == Some(vid) {
            self.pvid = None;
        }
        self.members.remove(&vid).is_some()
    }
    /// True if the port is a member.
    pub fn has(&self, vid: u16) -> bool {
        self.members.contains_key(&vid)
    }
    /// True if frames of a VLAN leave untagged.
    pub fn is_untagged(&self, vid: u16) -> bool {
        self.members.get(&vid).copied().unwrap_or(false)
    }
    /// The members in order, with true for those whose frames leave untagged.
    pub fn iter(&self) -> impl Iterator<Item = (u16, bool)> + '_ {
        self.members.iter().map(|(vid, untagged)| (*vid, *untagged))
    }
}
