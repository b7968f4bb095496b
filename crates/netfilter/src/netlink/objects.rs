//! Requests about objects.

use super::draft::{Draft, by_handle};
use super::message::{Message, flag};
use super::number;
use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::expression::tracked::{ConnectionLimit, HelperObject};
use crate::family::TableFamily;
use crate::operation::{DumpScope, Operation, Reference};
use crate::ruleset::Table;
use crate::stateful::{Counter, Limit, Object, Quota, object};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use std::sync::Arc;

/// `NFTA_OBJ_*`.
pub(super) const TABLE: u16 = 1;
pub(super) const NAME: u16 = 2;
pub(super) const TYPE: u16 = 3;
const DATA: u16 = 4;
const USE: u16 = 5;
pub(super) const HANDLE: u16 = 6;
const USERDATA: u16 = 8;

/// Writes the attributes of an object.
pub(super) fn dump(table: &Table, object: &Object, names: &dyn DumpScope, out: &mut Writer) {
    out.text(TABLE, &table.name);
    out.text(NAME, &object.name);
    out.u64(HANDLE, object.handle);
    out.u32(TYPE, object.kind);
    out.u32(USE, table.uses_in_rules(Reference::Object(object.handle)));
    out.nest(DATA, |out| object.operation.dump(names, out));
    if !object.userdata.is_empty() {
        out.bytes(USERDATA, &object.userdata);
    }
}

/// The stateful expression of an object.
fn read(
    kind: u32,
    data: Attributes<'_>,
    family: TableFamily,
    now: SimTime,
) -> Result<Option<Arc<dyn Operation>>, NetfilterError> {
    Ok(Some(match kind {
        object::COUNTER => Arc::new(Counter::read(data)?),
        object::QUOTA => Arc::new(Quota::read(data)?),
        object::CT_HELPER => Arc::new(HelperObject::read(data, family)?),
        object::CONNLIMIT => Arc::new(ConnectionLimit::read(data)?),
        object::LIMIT => Arc::new(Limit::read(data, now)?),
        _ => return Ok(None),
    }))
}

/// `NFT_MSG_NEWOBJ`.
pub(super) fn add(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let attributes = message.attributes();
    let (name, kind) = (attributes.need(NAME)?, attributes.need(TYPE)?.u32()?);
    let data = attributes.need(DATA)?;
    let at = draft.table_of(message)?;
    if draft.tables[at].object(name.text()?, kind).is_some() {
        return match () {
            () if message.has(flag::EXCL) => Err(name.failure(Errno::EEXIST)),
            () if message.has(flag::REPLACE) => Err(Errno::EOPNOTSUPP.into()),
            () => Ok(()),
        };
    }
    let Some(operation) = read(kind, data.nested(), draft.tables[at].family, draft.now())? else {
        draft.warnings.push(format!("nf_tables: objects of type {kind} are not supported"));
        return Err(Errno::ENOENT.into());
    };
    let userdata = attributes.get(USERDATA).map(|data| data.value.to_vec()).unwrap_or_default();
    let table = draft.table_mut(at);
    let handle = table.new_handle();
    let object = Arc::new(Object { name: name.text()?.into(), handle, kind, userdata, operation });
    table.add_object(object.clone());
    draft.announce(number::NEWOBJ, at, message, |table, names, out| dump(table, &object, names, out));
    Ok(())
}

/// `NFT_MSG_DELOBJ`.
pub(super) fn remove(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let attributes = message.attributes();
    let kind = attributes.need(TYPE)?.u32()?;
    let at = draft.table_of(message)?;
    let table = &draft.tables[at];
    let (named_by, object) = match (attributes.get(HANDLE), attributes.get(NAME)) {
        (Some(handle), _) => (handle, by_handle(&table.objects, handle)?.clone()),
        (None, Some(name)) => {
            let found = table.object(name.text()?, kind).cloned();
            (name, found.ok_or(name.failure(Errno::ENOENT))?)
        }
        (None, None) => return Err(Errno::EINVAL.into()),
    };
    let now = draft.now();
    let in_maps = table.sets.values().any(|set| {
        let mut elements = draft.contents.of(set.number).live(now);
        elements.any(|element| element.object.as_ref().is_some_and(|other| other.handle == object.handle))
    });
    if in_maps || table.uses_in_rules(Reference::Object(object.handle)) > 0 {
        return Err(named_by.failure(Errno::EBUSY));
    }
    drop_object(draft, at, object.handle, message);
    Ok(())
}

/// Removes an object.
pub(super) fn drop_object(draft: &mut Draft<'_>, at: usize, handle: u64, message: &Message<'_>) {
    let Some(object) = draft.table_mut(at).remove_object(handle) else { return };
    draft.announce(number::DELOBJ, at, message, |table, names, out| dump(table, &object, names, out));
}
