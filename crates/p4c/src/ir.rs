//! Program in BMv2's model: flat storage, scalar expressions without side effects, statements without calls.

use super::source::Span;
use num_bigint::BigInt;
use std::rc::Rc;

/// Type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A 1-bit Boolean.
    Bool,
    /// Unsigned integer of this many bits.
    Bit(u32),
    /// Two's complement integer of this many bits.
    Signed(u32),
    /// Variable length, up to this many bits.
    Varbit(u32),
    /// A constant without width.
    Int,
}

impl Scalar {
    /// Width in bits.
    pub fn width(self) -> u32 {
        match self {
            Scalar::Bool => 1,
            Scalar::Bit(width) | Scalar::Signed(width) | Scalar::Varbit(width) => width,
            Scalar::Int => 32,
        }
    }
}

/// Reference to a header.
#[derive(Clone, Debug, PartialEq)]
pub enum HeaderRef {
    /// An instance, by index in [`Layout::headers`].
    Instance(usize),
    /// An element of a stack at an index computed at run time.
    Element(usize, Box<Ex>),
    /// `stack.next`, in a parser.
    Next(usize),
    /// `stack.last`, in a parser.
    Last(usize),
    /// A member of `unions.next`, in a parser.
    UnionNext(usize, usize),
    /// A member of `unions.last`, in a parser.
    UnionLast(usize, usize),
    /// A member of an element of a stack of unions: stack, member, and index computed at run time.
    UnionElement(usize, usize, Box<Ex>),
}

/// Reference to a field of a header.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldRef {
    pub header: HeaderRef,
    /// Index of the field.
    pub field: usize,
    pub scalar: Scalar,
}

/// Scalar expression without side effects. Booleans and numbers are distinct types, as in BMv2.
#[derive(Clone, Debug, PartialEq)]
pub enum Ex {
    /// A number.
    Int(BigInt),
    /// A Boolean.
    Bool(bool),
    /// A field, read as a number.
    Field(FieldRef),
    /// Action parameter supplied by the control plane, by index.
    Data(usize, Scalar),
    /// A BMv2 operator; unary ones have no left operand.
    Op(&'static str, Option<Box<Ex>>, Box<Ex>),
    /// `cond ? a : b`.
    Cond(Box<Ex>, Box<Ex>, Box<Ex>),
    /// Validity of a header, as a Boolean.
    Valid(HeaderRef),
    /// Bits of the packet ahead of the cursor: offset and width.
    Lookahead(u32, u32),
    /// Index of the last valid element of a stack.
    LastIndex(usize),
    /// `lastIndex` of a stack of unions.
    UnionLastIndex(usize),
    /// Condition of a statement as it is shown. Only an entire condition is wrapped.
    At(Shown, Box<Ex>),
}

/// Condition as traces and `--explain` show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Source range.
    pub span: Span,
    /// Text in place of the source's: the condition that a case of a `switch` stands for.
    pub text: Option<Rc<str>>,
}

impl From<Span> for Shown {
    fn from(span: Span) -> Shown {
        Shown { span, text: None }
    }
}

/// Storage location.
#[derive(Clone, Debug)]
pub enum Place {
    /// A scalar field.
    Scalar(FieldRef),
    /// A header.
    Header(HeaderRef),
    /// A header stack, by index.
    Stack(usize),
    /// A header union, by index.
    Union(usize),
    /// `next` (`true`) or `last` of a stack of unions.
    UnionEnd(usize, bool),
    /// An element of a stack of unions at an index computed at run time.
    UnionElement(usize, Box<Ex>),
    /// A stack of header unions, by index.
    UnionStack(usize),
    /// A struct or tuple.
    Struct(Rc<[(Rc<str>, Place)]>),
}

