//! Conversion between `P4Data` and the switch's flat lists of unsigned numbers.

use crate::bytestring;
use crate::proto::p4_data::Data;
use crate::proto::{P4Data, P4StructLike};
use crate::refusal::Refusal;
use belljar_p4info::DataType;

/// Builds a `P4Data` value from one number per scalar.
pub fn pack(kind: &DataType, numbers: &mut impl Iterator<Item = Vec<u8>>) -> Option<P4Data> {
    let data = match kind {
        DataType::Bit(_) => Data::Bitstring(bytestring::shortest(&numbers.next()?).to_vec()),
        DataType::Int(width) => Data::Bitstring(bytestring::to_signed(&numbers.next()?, *width)),
        DataType::Bool => Data::Bool(bytestring::bits(&numbers.next()?) > 0),
        DataType::Enum(_) => Data::EnumValue(bytestring::shortest(&numbers.next()?).to_vec()),
        DataType::Tuple(members) => Data::Tuple(pack_all(members, numbers)?),
        DataType::Struct(members) => Data::Struct(pack_all(members, numbers)?),
    };
    Some(P4Data { data: Some(data) })
}

fn pack_all(members: &[DataType], numbers: &mut impl Iterator<Item = Vec<u8>>) -> Option<P4StructLike> {
    let mut packed = Vec::with_capacity(members.len());
    for member in members {
        packed.push(pack(member, numbers)?);
    }
    Some(P4StructLike { members: packed })
}

/// Number in a `P4Data` value of scalar type.
pub fn number(kind: &DataType, data: &P4Data) -> Result<Vec<u8>, Refusal> {
    match (kind, data.data.as_ref()) {
        (DataType::Bit(width), Some(Data::Bitstring(value)))
        | (DataType::Enum(width), Some(Data::EnumValue(value))) => bytestring::unsigned(value, *width),
        (DataType::Int(width), Some(Data::Bitstring(value))) => bytestring::signed(value, *width),
        (DataType::Bool, Some(Data::Bool(value))) => Ok(vec![u8::from(*value)]),
        (DataType::Tuple(_) | DataType::Struct(_), _) => {
            Err(Refusal::unimplemented("registers of structs are not supported"))
        }
        _ => Err(Refusal::invalid("the data is not of the type that P4Info has")),
    }
}
