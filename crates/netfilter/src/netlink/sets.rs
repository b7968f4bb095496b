//! Requests about sets.

use super::draft::{Draft, by_handle, list};
use super::message::{Message, flag as message_flag};
use super::number;
use crate::attributes::{Attributes, NetfilterError};
use crate::expression::read_stateful;
use crate::operation::Reference;
use crate::ruleset::Table;
use crate::set::{DATA_VERDICT, LIST_ELEM, Set, attribute, flag};
use belljar_linux_abi::Errno;
use std::sync::Arc;

/// Maximum length of keys and data in bytes.
const MAX_LEN: usize = 64;
/// Maximum number of expressions of an element, `NFT_SET_EXPR_MAX`.
const MAX_EXPRESSIONS: usize = 2;

/// `NFT_MSG_NEWSET`.
pub(super) fn add(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let attributes = message.attributes();
    for needed in [attribute::TABLE, attribute::NAME, attribute::KEY_LEN, attribute::ID] {
        attributes.need(needed)?;
    }
    let mut set = describe(attributes)?;
    let at = draft.table_of(message)?;
    let name = attributes.need(attribute::NAME)?;
    if let Some(old) = draft.tables[at].set(name.text()?) {
        if message.has(message_flag::EXCL) {
            return Err(name.failure(Errno::EEXIST));
        }
        if message.has(message_flag::REPLACE) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let same = (old.flags & !flag::EXPR, old.key_type, old.key_len, old.data_type, old.data_len)
            == (set.flags & !flag::EXPR, set.key_type, set.key_len, set.data_type, set.data_len);
        return if same { Ok(()) } else { Err(name.failure(Errno::EEXIST)) };
    }
    if !message.has(message_flag::CREATE) {
        return Err(Errno::ENOENT.into());
    }
    set.expressions = draft.with_scope(at, |scope| {
        let mut found = Vec::new();
        if let Some(one) = attributes.get(attribute::EXPR) {
            found.push(read_stateful(one.nested(), scope)?);
        } else if let Some(several) = attributes.get(attribute::EXPRESSIONS) {
            for one in list(several.nested())? {
                if found.len() == MAX_EXPRESSIONS {
                    return Err(Errno::E2BIG.into());
                }
                found.push(read_stateful(one.nested(), scope)?);
            }
        }
        Ok(found)
    })?;
    draft.counters.set += 1;
    set.number = draft.counters.set;
    set.name = own_name(&draft.tables[at], name.text()?).ok_or(NetfilterError::from(Errno::ENFILE))?;
    let table = draft.table_mut(at);
    set.handle = table.new_handle();
    let (set, id) = (Arc::new(set), attributes.u32(attribute::ID)?.unwrap_or(0));
    table.add_set(set.clone());
    draft.made_sets.push(set.number);
    draft.set_ids.push((id, set.clone()));
    if !set.has(flag::ANONYMOUS) {
        draft.announce(number::NEWSET, at, message, |table, names, out| set.dump(&table.name, names, out));
    }
    Ok(())
}

/// The name of a new set: `%d` in it stands for the least free number.
fn own_name(table: &Table, name: &str) -> Option<String> {
    match name.split_once("%d") {
        None => Some(name.into()),
        Some((before, after)) => {
            let numbered = (0..32_768).map(|number| format!("{before}{number}{after}"));
            numbered.into_iter().find(|name| table.set(name).is_none())
        }
    }
}

