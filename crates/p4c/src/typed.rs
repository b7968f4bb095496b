//! Checked program: names are resolved, types known, constants folded, conversions explicit.

use super::ast::{Annotations, Ident};
use super::lex::Base;
use super::source::Span;
use super::types::{DeclId, Def, DefId, Signature, Type};
use belljar_base::{Map, Set};
use num_bigint::BigInt;
use std::rc::Rc;

/// Checked program.
#[derive(Debug, Default)]
pub struct Program {
    /// Type definitions.
    pub defs: Vec<Def>,
    /// All other named declarations.
    pub decls: Vec<Decl>,
    /// Members of `error`.
    pub errors: Vec<Rc<str>>,
    /// The `main` package.
    pub main: Option<DeclId>,
    /// Bodies of controls and parsers.
    pub bodies: Map<DefId, Rc<Block>>,
    /// Top-level declarations.
    pub top_decls: Set<DeclId>,
    /// Top-level type definitions in order.
    pub top_defs: Vec<DefId>,
}

/// A declaration.
#[derive(Clone, Debug)]
pub struct Decl {
    pub name: Ident,
    pub annotations: Annotations,
    pub ty: Type,
    pub kind: DeclKind,
}

/// Kinds of declaration.
#[derive(Clone, Debug)]
pub enum DeclKind {
    /// A variable or parameter.
    Var,
    /// A constant with its value.
    Const(Rc<Expr>),
    /// An instance: the call of its constructor.
    Instance(Rc<Call>),
    /// A function or the implementation of an abstract method.
    Function(Rc<Signature>, Rc<Vec<Stmt>>),
    /// An extern function.
    Extern(Rc<Signature>),
    /// An action.
    Action(Rc<Signature>, Rc<Vec<Stmt>>),
    /// A table.
    Table(Rc<Table>),
    /// A value set and its size.
    ValueSet(Rc<Expr>),
    /// Declared but not yet checked.
    Pending,
}

/// Body of a control or parser.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Local declarations in order.
    pub locals: Vec<Stmt>,
    /// Statements of `apply`.
    pub body: Vec<Stmt>,
    /// States of a parser.
    pub states: Vec<State>,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    pub name: Ident,
    pub body: Vec<Stmt>,
    pub next: Transition,
}

/// A transition.
#[derive(Clone, Debug)]
pub enum Transition {
    /// Transition to a state by name.
    To(Rc<str>),
    /// Transition by the values of keys.
    Select(Vec<Expr>, Vec<(Vec<Expr>, Rc<str>, Span)>),
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Keys: value, match kind, annotations.
    pub key: Vec<(Expr, Rc<str>, Annotations)>,
    /// Actions.
    pub actions: Vec<ActionRef>,
    /// Default action: index in `actions`, control-plane arguments, `const`.
    pub default: Option<(usize, Vec<Expr>, bool)>,
    /// Entries.
    pub entries: Vec<Entry>,
    /// True for `const entries`.
    pub const_entries: bool,
    /// True if the `entries` property is present.
    pub has_entries: bool,
    /// Value of `largest_priority_wins`.
    pub largest_priority_wins: bool,
    /// Value of `size`.
    pub size: Option<BigInt>,
    /// `implementation`, `counters`, `meters` and other properties, with their annotations.
    pub properties: Vec<(Rc<str>, Expr, Annotations)>,
}

/// Reference to an action in a table.
#[derive(Clone, Debug)]
pub struct ActionRef {
    pub decl: DeclId,
    /// Arguments for the directional parameters.
    pub args: Vec<Expr>,
    /// Annotations in the action list.
    pub annotations: Annotations,
    pub span: Span,
}

/// Table entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// One key set per key.
    pub keys: Vec<Expr>,
    /// Index of the action.
    pub action: usize,
    /// Control-plane arguments.
    pub args: Vec<Expr>,
    /// Priority by the rules of the language.
    pub priority: BigInt,
    /// True for `@priority`: the priority is BMv2's, where the smallest wins.
    pub raw: bool,
    pub span: Span,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: Type,
    pub span: Span,
}

/// Built-in method of headers, stacks and unions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// `isValid()`.
    IsValid,
    /// `setValid()`.
    SetValid,
    /// `setInvalid()`.
    SetInvalid,
    /// `push_front(n)`.
    PushFront,
    /// `pop_front(n)`.
    PopFront,
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The callee.
    pub callee: Callee,
    pub signature: Rc<Signature>,
    /// Type arguments.
    pub type_args: Vec<Type>,
    /// Arguments in parameter order; `None` for `_` and for omitted arguments.
    pub args: Vec<Option<Expr>>,
}

