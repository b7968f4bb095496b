//! `p4.config.v1.P4TypeInfo` and the descriptions of P4 types.

use super::text::{text_message, text_oneof};
use std::collections::BTreeMap;

text_message! {
    pub struct P4TypeInfo {
        #[prost(btree_map = "string, message", tag = "1")]
        pub structs: BTreeMap<String, P4StructTypeSpec>,
        #[prost(btree_map = "string, message", tag = "2")]
        pub headers: BTreeMap<String, P4HeaderTypeSpec>,
        #[prost(btree_map = "string, message", tag = "3")]
        pub header_unions: BTreeMap<String, P4HeaderUnionTypeSpec>,
        #[prost(btree_map = "string, message", tag = "4")]
        pub enums: BTreeMap<String, P4EnumTypeSpec>,
        #[prost(message, optional, tag = "5")]
        pub error: Option<P4ErrorTypeSpec>,
        #[prost(btree_map = "string, message", tag = "6")]
        pub serializable_enums: BTreeMap<String, P4SerializableEnumTypeSpec>,
        #[prost(btree_map = "string, message", tag = "7")]
        pub new_types: BTreeMap<String, P4NewTypeSpec>,
    }
}

text_message! {
    pub struct P4DataTypeSpec {
        #[prost(oneof = "DataType", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
        pub type_spec: Option<DataType>,
    }
}

text_oneof! {
    /// The kinds of types that a [`P4DataTypeSpec`] can name.
    pub enum DataType {
        #[prost(message, tag = "1")]
        "bitstring" Bitstring(P4BitstringLikeTypeSpec),
        #[prost(message, tag = "2")]
        "bool" Bool(P4BoolType),
        #[prost(message, tag = "3")]
        "tuple" Tuple(P4TupleTypeSpec),
        #[prost(message, tag = "4")]
        "struct" Struct(P4NamedType),
        #[prost(message, tag = "5")]
        "header" Header(P4NamedType),
        #[prost(message, tag = "6")]
        "header_union" HeaderUnion(P4NamedType),
        #[prost(message, tag = "7")]
        "header_stack" HeaderStack(P4HeaderStackTypeSpec),
        #[prost(message, tag = "8")]
        "header_union_stack" HeaderUnionStack(P4HeaderUnionStackTypeSpec),
        #[prost(message, tag = "9")]
        "enum" Enum(P4NamedType),
        #[prost(message, tag = "10")]
        "error" Error(P4ErrorType),
        #[prost(message, tag = "11")]
        "serializable_enum" SerializableEnum(P4NamedType),
        #[prost(message, tag = "12")]
        "new_type" NewType(P4NamedType),
    }
}

text_message! {
    pub struct P4NamedType {
        #[prost(string, tag = "1")]
        pub name: String,
    }
}

text_message! {
    pub struct P4BoolType {
    }
}

text_message! {
    pub struct P4ErrorType {
    }
}

text_message! {
    pub struct P4BitstringLikeTypeSpec {
        #[prost(oneof = "BitstringType", tags = "1, 2, 3")]
        pub type_spec: Option<BitstringType>,
        #[prost(string, repeated, tag = "4")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "5")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(message, repeated, tag = "6")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_oneof! {
    pub enum BitstringType {
        #[prost(message, tag = "1")]
        "bit" Bit(P4BitTypeSpec),
        #[prost(message, tag = "2")]
        "int" Int(P4IntTypeSpec),
        #[prost(message, tag = "3")]
        "varbit" Varbit(P4VarbitTypeSpec),
    }
}

text_message! {
    pub struct P4BitTypeSpec {
        #[prost(int32, tag = "1")]
        pub bitwidth: i32,
    }
}

text_message! {
    pub struct P4IntTypeSpec {
        #[prost(int32, tag = "1")]
        pub bitwidth: i32,
    }
}

text_message! {
    pub struct P4VarbitTypeSpec {
        #[prost(int32, tag = "1")]
        pub max_bitwidth: i32,
    }
}

text_message! {
    pub struct P4TupleTypeSpec {
        #[prost(message, repeated, tag = "1")]
        pub members: Vec<P4DataTypeSpec>,
    }
}

text_message! {
    pub struct P4StructTypeSpec {
        #[prost(message, repeated, tag = "1")]
        pub members: Vec<StructMember>,
        #[prost(string, repeated, tag = "2")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "3")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(message, repeated, tag = "4")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_message! {
    pub struct StructMember {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, optional, tag = "2")]
        pub type_spec: Option<P4DataTypeSpec>,
    }
}

text_message! {
    pub struct P4HeaderTypeSpec {
        #[prost(message, repeated, tag = "1")]
        pub members: Vec<HeaderMember>,
        #[prost(string, repeated, tag = "2")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "3")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(message, repeated, tag = "4")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_message! {
    pub struct HeaderMember {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, optional, tag = "2")]
        pub type_spec: Option<P4BitstringLikeTypeSpec>,
    }
}

