//! The program after checking: names resolved, types known, constants folded, conversions explicit.

use super::ast::{Annotations, Ident};
use super::source::Span;
use super::types::{DeclId, Def, DefId, Signature, Type};
use belljar_base::{Map, Set};
use num_bigint::BigInt;
use std::rc::Rc;

/// A checked program.
#[derive(Debug, Default)]
pub struct Program {
    /// Named types.
    pub defs: Vec<Def>,
    /// Everything else with a name.
    pub decls: Vec<Decl>,
    /// Members of `error`.
    pub errors: Vec<Rc<str>>,
    /// The `main` package.
    pub main: Option<DeclId>,
    /// Bodies of controls and parsers.
    pub bodies: Map<DefId, Rc<Block>>,
    /// Declarations at the top.
    pub top_decls: Set<DeclId>,
    /// Types declared at the top, in order.
    pub top_defs: Vec<DefId>,
}

/// A declaration.
#[derive(Clone, Debug)]
pub struct Decl {
    /// Its name.
    pub name: Ident,
    /// Its annotations.
    pub annotations: Annotations,
    /// Its type.
    pub ty: Type,
    /// Its form.
    pub kind: DeclKind,
}

/// The forms of a declaration.
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
    /// Declared, not yet checked.
    Pending,
}

/// The body of a control or parser.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Local declarations in order.
    pub locals: Vec<Stmt>,
    /// `apply`.
    pub body: Vec<Stmt>,
    /// States of a parser.
    pub states: Vec<State>,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    /// Its name.
    pub name: Ident,
    /// Its statements.
    pub body: Vec<Stmt>,
    /// Its transition.
    pub next: Transition,
}

/// A transition.
#[derive(Clone, Debug)]
pub enum Transition {
    /// To a state by name.
    To(Rc<str>),
    /// By the values of keys.
    Select(Vec<Expr>, Vec<(Vec<Expr>, Rc<str>, Span)>),
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Key: value, match kind, annotations.
    pub key: Vec<(Expr, Rc<str>, Annotations)>,
    /// Actions.
    pub actions: Vec<ActionRef>,
    /// Default action: index in `actions`, arguments of the control plane, `const`.
    pub default: Option<(usize, Vec<Expr>, bool)>,
    /// Entries.
    pub entries: Vec<Entry>,
    /// `const entries`.
    pub const_entries: bool,
    /// `entries` is present.
    pub has_entries: bool,
    /// `largest_priority_wins`.
    pub largest_priority_wins: bool,
    /// `size`.
    pub size: Option<BigInt>,
    /// `implementation`, `counters`, `meters` and other properties, with their annotations.
    pub properties: Vec<(Rc<str>, Expr, Annotations)>,
}

/// An action of a table.
#[derive(Clone, Debug)]
pub struct ActionRef {
    /// The action.
    pub decl: DeclId,
    /// Arguments of its parameters with a direction.
    pub args: Vec<Expr>,
    /// Its annotations in the list.
    pub annotations: Annotations,
    /// Its place.
    pub span: Span,
}

/// An entry of a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// A set for each key.
    pub keys: Vec<Expr>,
    /// Index of the action.
    pub action: usize,
    /// Arguments of the control plane.
    pub args: Vec<Expr>,
    /// The priority as it is computed by the rules of the language.
    pub priority: BigInt,
    /// `@priority`: the priority is BMv2's, of which the smallest wins.
    pub raw: bool,
    /// Its place.
    pub span: Span,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its form.
    pub kind: ExprKind,
    /// Its type.
    pub ty: Type,
    /// Its place.
    pub span: Span,
}

/// A method that the language gives to headers, stacks and unions.
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
    /// Its signature.
    pub signature: Rc<Signature>,
    /// Type arguments.
    pub type_args: Vec<Type>,
    /// Arguments in the order of the parameters; `None` for `_` and for what is left out.
    pub args: Vec<Option<Expr>>,
}

/// The target of a call.
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

/// The forms of an expression.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A number.
    Int(BigInt),
    /// A truth value.
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
    /// `a[high:low]`.
    Slice(Box<Expr>, u32, u32),
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
    /// `...` or a missing value: the default of the type.
    Default,
    /// `a &&& m`.
    Mask(Box<Expr>, Box<Expr>),
    /// `a..b`.
    Range(Box<Expr>, Box<Expr>),
    /// `_` or `default` in a set.
    Any,
    /// A call.
    Call(Box<Call>),
    /// A type in the place of an expression.
    Type(Type),
    /// The value of the target of the enclosing [`Stmt::Update`].
    Current,
    /// A wrong expression that has been reported.
    Poison,
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// An assignment.
    Assign(Expr, Expr),
    /// `a += b`: the value refers to the target by [`ExprKind::Current`].
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
    /// `switch (table.apply().action_run)`: indices of the table's actions, empty for `default`.
    SwitchAction(Expr, Vec<(Vec<usize>, Vec<Stmt>)>),
    /// `switch` on a value; an empty list of labels is `default`.
    SwitchValue(Expr, Vec<(Vec<Expr>, Vec<Stmt>)>),
    /// `for`.
    For(Vec<Stmt>, Expr, Vec<Stmt>, Vec<Stmt>),
    /// `for ... in`.
    ForIn(DeclId, Expr, Vec<Stmt>),
    /// A variable with its first value.
    Var(DeclId, Option<Expr>),
    /// An instance, action, table or value set.
    Declare(DeclId),
}

impl Expr {
    /// A constant number.
    pub fn int(&self) -> Option<&BigInt> {
        match &self.kind {
            ExprKind::Int(value) => Some(value),
            _ => None,
        }
    }

    /// A constant truth value.
    pub fn bool(&self) -> Option<bool> {
        match &self.kind {
            ExprKind::Bool(value) => Some(*value),
            _ => None,
        }
    }
}
