//! Syntax tree built by the parser: names are unresolved, every node keeps its source range.

use super::lex::{Base, Token};
use super::source::Span;
use num_bigint::BigInt;
use std::cell::OnceCell;
use std::rc::Rc;

/// Identifier with its source range.
#[derive(Clone, Debug)]
pub struct Ident {
    pub name: Rc<str>,
    pub span: Span,
}

/// `@name(...)` or `@name[...]`.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// The name after `@`.
    pub name: Ident,
    /// The tokens between the brackets.
    pub body: Vec<Token>,
    /// True if the body is in square brackets.
    pub structured: bool,
    /// Parsed arguments, for annotations that take expressions.
    pub args: Vec<Expr>,
    /// Keys of key-value arguments such as `name = "x"`.
    pub keys: Vec<Rc<str>>,
    /// Values of the arguments, set by the checker.
    pub values: OnceCell<Vec<Constant>>,
}

/// Compile-time value of an annotation argument.
#[derive(Clone, Debug)]
pub enum Constant {
    /// A number.
    Number(BigInt),
    /// A string.
    Text(Rc<str>),
    /// A Boolean.
    Truth(bool),
}

impl Annotation {
    /// Builds an annotation without arguments.
    pub fn marker(name: Ident) -> Annotation {
        Annotation {
            name,
            body: Vec::new(),
            structured: false,
            args: Vec::new(),
            keys: Vec::new(),
            values: OnceCell::new(),
        }
    }

    /// Iterates over the numeric argument values.
    pub fn numbers(&self) -> impl Iterator<Item = &BigInt> {
        self.values.get().into_iter().flatten().filter_map(|value| match value {
            Constant::Number(number) => Some(number),
            _ => None,
        })
    }

    /// Iterates over the string argument values.
    pub fn texts(&self) -> impl Iterator<Item = &Rc<str>> {
        self.values.get().into_iter().flatten().filter_map(|value| match value {
            Constant::Text(text) => Some(text),
            _ => None,
        })
    }
}

/// The annotations before a declaration.
pub type Annotations = Rc<[Annotation]>;

/// Type expression as written.
#[derive(Clone, Debug)]
pub struct TypeExpr {
    pub kind: TypeKind,
    pub span: Span,
}

