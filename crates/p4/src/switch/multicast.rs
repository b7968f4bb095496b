//! Packet replication engine: multicast groups, nodes, link aggregation groups and clone sessions.

use crate::control::{ControlError, ErrorKind, Result};
use belljar_base::Map;

/// Replica: a copy made by a group or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replica {
    /// Egress port.
    pub port: u16,
    /// Value of `egress_rid`.
    pub instance: u16,
}

/// Multicast node: copies with one `egress_rid` to a set of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastNode {
    /// Value of `egress_rid`.
    pub rid: u16,
    /// Egress ports.
    pub ports: Vec<u16>,
    /// Link aggregation groups; one port of each gets a copy.
    pub lags: Vec<u16>,
    /// Group with which the node is associated.
    pub group: Option<u16>,
}

/// Destination of the clones of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneSession {
    /// Ports that each receive a clone.
    pub replicas: Vec<Replica>,
    /// Multicast group that receives clones.
    pub group: Option<u16>,
    /// Maximum length of a clone in bytes; longer ones are truncated.
    pub length: Option<u32>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    replicas: Vec<Replica>,
    nodes: Vec<u32>,
    /// All replicas, in order.
    copies: Vec<Replica>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Replication {
    groups: Map<u16, Group>,
    nodes: Map<u32, MulticastNode>,
    lags: Map<u16, Vec<u16>>,
    sessions: Map<u16, CloneSession>,
}

fn no_group(group: u16) -> ControlError {
    ControlError::not_found(format!("multicast group {group} does not exist"))
}
fn no_node(node: u32) -> ControlError {
    ControlError::not_found(format!("multicast node {node} does not exist"))
}

impl Replication {
    /// Replicas of a group; `None` if the group does not exist.
    pub fn copies(&self, group: u16) -> Option<&[Replica]> {
        self.groups.get(&group).map(|group| group.copies.as_slice())
    }
    pub fn session(&self, session: u16) -> Option<&CloneSession> {
        self.sessions.get(&session)
    }
    pub fn sessions(&self) -> impl Iterator<Item = (u16, &CloneSession)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }
    pub fn groups(&self) -> impl Iterator<Item = u16> + '_ {
        self.groups.keys().copied()
    }
    pub fn nodes(&self) -> impl Iterator<Item = (u32, &MulticastNode)> {
        self.nodes.iter().map(|(handle, node)| (*handle, node))
    }

    pub fn lags(&self) -> impl Iterator<Item = (u16, &[u16])> {
        self.lags.iter().map(|(lag, ports)| (*lag, ports.as_slice()))
    }

    fn rebuild(&mut self) {
        for group in self.groups.values_mut() {
            group.copies.clone_from(&group.replicas);
            for node in group.nodes.iter().filter_map(|node| self.nodes.get(node)) {
                let copy = |port: u16| Replica { port, instance: node.rid };
                group.copies.extend(node.ports.iter().copied().map(copy));
                for lag in node.lags.iter().filter_map(|lag| self.lags.get(lag)) {
                    // As in BMv2, the port is not chosen by a hash of the packet: all packets use the same
                    // port.
                    if let Some(port) = lag.get(0xff % lag.len().max(1)) {
                        group.copies.push(copy(*port));
                    }
                }
            }
        }
    }

    pub fn create_group(&mut self, group: u16) -> Result<()> {
        if group == 0 {
            return Err(ControlError::invalid("multicast group 0 stands for no multicast; use 1 to 65535"));
        }
        if self.groups.contains_key(&group) {
            return Err(ControlError::new(
                ErrorKind::AlreadyExists,
                format!("multicast group {group} exists"),
            ));
        }
        self.groups.insert(group, Group::default());
        Ok(())
    }
    pub fn set_replicas(&mut self, group: u16, replicas: &[Replica]) -> Result<()> {
        let Some(found) = self.groups.get_mut(&group) else { return Err(no_group(group)) };
        found.replicas = replicas.to_vec();
        self.rebuild();
        Ok(())
    }
    pub fn delete_group(&mut self, group: u16) -> Result<()> {
        let found = self.groups.remove(&group).ok_or_else(|| no_group(group))?;
        for node in found.nodes {
            if let Some(node) = self.nodes.get_mut(&node) {
                node.group = None;
            }
        }
        Ok(())
    }

    pub fn create_node(&mut self, rid: u16, ports: &[u16], lags: &[u16]) -> u32 {
        let handle = (0..).find(|handle| !self.nodes.contains_key(handle)).unwrap_or(u32::MAX);
        let (mut ports, mut lags) = (ports.to_vec(), lags.to_vec());
        for list in [&mut ports, &mut lags] {
            list.sort_unstable();
            list.dedup();
        }
        self.nodes.insert(handle, MulticastNode { rid, ports, lags, group: None });
        handle
    }
    pub fn update_node(&mut self, handle: u32, ports: &[u16], lags: &[u16]) -> Result<()> {
        let node = self.nodes.get_mut(&handle).ok_or_else(|| no_node(handle))?;
        for (list, new) in [(&mut node.ports, ports), (&mut node.lags, lags)] {
            *list = new.to_vec();
            list.sort_unstable();
            list.dedup();
        }
        self.rebuild();
        Ok(())
    }
    pub fn associate(&mut self, group: u16, handle: u32) -> Result<()> {
        let node = self.nodes.get_mut(&handle).ok_or_else(|| no_node(handle))?;
        let found = self.groups.get_mut(&group).ok_or_else(|| no_group(group))?;
        if let Some(other) = node.group {
            let message = format!("multicast node {handle} is in group {other}; dissociate it first");
            return Err(ControlError::new(ErrorKind::FailedPrecondition, message));
        }
        node.group = Some(group);
        found.nodes.push(handle);
        self.rebuild();
        Ok(())
    }
    pub fn dissociate(&mut self, group: u16, handle: u32) -> Result<()> {
        let node = self.nodes.get_mut(&handle).ok_or_else(|| no_node(handle))?;
        let found = self.groups.get_mut(&group).ok_or_else(|| no_group(group))?;
        if node.group != Some(group) {
            let message = format!("multicast node {handle} is not in group {group}");
            return Err(ControlError::new(ErrorKind::FailedPrecondition, message));
        }
        node.group = None;
        found.nodes.retain(|other| *other != handle);
        self.rebuild();
        Ok(())
    }
    pub fn delete_node(&mut self, handle: u32) -> Result<()> {
        let node = self.nodes.remove(&handle).ok_or_else(|| no_node(handle))?;
        if let Some(group) = node.group.and_then(|group| self.groups.get_mut(&group)) {
            group.nodes.retain(|other| *other != handle);
        }
        self.rebuild();
        Ok(())
    }
    pub fn set_lag(&mut self, lag: u16, ports: &[u16]) {
        self.lags.insert(lag, ports.to_vec());
        self.rebuild();
    }

    pub fn set_session(&mut self, id: u16, session: CloneSession) -> Result<()> {
        if id > 0x7fff {
            return Err(ControlError::invalid(format!("clone session {id} does not exist; use 0 to 32767")));
        }
        self.sessions.insert(id, session);
        Ok(())
    }
    pub fn delete_session(&mut self, id: u16) -> Result<()> {
        let removed = self.sessions.remove(&id);
        removed
            .map(|_| ())
            .ok_or_else(|| ControlError::not_found(format!("clone session {id} does not exist")))
    }
}
