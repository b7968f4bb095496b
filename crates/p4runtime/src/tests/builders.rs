//! Entities of the fixture program.

use crate::proto::entity::Entity as Kind;
use crate::proto::field_match::{self, Exact, Lpm, Optional, Range, Ternary};
use crate::proto::{
    Action, Entity, FieldMatch, Param, TableAction, TableEntry, Update, UpdateType, table_action,
};

pub const ROUTE: u32 = 0x0200_0001;
pub const ACL: u32 = 0x0200_0002;
pub const ECMP: u32 = 0x0200_0003;
pub const CONSTANT: u32 = 0x0200_0004;
pub const INITIAL: u32 = 0x0200_0005;
pub const KEYLESS: u32 = 0x0200_0006;
pub const FORWARD: u32 = 0x0100_0001;
pub const NO_ACTION: u32 = 0x0100_0002;
pub const DROP: u32 = 0x0100_0003;
pub const SELECTOR: u32 = 0x1100_0001;

pub fn insert(entity: Kind) -> Update {
    Update { r#type: UpdateType::Insert as i32, entity: Some(Entity { entity: Some(entity) }) }
}

pub fn modify(entity: Kind) -> Update {
    Update { r#type: UpdateType::Modify as i32, ..insert(entity) }
}

pub fn delete(entity: Kind) -> Update {
    Update { r#type: UpdateType::Delete as i32, ..insert(entity) }
}

pub fn table(entry: TableEntry) -> Kind {
    Kind::TableEntry(Box::new(entry))
}

fn field(field_id: u32, kind: field_match::Kind) -> FieldMatch {
    FieldMatch { field_id, kind: Some(kind) }
}

pub fn exact(id: u32, value: &[u8]) -> FieldMatch {
    field(id, field_match::Kind::Exact(Exact { value: value.to_vec() }))
}

pub fn lpm(id: u32, value: &[u8], prefix_len: i32) -> FieldMatch {
    field(id, field_match::Kind::Lpm(Lpm { value: value.to_vec(), prefix_len }))
}

pub fn ternary(id: u32, value: &[u8], mask: &[u8]) -> FieldMatch {
    field(id, field_match::Kind::Ternary(Ternary { value: value.to_vec(), mask: mask.to_vec() }))
}

pub fn range(id: u32, low: &[u8], high: &[u8]) -> FieldMatch {
    field(id, field_match::Kind::Range(Range { low: low.to_vec(), high: high.to_vec() }))
}

pub fn optional(id: u32, value: &[u8]) -> FieldMatch {
    field(id, field_match::Kind::Optional(Optional { value: value.to_vec() }))
}

pub fn action(action_id: u32, values: &[&[u8]]) -> Action {
    let params =
        values.iter().enumerate().map(|(at, value)| Param { param_id: at as u32 + 1, value: value.to_vec() });
    Action { action_id, params: params.collect() }
}

pub fn direct(action: Action) -> Option<TableAction> {
    Some(TableAction { r#type: Some(table_action::Type::Action(action)) })
}

pub fn forward(port: u8) -> Action {
    action(FORWARD, &[&[port], &[2, 0, 0, 0, 0, port]])
}

/// A route to 10.0.`net`.0/24 in VRF 1.
pub fn route(net: u8, port: u8) -> TableEntry {
    TableEntry {
        table_id: ROUTE,
        r#match: vec![lpm(1, &[10, 0, net, 0], 24), exact(2, &[1])],
        action: direct(forward(port)),
        ..TableEntry::default()
    }
}

/// A rule for source `source`.
pub fn rule(source: u8, priority: i32) -> TableEntry {
    TableEntry {
        table_id: ACL,
        r#match: vec![ternary(1, &[source], &[0xff])],
        action: direct(forward(1)),
        priority,
        ..TableEntry::default()
    }
}

pub fn all(table_id: u32) -> Kind {
    table(TableEntry { table_id, ..TableEntry::default() })
}