/// Kinds of type expression.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// `bool`, `error`, `string`, `int`, `match_kind`, `void`, and `bit` without a width.
    Base(&'static str),
    /// `bit<W>`, `int<W>`, `varbit<W>`.
    Sized(&'static str, Box<Expr>),
    /// A type name, whether it has a leading dot, and its type arguments.
    Named(Ident, bool, Vec<TypeExpr>),
    /// `T[N]`.
    Stack(Box<TypeExpr>, Box<Expr>),
    /// `tuple<...>`.
    Tuple(Vec<TypeExpr>),
    /// `list<T>`.
    List(Box<TypeExpr>),
    /// `_`.
    DontCare,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
    /// Height of the expression tree.
    pub depth: u32,
}

impl Expr {
    /// Builds an expression; computes its depth from its subexpressions.
    pub fn new(kind: ExprKind, span: Span) -> Expr {
        let deepest = |list: &[Expr]| list.iter().map(|e| e.depth).max().unwrap_or(0);
        let depth = match &kind {
            ExprKind::Member(a, _) | ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => a.depth,
            ExprKind::Index(a, b)
            | ExprKind::Binary(_, a, b)
            | ExprKind::Mask(a, b)
            | ExprKind::Range(a, b) => a.depth.max(b.depth),
            ExprKind::Slice(a, b, c) | ExprKind::PlusSlice(a, b, c) | ExprKind::Cond(a, b, c) => {
                a.depth.max(b.depth).max(c.depth)
            }
            ExprKind::Call(f, _, args) => args
                .iter()
                .filter_map(|arg| arg.value.as_ref())
                .map(|e| e.depth)
                .max()
                .unwrap_or(0)
                .max(f.depth),
            ExprKind::List(list, _) => deepest(list),
            ExprKind::Struct(list, _) => list.iter().map(|(_, e)| e.depth).max().unwrap_or(0),
            _ => 0,
        };
        Expr { kind, span, depth: depth + 1 }
    }
}

/// Argument of a call, optionally named.
#[derive(Clone, Debug)]
pub struct Arg {
    /// `name = ...`.
    pub name: Option<Ident>,
    /// `None` for `_`.
    pub value: Option<Expr>,
    pub span: Span,
}

/// Kinds of expression.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// An integer literal; width and signedness if the literal has a prefix; the base.
    Int(BigInt, Option<(u32, bool)>, Base),
    /// `true` or `false`.
    Bool(bool),
    /// A string.
    Str(Rc<str>),
    /// A name; `true` if it has a leading dot.
    Name(Ident, bool),
    /// A type in expression position: `error`, `Enum`, `Type<args>`.
    Type(Box<TypeExpr>),
    /// `a.b`.
    Member(Box<Expr>, Ident),
    /// `a[b]`.
    Index(Box<Expr>, Box<Expr>),
    /// `a[h:l]`.
    Slice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `a[start+:width]`.
    PlusSlice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `!`, `~`, `-`, `+`.
    Unary(&'static str, Box<Expr>),
    /// A binary operator.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `c ? a : b`.
    Cond(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `(T) a`.
    Cast(Box<TypeExpr>, Box<Expr>),
    /// `f<T>(...)`.
    Call(Box<Expr>, Vec<TypeExpr>, Vec<Arg>),
    /// `{a, b}`; `true` if the list ends with `...`.
    List(Vec<Expr>, bool),
    /// `{a = 1, b = 2}`; `true` if the list ends with `...`.
    Struct(Vec<(Ident, Expr)>, bool),
    /// `{#}`.
    Invalid,
    /// `a &&& m`.
    Mask(Box<Expr>, Box<Expr>),
    /// `a..b`.
    Range(Box<Expr>, Box<Expr>),
    /// `default` in a key set.
    Default,
    /// `_` in a key set.
    DontCare,
    /// `...` as a value.
    Dots,
}

/// Direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Directionless.
    None,
    /// `in`.
    In,
    /// `out`.
    Out,
    /// `inout`.
    InOut,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    pub annotations: Annotations,
    pub direction: Direction,
    pub ty: TypeExpr,
    pub name: Ident,
    /// Default value, written `= value`.
    pub default: Option<Expr>,
}

/// Statement or local declaration.
#[derive(Clone, Debug)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

/// Kinds of statement.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `a = b`, `a += b`: the operator without its `=`, empty for plain assignment.
    Assign(Expr, &'static str, Expr),
    /// A call.
    Call(Expr),
    /// `if`.
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    /// `{ ... }`.
    Block(Vec<Stmt>),
    /// `return`.
    Return(Option<Expr>),
    /// `exit`.
    Exit,
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// `;`.
    Empty,
    /// `switch`.
    Switch(Expr, Vec<Case>),
    /// `for (init; condition; update) body`.
    For(Vec<Stmt>, Expr, Vec<Stmt>, Box<Stmt>),
    /// `for (T x in collection) body`.
    ForIn(Box<Decl>, Expr, Box<Stmt>),
    /// A declaration.
    Decl(Box<Decl>),
}

/// Case of a `switch`.
#[derive(Clone, Debug)]
pub struct Case {
    /// The label; `None` for `default`.
    pub label: Option<Expr>,
    /// Source range of the label.
    pub span: Span,
    /// The block; `None` falls through.
    pub body: Option<Stmt>,
}

/// A declaration.
#[derive(Clone, Debug)]
pub struct Decl {
    pub annotations: Annotations,
    pub name: Ident,
    pub span: Span,
    pub kind: DeclKind,
}

/// A field of a header, struct or union.
#[derive(Clone, Debug)]
pub struct Field {
    pub annotations: Annotations,
    pub ty: TypeExpr,
    pub name: Ident,
}

/// Signature of a function, method, action, control, parser, extern constructor or package.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Result type; `None` for a constructor.
    pub result: Option<TypeExpr>,
    /// Type parameters, written `<T, ...>`.
    pub type_params: Vec<Ident>,
    pub params: Vec<Param>,
}

