//! Compact form of a program: flat arrays in which names are replaced by indices, and fields by offsets in
//! one buffer.
//!
//! All headers of a packet share one buffer in wire format, so that extraction and emission are copies. A
//! variable-width field follows the fixed-width fields of its header.

pub(crate) mod code;

use crate::hash::Algorithm;
use crate::number::Size;
use belljar_base::Map;
use belljar_p4json::SourceInfo;
use code::*;
use std::ops::Range;
use std::sync::Arc;

/// No node: end of a pipeline, or acceptance by a parser.
pub(crate) const NONE: u32 = u32::MAX;

/// v1model program, ready to run. Any number of switches may share it.
#[derive(Debug)]
pub struct Program {
    /// Text that it was read from.
    pub(crate) json: Arc<str>,
    pub(crate) name: String,
    pub(crate) types: Vec<HeaderType>,
    pub(crate) headers: Vec<Header>,
    pub(crate) stacks: Vec<Stack>,
    pub(crate) unions: Vec<Union>,
    pub(crate) union_stacks: Vec<UnionStack>,
    /// Size of all headers in bytes, without padding.
    pub(crate) phv_bytes: usize,
    /// Byte ranges of metadata.
    pub(crate) metadata: Vec<Range<usize>>,
    pub(crate) ints: Vec<Int>,
    pub(crate) bools: Vec<Bool>,
    pub(crate) hrefs: Vec<Href>,
    pub(crate) urefs: Vec<Uref>,
    pub(crate) wide: Vec<num_bigint::BigInt>,
    pub(crate) code: Vec<Instruction>,
    /// Source positions of jump conditions by instruction index, for traces.
    pub(crate) branches: Map<u32, SourceInfo>,
    pub(crate) logs: Vec<LogMessage>,
    pub(crate) actions: Vec<Action>,
    pub(crate) states: Vec<State>,
    pub(crate) first_state: u32,
    pub(crate) vsets: Vec<ValueSet>,
    pub(crate) errors: Errors,
    pub(crate) calculations: Vec<Calculation>,
    pub(crate) verify: Vec<Checksum>,
    pub(crate) update: Vec<Checksum>,
    pub(crate) emit: Vec<u32>,
    /// Code that runs before the headers are emitted.
    pub(crate) deparser: Range<u32>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ingress: u32,
    pub(crate) egress: u32,
    pub(crate) tables: Vec<Table>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) counters: Vec<Counters>,
    pub(crate) meters: Vec<Meters>,
    pub(crate) registers: Vec<Registers>,
    pub(crate) field_lists: Vec<FieldList>,
    pub(crate) learn_lists: Vec<LearnList>,
    pub(crate) standard: Standard,
}

#[derive(Debug)]
pub(crate) struct HeaderType {
    pub name: String,
    pub fields: Vec<TypeField>,
    /// Width of all fixed-width fields in bits.
    pub fixed_bits: u32,
    pub variable: Option<Variable>,
    /// Size of an instance in the buffer in bytes.
    pub bytes: u32,
}

#[derive(Debug)]
pub(crate) struct TypeField {
    pub name: String,
    /// Bit offset from the start of the header in the buffer.
    pub offset: u32,
    pub width: u32,
    pub signed: bool,
    pub saturating: bool,
}

/// Variable-width field of a header type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variable {
    /// Index among the fields.
    pub index: u32,
    /// Width in bits of the preceding fields.
    pub before: u32,
    /// Bit offset from the start of the header in the buffer, a multiple of 8.
    pub offset: u32,
    pub max_bits: u32,
}

#[derive(Debug)]
pub(crate) struct Header {
    pub name: String,
    pub kind: u32,
    /// Byte offset in the buffer.
    pub at: u32,
    pub metadata: bool,
    /// Union that contains the header.
    pub union: Option<u32>,
    /// Width in bits of the variable-width field, for headers that specify it themselves.
    pub length: Option<Expr>,
}

#[derive(Debug)]
pub(crate) struct Stack {
    pub headers: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Union {
    pub headers: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct UnionStack {
    pub unions: Vec<u32>,
}

/// Field of a header in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub offset: u32,
    pub width: u32,
    pub header: u32,
    pub signed: bool,
    pub saturating: bool,
    /// True if the header is metadata, which is always valid.
    pub metadata: bool,
}

/// Integer expression and the type of its evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expr {
    pub root: u32,
    pub size: Size,
}

