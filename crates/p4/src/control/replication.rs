use super::{ControlError, Result};
use crate::Switch;
use crate::switch::{CloneSession, DigestConfig, MulticastNode, QueueLimits, Replica};
use belljar_base::SimTime;

impl Switch {
    /// Creates an empty multicast group, numbered 1 to 65535.
    pub fn create_multicast_group(&mut self, group: u16) -> Result<()> {
        self.replication.create_group(group)
    }
    /// Sets the replicas of a multicast group, in addition to those of its nodes.
    pub fn set_multicast_group(&mut self, group: u16, replicas: &[Replica]) -> Result<()> {
        self.replication.set_replicas(group, replicas)
    }
    /// Deletes a multicast group; its nodes remain.
    pub fn delete_multicast_group(&mut self, group: u16) -> Result<()> {
        self.replication.delete_group(group)
    }
    /// Numbers of all multicast groups, in order.
    pub fn multicast_groups(&self) -> Vec<u16> {
        self.replication.groups().collect()
    }
    /// Replicas that a multicast group creates; `None` if the group does not exist.
    pub fn multicast_copies(&self, group: u16) -> Option<&[Replica]> {
        self.replication.copies(group)
    }

    /// Creates a multicast node; returns its handle.
    pub fn create_multicast_node(&mut self, rid: u16, ports: &[u16], lags: &[u16]) -> u32 {
        self.replication.create_node(rid, ports, lags)
    }
    /// Replaces the ports and link aggregation groups of a multicast node.
    pub fn update_multicast_node(&mut self, node: u32, ports: &[u16], lags: &[u16]) -> Result<()> {
        self.replication.update_node(node, ports, lags)
    }
    /// Adds a multicast node to a group.
    pub fn associate_multicast_node(&mut self, group: u16, node: u32) -> Result<()> {
        self.replication.associate(group, node)
    }
    /// Removes a multicast node from its group.
    pub fn dissociate_multicast_node(&mut self, group: u16, node: u32) -> Result<()> {
        self.replication.dissociate(group, node)
    }
    /// Deletes a multicast node.
    pub fn delete_multicast_node(&mut self, node: u32) -> Result<()> {
        self.replication.delete_node(node)
    }
    /// Multicast nodes with their handles.
    pub fn multicast_nodes(&self) -> Vec<(u32, MulticastNode)> {
        self.replication.nodes().map(|(handle, node)| (handle, node.clone())).collect()
    }
    /// Sets the ports of a link aggregation group.
    pub fn set_lag(&mut self, lag: u16, ports: &[u16]) {
        self.replication.set_lag(lag, ports);
    }

    /// Link aggregation groups with their ports.
    pub fn lags(&self) -> Vec<(u16, &[u16])> {
        self.replication.lags().collect()
    }

    /// Sets a clone session, numbered 0 to 32767.
    pub fn set_clone_session(&mut self, session: u16, destination: CloneSession) -> Result<()> {
        self.replication.set_session(session, destination)
    }
    /// Removes a clone session.
    pub fn delete_clone_session(&mut self, session: u16) -> Result<()> {
        self.replication.delete_session(session)
    }
    /// Returns a clone session, if set.
    pub fn clone_session(&self, session: u16) -> Option<&CloneSession> {
        self.replication.session(session)
    }
    /// Numbers of all clone sessions, in order.
    pub fn clone_sessions(&self) -> Vec<u16> {
        self.replication.sessions().map(|(id, _)| id).collect()
    }

    /// Configures the aggregation of a digest's samples.
    pub fn set_digest(&mut self, digest: u32, config: DigestConfig) -> Result<()> {
        let Some(state) = self.digests.get_mut(digest as usize) else {
            return Err(ControlError::not_found(format!("the program has no digest number {digest}")));
        };
        state.config = config;
        Ok(())
    }
    /// Configuration of a digest.
    pub fn digest_config(&self, digest: u32) -> Result<DigestConfig> {
        let state = self.digests.get(digest as usize);
        let state = state
            .ok_or_else(|| ControlError::not_found(format!("the program has no digest number {digest}")))?;
        Ok(state.config)
    }
    /// Acknowledges a digest list.
    pub fn acknowledge_digest(&mut self, digest: u32, list: u64) -> Result<()> {
        let Some(state) = self.digests.get_mut(digest as usize) else {
            return Err(ControlError::not_found(format!("the program has no digest number {digest}")));
        };
        state.acknowledge(list);
        Ok(())
    }

    /// Changes limits of egress queues: of all ports if `port` is `None`, of all queues of a port if `queue`
    /// is `None`.
    pub fn change_queues(
        &mut self,
        port: Option<u16>,
        queue: Option<usize>,
        mut change: impl FnMut(&mut QueueLimits),
    ) -> Result<()> {
        let ports = match port {
            Some(port) if port >= self.port_count() => {
                return Err(ControlError::not_found(format!("the switch has no port {port}")));
            }
            Some(port) => port..port + 1,
            None => 0..self.port_count(),
        };
        let count = self.config.queues.max(1);
        let queues = match queue {
            Some(queue) if queue >= count => {
                return Err(ControlError::not_found(format!(
                    "ports have {count} queues and none with the priority {queue}"
                )));
            }
            Some(queue) => queue..queue + 1,
            None => 0..count,
        };
        for port in ports {
            for queue in queues.clone() {
                if let Some(limits) = self.limits_mut(port, queue) {
                    change(limits);
                }
            }
        }
        Ok(())
    }
    /// Advances the clock of the switch, so that subsequent operations take effect at `now`.
    pub fn set_time(&mut self, now: SimTime) {
        self.advance(now);
    }
}
