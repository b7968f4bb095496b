//! Default entries of tables.

use super::{Forwarding, actions, update};
use crate::grpc::Code;
use crate::pipeline::Pipeline;
use crate::proto::entity::Entity as Kind;
use crate::proto::{TableAction, TableEntry, Update, UpdateType, table_action};
use crate::refusal::Refusal;
use belljar_p4info::Table;
use std::sync::Arc;

impl<P: Pipeline> Forwarding<'_, P> {
    pub(super) fn write_default_entry(
        &mut self,
        kind: UpdateType,
        table: &Table,
        entry: &TableEntry,
    ) -> Result<Vec<Update>, Refusal> {
        if kind != UpdateType::Modify {
            return Err(Refusal::invalid(
                "a default entry can only be modified: without an action it is reset",
            ));
        }
        if !entry.r#match.is_empty() || entry.priority != 0 {
            return Err(Refusal::invalid("a default entry has neither matches nor a priority"));
        }
        if entry.idle_timeout_ns != 0 {
            return Err(Refusal::invalid("a default entry has no idle timeout"));
        }
        if entry.time_since_last_hit.is_some() {
            return Err(Refusal::invalid(super::tables::WRITTEN_LAST_HIT));
        }
        if entry.counter_data.is_some() || entry.meter_config.is_some() || entry.meter_counter_data.is_some()
        {
            return Err(Refusal::unimplemented(
                "default entries have no direct counters and meters in this switch",
            ));
        }
        if table.default_is_const {
            return Err(Refusal::new(
                Code::PermissionDenied,
                format!("the default entry of table '{}' is constant", table.name),
            ));
        }
        let objects = Arc::clone(&self.state.objects);
        let new = match &entry.action {
            None => {
                self.pipeline.set_default_action(&table.name, None)?;
                None
            }
            Some(TableAction { r#type: Some(table_action::Type::Action(action)) })
                if table.profile.is_none() =>
            {
                actions::allowed(table, action, actions::Place::Default)?;
                let (action, call) = actions::canonical(&objects, action)?;
                self.pipeline.set_default_action(&table.name, Some(&call))?;
                Some(TableEntry {
                    table_id: table.id,
                    action: Some(TableAction { r#type: Some(table_action::Type::Action(action)) }),
                    is_default_action: true,
                    controller_metadata: entry.controller_metadata,
                    metadata: entry.metadata.clone(),
                    ..TableEntry::default()
                })
            }
            Some(_) => {
                return Err(Refusal::invalid(format!(
                    "the default entry of table '{}' takes an action of a direct table",
                    table.name
                )));
            }
        };
        let old = match new {
            Some(new) => self.state.defaults.insert(table.id, new),
            None => self.state.defaults.remove(&table.id),
        };
        let old = old.unwrap_or_else(|| TableEntry {
            table_id: table.id,
            is_default_action: true,
            ..TableEntry::default()
        });
        Ok(vec![update(UpdateType::Modify, Kind::TableEntry(Box::new(old)))])
    }

    /// Default entry as returned by `Read`.
    pub(super) fn default_entry(&self, table: &Table) -> TableEntry {
        let mut entry = self.state.defaults.get(&table.id).cloned().unwrap_or_else(|| {
            let call = self.pipeline.default_action(&table.name);
            let action = call.and_then(|call| actions::from_call(&self.state.objects, &call));
            TableEntry {
                table_id: table.id,
                action: action.map(|action| TableAction { r#type: Some(table_action::Type::Action(action)) }),
                is_default_action: true,
                ..TableEntry::default()
            }
        });
        entry.is_const = table.default_is_const;
        entry
    }
}
