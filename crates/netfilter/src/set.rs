//! Sets and maps: their description. The elements are in `contents.rs`.

use crate::attributes::Writer;
use crate::operation::{DumpScope, Operation};
use std::sync::Arc;

/// `NFT_SET_*`.
pub(crate) mod flag {
    pub(crate) const ANONYMOUS: u32 = 0x1;
    pub(crate) const CONSTANT: u32 = 0x2;
    pub(crate) const INTERVAL: u32 = 0x4;
    pub(crate) const MAP: u32 = 0x8;
    pub(crate) const TIMEOUT: u32 = 0x10;
    pub(crate) const EVAL: u32 = 0x20;
    pub(crate) const OBJECT: u32 = 0x40;
    pub(crate) const CONCAT: u32 = 0x80;
    pub(crate) const EXPR: u32 = 0x100;
}

/// Data type of verdict maps, `NFT_DATA_VERDICT`.
pub(crate) const DATA_VERDICT: u32 = 0xffff_ff00;

/// Set or map.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) handle: u64,
    /// Number of the set in [`Contents`](crate::contents::Contents), unique in the namespace.
    pub(crate) number: u64,
    pub(crate) flags: u32,
    pub(crate) key_type: u32,
    /// Length of keys in bytes.
    pub(crate) key_len: usize,
    pub(crate) data_type: u32,
    /// Length of data in bytes; 0 without data and for verdicts.
    pub(crate) data_len: usize,
    pub(crate) object_type: u32,
    pub(crate) policy: u32,
    /// Maximum number of elements; 0 for no limit.
    pub(crate) size: u32,
    /// Lengths of the fields of a concatenation in bytes.
    pub(crate) fields: Vec<u8>,
    /// Default timeout of elements in milliseconds; 0 for none.
    pub(crate) timeout: u64,
    pub(crate) gc_interval: u32,
    pub(crate) userdata: Vec<u8>,
    /// Stateful expressions that new elements get.
    pub(crate) expressions: Vec<Arc<dyn Operation>>,
}

/// `NFTA_SET_*`.
pub(crate) mod attribute {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const NAME: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const KEY_TYPE: u16 = 4;
    pub(crate) const KEY_LEN: u16 = 5;
    pub(crate) const DATA_TYPE: u16 = 6;
    pub(crate) const DATA_LEN: u16 = 7;
    pub(crate) const POLICY: u16 = 8;
    pub(crate) const DESC: u16 = 9;
    pub(crate) const ID: u16 = 10;
    pub(crate) const TIMEOUT: u16 = 11;
    pub(crate) const GC_INTERVAL: u16 = 12;
    pub(crate) const USERDATA: u16 = 13;
    pub(crate) const OBJ_TYPE: u16 = 15;
    pub(crate) const HANDLE: u16 = 16;
    pub(crate) const EXPR: u16 = 17;
    pub(crate) const EXPRESSIONS: u16 = 18;
    /// Within `DESC`.
    pub(crate) const DESC_SIZE: u16 = 1;
    pub(crate) const DESC_CONCAT: u16 = 2;
    /// Within an element of `DESC_CONCAT`.
    pub(crate) const FIELD_LEN: u16 = 1;
}

/// `NFTA_LIST_ELEM`.
pub(crate) const LIST_ELEM: u16 = 1;

impl Set {
    /// True if any of these flags is set.
    pub(crate) fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }
    /// True if each field of a key has a range of its own.
    pub(crate) fn is_concatenated_interval(&self) -> bool {
        self.has(flag::INTERVAL) && self.fields.len() > 1
    }
    /// True if the elements are the bounds of intervals.
    pub(crate) fn is_interval(&self) -> bool {
        self.has(flag::INTERVAL) && self.fields.len() <= 1
    }
    /// Writes the set's attributes.
    pub(crate) fn dump(&self, table: &str, names: &dyn DumpScope, out: &mut Writer) {
        use attribute::*;
        out.text(TABLE, table);
        out.text(NAME, &self.name);
        out.u64(HANDLE, self.handle);
        if self.flags != 0 {
            out.u32(FLAGS, self.flags);
        }
        out.u32(KEY_TYPE, self.key_type);
        out.u32(KEY_LEN, self.key_len as u32);
        if self.has(flag::MAP) {
            out.u32(DATA_TYPE, self.data_type);
            out.u32(DATA_LEN, self.data_len as u32);
        }
        if self.has(flag::OBJECT) {
            out.u32(OBJ_TYPE, self.object_type);
        }
        if self.timeout != 0 {
            out.u64(TIMEOUT, self.timeout);
        }
        if self.gc_interval != 0 {
            out.u32(GC_INTERVAL, self.gc_interval);
        }
        if self.policy != 0 {
            out.u32(POLICY, self.policy);
        }
        if !self.userdata.is_empty() {
            out.bytes(USERDATA, &self.userdata);
        }
        out.nest(DESC, |out| {
            if self.size != 0 {
                out.u32(DESC_SIZE, self.size);
            }
            if self.fields.len() > 1 {
                out.nest(DESC_CONCAT, |out| {
                    for len in &self.fields {
                        out.nest(LIST_ELEM, |out| out.u32(FIELD_LEN, u32::from(*len)));
                    }
                });
            }
        });
        match &self.expressions[..] {
            [] => {}
            [one] => out.nest(EXPR, |out| dump_expression(&**one, names, out)),
            several => out.nest(EXPRESSIONS, |out| dump_expressions(several, names, out)),
        }
    }
}

/// Writes the name and the attributes of an expression, `NFTA_EXPR_*`.
pub(crate) fn dump_expression(operation: &dyn Operation, names: &dyn DumpScope, out: &mut Writer) {
    out.text(1, operation.name());
    out.nest(2, |out| operation.dump(names, out));
}

/// Writes a list of expressions.
pub(crate) fn dump_expressions(all: &[Arc<dyn Operation>], names: &dyn DumpScope, out: &mut Writer) {
    for one in all {
        out.nest(LIST_ELEM, |out| dump_expression(&**one, names, out));
    }
}