/// Reads the description of a set.
fn describe(attributes: Attributes<'_>) -> Result<Set, NetfilterError> {
    let key_len = attributes.need(attribute::KEY_LEN)?.u32()? as usize;
    if key_len == 0 || key_len > MAX_LEN {
        return Err(Errno::EINVAL.into());
    }
    let flags = attributes.u32(attribute::FLAGS)?.unwrap_or(0);
    let both = |pair: u32| flags & pair == pair;
    if flags & !0x1ff != 0
        || both(flag::MAP | flag::OBJECT)
        || both(flag::EVAL | flag::OBJECT)
        || both(flag::CONSTANT | flag::TIMEOUT)
    {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let (mut data_type, mut data_len) = (0, 0);
    match attributes.u32(attribute::DATA_TYPE)? {
        Some(_) if flags & flag::MAP == 0 => return Err(Errno::EINVAL.into()),
        Some(DATA_VERDICT) => data_type = DATA_VERDICT,
        Some(kind) => {
            data_type = kind;
            data_len = attributes.need(attribute::DATA_LEN)?.u32()? as usize;
            if kind & 0xffff_ff00 == 0xffff_ff00 || data_len == 0 || data_len > MAX_LEN {
                return Err(Errno::EINVAL.into());
            }
        }
        None if flags & flag::MAP != 0 => return Err(Errno::EINVAL.into()),
        None => {}
    }
    let object_type = match attributes.u32(attribute::OBJ_TYPE)? {
        Some(_) if flags & flag::OBJECT == 0 => return Err(Errno::EINVAL.into()),
        Some(kind) => kind,
        None if flags & flag::OBJECT != 0 => return Err(Errno::EINVAL.into()),
        None => 0,
    };
    let timeout = attributes.u64(attribute::TIMEOUT)?.unwrap_or(0);
    let gc_interval = attributes.u32(attribute::GC_INTERVAL)?.unwrap_or(0);
    if (timeout != 0 || gc_interval != 0) && flags & flag::TIMEOUT == 0 {
        return Err(Errno::EINVAL.into());
    }
    let (mut size, mut fields) = (0, Vec::new());
    if let Some(description) = attributes.get(attribute::DESC) {
        size = description.nested().u32(attribute::DESC_SIZE)?.unwrap_or(0);
        if let Some(concatenation) = description.nested().get(attribute::DESC_CONCAT) {
            fields = read_fields(concatenation.nested(), key_len)?;
        }
    }
    if flags & flag::CONCAT != 0 && flags & flag::INTERVAL != 0 && fields.len() < 2 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let userdata = attributes.get(attribute::USERDATA);
    Ok(Set {
        name: String::new(),
        handle: 0,
        number: 0,
        flags,
        key_type: attributes.u32(attribute::KEY_TYPE)?.unwrap_or(0),
        key_len,
        data_type,
        data_len,
        object_type,
        policy: attributes.u32(attribute::POLICY)?.unwrap_or(0),
        size,
        fields,
        timeout,
        gc_interval,
        userdata: userdata.map(|data| data.value.to_vec()).unwrap_or_default(),
        expressions: Vec::new(),
    })
}

/// Reads the lengths of the fields of a key.
fn read_fields(attributes: Attributes<'_>, key_len: usize) -> Result<Vec<u8>, NetfilterError> {
    let mut fields = Vec::new();
    for (kind, field) in attributes.iter() {
        let len = field.nested().need(attribute::FIELD_LEN)?.u32()?;
        if kind != LIST_ELEM || len == 0 || len > 64 {
            return Err(Errno::EINVAL.into());
        }
        fields.push(len as u8);
    }
    let total: usize = fields.iter().map(|len| usize::from(*len).next_multiple_of(4)).sum();
    match total {
        _ if fields.len() > 16 => Err(Errno::E2BIG.into()),
        total if fields.len() > 1 && total != key_len.next_multiple_of(4) => Err(Errno::EINVAL.into()),
        _ => Ok(fields),
    }
}

/// `NFT_MSG_DELSET`.
pub(super) fn remove(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let attributes = message.attributes();
    let at = draft.table_of(message)?;
    let table = &draft.tables[at];
    let (named_by, set) = match (attributes.get(attribute::HANDLE), attributes.get(attribute::NAME)) {
        (Some(handle), _) => (handle, by_handle(&table.sets, handle)?.clone()),
        (None, Some(name)) => (name, table.set(name.text()?).cloned().ok_or(name.failure(Errno::ENOENT))?),
        (None, None) => return Err(Errno::EINVAL.into()),
    };
    let used = table.uses_in_rules(Reference::Set(set.number)) > 0;
    let full = message.has(message_flag::NONREC) && draft.contents.of(set.number).len() > 0;
    if used || full {
        return Err(named_by.failure(Errno::EBUSY));
    }
    drop_set(draft, at, set.handle, message);
    Ok(())
}

/// Removes a set. Its elements remain until the commit.
pub(super) fn drop_set(draft: &mut Draft<'_>, at: usize, handle: u64, message: &Message<'_>) {
    let Some(set) = draft.table_mut(at).remove_set(handle) else { return };
    draft.dropped_sets.push(set.number);
    draft.announce(number::DELSET, at, message, |table, names, out| set.dump(&table.name, names, out));
}
