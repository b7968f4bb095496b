//! Parser value sets and digest configurations.

use super::{Forwarding, found, matches, only_modify, update};
use crate::grpc::Code;
use crate::pipeline::{Gathering, Pipeline};
use crate::proto::entity::Entity as Kind;
use crate::proto::{DigestConfig, DigestEntry, Entity, Update, UpdateType, ValueSetEntry, ValueSetMember};
use crate::refusal::Refusal;
use belljar_p4info::Missing;
use std::sync::Arc;

impl<P: Pipeline> Forwarding<'_, P> {
    pub(super) fn write_value_set(
        &mut self,
        kind: UpdateType,
        entry: &ValueSetEntry,
    ) -> Result<Vec<Update>, Refusal> {
        only_modify(kind, "a value set")?;
        let objects = Arc::clone(&self.state.objects);
        let set = objects
            .value_sets
            .get(&entry.value_set_id)
            .ok_or(Missing { kind: "value set", id: entry.value_set_id })?;
        if entry.members.len() as i64 > set.size {
            let message =
                format!("value set '{}' takes {} members, not {}", set.name, set.size, entry.members.len());
            return Err(Refusal::new(Code::ResourceExhausted, message));
        }
        let (mut members, mut keys) = (Vec::new(), Vec::new());
        for member in &entry.members {
            let (member, key) = matches::canonical(&set.kind, &member.r#match)
                .map_err(|refusal| refusal.at(&format!("value set '{}'", set.name)))?;
            let member = ValueSetMember { r#match: member };
            if members.contains(&member) {
                return Err(Refusal::exists("a member of the value set occurs twice"));
            }
            members.push(member);
            keys.push(key);
        }
        let widths: Vec<u32> = set.kind.iter().map(|field| field.width).collect();
        self.pipeline.set_value_set(&set.name, &keys, &widths)?;
        let old = self.state.value_sets.insert(entry.value_set_id, members).unwrap_or_default();
        let old = ValueSetEntry { value_set_id: entry.value_set_id, members: old };
        Ok(vec![update(UpdateType::Modify, Kind::ValueSetEntry(old))])
    }

    pub(super) fn read_value_sets(
        &self,
        request: &ValueSetEntry,
        all: &mut Vec<Entity>,
    ) -> Result<(), Refusal> {
        if request.value_set_id != 0 && !self.state.objects.value_sets.contains_key(&request.value_set_id) {
            return Err(Missing { kind: "value set", id: request.value_set_id }.into());
        }
        for id in self.state.objects.value_sets.keys().filter(|id| [0, **id].contains(&request.value_set_id))
        {
            let members = self.state.value_sets.get(id).cloned().unwrap_or_default();
            all.push(found(Kind::ValueSetEntry(ValueSetEntry { value_set_id: *id, members })));
        }
        Ok(())
    }

    pub(super) fn write_digest(
        &mut self,
        kind: UpdateType,
        entry: &DigestEntry,
    ) -> Result<Vec<Update>, Refusal> {
        let id = entry.digest_id;
        let objects = Arc::clone(&self.state.objects);
        let (name, data) = objects.digests.get(&id).ok_or(Missing { kind: "digest", id })?;
        if data.is_none() {
            return Err(Refusal::unimplemented(format!(
                "digest '{name}' has data of a type that is not supported"
            )));
        }
        let old = self.state.digests.get(&id).copied();
        let (kind, config) = match (kind, old) {
            (UpdateType::Insert, Some(_)) => {
                return Err(Refusal::exists(format!("digest '{name}' is enabled")));
            }
            (UpdateType::Modify | UpdateType::Delete, None) => {
                return Err(Refusal::not_found(format!("digest '{name}' is not enabled")));
            }
            (UpdateType::Delete, old) => {
                self.state.digests.remove(&id);
                (UpdateType::Insert, old)
            }
            (kind, old) => {
                let config = entry.config.unwrap_or_default();
                if config.max_timeout_ns < 0 || config.max_list_size < 0 || config.ack_timeout_ns < 0 {
                    return Err(Refusal::invalid("a time or size of the digest is negative"));
                }
                self.pipeline.set_digest(name, gathering(&config))?;
                self.state.digests.insert(id, config);
                (if kind == UpdateType::Insert { UpdateType::Delete } else { UpdateType::Modify }, old)
            }
        };
        Ok(vec![update(kind, Kind::DigestEntry(DigestEntry { digest_id: id, config }))])
    }

    pub(super) fn read_digests(&self, request: &DigestEntry, all: &mut Vec<Entity>) -> Result<(), Refusal> {
        if request.digest_id != 0 && !self.state.objects.digests.contains_key(&request.digest_id) {
            return Err(Missing { kind: "digest", id: request.digest_id }.into());
        }
        let selected = self.state.digests.iter().filter(|(id, _)| [0, **id].contains(&request.digest_id));
        all.extend(selected.map(|(id, config)| {
            found(Kind::DigestEntry(DigestEntry { digest_id: *id, config: Some(*config) }))
        }));
        Ok(())
    }
}

/// Switch configuration of a digest. Without a maximum list size, a list ends at the timeout or at this
/// number of samples.
fn gathering(config: &DigestConfig) -> Gathering {
    const LIST: usize = 1_000;
    Gathering {
        size: if config.max_list_size == 0 { LIST } else { config.max_list_size as usize },
        wait: config.max_timeout_ns as u64,
        silence: config.ack_timeout_ns as u64,
    }
}