/// Argument of a primitive.
#[derive(Clone, Debug)]
pub enum Arg {
    /// An expression.
    Ex(Ex),
    /// A header.
    Header(HeaderRef),
    /// Field to be assigned.
    Field(FieldRef),
    /// An object: its BMv2 kind and its name.
    Object(&'static str, String),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Ex>),
}

/// Label of a block or loop.
pub type Label = usize;

/// Continuation after a table.
#[derive(Clone, Debug)]
pub enum Follow {
    /// One continuation for all results.
    Any,
    /// Continuations after a hit and after a miss.
    Hit(Vec<Stmt>, Vec<Stmt>),
    /// Continuations by action, each with indices of the table's actions; the last list applies to all other
    /// actions.
    Actions(Vec<(Vec<usize>, Vec<Stmt>)>, Vec<Stmt>),
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Assigns a scalar.
    Assign(FieldRef, Ex),
    /// A BMv2 primitive.
    Primitive(&'static str, Vec<Arg>),
    /// A conditional.
    If(Ex, Vec<Stmt>, Vec<Stmt>),
    /// Statements that [`Stmt::Break`] can leave.
    Block(Label, Vec<Stmt>),
    /// Statements that repeat until [`Stmt::Break`] leaves an enclosing block.
    Loop(Vec<Stmt>),
    /// Leaves a block.
    Break(Label),
    /// Applies a table.
    Apply(usize, Follow),
    /// Ends the pipeline.
    Exit,
    /// Extracts a header; the expression is the length of its varbit field in bits.
    Extract(HeaderRef, Option<Ex>),
    /// Advances the packet cursor by a number of bits.
    Advance(Ex),
    /// Unless the condition holds, sets the parser error and rejects.
    Verify(Ex, Ex),
    /// Enters a state of an inlined parser (first name); the remaining statements form the state of the
    /// second name.
    Enter(String, String),
}

/// A header type.
#[derive(Clone, Debug)]
pub struct HeaderType {
    pub name: String,
    pub fields: Vec<(String, Scalar)>,
}

/// A header instance.
#[derive(Clone, Debug)]
pub struct Header {
    pub name: String,
    /// Index of the header type.
    pub ty: usize,
    /// True for metadata: always valid, never part of a packet.
    pub metadata: bool,
}

/// A stack of headers.
#[derive(Clone, Debug)]
pub struct Stack {
    pub name: String,
    /// Index of the header type.
    pub ty: usize,
    /// The instances.
    pub headers: Vec<usize>,
}

/// A header union type.
#[derive(Clone, Debug)]
pub struct UnionType {
    pub name: String,
    /// Members: name and header type.
    pub members: Vec<(String, usize)>,
}

/// A header union.
#[derive(Clone, Debug)]
pub struct Union {
    pub name: String,
    /// Index of the union type.
    pub ty: usize,
    /// The instances.
    pub headers: Vec<usize>,
}

/// A stack of header unions.
#[derive(Clone, Debug)]
pub struct UnionStack {
    pub name: String,
    /// Index of the union type.
    pub ty: usize,
    /// The unions.
    pub unions: Vec<usize>,
}

/// Storage of a program.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Header types; the first holds the scalars.
    pub types: Vec<HeaderType>,
    /// Header instances; the first holds the scalars.
    pub headers: Vec<Header>,
    /// Stacks.
    pub stacks: Vec<Stack>,
    /// Union types.
    pub union_types: Vec<UnionType>,
    /// Unions.
    pub unions: Vec<Union>,
    /// Stacks of unions.
    pub union_stacks: Vec<UnionStack>,
}

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Control-plane name.
    pub name: String,
    /// Control-plane parameters.
    pub params: Vec<(String, Scalar)>,
    pub body: Vec<Stmt>,
}

/// Key set of an entry.
#[derive(Clone, Debug)]
pub enum KeySet {
    /// One value.
    Value(BigInt),
    /// Value and mask.
    Mask(BigInt, BigInt),
    /// First and last value of a range.
    Range(BigInt, BigInt),
    /// All values.
    Any,
}

/// Table entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// One key set per key.
    pub keys: Vec<KeySet>,
    /// Index into the table's actions.
    pub action: usize,
    /// Action arguments.
    pub args: Vec<BigInt>,
    /// Priority; the lowest number wins.
    pub priority: i64,
    pub span: Span,
}

/// Table key.
#[derive(Clone, Debug)]
pub struct Key {
    /// Field to match; if `validity` is set, only the header of the reference is used.
    pub field: FieldRef,
    /// True if the key matches the validity of the header instead of a field.
    pub validity: bool,
    /// Match kind.
    pub kind: String,
    /// Control-plane name.
    pub name: String,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Control-plane name.
    pub name: String,
    /// Source range of the declaration.
    pub span: Span,
    /// Keys.
    pub keys: Vec<Key>,
    /// Indices of actions in [`Pipeline`]'s program.
    pub actions: Vec<usize>,
    /// Default action: index into `actions`, arguments, `const`.
    pub default: Option<(usize, Vec<BigInt>, bool)>,
    /// Entries.
    pub entries: Vec<Entry>,
    /// Maximum number of entries.
    pub size: u64,
    /// Action profile or selector.
    pub profile: Option<usize>,
    /// True if a direct counter is attached.
    pub counter: bool,
    /// Name of the attached direct meter.
    pub meter: Option<String>,
    /// True if entries age.
    pub timeout: bool,
}

