//! Writing entries of tables.

use super::{EntryKey, Forwarding, OneShot, Stored, actions, matches, meters, update};
use crate::grpc::Code;
use crate::pipeline::{Count, Key, Pipeline, Target};
use crate::proto::entity::Entity as Kind;
use crate::proto::{TableAction, TableEntry, Update, UpdateType, table_action};
use crate::refusal::Refusal;
use belljar_p4info::{Objects, Table};
use std::sync::Arc;

pub(super) const NO_IDLE_TIMEOUT: &str =
    "idle_timeout_ns must be set to 0 for tables which do not support idle timeout";
pub(super) const WRITTEN_LAST_HIT: &str = "has_time_since_last_hit must not be set in WriteRequest";

impl<P: Pipeline> Forwarding<'_, P> {
    pub(super) fn write_table_entry(
        &mut self,
        kind: UpdateType,
        entry: &TableEntry,
    ) -> Result<Vec<Update>, Refusal> {
        let objects = Arc::clone(&self.state.objects);
        let table = objects.table(entry.table_id)?;
        if entry.is_const {
            return Err(Refusal::invalid("'is_const' is not for controllers to set"));
        }
        if entry.is_default_action {
            return self.write_default_entry(kind, table, entry);
        }
        let (key, keys) = key(table, entry)?;
        if kind != UpdateType::Delete {
            check_resources(&objects, table, entry)?;
        }
        match kind {
            UpdateType::Insert => self.insert(&objects, table, entry, key, &keys),
            UpdateType::Modify => self.modify(&objects, table, entry, key),
            _ => self.delete(&objects, table, &key),
        }
    }

    fn insert(
        &mut self,
        objects: &Objects,
        table: &Table,
        entry: &TableEntry,
        key: EntryKey,
        keys: &[Key],
    ) -> Result<Vec<Update>, Refusal> {
        if table.fields.is_empty() {
            return Err(Refusal::invalid(format!("table '{}' has no key, so it has no entries", table.name)));
        }
        if table.is_const {
            return Err(constant(table));
        }
        if self.state.tables.get(&table.id).is_some_and(|entries| entries.contains_key(&key)) {
            return Err(Refusal::exists(format!("table '{}' has an entry with this key", table.name)));
        }
        let action = entry.action.as_ref().ok_or_else(|| Refusal::invalid("the entry has no action"))?;
        let (action, target, one_shot) = self.resolve(objects, table, action)?;
        let handle = match self.pipeline.insert(&table.name, keys, key.1, &target) {
            Ok(handle) => handle,
            Err(refusal) => {
                self.release(table, one_shot.as_ref());
                return Err(refusal);
            }
        };
        if let Err(refusal) = self.set_resources(table, handle, entry, false) {
            // No packet was processed while the entry existed.
            self.pipeline.delete(&table.name, handle)?;
            self.release(table, one_shot.as_ref());
            return Err(refusal);
        }
        self.count_users(table, &action, 1);
        let entry = kept(table, &key, action, entry);
        let undo = update(UpdateType::Delete, Kind::TableEntry(Box::new(entry.clone())));
        self.state.handles.insert((table.id, handle), key.clone());
        self.state.tables.entry(table.id).or_default().insert(key, Stored { entry, handle, one_shot });
        Ok(vec![undo])
    }

    fn modify(
        &mut self,
        objects: &Objects,
        table: &Table,
        entry: &TableEntry,
        key: EntryKey,
    ) -> Result<Vec<Update>, Refusal> {
        let stored = self.stored(table, &key)?.clone();
        let mut undo = self.with_resources(table, &stored)?;
        if stored.entry.is_const {
            if entry.action.is_some() {
                return Err(constant(table));
            }
            self.set_resources(table, stored.handle, entry, true)?;
            undo.is_const = false;
            undo.action = None;
            return Ok(vec![update(UpdateType::Modify, Kind::TableEntry(Box::new(undo)))]);
        }
        let old_action = stored.entry.action.clone().unwrap_or_default();
        let (action, one_shot) = match &entry.action {
            Some(action) => {
                let (action, target, one_shot) = self.resolve(objects, table, action)?;
                if let Err(refusal) = self.pipeline.modify(&table.name, stored.handle, &target) {
                    self.release(table, one_shot.as_ref());
                    return Err(refusal);
                }
                self.count_users(table, &action, 1);
                self.count_users(table, &old_action, -1);
                self.release(table, stored.one_shot.as_ref());
                (action, one_shot)
            }
            None => (old_action, stored.one_shot.clone()),
        };
        let entry_kept = kept(table, &key, action, entry);
        if let Some(stored) = self.state.tables.get_mut(&table.id).and_then(|entries| entries.get_mut(&key)) {
            stored.entry = entry_kept;
            stored.one_shot = one_shot;
        }
        self.set_resources(table, stored.handle, entry, true)?;
        Ok(vec![update(UpdateType::Modify, Kind::TableEntry(Box::new(undo)))])
    }

    fn delete(&mut self, objects: &Objects, table: &Table, key: &EntryKey) -> Result<Vec<Update>, Refusal> {
        let stored = self.stored(table, key)?.clone();
        if stored.entry.is_const || objects.table(table.id)?.is_const {
            return Err(constant(table));
        }
        let undo = self.with_resources(table, &stored)?;
        self.pipeline.delete(&table.name, stored.handle)?;
        self.state.handles.remove(&(table.id, stored.handle));
        if let Some(entries) = self.state.tables.get_mut(&table.id) {
            entries.remove(key);
        }
        if let Some(action) = &stored.entry.action {
            self.count_users(table, action, -1);
        }
        self.release(table, stored.one_shot.as_ref());
        Ok(vec![update(UpdateType::Insert, Kind::TableEntry(Box::new(undo)))])
    }

    /// Entry with a key.
    pub(super) fn stored(&self, table: &Table, key: &EntryKey) -> Result<&Stored, Refusal> {
        let entry = self.state.tables.get(&table.id).and_then(|entries| entries.get(key));
        entry.ok_or_else(|| Refusal::not_found(format!("table '{}' has no entry with this key", table.name)))
    }

    /// Entry with the values of its direct resources.
    pub(super) fn with_resources(&self, table: &Table, stored: &Stored) -> Result<TableEntry, Refusal> {
        let mut entry = stored.entry.clone();
        if table.has_counter {
            entry.counter_data = Some(self.pipeline.entry_counter(&table.name, stored.handle)?.into());
        }
        if table.has_meter {
            entry.meter_config = self.pipeline.entry_meter(&table.name, stored.handle)?.map(Into::into);
        }
        Ok(entry)
    }

    /// Writes the direct resources and the idle timeout of an entry. An omitted meter is reset.
    fn set_resources(
        &mut self,
        table: &Table,
        handle: u64,
        entry: &TableEntry,
        modified: bool,
    ) -> Result<(), Refusal> {
        if table.has_idle_timeout && (entry.idle_timeout_ns != 0 || modified) {
            self.pipeline.set_idle_timeout(&table.name, handle, entry.idle_timeout_ns as u64)?;
        }
        if let (true, Some(data)) = (table.has_counter, &entry.counter_data) {
            self.pipeline.set_entry_counter(&table.name, handle, (*data).try_into()?)?;
        }
        if table.has_meter && (entry.meter_config.is_some() || modified) {
            let kind = self.state.objects.direct_meter(table.id);
            let rates = entry.meter_config.map(|config| meters::rates(&config, kind)).transpose()?;
            self.pipeline.set_entry_meter(&table.name, handle, rates)?;
        }
        Ok(())
    }

    /// Validates the action of an entry; returns its canonical form, the switch's form, and the objects
    /// created for it.
    fn resolve(
        &mut self,
        objects: &Objects,
        table: &Table,
        action: &TableAction,
    ) -> Result<(TableAction, Target, Option<OneShot>), Refusal> {
        use table_action::Type;
        let whole = |kind| TableAction { r#type: Some(kind) };
        match (&action.r#type, table.profile) {
            (Some(Type::Action(action)), None) => {
                actions::allowed(table, action, actions::Place::Entry)?;
                let (action, call) = actions::canonical(objects, action)?;
                Ok((whole(Type::Action(action)), Target::Action(call), None))
            }
            (Some(Type::ActionProfileMemberId(id)), Some(profile)) => {
                let member = self.member(objects.profile(profile)?, profile, *id)?;
                Ok((action.clone(), Target::Member(member.handle), None))
            }
            (Some(Type::ActionProfileGroupId(id)), Some(profile))
                if objects.profile(profile)?.has_selector =>
            {
                let group = self.group(objects.profile(profile)?, profile, *id)?;
                Ok((action.clone(), Target::Group(group.handle), None))
            }
            (Some(Type::ActionProfileActionSet(set)), Some(profile))
                if objects.profile(profile)?.has_selector =>
            {
                let (set, one_shot) = self.add_one_shot(objects, table, objects.profile(profile)?, set)?;
                Ok((whole(Type::ActionProfileActionSet(set)), Target::Group(one_shot.group), Some(one_shot)))
            }
            (None, _) => Err(Refusal::invalid("the entry's action is not set")),
            _ => Err(Refusal::invalid(format!(
                "the entry's action is not of the kind that table '{}' has",
                table.name
            ))),
        }
    }

    /// Adjusts the reference count of the member or group that an entry uses.
    pub(super) fn count_users(&mut self, table: &Table, action: &TableAction, change: isize) {
        let Some(profile) = table.profile else { return };
        let users = match action.r#type {
            Some(table_action::Type::ActionProfileMemberId(id)) => {
                self.state.members.get_mut(&(profile, id)).map(|member| &mut member.users)
            }
            Some(table_action::Type::ActionProfileGroupId(id)) => {
                self.state.groups.get_mut(&(profile, id)).map(|group| &mut group.users)
            }
            _ => None,
        };
        if let Some(users) = users {
            *users = users.saturating_add_signed(change);
        }
    }
}