#[derive(Debug)]
pub(crate) struct LogMessage {
    pub format: String,
    pub arguments: Vec<Expr>,
    pub source: Option<SourceInfo>,
}

#[derive(Debug)]
pub(crate) struct Action {
    pub name: String,
    pub parameters: Vec<Parameter>,
    /// Size of the parameters in bytes, each padded to whole bytes.
    pub bytes: u32,
    pub code: Range<u32>,
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub name: String,
    pub width: u32,
    /// Bit offset from the start of the arguments.
    pub offset: u32,
}

#[derive(Debug)]
pub(crate) struct State {
    pub name: String,
    pub operations: Vec<Operation>,
    pub key: Vec<KeyPart>,
    /// Size of the key in bytes, each part padded to whole bytes.
    pub key_bytes: u32,
    pub transitions: Vec<Transition>,
    /// Next state if no transition matches; [`NONE`] accepts.
    pub otherwise: u32,
    /// Condition of a branch: it is true if a transition matches.
    pub branch: Option<SourceInfo>,
}

#[derive(Debug)]
pub(crate) enum Transition {
    Narrow { value: u128, mask: u128, next: u32 },
    Wide { value: Vec<u8>, mask: Vec<u8>, next: u32 },
    Set { set: u32, mask: Option<Vec<u8>>, next: u32 },
}

#[derive(Debug)]
pub(crate) struct ValueSet {
    pub name: String,
    pub bits: u32,
    pub max_size: Option<u64>,
}

/// Error codes of the core library.
#[derive(Clone, Debug)]
pub(crate) struct Errors {
    pub none: u32,
    pub packet_too_short: u32,
    pub stack_out_of_bounds: u32,
    pub header_too_short: u32,
    pub timeout: u32,
    pub invalid_argument: u32,
    pub names: Vec<(u32, String)>,
}

#[derive(Debug)]
pub(crate) struct Calculation {
    pub name: String,
    pub algorithm: Algorithm,
    pub input: Vec<Input>,
    pub payload: bool,
}

#[derive(Debug)]
pub(crate) enum Input {
    Field(Field),
    /// Variable-width field of a header.
    Variable(u32),
    Constant {
        bytes: Vec<u8>,
        bits: u32,
    },
    Header(u32),
}

#[derive(Debug)]
pub(crate) struct Checksum {
    pub name: String,
    pub target: Field,
    pub calculation: u32,
    pub condition: Option<u32>,
}

#[derive(Debug)]
pub(crate) enum Node {
    Table(u32),
    If { name: String, condition: u32, yes: u32, no: u32, line: Option<SourceInfo> },
    Call { action: u32, next: u32 },
}

#[derive(Debug)]
pub(crate) struct Table {
    pub name: String,
    pub key: Vec<Key>,
    /// Width of the whole key in bits.
    pub key_bits: u32,
    pub lookup: Lookup,
    pub profile: Option<u32>,
    pub max_size: u64,
    pub counters: Option<u32>,
    pub meters: Option<(u32, Field)>,
    pub timeouts: bool,
    pub actions: Vec<TableAction>,
    pub on_hit: Option<u32>,
    pub on_miss: Option<u32>,
    pub otherwise: u32,
    pub default: Option<(u32, Vec<u8>)>,
    pub default_action_const: bool,
    pub default_entry_const: bool,
    pub entries: Vec<InitialEntry>,
    pub constant: bool,
    /// Size of the longest action arguments in bytes.
    pub argument_bytes: u32,
    pub line: Option<SourceInfo>,
}

#[derive(Debug)]
pub(crate) struct TableAction {
    pub action: u32,
    pub next: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Exact,
    Lpm,
    Ternary,
}

/// Match kind of a key field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// Equality.
    Exact,
    /// Longest prefix match.
    Lpm,
    /// Value and mask.
    Ternary,
    /// First and last value.
    Range,
    /// Equality or any value.
    Optional,
    /// Validity of a header.
    Valid,
}

