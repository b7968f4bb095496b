//! `p4.v1.P4Data`: value of any P4 type.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Eq, Message)]
pub struct P4Data {
    #[prost(oneof = "p4_data::Data", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub data: Option<p4_data::Data>,
}

impl P4Data {
    /// A value of `bit<W>` or `int<W>`.
    pub fn bitstring(value: Vec<u8>) -> Self {
        Self { data: Some(p4_data::Data::Bitstring(value)) }
    }
}

pub mod p4_data {
    use super::*;

    #[derive(Clone, PartialEq, Eq, Oneof)]
    pub enum Data {
        #[prost(bytes, tag = "1")]
        Bitstring(Vec<u8>),
        #[prost(message, tag = "2")]
        Varbit(P4Varbit),
        #[prost(bool, tag = "3")]
        Bool(bool),
        #[prost(message, tag = "4")]
        Tuple(P4StructLike),
        #[prost(message, tag = "5")]
        Struct(P4StructLike),
        #[prost(message, tag = "6")]
        Header(P4Header),
        #[prost(message, tag = "7")]
        HeaderUnion(P4HeaderUnion),
        #[prost(message, tag = "8")]
        HeaderStack(P4HeaderStack),
        #[prost(message, tag = "9")]
        HeaderUnionStack(P4HeaderUnionStack),
        #[prost(string, tag = "10")]
        Enum(String),
        #[prost(string, tag = "11")]
        Error(String),
        #[prost(bytes, tag = "12")]
        EnumValue(Vec<u8>),
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct P4Varbit {
    #[prost(bytes = "vec", tag = "1")]
    pub bitstring: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub bitwidth: i32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct P4StructLike {
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<P4Data>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct P4Header {
    #[prost(bool, tag = "1")]
    pub is_valid: bool,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub bitstrings: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct P4HeaderUnion {
    #[prost(string, tag = "1")]
    pub valid_header_name: String,
    #[prost(message, optional, tag = "2")]
    pub valid_header: Option<P4Header>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct P4HeaderStack {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<P4Header>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct P4HeaderUnionStack {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<P4HeaderUnion>,
}
