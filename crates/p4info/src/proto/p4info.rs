//! `p4.config.v1.P4Info`: the objects of a program that a controller can address, with their ids.

use super::text::{text_enum, text_message, text_oneof};
use super::{
    Any, P4DataTypeSpec, P4NamedType, P4TypeInfo, SourceLocation, StructuredAnnotation, TextError, text,
};
use prost::Message;

impl P4Info {
    /// Reads P4Info from its text form (`*.p4info.txtpb`).
    pub fn from_text(text: &str) -> Result<Self, TextError> {
        text::parse(text)
    }

    /// Reads P4Info from a file's content: text, or what is no text as binary.
    pub fn from_file_content(content: &[u8]) -> Result<Self, String> {
        match std::str::from_utf8(content) {
            Ok(text) if !text.contains(|c: char| c.is_control() && !c.is_ascii_whitespace()) => {
                Self::from_text(text).map_err(|error| error.to_string())
            }
            _ => Self::decode(content).map_err(|error| format!("neither text nor binary P4Info: {error}")),
        }
    }
}

text_message! {
    pub struct P4Info {
        #[prost(message, optional, tag = "1")]
        pub pkg_info: Option<PkgInfo>,
        #[prost(message, repeated, tag = "2")]
        pub tables: Vec<Table>,
        #[prost(message, repeated, tag = "3")]
        pub actions: Vec<Action>,
        #[prost(message, repeated, tag = "4")]
        pub action_profiles: Vec<ActionProfile>,
        #[prost(message, repeated, tag = "5")]
        pub counters: Vec<Counter>,
        #[prost(message, repeated, tag = "6")]
        pub direct_counters: Vec<DirectCounter>,
        #[prost(message, repeated, tag = "7")]
        pub meters: Vec<Meter>,
        #[prost(message, repeated, tag = "8")]
        pub direct_meters: Vec<DirectMeter>,
        #[prost(message, repeated, tag = "9")]
        pub controller_packet_metadata: Vec<ControllerPacketMetadata>,
        #[prost(message, repeated, tag = "10")]
        pub value_sets: Vec<ValueSet>,
        #[prost(message, repeated, tag = "11")]
        pub registers: Vec<Register>,
        #[prost(message, repeated, tag = "12")]
        pub digests: Vec<Digest>,
        #[prost(message, repeated, tag = "100")]
        pub externs: Vec<Extern>,
        #[prost(message, optional, tag = "200")]
        pub type_info: Option<P4TypeInfo>,
    }
}

text_message! {
    pub struct Documentation {
        #[prost(string, tag = "1")]
        pub brief: String,
        #[prost(string, tag = "2")]
        pub description: String,
    }
}

text_message! {
    pub struct PlatformProperties {
        #[prost(int32, tag = "1")]
        pub multicast_group_table_size: i32,
        #[prost(int32, tag = "2")]
        pub multicast_group_table_total_replicas: i32,
        #[prost(int32, tag = "3")]
        pub multicast_group_table_max_replicas_per_entry: i32,
    }
}

text_message! {
    pub struct PkgInfo {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub version: String,
        #[prost(message, optional, tag = "3")]
        pub doc: Option<Documentation>,
        #[prost(string, repeated, tag = "4")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "10")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(string, tag = "5")]
        pub arch: String,
        #[prost(string, tag = "6")]
        pub organization: String,
        #[prost(string, tag = "7")]
        pub contact: String,
        #[prost(string, tag = "8")]
        pub url: String,
        #[prost(message, repeated, tag = "9")]
        pub structured_annotations: Vec<StructuredAnnotation>,
        #[prost(message, optional, tag = "11")]
        pub platform_properties: Option<PlatformProperties>,
    }
}

text_message! {
    pub struct Preamble {
        #[prost(uint32, tag = "1")]
        pub id: u32,
        #[prost(string, tag = "2")]
        pub name: String,
        #[prost(string, tag = "3")]
        pub alias: String,
        #[prost(string, repeated, tag = "4")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "7")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(message, optional, tag = "5")]
        pub doc: Option<Documentation>,
        #[prost(message, repeated, tag = "6")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_message! {
    pub struct Extern {
        #[prost(uint32, tag = "1")]
        pub extern_type_id: u32,
        #[prost(string, tag = "2")]
        pub extern_type_name: String,
        #[prost(message, repeated, tag = "3")]
        pub instances: Vec<ExternInstance>,
    }
}

text_message! {
    pub struct ExternInstance {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(message, optional, tag = "2")]
        pub info: Option<Any>,
    }
}