impl MatchKind {
    /// Name in BMv2 JSON.
    pub fn name(self) -> &'static str {
        match self {
            MatchKind::Exact => "exact",
            MatchKind::Lpm => "lpm",
            MatchKind::Ternary => "ternary",
            MatchKind::Range => "range",
            MatchKind::Optional => "optional",
            MatchKind::Valid => "valid",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Key {
    pub name: String,
    pub kind: MatchKind,
    pub width: u32,
    /// Bit offset from the start of the key.
    pub offset: u32,
    pub source: Source,
    /// Mask applied to the field before the lookup.
    pub mask: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Field(Field),
    Valid(u32),
    /// True if a header of the union is valid.
    ValidUnion(u32),
}

#[derive(Debug)]
pub(crate) struct InitialEntry {
    pub entry: crate::control::Entry,
    pub place: String,
}

#[derive(Debug)]
pub(crate) struct Profile {
    pub name: String,
    pub max_size: u64,
    pub selector: Option<Calculation>,
    pub tables: Vec<u32>,
    /// Size of the longest arguments of the actions of all tables that use the profile, in bytes.
    pub argument_bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Counters {
    pub name: String,
    pub size: u64,
    pub table: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Meters {
    pub name: String,
    pub size: u64,
    pub bytes: bool,
    pub rates: u32,
    pub table: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Registers {
    pub name: String,
    pub size: u64,
    pub width: u32,
}

#[derive(Debug)]
pub(crate) struct FieldList {
    pub id: u64,
    pub fields: Vec<Field>,
    /// Headers whose variable-width field is preserved.
    pub variable: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct LearnList {
    pub name: String,
    pub id: u64,
    pub elements: Vec<Source>,
    pub widths: Vec<u32>,
}

/// Architecture fields, where the program has them.
#[derive(Debug, Default)]
pub(crate) struct Standard {
    pub ingress_port: Option<Field>,
    pub egress_spec: Option<Field>,
    pub egress_port: Option<Field>,
    pub instance_type: Option<Field>,
    pub packet_length: Option<Field>,
    pub parser_error: Option<Field>,
    pub checksum_error: Option<Field>,
    pub ingress_timestamp: Option<Field>,
    pub egress_timestamp: Option<Field>,
    pub mcast_grp: Option<Field>,
    pub egress_rid: Option<Field>,
    pub priority: Option<Field>,
    pub enq_timestamp: Option<Field>,
    pub enq_qdepth: Option<Field>,
    pub deq_timedelta: Option<Field>,
    pub deq_qdepth: Option<Field>,
    pub qid: Option<Field>,
}

impl Program {
    /// BMv2's JSON that the program was read from.
    pub fn json(&self) -> &str {
        &self.json
    }
    pub(crate) fn kind_of(&self, header: u32) -> &HeaderType {
        &self.types[self.headers[header as usize].kind as usize]
    }
    pub(crate) fn field_of(&self, header: u32, field: u32) -> Field {
        let place = &self.headers[header as usize];
        let kind = &self.types[place.kind as usize];
        let field = &kind.fields[field as usize];
        Field {
            offset: place.at * 8 + field.offset,
            width: field.width,
            header,
            signed: field.signed,
            saturating: field.saturating,
            metadata: place.metadata,
        }
    }
}

impl Action {
    /// Packs big-endian arguments to the representation of entries.
    pub fn pack(&self, arguments: &[Vec<u8>]) -> Vec<u8> {
        let mut out = vec![0; self.bytes as usize + crate::bits::PADDING];
        for (parameter, argument) in self.parameters.iter().zip(arguments) {
            crate::bits::set_bytes(&mut out, parameter.offset, parameter.width, argument);
        }
        out.truncate(self.bytes as usize);
        out
    }
    /// Unpacks arguments, each to the bytes of its width.
    pub fn unpack(&self, packed: &[u8]) -> Vec<Vec<u8>> {
        let at = |parameter: &Parameter| {
            let end = ((parameter.offset + parameter.width) / 8) as usize;
            packed[end - parameter.width.div_ceil(8) as usize..end].to_vec()
        };
        self.parameters.iter().map(at).collect()
    }
}
