//! Draft: the ruleset as a batch changes it. It becomes the ruleset at the commit, or is dropped.

use super::message::{Message, NetfilterSender, flag};
use crate::attributes::{Attribute, Attributes, NetfilterError, Writer};
use crate::contents::{Contents, Undo};
use crate::engine::Netfilter;
use crate::environment::Environment;
use crate::family::TableFamily;
use crate::operation::{DumpScope, Scope};
use crate::ruleset::{Chain, Table};
use crate::set::Set;
use crate::stateful::Object;
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use std::sync::Arc;

/// Notification of a change, sent after the commit.
#[derive(Debug)]
pub(crate) struct Event {
    /// `NFT_MSG_*`.
    pub(crate) number: u8,
    pub(crate) flags: u16,
    pub(crate) family: TableFamily,
    pub(crate) sequence: u32,
    /// Attributes.
    pub(crate) content: Vec<u8>,
}

/// Numbers that only grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    pub(crate) table: u64,
    pub(crate) set: u64,
    pub(crate) base: u64,
    pub(crate) binding: u64,
}

/// The ruleset as a batch changes it.
pub(crate) struct Draft<'a> {
    pub(crate) tables: Vec<Arc<Table>>,
    pub(crate) counters: Counters,
    pub(crate) contents: &'a mut Contents,
    pub(crate) environment: &'a mut dyn Environment,
    pub(crate) requester: &'a NetfilterSender,
    pub(crate) warnings: &'a mut Vec<String>,
    /// Changes of elements, for an abort.
    pub(crate) undo: Vec<Undo>,
    /// Numbers of the sets made and removed.
    pub(crate) made_sets: Vec<u64>,
    pub(crate) dropped_sets: Vec<u64>,
    /// Identifiers within the batch.
    pub(crate) set_ids: Vec<(u32, Arc<Set>)>,
    pub(crate) chain_ids: Vec<(u32, u64)>,
    pub(crate) rule_ids: Vec<(u32, u64)>,
    pub(crate) events: Vec<Event>,
    /// Handles of the tables whose rules must be validated.
    pub(crate) touched: Vec<u64>,
    /// True to validate after each rule instead of once.
    pub(crate) careful: bool,
}

impl<'a> Draft<'a> {
    /// A draft of the present ruleset.
    pub(crate) fn of(
        netfilter: &'a mut Netfilter,
        environment: &'a mut dyn Environment,
        requester: &'a NetfilterSender,
        warnings: &'a mut Vec<String>,
    ) -> Draft<'a> {
        Draft {
            tables: netfilter.tables.clone(),
            counters: Counters {
                table: netfilter.last_table,
                set: netfilter.last_set,
                base: netfilter.last_base,
                binding: netfilter.last_binding,
            },
            contents: &mut netfilter.contents,
            environment,
            requester,
            warnings,
            undo: Vec::new(),
            made_sets: Vec::new(),
            dropped_sets: Vec::new(),
            set_ids: Vec::new(),
            chain_ids: Vec::new(),
            rule_ids: Vec::new(),
            events: Vec::new(),
            touched: Vec::new(),
            careful: false,
        }
    }
    pub(crate) fn now(&self) -> SimTime {
        self.environment.now()
    }
    /// Index of the table of a family that an attribute names. Fails with `ENOENT`, or `EPERM` for a table
    /// that another socket owns.
    pub(crate) fn table_named(
        &self,
        family: TableFamily,
        name: Attribute<'_>,
    ) -> Result<usize, NetfilterError> {
        let at = find_table(&self.tables, family, name.text()?).ok_or(name.failure(Errno::ENOENT))?;
        match self.tables[at].owner {
            Some(owner) if owner != self.requester.port => Err(name.failure(Errno::EPERM)),
            _ => Ok(at),
        }
    }
    /// The table of a request, by attribute 1.
    pub(crate) fn table_of(&self, message: &Message<'_>) -> Result<usize, NetfilterError> {
        let family = TableFamily::of_request(message.family())?;
        self.table_named(family, message.attributes().need(1)?)
    }
    pub(crate) fn table_mut(&mut self, at: usize) -> &mut Table {
        Arc::make_mut(&mut self.tables[at])
    }
    /// Notes that rules of a table have changed.
    pub(crate) fn touch(&mut self, at: usize) {
        let handle = self.tables[at].handle;
        if !self.touched.contains(&handle) {
            self.touched.push(handle);
        }
    }
    /// Queues a notification.
    pub(crate) fn announce(
        &mut self,
        number: u8,
        table: usize,
        message: &Message<'_>,
        content: impl FnOnce(&Table, &dyn DumpScope, &mut Writer),
    ) {
        let table = &self.tables[table];
        let mut writer = Writer::default();
        content(table, &Names { table, now: self.environment.now() }, &mut writer);
        let mut kept = flag::CREATE | flag::EXCL;
        if number == super::number::NEWRULE {
            kept |= flag::APPEND;
        }
        // In deletions the bits have other meanings.
        let flags = if number.is_multiple_of(3) { message.flags & kept } else { 0 };
        self.events.push(Event {
            number,
            flags,
            family: table.family,
            sequence: message.sequence,
            content: writer.0,
        });
    }
    /// Calls a parser of expressions with the scope of a table.
    pub(crate) fn with_scope<T>(
        &mut self,
        table: usize,
        parse: impl FnOnce(&mut dyn Scope) -> Result<T, NetfilterError>,
    ) -> Result<T, NetfilterError> {
        let mut scope = TableScope {
            table: &self.tables[table],
            set_ids: &self.set_ids,
            chain_ids: &self.chain_ids,
            warnings: self.warnings,
            environment: self.environment,
        };
        parse(&mut scope)
    }
}

