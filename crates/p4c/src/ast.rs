//! The syntax tree, as the parser builds it: names are unresolved, positions are kept.

use super::lex::Token;
use super::source::Span;
use num_bigint::BigInt;
use std::cell::OnceCell;
use std::rc::Rc;

/// A name and its place.
#[derive(Clone, Debug)]
pub struct Ident {
    /// The name.
    pub name: Rc<str>,
    /// Its place.
    pub span: Span,
}

/// `@name(...)` or `@name[...]`.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// The name after `@`.
    pub name: Ident,
    /// The tokens between the brackets.
    pub body: Vec<Token>,
    /// Written with square brackets.
    pub structured: bool,
    /// The arguments of an annotation that takes expressions.
    pub args: Vec<Expr>,
    /// The keys of arguments that are pairs such as `name = "x"`.
    pub keys: Vec<Rc<str>>,
    /// The values of the arguments, which the checker finds.
    pub values: OnceCell<Vec<Constant>>,
}

/// The value of an annotation's argument.
#[derive(Clone, Debug)]
pub enum Constant {
    /// A number.
    Number(BigInt),
    /// A string.
    Text(Rc<str>),
    /// A truth value.
    Truth(bool),
}

impl Annotation {
    /// An annotation without arguments.
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

    /// The numbers among the values of the arguments.
    pub fn numbers(&self) -> impl Iterator<Item = &BigInt> {
        self.values.get().into_iter().flatten().filter_map(|value| match value {
            Constant::Number(number) => Some(number),
            _ => None,
        })
    }

    /// The strings among the values of the arguments.
    pub fn texts(&self) -> impl Iterator<Item = &Rc<str>> {
        self.values.get().into_iter().flatten().filter_map(|value| match value {
            Constant::Text(text) => Some(text),
            _ => None,
        })
    }
}

/// The annotations before a declaration.
pub type Annotations = Rc<[Annotation]>;

/// A type as written.
#[derive(Clone, Debug)]
pub struct TypeExpr {
    /// Its form.
    pub kind: TypeKind,
    /// Its place.
    pub span: Span,
}

/// The forms of a type.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// `bool`, `error`, `string`, `int`, `match_kind`, `void`, and `bit` without a width.
    Base(&'static str),
    /// `bit<W>`, `int<W>`, `varbit<W>`.
    Sized(&'static str, Box<Expr>),
    /// A name, perhaps with a leading dot and type arguments.
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
    /// Its form.
    pub kind: ExprKind,
    /// Its place.
    pub span: Span,
    /// Height of the tree.
    pub depth: u32,
}

impl Expr {
    /// An expression; its depth follows from its parts.
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

/// An argument of a call, perhaps named.
#[derive(Clone, Debug)]
pub struct Arg {
    /// `name = ...`.
    pub name: Option<Ident>,
    /// `None` for `_`.
    pub value: Option<Expr>,
    /// Its place.
    pub span: Span,
}

/// The forms of an expression.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A number with the type of its prefix.
    Int(BigInt, Option<(u32, bool)>),
    /// `true` or `false`.
    Bool(bool),
    /// A string.
    Str(Rc<str>),
    /// A name; `true` with a leading dot.
    Name(Ident, bool),
    /// A type where an expression may stand: `error`, `Enum`, `Type<args>`.
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
    /// `{a, b}`; `true` if it ends with `...`.
    List(Vec<Expr>, bool),
    /// `{a = 1, b = 2}`; `true` if it ends with `...`.
    Struct(Vec<(Ident, Expr)>, bool),
    /// `{#}`.
    Invalid,
    /// `a &&& m`.
    Mask(Box<Expr>, Box<Expr>),
    /// `a..b`.
    Range(Box<Expr>, Box<Expr>),
    /// `default` in a set.
    Default,
    /// `_` in a set.
    DontCare,
    /// `...` as a value.
    Dots,
}

/// The direction of a parameter.
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
    /// Its annotations.
    pub annotations: Annotations,
    /// Its direction.
    pub direction: Direction,
    /// Its type.
    pub ty: TypeExpr,
    /// Its name.
    pub name: Ident,
    /// `= value`.
    pub default: Option<Expr>,
}