/// Method of an extern object.
#[derive(Clone, Debug)]
pub struct Method {
    pub name: Ident,
    pub signature: Signature,
    /// True if declared `abstract`.
    pub is_abstract: bool,
}

/// Parser state.
#[derive(Clone, Debug)]
pub struct State {
    pub name: Ident,
    pub body: Vec<Stmt>,
    /// Transition; `None` means reject.
    pub transition: Option<Transition>,
}

/// Transition of a parser state.
#[derive(Clone, Debug)]
pub enum Transition {
    /// `transition name`.
    To(Ident),
    /// `transition select(keys) { cases }`; the span is that of `select`.
    Select(Span, Vec<Expr>, Vec<SelectCase>),
}

/// Case of a `select`.
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// One key set per key; a single `default` or `_` matches all keys.
    pub keys: Vec<Expr>,
    /// The next state.
    pub next: Ident,
    pub span: Span,
}

/// Table entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Priority, written `priority = value`.
    pub priority: Option<Expr>,
    pub annotations: Annotations,
    /// One key set per key.
    pub keys: Vec<Expr>,
    /// Action, with or without arguments.
    pub action: Expr,
    pub span: Span,
}

/// Table property.
#[derive(Clone, Debug)]
pub struct Property {
    pub annotations: Annotations,
    /// True if declared `const`.
    pub is_const: bool,
    pub name: Ident,
    pub value: PropertyValue,
}

/// Value of a table property.
#[derive(Clone, Debug)]
pub enum PropertyValue {
    /// `key = { expression: match_kind; ... }`.
    Key(Vec<(Expr, Ident, Annotations)>),
    /// `actions = { a; b(x); }`.
    Actions(Vec<(Expr, Annotations)>),
    /// `entries = { ... }`.
    Entries(Vec<Entry>),
    /// Any other property.
    Value(Expr),
}

/// Kinds of declaration.
#[derive(Clone, Debug)]
pub enum DeclKind {
    /// `const T name = value`.
    Const(TypeExpr, Expr),
    /// `T name = value`.
    Var(TypeExpr, Option<Expr>),
    /// `T(args) name = { abstract methods }`.
    Instance(TypeExpr, Vec<Arg>, Option<Vec<Decl>>),
    /// `typedef T name`, or `type T name` if `true`.
    Typedef(TypeExpr, bool),
    /// `header`, `struct`, `header_union`.
    Fields(&'static str, Vec<Ident>, Vec<Field>),
    /// `enum`; a serializable enum has an underlying type and member values.
    Enum(Option<TypeExpr>, Vec<(Ident, Option<Expr>)>),
    /// `error { ... }`.
    Error(Vec<Ident>),
    /// `match_kind { ... }`.
    MatchKind(Vec<Ident>),
    /// `extern` object.
    Extern(Vec<Ident>, Vec<Method>),
    /// `extern` function.
    ExternFunction(Signature),
    /// A function.
    Function(Signature, Vec<Stmt>),
    /// An action.
    Action(Vec<Param>, Vec<Stmt>),
    /// The type of a parser or control, without a body.
    BlockType(&'static str, Signature),
    /// `package`.
    Package(Signature),
    /// A control.
    Control(Signature, Vec<Param>, Vec<Decl>, Stmt),
    /// A parser.
    Parser(Signature, Vec<Param>, Vec<Decl>, Vec<State>),
    /// A table.
    Table(Vec<Property>),
    /// `value_set<T>(size) name`.
    ValueSet(TypeExpr, Expr),
}
