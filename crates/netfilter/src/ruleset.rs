//! Ruleset: tables with their chains, rules, sets and objects.
//!
//! A batch changes a copy of the ruleset in which everything that does not change is shared, and a commit
//! replaces the ruleset by the copy. Objects within a table are found by their handles, which grow in the
//! order of creation, so the order of handles is that of listings.

use crate::family::{ChainType, FilterHook, TableFamily};
use crate::operation::{Operation, Reference};
use crate::set::Set;
use crate::stateful::{Counter, Object};
use belljar_base::Map;
use std::sync::Arc;

/// Rule of a chain.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) handle: u64,
    pub(crate) expressions: Vec<Arc<dyn Operation>>,
    pub(crate) userdata: Vec<u8>,
}

impl Rule {
    /// True if an expression needs connection tracking.
    pub(crate) fn tracks(&self) -> bool {
        self.expressions.iter().any(|expression| expression.tracks())
    }
    /// Visits the objects that the rule refers to.
    pub(crate) fn references(&self, visit: &mut dyn FnMut(Reference)) {
        self.expressions.iter().for_each(|expression| expression.references(visit));
    }
}

/// Attachment of a base chain to a hook.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) kind: ChainType,
    pub(crate) hook: FilterHook,
    pub(crate) priority: i32,
    /// True for the policy drop.
    pub(crate) drops: bool,
    /// Packets that the policy decided on, if they are counted.
    pub(crate) counters: Option<Arc<Counter>>,
    /// Number of the registration: of several chains with one priority the latest is first.
    pub(crate) sequence: u64,
}

/// Chain of rules.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) name: String,
    pub(crate) handle: u64,
    /// `NFT_CHAIN_*`.
    pub(crate) flags: u32,
    pub(crate) base: Option<Base>,
    pub(crate) userdata: Vec<u8>,
    pub(crate) rules: Vec<Arc<Rule>>,
}

/// `NFT_CHAIN_BASE`.
pub(crate) const CHAIN_BASE: u32 = 1;
/// `NFT_CHAIN_BINDING`: the chain of one rule, without a name of its own.
pub(crate) const CHAIN_BINDING: u32 = 4;
/// `NFT_TABLE_F_DORMANT`.
pub(crate) const DORMANT: u32 = 1;
/// `NFT_TABLE_F_OWNER`.
pub(crate) const OWNER: u32 = 2;

/// Table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) family: TableFamily,
    pub(crate) name: String,
    pub(crate) handle: u64,
    /// `NFT_TABLE_F_*`.
    pub(crate) flags: u32,
    pub(crate) userdata: Vec<u8>,
    /// Port id of the netlink socket that owns the table.
    pub(crate) owner: Option<u32>,
    /// Handle of the object made last.
    pub(crate) last_handle: u64,
    pub(crate) chains: Map<u64, Arc<Chain>>,
    pub(crate) chain_names: Map<String, u64>,
    pub(crate) sets: Map<u64, Arc<Set>>,
    pub(crate) set_names: Map<String, u64>,
    pub(crate) objects: Map<u64, Arc<Object>>,
    pub(crate) object_names: Map<(String, u32), u64>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(family: TableFamily, name: &str, handle: u64) -> Table {
        Table {
            family,
            name: name.into(),
            handle,
            flags: 0,
            userdata: Vec::new(),
            owner: None,
            last_handle: 0,
            chains: Map::new(),
            chain_names: Map::new(),
            sets: Map::new(),
            set_names: Map::new(),
            objects: Map::new(),
            object_names: Map::new(),
        }
    }
    /// A handle for a new object.
    pub(crate) fn new_handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }
    pub(crate) fn chain(&self, name: &str) -> Option<&Arc<Chain>> {
        self.chains.get(self.chain_names.get(name)?)
    }
    pub(crate) fn set(&self, name: &str) -> Option<&Arc<Set>> {
        self.sets.get(self.set_names.get(name)?)
    }
    pub(crate) fn object(&self, name: &str, kind: u32) -> Option<&Arc<Object>> {
        self.objects.get(self.object_names.get(&(name.to_string(), kind))?)
    }
    /// A chain for changes, by handle.
    pub(crate) fn chain_mut(&mut self, handle: u64) -> Option<&mut Chain> {
        self.chains.get_mut(&handle).map(Arc::make_mut)
    }
    /// Adds a chain.
    pub(crate) fn add_chain(&mut self, chain: Chain) {
        self.chain_names.insert(chain.name.clone(), chain.handle);
        self.chains.insert(chain.handle, Arc::new(chain));
    }
    /// Removes a chain.
    pub(crate) fn remove_chain(&mut self, handle: u64) -> Option<Arc<Chain>> {
        let chain = self.chains.remove(&handle)?;
        self.chain_names.remove(&chain.name);
        Some(chain)
    }
    /// Adds a set.
    pub(crate) fn add_set(&mut self, set: Arc<Set>) {
        self.set_names.insert(set.name.clone(), set.handle);
        self.sets.insert(set.handle, set);
    }
    /// Removes a set.
    pub(crate) fn remove_set(&mut self, handle: u64) -> Option<Arc<Set>> {
        let set = self.sets.remove(&handle)?;
        self.set_names.remove(&set.name);
        Some(set)
    }
    /// Adds an object.
    pub(crate) fn add_object(&mut self, object: Arc<Object>) {
        self.object_names.insert((object.name.clone(), object.kind), object.handle);
        self.objects.insert(object.handle, object);
    }
    /// Removes an object.
    pub(crate) fn remove_object(&mut self, handle: u64) -> Option<Arc<Object>> {
        let object = self.objects.remove(&handle)?;
        self.object_names.remove(&(object.name.clone(), object.kind));
        Some(object)
    }
    /// Number of references of rules to an object.
    pub(crate) fn uses_in_rules(&self, wanted: Reference) -> u32 {
        let mut count = 0;
        for rule in self.chains.values().flat_map(|chain| &chain.rules) {
            rule.references(&mut |reference| count += u32::from(reference == wanted));
        }
        count
    }
    /// True if packets pass the base chains of the table.
    pub(crate) fn is_awake(&self) -> bool {
        self.flags & DORMANT == 0
    }
}