text_message! {
    pub struct MatchField {
        #[prost(uint32, tag = "1")]
        pub id: u32,
        #[prost(string, tag = "2")]
        pub name: String,
        #[prost(string, repeated, tag = "3")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "10")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(int32, tag = "4")]
        pub bitwidth: i32,
        #[prost(oneof = "FieldMatchType", tags = "5, 7")]
        pub r#match: Option<FieldMatchType>,
        #[prost(message, optional, tag = "6")]
        pub doc: Option<Documentation>,
        #[prost(message, optional, tag = "8")]
        pub type_name: Option<P4NamedType>,
        #[prost(message, repeated, tag = "9")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_oneof! {
    pub enum FieldMatchType {
        #[prost(enumeration = "MatchType", tag = "5")]
        "match_type" MatchType(i32) as MatchType,
        #[prost(string, tag = "7")]
        "other_match_type" OtherMatchType(String),
    }
}

text_enum! {
    pub enum MatchType {
        Unspecified = 0 "UNSPECIFIED",
        Exact = 2 "EXACT",
        Lpm = 3 "LPM",
        Ternary = 4 "TERNARY",
        Range = 5 "RANGE",
        Optional = 6 "OPTIONAL",
    }
}

text_message! {
    pub struct TableActionCall {
        #[prost(uint32, tag = "1")]
        pub action_id: u32,
        #[prost(message, repeated, tag = "4")]
        pub arguments: Vec<Argument>,
    }
}

text_message! {
    pub struct Argument {
        #[prost(uint32, tag = "2")]
        pub param_id: u32,
        #[prost(bytes = "vec", tag = "3")]
        pub value: Vec<u8>,
    }
}

text_message! {
    pub struct Table {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(message, repeated, tag = "2")]
        pub match_fields: Vec<MatchField>,
        #[prost(message, repeated, tag = "3")]
        pub action_refs: Vec<ActionRef>,
        #[prost(uint32, tag = "4")]
        pub const_default_action_id: u32,
        #[prost(message, optional, tag = "5")]
        pub initial_default_action: Option<TableActionCall>,
        #[prost(uint32, tag = "6")]
        pub implementation_id: u32,
        #[prost(uint32, repeated, tag = "7")]
        pub direct_resource_ids: Vec<u32>,
        #[prost(int64, tag = "8")]
        pub size: i64,
        #[prost(enumeration = "IdleTimeoutBehavior", tag = "9")]
        pub idle_timeout_behavior: i32 as IdleTimeoutBehavior,
        #[prost(bool, tag = "10")]
        pub is_const_table: bool,
        #[prost(bool, tag = "11")]
        pub has_initial_entries: bool,
        #[prost(message, optional, tag = "100")]
        pub other_properties: Option<Any>,
    }
}

text_enum! {
    pub enum IdleTimeoutBehavior {
        NoTimeout = 0 "NO_TIMEOUT",
        NotifyControl = 1 "NOTIFY_CONTROL",
    }
}

text_message! {
    pub struct ActionRef {
        #[prost(uint32, tag = "1")]
        pub id: u32,
        #[prost(enumeration = "Scope", tag = "3")]
        pub scope: i32 as Scope,
        #[prost(string, repeated, tag = "2")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "5")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(message, repeated, tag = "4")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_enum! {
    pub enum Scope {
        TableAndDefault = 0 "TABLE_AND_DEFAULT",
        TableOnly = 1 "TABLE_ONLY",
        DefaultOnly = 2 "DEFAULT_ONLY",
        GroupAction = 3 "GROUP_ACTION",
    }
}

text_message! {
    pub struct Action {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(message, repeated, tag = "2")]
        pub params: Vec<ActionParam>,
    }
}

text_message! {
    pub struct ActionParam {
        #[prost(uint32, tag = "1")]
        pub id: u32,
        #[prost(string, tag = "2")]
        pub name: String,
        #[prost(string, repeated, tag = "3")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "8")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(int32, tag = "4")]
        pub bitwidth: i32,
        #[prost(message, optional, tag = "5")]
        pub doc: Option<Documentation>,
        #[prost(message, optional, tag = "6")]
        pub type_name: Option<P4NamedType>,
        #[prost(message, repeated, tag = "7")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_message! {
    pub struct ActionProfile {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(uint32, repeated, tag = "2")]
        pub table_ids: Vec<u32>,
        #[prost(bool, tag = "3")]
        pub with_selector: bool,
        #[prost(int64, tag = "4")]
        pub size: i64,
        #[prost(int32, tag = "5")]
        pub max_group_size: i32,
        #[prost(oneof = "SizeSemantics", tags = "6, 7")]
        pub selector_size_semantics: Option<SizeSemantics>,
        #[prost(bool, tag = "8")]
        pub weights_disallowed: bool,
    }
}

