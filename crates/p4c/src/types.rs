//! Types, and the definitions that give them names.

use super::ast::{Annotations, Direction, Ident};
use super::typed::Expr;
use num_bigint::BigInt;
use std::rc::Rc;

/// Widest value in bits.
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
    /// A type that inference looks for.
    Infer(usize),
    /// A set of values, as in `select`.
    Set(Rc<Type>),
    /// The type of `{a = 1}`.
    Record(Rc<[(Rc<str>, Type)]>),
    /// The type of `{#}`.
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
    /// A function or method not called.
    Function,
    /// The result of an error that has been reported.
    Poison,
}

/// A field of a definition.
#[derive(Clone, Debug)]
pub struct FieldDef {
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub ty: Type,
    /// Its annotations.
    pub annotations: Annotations,
}

/// The kinds of type with fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldsKind {
    /// `struct`.
    Struct,
    /// `header`.
    Header,
    /// `header_union`.
    Union,
}

/// The kind and the fields of a struct, header or union, type arguments filled in.
pub type Fields = (FieldsKind, Vec<(Rc<str>, Type)>);

/// A parameter of a signature.
#[derive(Clone, Debug)]
pub struct ParamDef {
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub ty: Type,
    /// Its direction.
    pub direction: Direction,
    /// Its default value.
    pub default: Option<Expr>,
    /// `@optional`.
    pub optional: bool,
    /// Its annotations.
    pub annotations: Annotations,
    /// Its declaration, for the body.
    pub decl: DeclId,
}

/// The head of something callable.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Type parameters.
    pub type_params: Vec<DefId>,
    /// Parameters.
    pub params: Vec<ParamDef>,
    /// Type of the result.
    pub result: Type,
}

/// A method of an extern.
#[derive(Clone, Debug)]
pub struct MethodDef {
    /// Its name.
    pub name: Ident,
    /// Its signature.
    pub signature: Rc<Signature>,
    /// `abstract`.
    pub is_abstract: bool,
}

/// A definition.
#[derive(Clone, Debug)]
pub struct Def {
    /// Its name.
    pub name: Ident,
    /// Its annotations.
    pub annotations: Annotations,
    /// Type parameters.
    pub type_params: Vec<DefId>,
    /// Its form.
    pub kind: DefKind,
}

/// The forms of a definition.
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
    /// A parser (`true`) or control: its signature and constructor.
    Block(bool, Rc<Signature>, Rc<Signature>),
    /// `package`: its constructor.
    Package(Rc<Signature>),
    /// A type parameter.
    Param,
}

impl Type {
    /// `bit<W>` or `int<W>`: its width.
    pub fn width(&self) -> Option<u32> {
        match self {
            Type::Bit(width) | Type::Signed(width) => Some(*width),
            _ => None,
        }
    }

    /// The type with its parameters replaced.
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
