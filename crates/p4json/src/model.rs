use serde::{Deserialize, Serialize};
use serde_json::Value;

mod pipeline;

pub use pipeline::*;

/// Field name: header and field.
pub type FieldName = (String, String);

/// Contents of a program file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Root {
    /// Name of the program.
    pub program: Option<String>,
    /// Version and compiler.
    #[serde(rename = "__meta__")]
    pub meta: Meta,
    /// Header and metadata types.
    pub header_types: Vec<HeaderType>,
    /// Header and metadata instances.
    pub headers: Vec<Header>,
    /// Header stacks.
    pub header_stacks: Vec<HeaderStack>,
    /// Types of header unions.
    pub header_union_types: Vec<HeaderUnionType>,
    /// Header unions.
    pub header_unions: Vec<HeaderUnion>,
    /// Stacks of header unions.
    pub header_union_stacks: Vec<HeaderUnionStack>,
    /// Fields preserved in clones, resubmitted and recirculated packets.
    pub field_lists: Vec<FieldList>,
    /// Error constants.
    pub errors: Vec<(String, u64)>,
    /// Enumerations.
    pub enums: Vec<Enum>,
    /// Parsers.
    pub parsers: Vec<Parser>,
    /// Parser value sets.
    pub parse_vsets: Vec<ParseVset>,
    /// Deparsers.
    pub deparsers: Vec<Deparser>,
    /// Meters.
    pub meter_arrays: Vec<MeterArray>,
    /// Counters.
    pub counter_arrays: Vec<CounterArray>,
    /// Registers.
    pub register_arrays: Vec<RegisterArray>,
    /// Hash and checksum calculations.
    pub calculations: Vec<Calculation>,
    /// Digests.
    pub learn_lists: Vec<LearnList>,
    /// Actions.
    pub actions: Vec<Action>,
    /// Ingress and egress.
    pub pipelines: Vec<Pipeline>,
    /// Checksums that are verified and updated.
    pub checksums: Vec<Checksum>,
    /// Fields used in BMv2's arithmetic; ignored.
    pub force_arith: Vec<Value>,
    /// Instances of externs.
    pub extern_instances: Vec<ExternInstance>,
    /// Fields of the architecture under the program's names.
    pub field_aliases: Vec<(String, FieldName)>,
}

/// Version and compiler of a program.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Meta {
    /// Major and minor version of the format; empty in files of BMv2's first versions.
    #[serde(default)]
    pub version: Vec<u64>,
    /// Compiler that wrote the file.
    #[serde(default)]
    pub compiler: Option<String>,
}

/// Position in the P4 source.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct SourceInfo {
    /// File name.
    pub filename: String,
    /// Line, from 1.
    pub line: u64,
    /// Column.
    pub column: u64,
    /// Source text at the position.
    pub source_fragment: String,
}

/// Header or metadata type.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HeaderType {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Fields: name, width in bits or "*", and signedness.
    pub fields: Vec<Vec<Value>>,
    /// Length of the variable-width field in bits.
    #[serde(default)]
    pub length_exp: Option<Value>,
    /// Maximum length in bytes of a header with a variable-width field.
    #[serde(default)]
    pub max_length: Option<u64>,
}

/// Header or metadata instance.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Header {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Type's name.
    pub header_type: String,
    /// True for metadata: always valid and never on the wire.
    #[serde(default)]
    pub metadata: bool,
    /// True if hidden from the control plane.
    #[serde(default)]
    pub pi_omit: bool,
}

/// Header stack.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HeaderStack {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Type's name.
    #[serde(default)]
    pub header_type: String,
    /// Numbers of the headers, from element 0.
    pub header_ids: Vec<u64>,
}

/// Type of a header union.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HeaderUnionType {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Members: name and header type.
    pub headers: Vec<(String, String)>,
}

/// Header union.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HeaderUnion {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Type's name.
    pub union_type: String,
    /// Numbers of the headers, in the order of the type's members.
    pub header_ids: Vec<u64>,
}

/// Stack of header unions.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HeaderUnionStack {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Type's name.
    pub union_type: String,
    /// Numbers of the unions, from element 0.
    #[serde(alias = "header_ids")]
    pub header_union_ids: Vec<u64>,
}

