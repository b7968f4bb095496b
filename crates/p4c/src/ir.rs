//! The program as BMv2 sees it: flat storage, pure scalar expressions, statements without calls.

use super::source::Span;
use num_bigint::BigInt;
use std::rc::Rc;

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// One bit that is a truth value.
    Bool,
    /// Unsigned.
    Bit(u32),
    /// Two's complement.
    Signed(u32),
    /// Variable length, at most so many bits.
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

/// A header.
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
}

/// A field of a header.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldRef {
    /// The header.
    pub header: HeaderRef,
    /// Index of the field.
    pub field: usize,
    /// Its type.
    pub scalar: Scalar,
}

/// A scalar expression without side effects. Truth values and numbers are kept apart, as BMv2 does.
#[derive(Clone, Debug, PartialEq)]
pub enum Ex {
    /// A number.
    Int(BigInt),
    /// A truth value.
    Bool(bool),
    /// A field, as a number.
    Field(FieldRef),
    /// A parameter of the action that the control plane fills.
    Data(usize, Scalar),
    /// A BMv2 operator; unary ones have no left side.
    Op(&'static str, Option<Box<Ex>>, Box<Ex>),
    /// `cond ? a : b`.
    Cond(Box<Ex>, Box<Ex>, Box<Ex>),
    /// Validity of a header, as a truth value.
    Valid(HeaderRef),
    /// Bits ahead in the packet: offset and width.
    Lookahead(u32, u32),
    /// Index of the last valid element of a stack.
    LastIndex(usize),
    /// The condition of a statement, with its place in the source. Only the whole of a condition has one.
    At(Span, Box<Ex>),
}

/// Storage.
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

/// An argument of a primitive.
#[derive(Clone, Debug)]
pub enum Arg {
    /// An expression.
    Ex(Ex),
    /// A header.
    Header(HeaderRef),
    /// A field that is assigned.
    Field(FieldRef),
    /// An object: its kind in BMv2 and its name.
    Object(&'static str, String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Ex>),
}

/// A label of a block or loop.
pub type Label = usize;

/// The continuation after a table.
#[derive(Clone, Debug)]
pub enum Follow {
    /// The same for all results.
    Any,
    /// After a hit and after a miss.
    Hit(Vec<Stmt>, Vec<Stmt>),
    /// By action, each with the indices of the table's actions; the last list for all others.
    Actions(Vec<(Vec<usize>, Vec<Stmt>)>, Vec<Stmt>),
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Assigns a scalar.
    Assign(FieldRef, Ex),
    /// A primitive of BMv2.
    Primitive(&'static str, Vec<Arg>),
    /// A conditional.
    If(Ex, Vec<Stmt>, Vec<Stmt>),
    /// Statements that `Break` can leave.
    Block(Label, Vec<Stmt>),
    /// Statements that repeat until `Break` leaves an enclosing block.
    Loop(Vec<Stmt>),
    /// Leaves a block.
    Break(Label),
    /// Applies a table.
    Apply(usize, Follow),
    /// Ends the pipeline.
    Exit,
    /// Extracts a header; with the length of its varbit field.
    Extract(HeaderRef, Option<Ex>),
    /// Skips bits.
    Advance(Ex),
    /// Sets the error and rejects unless the condition holds.
    Verify(Ex, Ex),
    /// Enters a state of an inlined parser; the rest follows in the state of the second name.
    Enter(String, String),
}

/// A header type.
#[derive(Clone, Debug)]
pub struct HeaderType {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<(String, Scalar)>,
}

/// A header instance.
#[derive(Clone, Debug)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Index of its type.
    pub ty: usize,
    /// It is metadata: always valid, never in a packet.
    pub metadata: bool,
}

/// A stack of headers.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Its name.
    pub name: String,
    /// Index of the header type.
    pub ty: usize,
    /// The instances.
    pub headers: Vec<usize>,
}

/// A header union type.
#[derive(Clone, Debug)]
pub struct UnionType {
    /// Its name.
    pub name: String,
    /// Members: name and header type.
    pub members: Vec<(String, usize)>,
}

/// A header union.
#[derive(Clone, Debug)]
pub struct Union {
    /// Its name.
    pub name: String,
    /// Index of its type.
    pub ty: usize,
    /// The instances.
    pub headers: Vec<usize>,
}

/// A stack of header unions.
#[derive(Clone, Debug)]
pub struct UnionStack {
    /// Its name.
    pub name: String,
    /// Index of the union type.
    pub ty: usize,
    /// The unions.
    pub unions: Vec<usize>,
}

/// All storage.
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
    /// Its control-plane name.
    pub name: String,
    /// Parameters of the control plane.
    pub params: Vec<(String, Scalar)>,
    /// Its body.
    pub body: Vec<Stmt>,
}