text_oneof! {
    pub enum SizeSemantics {
        #[prost(message, tag = "6")]
        "sum_of_weights" SumOfWeights(SumOfWeights),
        #[prost(message, tag = "7")]
        "sum_of_members" SumOfMembers(SumOfMembers),
    }
}

text_message! {
    pub struct SumOfWeights {
    }
}

text_message! {
    pub struct SumOfMembers {
        #[prost(int32, tag = "1")]
        pub max_member_weight: i32,
    }
}

text_message! {
    pub struct CounterSpec {
        #[prost(enumeration = "CounterUnit", tag = "1")]
        pub unit: i32 as CounterUnit,
    }
}

text_enum! {
    pub enum CounterUnit {
        Unspecified = 0 "UNSPECIFIED",
        Bytes = 1 "BYTES",
        Packets = 2 "PACKETS",
        Both = 3 "BOTH",
    }
}

text_message! {
    pub struct Counter {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(message, optional, tag = "2")]
        pub spec: Option<CounterSpec>,
        #[prost(int64, tag = "3")]
        pub size: i64,
        #[prost(message, optional, tag = "4")]
        pub index_type_name: Option<P4NamedType>,
    }
}

text_message! {
    pub struct DirectCounter {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(message, optional, tag = "2")]
        pub spec: Option<CounterSpec>,
        #[prost(uint32, tag = "3")]
        pub direct_table_id: u32,
    }
}

text_message! {
    pub struct MeterSpec {
        #[prost(enumeration = "MeterUnit", tag = "1")]
        pub unit: i32 as MeterUnit,
        #[prost(enumeration = "MeterType", tag = "2")]
        pub r#type: i32 as MeterType,
    }
}

text_enum! {
    pub enum MeterUnit {
        Unspecified = 0 "UNSPECIFIED",
        Bytes = 1 "BYTES",
        Packets = 2 "PACKETS",
    }
}

text_enum! {
    pub enum MeterType {
        TwoRateThreeColor = 0 "TWO_RATE_THREE_COLOR",
        SingleRateThreeColor = 1 "SINGLE_RATE_THREE_COLOR",
        SingleRateTwoColor = 2 "SINGLE_RATE_TWO_COLOR",
    }
}

text_message! {
    pub struct Meter {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(message, optional, tag = "2")]
        pub spec: Option<MeterSpec>,
        #[prost(int64, tag = "3")]
        pub size: i64,
        #[prost(message, optional, tag = "4")]
        pub index_type_name: Option<P4NamedType>,
    }
}

text_message! {
    pub struct DirectMeter {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(message, optional, tag = "2")]
        pub spec: Option<MeterSpec>,
        #[prost(uint32, tag = "3")]
        pub direct_table_id: u32,
    }
}

text_message! {
    pub struct ControllerPacketMetadata {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(message, repeated, tag = "2")]
        pub metadata: Vec<PacketMetadataField>,
    }
}

text_message! {
    pub struct PacketMetadataField {
        #[prost(uint32, tag = "1")]
        pub id: u32,
        #[prost(string, tag = "2")]
        pub name: String,
        #[prost(string, repeated, tag = "3")]
        pub annotations: Vec<String>,
        #[prost(message, repeated, tag = "7")]
        pub annotation_locations: Vec<SourceLocation>,
        #[prost(int32, tag = "4")]
        pub bitwidth: i32,
        #[prost(message, optional, tag = "5")]
        pub type_name: Option<P4NamedType>,
        #[prost(message, repeated, tag = "6")]
        pub structured_annotations: Vec<StructuredAnnotation>,
    }
}

text_message! {
    pub struct ValueSet {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(message, repeated, tag = "2")]
        pub r#match: Vec<MatchField>,
        #[prost(int32, tag = "3")]
        pub size: i32,
    }
}

text_message! {
    pub struct Register {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(message, optional, tag = "2")]
        pub type_spec: Option<P4DataTypeSpec>,
        #[prost(int32, tag = "3")]
        pub size: i32,
        #[prost(message, optional, tag = "4")]
        pub index_type_name: Option<P4NamedType>,
    }
}

text_message! {
    pub struct Digest {
        #[prost(message, optional, tag = "1")]
        pub preamble: Option<Preamble>,
        #[prost(message, optional, tag = "2")]
        pub type_spec: Option<P4DataTypeSpec>,
    }
}