/// A statement or a local declaration.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// Its form.
    pub kind: StmtKind,
    /// Its place.
    pub span: Span,
}

/// The forms of a statement.
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
    ForIn(Box<Stmt>, Expr, Box<Stmt>),
    /// A declaration.
    Decl(Box<Decl>),
}

/// A case of a `switch`.
#[derive(Clone, Debug)]
pub struct Case {
    /// The label; `None` for `default`.
    pub label: Option<Expr>,
    /// The place of the label.
    pub span: Span,
    /// The block; `None` falls through.
    pub body: Option<Stmt>,
}

/// A declaration.
#[derive(Clone, Debug)]
pub struct Decl {
    /// Its annotations.
    pub annotations: Annotations,
    /// Its name.
    pub name: Ident,
    /// Its place.
    pub span: Span,
    /// Its form.
    pub kind: DeclKind,
}

/// A field of a header, struct or union.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its annotations.
    pub annotations: Annotations,
    /// Its type.
    pub ty: TypeExpr,
    /// Its name.
    pub name: Ident,
}

/// The head of a function, method, action, control, parser, extern constructor or package.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The type of the result; `None` for a constructor.
    pub result: Option<TypeExpr>,
    /// `<T, ...>`.
    pub type_params: Vec<Ident>,
    /// The parameters.
    pub params: Vec<Param>,
}

/// A method of an extern.
#[derive(Clone, Debug)]
pub struct Method {
    /// Its name.
    pub name: Ident,
    /// Its head.
    pub signature: Signature,
    /// `abstract`.
    pub is_abstract: bool,
}

/// A state of a parser.
#[derive(Clone, Debug)]
pub struct State {
    /// Its name.
    pub name: Ident,
    /// Its statements.
    pub body: Vec<Stmt>,
    /// Its transition; `None` means reject.
    pub transition: Option<Transition>,
}

/// A transition of a parser state.
#[derive(Clone, Debug)]
pub enum Transition {
    /// `transition name`.
    To(Ident),
    /// `transition select(keys) { cases }`.
    Select(Span, Vec<Expr>, Vec<SelectCase>),
}

/// A case of a `select`.
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// The set of each key; one `default` or `_` may stand for all.
    pub keys: Vec<Expr>,
    /// The next state.
    pub next: Ident,
    /// Its place.
    pub span: Span,
}

/// An entry of a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// `priority = value`.
    pub priority: Option<Expr>,
    /// Its annotations.
    pub annotations: Annotations,
    /// The set of each key.
    pub keys: Vec<Expr>,
    /// The action, perhaps with arguments.
    pub action: Expr,
    /// Its place.
    pub span: Span,
}

/// A property of a table.
#[derive(Clone, Debug)]
pub struct Property {
    /// Its annotations.
    pub annotations: Annotations,
    /// `const`.
    pub is_const: bool,
    /// Its name.
    pub name: Ident,
    /// Its value.
    pub value: PropertyValue,
}

/// The value of a property.
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

/// The forms of a declaration.
#[derive(Clone, Debug)]
pub enum DeclKind {
    /// `const T name = value`.
    Const(TypeExpr, Expr),
    /// `T name = value`.
    Var(TypeExpr, Option<Expr>),
    /// `T(args) name = { abstract methods }`.
    Instance(TypeExpr, Vec<Arg>, Option<Vec<Decl>>),
    /// `typedef T name` or, if `true`, `type T name`.
    Typedef(TypeExpr, bool),
    /// `header`, `struct`, `header_union`.
    Fields(&'static str, Vec<Ident>, Vec<Field>),
    /// `enum`, with the underlying type and values if serializable.
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
    /// The type of a parser or control: no body.
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