/// A set of key values in an entry.
#[derive(Clone, Debug)]
pub enum KeySet {
    /// One value.
    Value(BigInt),
    /// Value and mask.
    Mask(BigInt, BigInt),
    /// First and last value.
    Range(BigInt, BigInt),
    /// All values.
    Any,
}

/// An entry of a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// A set for each key.
    pub keys: Vec<KeySet>,
    /// Index in the table's actions.
    pub action: usize,
    /// Arguments.
    pub args: Vec<BigInt>,
    /// Priority: the lowest number wins.
    pub priority: i64,
    /// Its place.
    pub span: Span,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct Key {
    /// The field; with `None` for the field index, the validity of the header.
    pub field: FieldRef,
    /// The validity of the header, not a field.
    pub validity: bool,
    /// Match kind.
    pub kind: String,
    /// Its name for the control plane.
    pub name: String,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its control-plane name.
    pub name: String,
    /// Its declaration in the source.
    pub span: Span,
    /// Keys.
    pub keys: Vec<Key>,
    /// Indices of actions in [`Pipeline`]'s program.
    pub actions: Vec<usize>,
    /// Default action: index in `actions`, arguments, `const`.
    pub default: Option<(usize, Vec<BigInt>, bool)>,
    /// Entries.
    pub entries: Vec<Entry>,
    /// Number of entries.
    pub size: u64,
    /// Action profile or selector.
    pub profile: Option<usize>,
    /// A direct counter.
    pub counter: bool,
    /// Name of the direct meter.
    pub meter: Option<String>,
    /// Entries age.
    pub timeout: bool,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Its statements.
    pub body: Vec<Stmt>,
    /// Its transition.
    pub next: Next,
}

/// A set in a transition.
#[derive(Clone, Debug)]
pub enum Case {
    /// A set for each key.
    Keys(Vec<KeySet>),
    /// A value set.
    ValueSet(String),
}

/// A transition.
#[derive(Clone, Debug)]
pub enum Next {
    /// To a state; `None` ends the parser.
    To(Option<String>),
    /// By keys with their types.
    Select(Vec<(Ex, Scalar)>, Vec<(Case, Option<String>)>),
}

/// An input of a calculation or of a list.
#[derive(Clone, Debug)]
pub enum Input {
    /// An expression with its type.
    Value(Ex, Scalar),
    /// The payload.
    Payload,
}

/// A named calculation.
#[derive(Clone, Debug)]
pub struct Calculation {
    /// Its name.
    pub name: String,
    /// Its algorithm.
    pub algorithm: String,
    /// Its input.
    pub input: Vec<Input>,
}

/// A checksum that is verified or updated.
#[derive(Clone, Debug)]
pub struct Checksum {
    /// The field that holds it.
    pub target: FieldRef,
    /// Index of the calculation.
    pub calculation: usize,
    /// Verified, not updated.
    pub verify: bool,
    /// Its condition; `None` is always.
    pub condition: Option<Ex>,
}

/// A counter, meter or register array.
#[derive(Clone, Debug)]
pub struct Array {
    /// Its control-plane name.
    pub name: String,
    /// Number of cells.
    pub size: u64,
    /// Width of a register; `packets`, `bytes` or `packets_and_bytes` otherwise.
    pub width: u32,
    /// The unit of a counter or meter.
    pub unit: String,
    /// A direct one's table.
    pub table: Option<String>,
    /// A direct meter's result.
    pub target: Option<FieldRef>,
    /// It is direct.
    pub direct: bool,
}

/// An action profile or selector.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its control-plane name.
    pub name: String,
    /// Number of members.
    pub size: u64,
    /// Hash algorithm of a selector.
    pub algorithm: Option<String>,
    /// Input of the hash.
    pub input: Vec<FieldRef>,
    /// The pipeline that it belongs to: 0 ingress, 1 egress.
    pub pipeline: usize,
}

/// A list of fields: preserved by clone, resubmit and recirculate, or sent in a digest.
#[derive(Clone, Debug)]
pub struct FieldList {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Its elements.
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
    /// Places of the names of ingress, egress and deparser.
    pub controls: Vec<Span>,
    /// Bodies of ingress and egress.
    pub pipelines: Vec<(String, Vec<Stmt>)>,
    /// Headers in the order in which they are emitted.
    pub emitted: Vec<usize>,
    /// Statements of the deparser that run before.
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
    /// Labels handed out.
    pub labels: Label,
}
