//! Types of registers and digests.

use crate::proto::{
    self, BitstringType, P4BitstringLikeTypeSpec, P4DataTypeSpec, P4TypeInfo, Representation,
};

/// A type of registers or digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataType {
    /// `bit<W>`.
    Bit(u32),
    /// `int<W>`.
    Int(u32),
    /// `bool`.
    Bool,
    /// A serializable enumeration of that width.
    Enum(u32),
    /// A tuple of members.
    Tuple(Vec<DataType>),
    /// A struct of members.
    Struct(Vec<DataType>),
}

/// Types within types are followed to this depth; P4 has none that contain themselves.
const MAX_DEPTH: usize = 16;

impl DataType {
    /// Data type of a specification; `None` for a type that no register and no digest of this switch can have.
    pub fn new(spec: &P4DataTypeSpec, types: &P4TypeInfo) -> Option<Self> {
        Self::nested(spec, types, 0)
    }

    fn nested(spec: &P4DataTypeSpec, types: &P4TypeInfo, depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        let nested = |spec: &P4DataTypeSpec| Self::nested(spec, types, depth + 1);
        match spec.type_spec.as_ref()? {
            proto::DataType::Bitstring(spec) => Self::bitstring(spec),
            proto::DataType::Bool(_) => Some(Self::Bool),
            proto::DataType::Tuple(tuple) => {
                tuple.members.iter().map(nested).collect::<Option<_>>().map(Self::Tuple)
            }
            proto::DataType::Struct(named) => {
                let members = &types.structs.get(&named.name)?.members;
                let members = members.iter().map(|member| nested(member.type_spec.as_ref()?));
                members.collect::<Option<_>>().map(Self::Struct)
            }
            proto::DataType::SerializableEnum(named) => {
                let underlying = types.serializable_enums.get(&named.name)?.underlying_type.as_ref()?;
                Some(Self::Enum(positive(underlying.bitwidth)?))
            }
            proto::DataType::NewType(named) => {
                match types.new_types.get(&named.name)?.representation.as_ref()? {
                    Representation::OriginalType(spec) => nested(spec),
                    Representation::TranslatedType(translation) => match translation.sdn_type {
                        Some(proto::SdnType::SdnBitwidth(width)) => positive(width).map(Self::Bit),
                        _ => None,
                    },
                }
            }
            _ => None,
        }
    }

    fn bitstring(spec: &P4BitstringLikeTypeSpec) -> Option<Self> {
        match spec.type_spec.as_ref()? {
            BitstringType::Bit(spec) => positive(spec.bitwidth).map(Self::Bit),
            BitstringType::Int(spec) => positive(spec.bitwidth).map(Self::Int),
            BitstringType::Varbit(_) => None,
        }
    }
}

fn positive(width: i32) -> Option<u32> {
    u32::try_from(width).ok().filter(|width| *width > 0)
}