/// Index of a table by family and name.
pub(crate) fn find_table(tables: &[Arc<Table>], family: TableFamily, name: &str) -> Option<usize> {
    tables.iter().position(|table| table.family == family && table.name == name)
}

/// A chain of a table by an attribute with its name.
pub(crate) fn chain_named(table: &Table, name: Attribute<'_>) -> Result<Arc<Chain>, NetfilterError> {
    table.chain(name.text()?).cloned().ok_or(name.failure(Errno::ENOENT))
}

/// An attribute with a handle, and the object that has it.
pub(crate) fn by_handle<'t, T>(
    map: &'t belljar_base::Map<u64, T>,
    handle: Attribute<'_>,
) -> Result<&'t T, NetfilterError> {
    map.get(&handle.u64()?).ok_or(handle.failure(Errno::ENOENT))
}

/// The attributes of a list, each of which must be of type `NFTA_LIST_ELEM`.
pub(crate) fn list(attributes: Attributes<'_>) -> Result<Vec<Attribute<'_>>, NetfilterError> {
    let element = |(kind, found)| if kind == 1 { Ok(found) } else { Err(Errno::EINVAL.into()) };
    attributes.iter().map(element).collect()
}

/// Names of the chains of a table.
pub(crate) struct Names<'a> {
    pub(crate) table: &'a Table,
    pub(crate) now: SimTime,
}

impl DumpScope for Names<'_> {
    fn chain_name(&self, handle: u64) -> &str {
        self.table.chains.get(&handle).map_or("", |chain| &chain.name)
    }
    fn now(&self) -> SimTime {
        self.now
    }
}

struct TableScope<'a> {
    table: &'a Table,
    set_ids: &'a [(u32, Arc<Set>)],
    chain_ids: &'a [(u32, u64)],
    warnings: &'a mut Vec<String>,
    environment: &'a mut dyn Environment,
}

impl TableScope<'_> {
    /// A chain to which rules may jump: not a base chain.
    fn target(&self, handle: u64) -> Result<u64, Errno> {
        match self.table.chains.get(&handle) {
            None => Err(Errno::ENOENT),
            Some(chain) if chain.base.is_some() => Err(Errno::EOPNOTSUPP),
            Some(_) => Ok(handle),
        }
    }
}

impl Scope for TableScope<'_> {
    fn family(&self) -> TableFamily {
        self.table.family
    }
    fn now(&self) -> SimTime {
        self.environment.now()
    }
    fn draw(&mut self) -> u32 {
        self.environment.random()
    }
    fn chain(&self, name: &str) -> Result<u64, Errno> {
        self.target(*self.table.chain_names.get(name).ok_or(Errno::ENOENT)?)
    }
    fn chain_by_id(&self, id: u32) -> Result<u64, Errno> {
        let found = self.chain_ids.iter().rev().find(|(other, _)| *other == id);
        self.target(found.ok_or(Errno::ENOENT)?.1)
    }
    fn set(&self, name: Option<&str>, id: Option<u32>) -> Result<Arc<Set>, Errno> {
        if let Some(set) = name.and_then(|name| self.table.set(name)) {
            return Ok(set.clone());
        }
        let found = id.and_then(|id| self.set_ids.iter().rev().find(|(other, _)| *other == id));
        found.map(|(_, set)| set.clone()).ok_or(Errno::ENOENT)
    }
    fn object(&self, name: &str, kind: u32) -> Result<Arc<Object>, Errno> {
        self.table.object(name, kind).cloned().ok_or(Errno::ENOENT)
    }
    fn refuse(&mut self, what: String) -> Errno {
        self.warnings.push(format!("nf_tables: {what} are not supported"));
        Errno::EOPNOTSUPP
    }
}
