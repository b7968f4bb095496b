//! `google.protobuf.Any`.

use super::text::text_message;
use prost::{Message, Name};

text_message! {
    /// `google.protobuf.Any`: an encoded message and the URL that names its type.
    pub struct Any {
        #[prost(string, tag = "1")]
        pub type_url: String,
        #[prost(bytes = "vec", tag = "2")]
        pub value: Vec<u8>,
    }
}

impl Any {
    /// Packs a message, as protobuf's own libraries do.
    pub fn pack<M: Message + Name>(message: &M) -> Self {
        Self { type_url: format!("type.googleapis.com/{}", M::full_name()), value: message.encode_to_vec() }
    }
}
