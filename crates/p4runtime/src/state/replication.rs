//! Multicast groups and clone sessions.

use super::{Forwarding, found, update};
use crate::bytestring;
use crate::pipeline::{Copy, Pipeline};
use crate::proto::entity::Entity as Kind;
use crate::proto::packet_replication_engine_entry::Type;
use crate::proto::{
    CloneSessionEntry, Entity, MulticastGroupEntry, PacketReplicationEngineEntry, PortKind, Replica, Update,
    UpdateType,
};
use crate::refusal::Refusal;
use belljar_base::Set;

impl<P: Pipeline> Forwarding<'_, P> {
    pub(super) fn write_replication(
        &mut self,
        kind: UpdateType,
        entry: &PacketReplicationEngineEntry,
    ) -> Result<Vec<Update>, Refusal> {
        match &entry.r#type {
            Some(Type::MulticastGroupEntry(group)) => self.write_multicast_group(kind, group),
            Some(Type::CloneSessionEntry(session)) => self.write_clone_session(kind, session),
            None => Err(Refusal::invalid("the entry is neither a multicast group nor a clone session")),
        }
    }

    fn write_multicast_group(
        &mut self,
        kind: UpdateType,
        group: &MulticastGroupEntry,
    ) -> Result<Vec<Update>, Refusal> {
        let id = group.multicast_group_id;
        let old = self.state.multicast_groups.get(&id).cloned();
        check_id(kind, "multicast group", id, old.is_some())?;
        if kind == UpdateType::Delete {
            self.pipeline.set_multicast_group(id, None)?;
            self.state.multicast_groups.remove(&id);
        } else {
            self.pipeline.set_multicast_group(id, Some(&copies(&group.replicas)?))?;
            self.state.multicast_groups.insert(id, group.clone());
        }
        Ok(vec![undo(kind, Type::MulticastGroupEntry(old.unwrap_or_else(|| group.clone())))])
    }

    fn write_clone_session(
        &mut self,
        kind: UpdateType,
        session: &CloneSessionEntry,
    ) -> Result<Vec<Update>, Refusal> {
        let id = session.session_id;
        let old = self.state.clone_sessions.get(&id).cloned();
        check_id(kind, "clone session", id, old.is_some())?;
        if kind == UpdateType::Delete {
            self.pipeline.set_clone_session(id, None)?;
            self.state.clone_sessions.remove(&id);
        } else {
            if session.class_of_service != 0 {
                return Err(Refusal::unimplemented(
                    "clones have no class of service of their own: leave it 0",
                ));
            }
            let length = u32::try_from(session.packet_length_bytes)
                .map_err(|_| Refusal::invalid("'packet_length_bytes' is negative"))?;
            self.pipeline.set_clone_session(id, Some((&copies(&session.replicas)?, length)))?;
            self.state.clone_sessions.insert(id, session.clone());
        }
        Ok(vec![undo(kind, Type::CloneSessionEntry(old.unwrap_or_else(|| session.clone())))])
    }

    pub(super) fn read_replication(
        &self,
        request: &PacketReplicationEngineEntry,
        all: &mut Vec<Entity>,
    ) -> Result<(), Refusal> {
        let whole = |kind| {
            found(Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(kind) }))
        };
        match &request.r#type {
            Some(Type::MulticastGroupEntry(MulticastGroupEntry { multicast_group_id: 0, .. })) => {
                all.extend(
                    self.state
                        .multicast_groups
                        .values()
                        .map(|group| whole(Type::MulticastGroupEntry(group.clone()))),
                );
            }
            Some(Type::MulticastGroupEntry(group)) => {
                let group = self
                    .state
                    .multicast_groups
                    .get(&group.multicast_group_id)
                    .ok_or_else(|| absent("multicast group", group.multicast_group_id))?;
                all.push(whole(Type::MulticastGroupEntry(group.clone())));
            }
            Some(Type::CloneSessionEntry(CloneSessionEntry { session_id: 0, .. })) => {
                all.extend(
                    self.state
                        .clone_sessions
                        .values()
                        .map(|session| whole(Type::CloneSessionEntry(session.clone()))),
                );
            }
            Some(Type::CloneSessionEntry(session)) => {
                let session = self
                    .state
                    .clone_sessions
                    .get(&session.session_id)
                    .ok_or_else(|| absent("clone session", session.session_id))?;
                all.push(whole(Type::CloneSessionEntry(session.clone())));
            }
            None => {
                return Err(Refusal::invalid("the entry is neither a multicast group nor a clone session"));
            }
        }
        Ok(())
    }
}

fn absent(what: &str, id: u32) -> Refusal {
    Refusal::not_found(format!("there is no {what} {id}"))
}

fn check_id(kind: UpdateType, what: &str, id: u32, exists: bool) -> Result<(), Refusal> {
    match (kind, exists) {
        _ if id == 0 => Err(Refusal::invalid(format!("the id of a {what} is not 0"))),
        (UpdateType::Insert, true) => Err(Refusal::exists(format!("{what} {id} exists"))),
        (UpdateType::Modify | UpdateType::Delete, false) => Err(absent(what, id)),
        _ => Ok(()),
    }
}

/// Update that reverts another one; `entry` is the previous or the inserted value.
fn undo(kind: UpdateType, entry: Type) -> Update {
    let kind = match kind {
        UpdateType::Insert => UpdateType::Delete,
        UpdateType::Delete => UpdateType::Insert,
        kind => kind,
    };
    update(kind, Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(entry) }))
}

fn copies(replicas: &[Replica]) -> Result<Vec<Copy>, Refusal> {
    let mut seen = Set::new();
    let mut copies = Vec::with_capacity(replicas.len());
    for replica in replicas {
        if !replica.backup_replicas.is_empty() {
            return Err(Refusal::unimplemented("backup replicas are not supported"));
        }
        let port = match &replica.port_kind {
            Some(PortKind::EgressPort(port)) => *port,
            Some(PortKind::Port(port)) => {
                bytestring::u32(port).map_err(|refusal| refusal.at("the port of a replica"))?
            }
            None => return Err(Refusal::invalid("a replica has no port")),
        };
        if !seen.insert((port, replica.instance)) {
            return Err(Refusal::invalid(format!(
                "port {port} with instance {} occurs twice",
                replica.instance
            )));
        }
        copies.push(Copy { port, instance: replica.instance });
    }
    Ok(copies)
}
