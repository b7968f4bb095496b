//! Types and type definitions.

use super::ast::{Annotations, Direction, Ident};
use super::typed::Expr;
use num_bigint::BigInt;
use std::rc::Rc;

/// Maximum width of a value in bits.
pub const MAX_WIDTH: u32 = 32_768;

/// Index of a definition in [`super::typed::Program::defs`].
pub type DefId = usize;
/// Index of a declaration in [`super::typed::Program::decls`].
pub type DeclId = usize;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `void`.
    Void,
    /// `bool`.
    Bool,
    /// `string`.
    Str,
    /// `error`.
    Error,
    /// `match_kind`.
    MatchKind,
    /// Arbitrary-precision `int`, for constants.
    Int,
    /// `bit<W>`.
    Bit(u32),
    /// `int<W>`.
    Signed(u32),
    /// `varbit<W>`.
    Varbit(u32),
    /// `T[N]`.
    Stack(Rc<Type>, u32),
    /// `tuple<...>`, and the type of `{a, b}`.
    Tuple(Rc<[Type]>),
    /// `list<T>`.
    List(Rc<Type>),
    /// A definition with its type arguments.
    Named(DefId, Rc<[Type]>),
    /// A type parameter.
    Var(DefId),
    /// A type variable of inference.
    Infer(usize),
    /// A set of values, as in `select`.
    Set(Rc<Type>),
    /// The type of `{a = 1}`.
    Record(Rc<[(Rc<str>, Type)]>),
    /// Type of `{#}`.
    Invalid,
    /// The type of `...`, and of the tail of `{a, ...}`.
    Dots,
    /// `_` as a type argument.
    DontCare,
    /// An action.
    Action,
    /// A table.
    Table(DeclId),
    /// The result of `table.apply()`.
    ApplyResult(DeclId),
    /// The type of `action_run`.
    ActionRun(DeclId),
    /// A function or method that is not called.
    Function,
    /// Type of an erroneous expression that has been reported.
    Poison,
}

/// Field of a type definition.
#[derive(Clone, Debug)]
pub struct FieldDef {
    pub name: Ident,
    pub ty: Type,
    pub annotations: Annotations,
}

/// Kinds of type with fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldsKind {
    /// `struct`.
    Struct,
    /// `header`.
    Header,
    /// `header_union`.
    Union,
}

/// Kind and fields of a struct, header or union, with type arguments substituted.
pub type Fields = (FieldsKind, Vec<(Rc<str>, Type)>);

/// Parameter of a signature.
#[derive(Clone, Debug)]
pub struct ParamDef {
    pub name: Ident,
    pub ty: Type,
    pub direction: Direction,
    pub default: Option<Expr>,
    /// True for `@optional`.
    pub optional: bool,
    pub annotations: Annotations,
    /// Declaration of the parameter in the body.
    pub decl: DeclId,
}

/// Signature of a callable.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Type parameters.
    pub type_params: Vec<DefId>,
    /// Parameters.
    pub params: Vec<ParamDef>,
    /// Result type.
    pub result: Type,
}

/// Method of an extern.
#[derive(Clone, Debug)]
pub struct MethodDef {
    pub name: Ident,
    pub signature: Rc<Signature>,
    /// True if declared `abstract`.
    pub is_abstract: bool,
}

/// Type definition.
#[derive(Clone, Debug)]
pub struct Def {
    pub name: Ident,
    pub annotations: Annotations,
    /// Type parameters.
    pub type_params: Vec<DefId>,
    pub kind: DefKind,
}

/// Kinds of type definition.
#[derive(Clone, Debug)]
pub enum DefKind {
    /// `struct`, `header`, `header_union`.
    Fields(FieldsKind, Rc<[FieldDef]>),
    /// `enum`.
    Enum(Rc<[Rc<str>]>),
    /// `enum bit<W>`.
    SerEnum(Type, Rc<[(Rc<str>, BigInt)]>),
    /// `type`.
    NewType(Type),
    /// `extern`.
    Extern(Rc<[MethodDef]>),
    /// The type of a parser (`true`) or control.
    BlockType(bool, Rc<Signature>),
    /// A parser (`true`) or control: signature and constructor.
    Block(bool, Rc<Signature>, Rc<Signature>),
    /// `package`, with its constructor.
    Package(Rc<Signature>),
    /// A type parameter.
    Param,
}

impl Type {
    /// Width in bits of `bit<W>` or `int<W>`.
    pub fn width(&self) -> Option<u32> {
        match self {
            Type::Bit(width) | Type::Signed(width) => Some(*width),
            _ => None,
        }
    }

    /// The type with type parameters substituted.
    pub fn substitute(&self, map: &dyn Fn(DefId) -> Option<Type>) -> Type {
        let all = |list: &Rc<[Type]>| list.iter().map(|ty| ty.substitute(map)).collect::<Rc<[Type]>>();
        match self {
            Type::Var(id) => map(*id).unwrap_or_else(|| self.clone()),
            Type::Stack(element, size) => Type::Stack(Rc::new(element.substitute(map)), *size),
            Type::Set(element) => Type::Set(Rc::new(element.substitute(map))),
            Type::List(element) => Type::List(Rc::new(element.substitute(map))),
            Type::Tuple(list) => Type::Tuple(all(list)),
            Type::Named(def, args) if !args.is_empty() => Type::Named(*def, all(args)),
            Type::Record(fields) => {
                Type::Record(fields.iter().map(|(name, ty)| (name.clone(), ty.substitute(map))).collect())
            }
            other => other.clone(),
        }
    }
}
