//! Pipelines: tables, their entries and profiles, conditionals.

use super::{SourceInfo, Value};
use serde::{Deserialize, Serialize};
use serde_json::Map;

/// Ingress or egress.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Pipeline {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Name of the first node; `None` if the control is empty.
    pub init_table: Option<String>,
    /// Tables.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Action profiles.
    #[serde(default)]
    pub action_profiles: Vec<ActionProfile>,
    /// Conditions.
    #[serde(default)]
    pub conditionals: Vec<Conditional>,
    /// Action calls outside of tables.
    #[serde(default)]
    pub action_calls: Vec<ActionCall>,
}

/// Action profile.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ActionProfile {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Maximum number of members.
    #[serde(default)]
    pub max_size: Option<u64>,
    /// Selector of group members.
    #[serde(default)]
    pub selector: Option<Selector>,
}

/// Selection of a group's member by a hash.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Selector {
    /// Algorithm's name.
    pub algo: String,
    /// Fields, as typed values.
    pub input: Vec<Value>,
}

/// Table.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Table {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Position in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// `exact`, `lpm`, `ternary` or `range`.
    pub match_type: String,
    /// `simple`, `indirect` or `indirect_ws`.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// Action profile of an indirect table.
    #[serde(default)]
    pub action_profile: Option<String>,
    /// Name of the profile that an indirect table of BMv2's first JSON format has to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act_prof_name: Option<String>,
    /// Selector of that profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Maximum number of entries.
    #[serde(default)]
    pub max_size: Option<u64>,
    /// True if entries have direct counters.
    #[serde(default)]
    pub with_counters: bool,
    /// True if entries support idle timeouts.
    #[serde(default)]
    pub support_timeout: bool,
    /// Key.
    #[serde(default)]
    pub key: Vec<TableKey>,
    /// Numbers of the actions.
    #[serde(default)]
    pub action_ids: Vec<u64>,
    /// Names of the actions.
    #[serde(default)]
    pub actions: Vec<String>,
    /// Next node by action name, or by `__HIT__` and `__MISS__`.
    #[serde(default)]
    pub next_tables: Map<String, Value>,
    /// Next node after a miss without a default action.
    #[serde(default)]
    pub base_default_next: Option<String>,
    /// Name of the direct meters.
    #[serde(default)]
    pub direct_meters: Option<String>,
    /// Default entry.
    #[serde(default)]
    pub default_entry: Option<DefaultEntry>,
    /// Constant or initial entries.
    #[serde(default)]
    pub entries: Option<Vec<Entry>>,
}

/// Field of a table's key.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TableKey {
    /// `exact`, `lpm`, `ternary`, `range`, `optional` or `valid`.
    pub match_type: String,
    /// Control-plane name.
    #[serde(default)]
    pub name: Option<String>,
    /// Field, or header for `valid`.
    pub target: Value,
    /// Mask of the field's value.
    #[serde(default)]
    pub mask: Option<String>,
}

/// Default entry of a table.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DefaultEntry {
    /// Action's number.
    pub action_id: u64,
    /// True if the action is constant.
    #[serde(default)]
    pub action_const: bool,
    /// Values of the action's parameters.
    #[serde(default)]
    pub action_data: Vec<String>,
    /// True if the action's arguments are constant.
    #[serde(default)]
    pub action_entry_const: bool,
}

/// Entry of a table.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Entry {
    /// Position in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Values of the key's fields.
    pub match_key: Vec<EntryKey>,
    /// Action.
    pub action_entry: DefaultEntry,
    /// Priority; the smallest number wins.
    #[serde(default)]
    pub priority: Option<i64>,
    /// True if the entry is constant.
    #[serde(default)]
    pub is_const: Option<bool>,
}

/// Value of a key's field in an entry.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct EntryKey {
    /// Match kind.
    pub match_type: String,
    /// Value.
    #[serde(default)]
    pub key: Option<Value>,
    /// Mask of a ternary match.
    #[serde(default)]
    pub mask: Option<String>,
    /// Prefix length of an `lpm` match in bits.
    #[serde(default)]
    pub prefix_length: Option<u64>,
    /// First value of a range.
    #[serde(default)]
    pub start: Option<String>,
    /// Last value of a range.
    #[serde(default)]
    pub end: Option<String>,
}

/// Condition of a control.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Conditional {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Position in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Boolean expression.
    pub expression: Value,
    /// Next node if true.
    #[serde(default)]
    pub true_next: Option<String>,
    /// Next node if false.
    #[serde(default)]
    pub false_next: Option<String>,
}

/// Action call outside of a table.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ActionCall {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Action's number.
    pub action_id: u64,
    /// Next node.
    #[serde(default)]
    pub next_node: Option<String>,
}