/// Callee of a call.
#[derive(Clone, Debug)]
pub enum Callee {
    /// A function.
    Function(DeclId),
    /// An action.
    Action(DeclId),
    /// An extern function, by name.
    Extern(Rc<str>),
    /// A method of an extern object.
    Method(Box<Expr>, Rc<str>),
    /// `apply` of a control or parser.
    Apply(Box<Expr>),
    /// `apply` of a table.
    Table(DeclId),
    /// A built-in method.
    Builtin(Builtin, Box<Expr>),
    /// A constructor.
    Construct(Type),
}

/// Kinds of expression.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A number, and the base in which its first literal is written.
    Int(BigInt, Base),
    /// A Boolean.
    Bool(bool),
    /// A string.
    Str(Rc<str>),
    /// A member of `error` or of an enum.
    Member(Rc<str>),
    /// A declaration.
    Decl(DeclId),
    /// `a.field`.
    Field(Box<Expr>, Rc<str>),
    /// `.last`, `.next`, `.lastIndex`, `.size` of a stack.
    StackMember(Box<Expr>, Rc<str>),
    /// `.hit`, `.miss` or `.action_run` of the result of `apply()`.
    ApplyMember(Box<Expr>, Rc<str>),
    /// `a[b]`.
    Index(Box<Expr>, Box<Expr>),
    /// `a[high:low]`, and the bases in which `high` and `low` are written.
    Slice(Box<Expr>, u32, u32, [Base; 2]),
    /// A unary operator.
    Unary(&'static str, Box<Expr>),
    /// A binary operator.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `c ? a : b`.
    Cond(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A conversion to the type of the expression.
    Cast(Box<Expr>),
    /// A tuple, or the fields of a struct or header in order.
    Tuple(Vec<Expr>),
    /// `{a = 1}` before its type is known.
    Record(Vec<(Rc<str>, Expr)>),
    /// `{#}`.
    Invalid,
    /// `...` or a missing value: the default value of the type.
    Default,
    /// `a &&& m`.
    Mask(Box<Expr>, Box<Expr>),
    /// `a..b`.
    Range(Box<Expr>, Box<Expr>),
    /// `_` or `default` in a key set.
    Any,
    /// A call.
    Call(Box<Call>),
    /// A type in expression position.
    Type(Type),
    /// The value of the target of the enclosing [`Stmt::Update`].
    Current,
    /// An erroneous expression that has been reported.
    Poison,
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// An assignment.
    Assign(Expr, Expr),
    /// Compound assignment `a += b`: the value refers to the target by [`ExprKind::Current`].
    Update(Expr, Expr),
    /// A call.
    Call(Expr),
    /// `if`.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// A block.
    Block(Vec<Stmt>),
    /// `return`.
    Return(Option<Expr>),
    /// `exit`.
    Exit,
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// `switch (table.apply().action_run)`: indices of the table's actions per case, empty for `default`.
    SwitchAction(Expr, Vec<(Vec<usize>, Vec<Stmt>)>),
    /// `switch` on a value.
    SwitchValue(Expr, Vec<ValueCase>),
    /// `for`.
    For(Vec<Stmt>, Expr, Vec<Stmt>, Vec<Stmt>),
    /// `for ... in`.
    ForIn(DeclId, Expr, Vec<Stmt>),
    /// A variable with its initial value.
    Var(DeclId, Option<Expr>),
    /// An instance, action, table or value set.
    Declare(DeclId),
}

/// Case of a `switch` on a value.
#[derive(Clone, Debug)]
pub struct ValueCase {
    /// Labels; empty for `default`.
    pub labels: Vec<Expr>,
    /// Source range of the labels.
    pub span: Span,
    pub body: Vec<Stmt>,
}

impl Expr {
    /// Number, if the expression is a constant.
    pub fn int(&self) -> Option<&BigInt> {
        match &self.kind {
            ExprKind::Int(value, _) => Some(value),
            _ => None,
        }
    }

    /// Base in which a constant is written.
    pub fn base(&self) -> Base {
        match &self.kind {
            ExprKind::Int(_, base) => *base,
            _ => Base::Decimal,
        }
    }

    /// Boolean, if the expression is a constant.
    pub fn bool(&self) -> Option<bool> {
        match &self.kind {
            ExprKind::Bool(value) => Some(*value),
            _ => None,
        }
    }
}
