//! A program in its compact form: flat arrays in which names have become indices and fields places in one buffer.
//!
//! All headers of a packet lie in one buffer, each as it is on the wire, so that extracting and emitting are copies. A
//! field of variable width lies behind the fixed ones of its header.

pub(crate) mod code;

use crate::hash::Algorithm;
use crate::number::Size;
use belljar_base::Map;
use belljar_p4json::SourceInfo;
use code::*;
use std::ops::Range;

/// No node: the end of a pipeline, or acceptance by a parser.
pub(crate) const NONE: u32 = u32::MAX;

/// A v1model program, ready to run. Any number of switches may share it.
#[derive(Debug)]
pub struct Program {
    pub(crate) name: String,
    pub(crate) types: Vec<HeaderType>,
    pub(crate) headers: Vec<Header>,
    pub(crate) stacks: Vec<Stack>,
    pub(crate) unions: Vec<Union>,
    pub(crate) union_stacks: Vec<UnionStack>,
    /// Bytes of all headers, without padding.
    pub(crate) phv_bytes: usize,
    /// Ranges of bytes that metadata lies in.
    pub(crate) metadata: Vec<Range<usize>>,
    pub(crate) ints: Vec<Int>,
    pub(crate) bools: Vec<Bool>,
    pub(crate) hrefs: Vec<Href>,
    pub(crate) urefs: Vec<Uref>,
    pub(crate) wide: Vec<num_bigint::BigInt>,
    pub(crate) code: Vec<Instruction>,
    /// Conditions of jumps in the source, by the number of the instruction; for traces.
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
    pub(crate) nodes: Vec<Node>,
    pub(crate) ingress: u32,
    pub(crate) egress: u32,
    pub(crate) tables: Vec<Table>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) counters: Vec<Counters>,
    pub(crate) meters: Vec<Meters>,
    pub(crate) registers: Vec<Registers>,
    pub(crate) field_lists: Vec<(u64, Vec<Field>)>,
    pub(crate) learn_lists: Vec<LearnList>,
    pub(crate) standard: Standard,
}

#[derive(Debug)]
pub(crate) struct HeaderType {
    pub name: String,
    pub fields: Vec<TypeField>,
    /// Bits of the fields of fixed width.
    pub fixed_bits: u32,
    pub variable: Option<Variable>,
    /// Bytes that an instance takes in the buffer.
    pub bytes: u32,
}

#[derive(Debug)]
pub(crate) struct TypeField {
    pub name: String,
    /// Bits from the header's start in the buffer.
    pub offset: u32,
    pub width: u32,
    pub signed: bool,
    pub saturating: bool,
}

/// The field of variable width of a header type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variable {
    /// Its number among the fields.
    pub index: u32,
    /// Bits of the fields before it.
    pub before: u32,
    /// Place in the buffer, in bits from the header's start: a whole byte.
    pub offset: u32,
    pub max_bits: u32,
}

#[derive(Debug)]
pub(crate) struct Header {
    pub name: String,
    pub kind: u32,
    /// First byte in the buffer.
    pub at: u32,
    pub metadata: bool,
    /// Union that it belongs to.
    pub union: Option<u32>,
    /// Length of the field of variable width in bits, where the header says it itself.
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

/// A field of a header, in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub offset: u32,
    pub width: u32,
    pub header: u32,
    pub signed: bool,
    pub saturating: bool,
    /// The header is always valid.
    pub metadata: bool,
}

/// An integer expression and the type that it is computed with.
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
    /// Bytes of the parameters, each padded to whole bytes.
    pub bytes: u32,
    pub code: Range<u32>,
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub name: String,
    pub width: u32,
    /// Bits from the start of the arguments.
    pub offset: u32,
}

#[derive(Debug)]
pub(crate) struct State {
    pub name: String,
    pub operations: Vec<Operation>,
    pub key: Vec<KeyPart>,
    /// Bytes of the key, each part padded to whole bytes.
    pub key_bytes: u32,
    pub transitions: Vec<Transition>,
    /// Next state if no transition matches, [`NONE`] to accept.
    pub otherwise: u32,
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

/// Codes of the core library's errors.
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
    /// Field of variable width of a header.
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
    /// Bits of the whole key.
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
    /// Bytes of the longest arguments of an action.
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

/// Kind of match of a key's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// Equal.
    Exact,
    /// Longest prefix.
    Lpm,
    /// Value and mask.
    Ternary,
    /// First and last value.
    Range,
    /// Equal, or any.
    Optional,
    /// A header's validity.
    Valid,
}

impl MatchKind {
    /// The name in BMv2 JSON.
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
    /// Bits from the start of the key.
    pub offset: u32,
    pub source: Source,
    /// The field is masked before it is looked up.
    pub mask: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Field(Field),
    Valid(u32),
    /// A union of which a header is valid.
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
    /// Actions of its members: those of all its tables.
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
pub(crate) struct LearnList {
    pub name: String,
    pub id: u64,
    pub elements: Vec<Source>,
    pub widths: Vec<u32>,
}

/// Fields that the architecture reads and writes, where the program has them.
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
    /// The arguments, big-endian integers, in the form in which entries keep them.
    pub fn pack(&self, arguments: &[Vec<u8>]) -> Vec<u8> {
        let mut out = vec![0; self.bytes as usize + crate::bits::PADDING];
        for (parameter, argument) in self.parameters.iter().zip(arguments) {
            crate::bits::set_bytes(&mut out, parameter.offset, parameter.width, argument);
        }
        out.truncate(self.bytes as usize);
        out
    }
    /// The arguments again, each with the bytes of its width.
    pub fn unpack(&self, packed: &[u8]) -> Vec<Vec<u8>> {
        let at = |parameter: &Parameter| {
            let end = ((parameter.offset + parameter.width) / 8) as usize;
            packed[end - parameter.width.div_ceil(8) as usize..end].to_vec()
        };
        self.parameters.iter().map(at).collect()
    }
}