/// Validates the key of an entry; returns its canonical and the switch's form.
pub fn key(table: &Table, entry: &TableEntry) -> Result<(EntryKey, Vec<Key>), Refusal> {
    let (matches, keys) = matches::canonical(&table.fields, &entry.r#match)
        .map_err(|refusal| refusal.at(&format!("table '{}'", table.name)))?;
    match (table.needs_priority(), entry.priority) {
        (true, 1..) | (false, 0) => Ok(((matches, entry.priority), keys)),
        (true, _) => {
            Err(Refusal::invalid(format!("entries of table '{}' need a priority above 0", table.name)))
        }
        (false, _) => {
            Err(Refusal::invalid(format!("entries of table '{}' have no priority: it must be 0", table.name)))
        }
    }
}

/// Rejects direct resources and idle timeouts that a table does not support.
fn check_resources(objects: &Objects, table: &Table, entry: &TableEntry) -> Result<(), Refusal> {
    let name = &table.name;
    if entry.counter_data.is_some() && !table.has_counter {
        return Err(Refusal::invalid(format!("table '{name}' has no direct counter")));
    }
    if entry.meter_config.is_some() && !table.has_meter {
        return Err(Refusal::invalid(format!("table '{name}' has no direct meter")));
    }
    if entry.meter_counter_data.is_some() {
        return Err(Refusal::unimplemented("meters do not count their colours"));
    }
    // The texts of PI, the server of simple_switch_grpc, which controllers and their tests compare.
    if !table.has_idle_timeout && entry.idle_timeout_ns != 0 {
        return Err(Refusal::invalid(NO_IDLE_TIMEOUT));
    }
    if !table.has_idle_timeout && entry.time_since_last_hit.is_some() {
        return Err(Refusal::invalid(WRITTEN_LAST_HIT));
    }
    entry.counter_data.map(Count::try_from).transpose()?;
    entry.meter_config.map(|config| meters::rates(&config, objects.direct_meter(table.id))).transpose()?;
    if entry.idle_timeout_ns < 0 {
        return Err(Refusal::invalid("the idle timeout is negative"));
    }
    Ok(())
}

fn constant(table: &Table) -> Refusal {
    Refusal::new(Code::PermissionDenied, format!("the entries of table '{}' are constant", table.name))
}

/// Stored form of an entry; its direct resources remain on the switch.
fn kept(table: &Table, key: &EntryKey, action: TableAction, entry: &TableEntry) -> TableEntry {
    TableEntry {
        table_id: table.id,
        r#match: key.0.clone(),
        action: Some(action),
        priority: key.1,
        controller_metadata: entry.controller_metadata,
        idle_timeout_ns: entry.idle_timeout_ns,
        metadata: entry.metadata.clone(),
        ..TableEntry::default()
    }
}
