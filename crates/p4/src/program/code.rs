//! Expressions, instructions and parser operations. Expressions refer to each other by index.

use super::{Expr, Field};
use crate::number::Size;

/// Integer expression.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Int {
    Small(i64),
    Const(i128),
    /// Index into the wide constants.
    Wide(u32),
    Field(Field),
    /// Validity of a header as 0 or 1.
    Valid(u32),
    ValidUnion(u32),
    /// Variable-width field of a header.
    Variable(u32),
    /// Action argument: bit offset and width in bits.
    Parameter {
        offset: u32,
        width: u32,
    },
    Register {
        array: u32,
        index: u32,
        index_size: Size,
    },
    /// Field, by index, of a header resolved at run time.
    DynamicField {
        header: u32,
        field: u32,
    },
    /// Bits ahead of the parser: offset and width.
    Lookahead {
        offset: u32,
        width: u32,
    },
    Add(u32, u32),
    Sub(u32, u32),
    Mul(u32, u32),
    Div(u32, u32),
    Rem(u32, u32),
    Shl(u32, u32),
    Shr(u32, u32),
    And(u32, u32),
    Or(u32, u32),
    Xor(u32, u32),
    Not(u32),
    FromBool(u32),
    TwoCompMod(u32, u32),
    SatCast(u32, u32),
    UsatCast(u32, u32),
    If {
        condition: u32,
        yes: u32,
        no: u32,
    },
    /// Index of the last header of a stack.
    LastIndex(u32),
    StackSize(u32),
    UnionStackLastIndex(u32),
    UnionStackSize(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Boolean expression.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bool {
    Const(bool),
    NotZero(Expr),
    Compare {
        relation: Relation,
        left: u32,
        right: u32,
        size: Size,
    },
    Same {
        left: u32,
        right: u32,
        equal: bool,
    },
    And(u32, u32),
    Or(u32, u32),
    Not(u32),
    If {
        condition: u32,
        yes: u32,
        no: u32,
    },
    /// Validity of a header.
    Valid(u32),
    /// True if a header of the union is valid.
    ValidUnion(u32),
    SameHeader {
        left: u32,
        right: u32,
        equal: bool,
    },
    SameUnion {
        left: u32,
        right: u32,
        equal: bool,
    },
    SameStack {
        left: u32,
        right: u32,
        equal: bool,
    },
}

/// Reference to a header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Href {
    Static(u32),
    Stack {
        stack: u32,
        index: Expr,
    },
    /// Last header of a stack.
    Last(u32),
    /// Member of a union.
    Member {
        union: u32,
        member: u32,
    },
}

/// Reference to a header union.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Uref {
    Static(u32),
    Stack {
        stack: u32,
        index: Expr,
    },
    /// Last union of a stack.
    Last(u32),
}

/// Target of an assignment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Field(Field),
    /// Field, by index, of a header resolved at run time.
    Dynamic {
        header: u32,
        field: u32,
    },
    /// Variable-width field of a header, a multiple of 8 bits.
    Variable(u32),
    Register {
        array: u32,
        index: Expr,
    },
}

/// Instruction: one primitive of an action.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Instruction {
    Nothing,
    /// Copies between unsigned fields of at most 64 bits.
    CopyField {
        to: Field,
        from: Field,
    },
    SetConst {
        to: Field,
        value: u128,
    },
    SetParameter {
        to: Field,
        offset: u32,
        width: u32,
    },
    Set {
        to: Target,
        value: Expr,
    },
    /// Assigns `to & !mask | value & mask`.
    SetMasked {
        to: Target,
        value: Expr,
        mask: Expr,
        old: Expr,
    },
    CopyVariable {
        to: u32,
        from: u32,
    },
    CopyHeader {
        to: u32,
        from: u32,
    },
    CopyUnion {
        to: u32,
        from: u32,
    },
    CopyStack {
        to: u32,
        from: u32,
    },
    CopyUnionStack {
        to: u32,
        from: u32,
    },
    Push {
        stack: u32,
        count: Expr,
    },
    Pop {
        stack: u32,
        count: Expr,
    },
    PushUnion {
        stack: u32,
        count: Expr,
    },
    PopUnion {
        stack: u32,
        count: Expr,
    },
    Jump(u32),
    JumpIfZero {
        condition: Expr,
        to: u32,
    },
    Exit,
    Assert {
        condition: u32,
        message: u32,
    },
    Log(u32),
    AddHeader {
        href: u32,
        clear: bool,
    },
    RemoveHeader(u32),
    Drop,
    /// Marks a copy of the standard metadata.
    DropIn {
        egress_spec: Field,
        mcast_grp: Option<Field>,
    },
    Digest {
        list: Expr,
    },
    Clone {
        session: Expr,
        list: Expr,
    },
    Resubmit(Expr),
    Recirculate(Expr),
    Hash {
        to: Target,
        base: Expr,
        calculation: u32,
        max: Expr,
    },
    Random {
        to: Target,
        low: Expr,
        high: Expr,
    },
    Meter {
        array: u32,
        index: Expr,
        to: Target,
    },
    Count {
        array: u32,
        index: Expr,
    },
    ReadRegister {
        to: Target,
        array: u32,
        index: Expr,
    },
    WriteRegister {
        array: u32,
        index: Expr,
        value: Expr,
    },
    Truncate(Expr),
}

/// Operation of a parser state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Extract {
        header: u32,
        length: Option<Expr>,
    },
    ExtractStack {
        stack: u32,
        length: Option<Expr>,
    },
    ExtractUnionStack {
        stack: u32,
        member: u32,
        length: Option<Expr>,
    },
    /// Assignment; requires `ahead` unconsumed bytes.
    Set {
        to: Target,
        value: Expr,
        ahead: u32,
    },
    Verify {
        condition: u32,
        error: Expr,
    },
    /// Advances by a number of bits.
    Advance(Expr),
    Code {
        start: u32,
        end: u32,
    },
}

/// Part of a parser state's key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPart {
    pub value: Expr,
    pub width: u32,
    /// Required number of unconsumed bytes.
    pub ahead: u32,
}