text_message! {
    pub struct P4HeaderUnionTypeSpec {
        #[prost(message, repeated, tag = "1")]
        pub members: Vec<HeaderUnionMember>,
        #[prost(string, repeated, tag = "2")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "3")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(message, repeated, tag = "4")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_message! {
    pub struct HeaderUnionMember {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, optional, tag = "2")]
        pub header: Option<P4NamedType>,
    }
}

text_message! {
    pub struct P4HeaderStackTypeSpec {
        #[prost(message, optional, tag = "1")]
        pub header: Option<P4NamedType>,
        #[prost(int32, tag = "2")]
        pub size: i32,
    }
}

text_message! {
    pub struct P4HeaderUnionStackTypeSpec {
        #[prost(message, optional, tag = "1")]
        pub header_union: Option<P4NamedType>,
        #[prost(int32, tag = "2")]
        pub size: i32,
    }
}

text_message! {
    pub struct P4EnumTypeSpec {
        #[prost(message, repeated, tag = "1")]
        pub members: Vec<EnumMember>,
        #[prost(string, repeated, tag = "2")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "4")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(message, repeated, tag = "3")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_message! {
    pub struct EnumMember {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, repeated, tag = "2")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "4")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(message, repeated, tag = "3")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_message! {
    pub struct P4SerializableEnumTypeSpec {
        #[prost(message, optional, tag = "1")]
        pub underlying_type: Option<P4BitTypeSpec>,
        #[prost(message, repeated, tag = "2")]
        pub members: Vec<SerializableEnumMember>,
        #[prost(string, repeated, tag = "3")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "5")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(message, repeated, tag = "4")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_message! {
    pub struct SerializableEnumMember {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(bytes = "vec", tag = "2")]
        pub value: Vec<u8>,
        #[prost(string, repeated, tag = "3")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "5")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(message, repeated, tag = "4")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_message! {
    pub struct P4ErrorTypeSpec {
        #[prost(string, repeated, tag = "1")]
        pub members: Vec<String>,
    }
}

text_message! {
    pub struct P4NewTypeTranslation {
        #[prost(string, tag = "1")]
        pub uri: String,
        #[prost(oneof = "SdnType", tags = "2, 3")]
        pub sdn_type: Option<SdnType>,
    }
}

text_oneof! {
    pub enum SdnType {
        #[prost(int32, tag = "2")]
        "sdn_bitwidth" SdnBitwidth(i32),
        #[prost(message, tag = "3")]
        "sdn_string" SdnString(SdnString),
    }
}

text_message! {
    pub struct SdnString {
    }
}

text_message! {
    pub struct P4NewTypeSpec {
        #[prost(oneof = "Representation", tags = "1, 2")]
        pub representation: Option<Representation>,
        #[prost(string, repeated, tag = "3")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "5")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(message, repeated, tag = "4")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_oneof! {
    pub enum Representation {
        #[prost(message, tag = "1")]
        "original_type" OriginalType(P4DataTypeSpec),
        #[prost(message, tag = "2")]
        "translated_type" TranslatedType(P4NewTypeTranslation),
    }
}

text_message! {
    pub struct StructuredAnnotation {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(oneof = "AnnotationBody", tags = "2, 3")]
        pub body: Option<AnnotationBody>,
        #[prost(message, optional, tag = "4")]
        pub source_location: Option<SourceLocation>,
    }
}

text_oneof! {
    pub enum AnnotationBody {
        #[prost(message, tag = "2")]
        "expression_list" ExpressionList(ExpressionList),
        #[prost(message, tag = "3")]
        "kv_pair_list" KvPairList(KeyValuePairList),
    }
}

text_message! {
    pub struct KeyValuePair {
        #[prost(string, tag = "1")]
        pub key: String,
        #[prost(message, optional, tag = "2")]
        pub value: Option<Expression>,
    }
}

text_message! {
    pub struct KeyValuePairList {
        #[prost(message, repeated, tag = "1")]
        pub kv_pairs: Vec<KeyValuePair>,
    }
}

text_message! {
    pub struct Expression {
        #[prost(oneof = "ExpressionValue", tags = "1, 2, 3")]
        pub value: Option<ExpressionValue>,
    }
}

text_oneof! {
    pub enum ExpressionValue {
        #[prost(string, tag = "1")]
        "string_value" StringValue(String),
        #[prost(int64, tag = "2")]
        "int64_value" Int64Value(i64),
        #[prost(bool, tag = "3")]
        "bool_value" BoolValue(bool),
    }
}

text_message! {
    pub struct ExpressionList {
        #[prost(message, repeated, tag = "1")]
        pub expressions: Vec<Expression>,
    }
}

text_message! {
    pub struct SourceLocation {
        #[prost(string, tag = "1")]
        pub file: String,
        #[prost(int32, tag = "2")]
        pub line: i32,
        #[prost(int32, tag = "3")]
        pub column: i32,
    }
}
