//! Values of P4 types between the switch, which has flat lists of unsigned numbers, and `P4Data`.

use crate::bytestring;
use crate::proto::p4_data::Data;
use crate::proto::{
    self, BitstringType, P4BitstringLikeTypeSpec, P4Data, P4DataTypeSpec, P4StructLike, P4TypeInfo,
    Representation,
};
use crate::refusal::Refusal;

/// A type of registers or digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataType {
    /// `bit<W>`.
    Bit(u32),
    /// `int<W>`.
    Int(u32),
    Bool,
    /// A serializable enumeration of that width.
    Enum(u32),
    Tuple(Vec<DataType>),
    Struct(Vec<DataType>),
}

/// Types within types are followed to this depth; P4 has none that contain themselves.
const MAX_DEPTH: usize = 16;

impl DataType {
    /// The type of a specification; none if it is one that neither registers nor digests of this switch have.
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

    /// Makes `P4Data` of numbers, one for each part that has no parts.
    pub fn pack(&self, numbers: &mut impl Iterator<Item = Vec<u8>>) -> Option<P4Data> {
        let data = match self {
            Self::Bit(_) => Data::Bitstring(bytestring::shortest(&numbers.next()?).to_vec()),
            Self::Int(width) => Data::Bitstring(bytestring::to_signed(&numbers.next()?, *width)),
            Self::Bool => Data::Bool(bytestring::bits(&numbers.next()?) > 0),
            Self::Enum(_) => Data::EnumValue(bytestring::shortest(&numbers.next()?).to_vec()),
            Self::Tuple(members) => Data::Tuple(pack_all(members, numbers)?),
            Self::Struct(members) => Data::Struct(pack_all(members, numbers)?),
        };
        Some(P4Data { data: Some(data) })
    }

    /// The number in `P4Data` of a type without parts.
    pub fn number(&self, data: &P4Data) -> Result<Vec<u8>, Refusal> {
        match (self, data.data.as_ref()) {
            (Self::Bit(width), Some(Data::Bitstring(value)))
            | (Self::Enum(width), Some(Data::EnumValue(value))) => bytestring::unsigned(value, *width),
            (Self::Int(width), Some(Data::Bitstring(value))) => bytestring::signed(value, *width),
            (Self::Bool, Some(Data::Bool(value))) => Ok(vec![u8::from(*value)]),
            (Self::Tuple(_) | Self::Struct(_), _) => {
                Err(Refusal::unimplemented("registers of structs are not supported"))
            }
            _ => Err(Refusal::invalid("the data is not of the type that P4Info has")),
        }
    }
}

fn pack_all(members: &[DataType], numbers: &mut impl Iterator<Item = Vec<u8>>) -> Option<P4StructLike> {
    let mut packed = Vec::with_capacity(members.len());
    for member in members {
        packed.push(member.pack(numbers)?);
    }
    Some(P4StructLike { members: packed })
}

fn positive(width: i32) -> Option<u32> {
    u32::try_from(width).ok().filter(|width| *width > 0)
}