/// Fields preserved in a copy of a packet.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct FieldList {
    /// Number.
    pub id: u64,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Fields, as typed values.
    pub elements: Vec<Value>,
}

/// Enumeration.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Enum {
    /// Name.
    pub name: String,
    /// Members and their values.
    pub entries: Vec<(String, u64)>,
}

/// Parser.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Parser {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Name of the initial state.
    pub init_state: Option<String>,
    /// States.
    pub parse_states: Vec<ParseState>,
}

/// State of a parser.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ParseState {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Operations, in order.
    #[serde(default)]
    pub parser_ops: Vec<Call>,
    /// Parts of the key.
    #[serde(default)]
    pub transition_key: Vec<Value>,
    /// Transitions, in order.
    #[serde(default)]
    pub transitions: Vec<Transition>,
    /// Condition of the branch that ends the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

/// Call of a primitive or of a parser operation.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Call {
    /// Name.
    pub op: String,
    /// Arguments, as typed values.
    #[serde(default)]
    pub parameters: Vec<Value>,
    /// Position in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

/// Transition of a parser state.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Transition {
    /// `default`, `hexstr` or `parse_vset`.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// Value, or name of a value set.
    #[serde(default)]
    pub value: Option<String>,
    /// Mask.
    #[serde(default)]
    pub mask: Option<String>,
    /// Name of the next state; `None` accepts.
    #[serde(default)]
    pub next_state: Option<String>,
}

/// Parser value set.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ParseVset {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Width of its values in bits, without padding.
    pub compressed_bitwidth: u64,
    /// Maximum number of values.
    #[serde(default)]
    pub max_size: Option<u64>,
}

/// Deparser.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Deparser {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Names of headers in emission order.
    pub order: Vec<String>,
    /// Statements that run before the headers are emitted.
    #[serde(default)]
    pub primitives: Vec<Call>,
}

/// Array of meters.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct MeterArray {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// `bytes` or `packets`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Number of rates per meter, 2 for three colours.
    #[serde(default)]
    pub rate_count: Option<u64>,
    /// Number of meters.
    #[serde(default)]
    pub size: Option<u64>,
    /// True for a direct meter: one per table entry.
    #[serde(default)]
    pub is_direct: bool,
    /// Table of a direct meter.
    #[serde(default)]
    pub binding: Option<String>,
    /// Field that receives the colour of a direct meter.
    #[serde(default)]
    pub result_target: Option<FieldName>,
}

/// Array of counters.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CounterArray {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Number of counters.
    #[serde(default)]
    pub size: Option<u64>,
    /// True for a direct counter: one per table entry.
    #[serde(default)]
    pub is_direct: bool,
    /// Table of a direct counter.
    #[serde(default)]
    pub binding: Option<String>,
}

/// Array of registers.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RegisterArray {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Number of registers.
    pub size: u64,
    /// Width of each register in bits.
    pub bitwidth: u64,
}

/// Hash or checksum over fields.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Calculation {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Algorithm's name.
    pub algo: String,
    /// Input, as typed values.
    pub input: Vec<Value>,
}

/// Digest to the control plane.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LearnList {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Fields, as typed values.
    pub elements: Vec<Value>,
}

/// Action.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Action {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Parameters.
    #[serde(default)]
    pub runtime_data: Vec<ActionParameter>,
    /// Body.
    #[serde(default)]
    pub primitives: Vec<Call>,
}

/// Parameter of an action.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ActionParameter {
    /// Name.
    pub name: String,
    /// Width in bits.
    pub bitwidth: u64,
}

/// Checksum that is verified after parsing or updated before deparsing.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Checksum {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Field that holds the checksum.
    pub target: FieldName,
    /// Type, `generic`.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// Calculation's name.
    pub calculation: String,
    /// True if verified after parsing.
    #[serde(default = "yes")]
    pub verify: bool,
    /// True if updated before deparsing.
    #[serde(default = "yes")]
    pub update: bool,
    /// Condition.
    #[serde(default)]
    pub if_cond: Option<Value>,
}

fn yes() -> bool {
    true
}

/// Instance of an extern.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ExternInstance {
    /// Name.
    pub name: String,
    /// Number.
    pub id: u64,
    /// Type's name.
    #[serde(rename = "type")]
    pub kind: String,
    /// Initial attributes.
    #[serde(default)]
    pub attribute_values: Vec<Value>,
}