/// Parser state.
#[derive(Clone, Debug)]
pub struct State {
    pub name: String,
    pub body: Vec<Stmt>,
    pub next: Next,
}

/// Label of a transition.
#[derive(Clone, Debug)]
pub enum Case {
    /// One key set per key.
    Keys(Vec<KeySet>),
    /// A value set.
    ValueSet(String),
}

/// A transition.
#[derive(Clone, Debug)]
pub enum Next {
    /// To a state; `None` ends the parser.
    To(Option<String>),
    /// Transition by keys with their types; a target of `None` ends the parser.
    Select(Vec<(Ex, Scalar)>, Vec<(Case, Option<String>)>),
}

/// Input of a calculation or of a list.
#[derive(Clone, Debug)]
pub enum Input {
    /// An expression with its type.
    Value(Ex, Scalar),
    /// The payload of the packet.
    Payload,
}

/// Named calculation.
#[derive(Clone, Debug)]
pub struct Calculation {
    pub name: String,
    pub algorithm: String,
    pub input: Vec<Input>,
}

/// Checksum to verify or update.
#[derive(Clone, Debug)]
pub struct Checksum {
    /// Field that holds the checksum.
    pub target: FieldRef,
    /// Index of the calculation.
    pub calculation: usize,
    /// True to verify, false to update.
    pub verify: bool,
    /// Condition; `None` means always.
    pub condition: Option<Ex>,
}

/// Array of counters, meters or registers.
#[derive(Clone, Debug)]
pub struct Array {
    /// Control-plane name.
    pub name: String,
    /// Number of cells.
    pub size: u64,
    /// Width of a register in bits; 0 for counters and meters.
    pub width: u32,
    /// Unit of a counter or meter: `packets`, `bytes` or `packets_and_bytes`.
    pub unit: String,
    /// Table of a direct counter or meter.
    pub table: Option<String>,
    /// Result field of a direct meter.
    pub target: Option<FieldRef>,
    /// True for direct counters and meters.
    pub direct: bool,
}

/// Action profile or selector.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Control-plane name.
    pub name: String,
    /// Maximum number of members.
    pub size: u64,
    /// Hash algorithm of a selector.
    pub algorithm: Option<String>,
    /// Hash input of a selector.
    pub input: Vec<FieldRef>,
    /// Pipeline: 0 ingress, 1 egress.
    pub pipeline: usize,
}

/// Field list: preserved by clone, resubmit and recirculate, or sent in a digest.
#[derive(Clone, Debug)]
pub struct FieldList {
    /// Field-list number.
    pub id: i64,
    pub name: String,
    pub elements: Vec<(Ex, Scalar)>,
}

/// A lowered program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Storage.
    pub layout: Layout,
    /// Members of `error`.
    pub errors: Vec<Rc<str>>,
    /// Enums: name and members.
    pub enums: Vec<(String, Vec<Rc<str>>)>,
    /// Actions of tables.
    pub actions: Vec<Action>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Name of the first parser state.
    pub init_state: String,
    /// Parser states.
    pub states: Vec<State>,
    /// Value sets: name and width.
    pub value_sets: Vec<(String, u32)>,
    /// Source ranges of the names of ingress, egress and deparser.
    pub controls: Vec<Span>,
    /// Bodies of ingress and egress.
    pub pipelines: Vec<(String, Vec<Stmt>)>,
    /// Headers in the order in which they are emitted.
    pub emitted: Vec<usize>,
    /// Deparser statements that run before the headers are emitted.
    pub deparser: Vec<Stmt>,
    /// Calculations.
    pub calculations: Vec<Calculation>,
    /// Checksums.
    pub checksums: Vec<Checksum>,
    /// Counters.
    pub counters: Vec<Array>,
    /// Meters.
    pub meters: Vec<Array>,
    /// Registers.
    pub registers: Vec<Array>,
    /// Action profiles.
    pub profiles: Vec<Profile>,
    /// Field lists.
    pub field_lists: Vec<FieldList>,
    /// Digests.
    pub learn_lists: Vec<FieldList>,
    /// `@alias` names of standard metadata: alias, header, field.
    pub aliases: Vec<(String, String, String)>,
    /// Number of labels allocated.
    pub labels: Label,
}
