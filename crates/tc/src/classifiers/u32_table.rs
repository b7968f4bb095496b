//! `u32`: hash tables of filters that compare words of a packet (`net/sched/cls_u32.c`, tc-u32(8)).
//!
//! A handle has 12 bits of a table, 8 of a bucket and 12 of a filter. The tables of all priorities of a block are
//! one set, through which filters link.

use super::{Change, flags};
use crate::action::Actions;
use crate::attributes::{Attributes, Out, half, word, words};
use crate::buffer::Buffer;
use crate::error::{TcError, error, invalid};
use crate::filters::{FilterSetup, Match, Target, TargetAttributes};
use crate::node::Context;
use belljar_base::{Map, SimTime};
use belljar_linux_abi::Errno;

const HASH: u16 = 2;
const LINK: u16 = 3;
const DIVISOR: u16 = 4;
const SEL: u16 = 5;
const PCNT: u16 = 9;
const MARK: u16 = 10;
const FLAGS: u16 = 11;
const TARGET: TargetAttributes = TargetAttributes { class: 1, actions: 7, police: 6, device: 8 };
/// Lengths of `struct tc_u32_sel` without keys and of `struct tc_u32_key` in bytes.
const SEL_LEN: usize = 16;
const KEY_LEN: usize = 16;
/// Flags of a selector.
const TERMINAL: u8 = 1;
const OFFSET: u8 = 2;
const VAROFFSET: u8 = 4;
const EAT: u8 = 8;
/// `TC_U32_MAXDEPTH`.
const DEPTH: usize = 8;
/// Handle of the root table in requests, `TC_U32_ROOT`.
const ROOT: u32 = 0xfff0_0000;
/// Number of table and bucket lookups after which a packet is unmatched.
const MAX_STEPS: usize = 4_096;

fn table_of(handle: u32) -> u32 {
    handle & 0xfff0_0000
}
fn bucket_of(handle: u32) -> u32 {
    handle >> 12 & 0xff
}
fn node_of(handle: u32) -> u32 {
    handle & 0xfff
}

/// Filter.
#[derive(Debug)]
struct Knode {
    sel: Vec<u8>,
    link: Option<u32>,
    mark: (u32, u32),
    mark_hits: u32,
    flags: u32,
    target: Target,
    tried: u64,
    hits: u64,
    key_hits: Vec<u64>,
}

impl Knode {
    fn sel_flags(&self) -> u8 {
        self.sel[0]
    }
    /// True if all keys match; `None` if the packet ends before one.
    fn matches(&mut self, bytes: &[u8], at: i64, at2: i64) -> Option<bool> {
        for (number, key) in self.sel[SEL_LEN..].chunks_exact(KEY_LEN).enumerate() {
            let offset = at + i64::from(word(key, 8) as i32) + (at2 & i64::from(word(key, 12) as i32));
            let value = read(bytes, offset)?;
            if (value ^ word(key, 4)) & word(key, 0) != 0 {
                return Some(false);
            }
            if let Some(count) = self.key_hits.get_mut(number) {
                *count += 1;
            }
        }
        Some(true)
    }
}

/// Word of a packet, in the order of its bytes.
fn read(bytes: &[u8], at: i64) -> Option<u32> {
    let at = usize::try_from(at).ok()?;
    bytes.get(at..at.checked_add(4)?).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
}

/// Hash table of filters.
#[derive(Debug)]
struct Table {
    priority: u32,
    root: bool,
    /// Number of buckets less one.
    mask: u32,
    /// Number of filters that link to the table.
    links: u32,
    /// Number in the order of creation.
    serial: u64,
    /// Filters by bucket and number.
    nodes: Map<(u32, u32), Knode>,
}

/// Tables of a block, by their handles.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    all: Map<u32, Table>,
    serial: u64,
    /// Number from which that of the next table is searched.
    next: u32,
}

impl Tables {
    /// Handle of a new table (`gen_new_htid`).
    fn unused(&mut self) -> Option<u32> {
        let ids = (1..=0x7ff).map(|step| (self.next + step - 1) % 0x7ff + 1);
        let id = ids.into_iter().find(|id| !self.all.contains_key(&((id | 0x800) << 20)))?;
        self.next = id;
        Some((id | 0x800) << 20)
    }
    fn add(&mut self, handle: u32, priority: u32, mask: u32, root: bool) {
        self.serial += 1;
        let serial = self.serial;
        self.all.insert(handle, Table { priority, root, mask, links: 0, serial, nodes: Map::new() });
    }
    /// Adds the root table of a classifier, and returns its handle.
    pub(crate) fn add_root(&mut self, priority: u32) -> u32 {
        if self.all.is_empty() {
            self.next = 0;
        }
        let handle = match self.all.is_empty() {
            true => 0x8000_0000,
            false => self.unused().unwrap_or(0x8000_0000),
        };
        self.add(handle, priority, 0, true);
        handle
    }
    fn table(&self, root: u32, handle: u32) -> Option<&Table> {
        let handle = if table_of(handle) == ROOT { root } else { table_of(handle) };
        self.all.get(&handle)
    }
    pub(crate) fn has(&self, root: u32, handle: u32) -> bool {
        self.table(root, handle).is_some_and(|table| {
            handle & 0xf_ffff == 0 || table.nodes.contains_key(&(bucket_of(handle), node_of(handle)))
        })
    }
    /// Classifies a packet (`u32_classify`).
    pub(crate) fn classify(
        &mut self,
        root: u32,
        buffer: &mut Buffer,
        context: &mut Context<'_>,
    ) -> Option<Match> {
        let bytes = buffer.bytes().to_vec();
        let mark = buffer.packet.mark();
        let (mut table, mut bucket, mut node) = (root, 0, 0);
        let (mut at, mut at2) = (buffer.network_offset() as i64, 0i64);
        let mut stack: Vec<(u32, u32, u32, i64)> = Vec::new();
        // A filter whose table has been searched is only tested for its own end.
        let mut terminal = false;
        for _ in 0..MAX_STEPS {
            let found = self.all.get_mut(&table)?.nodes.range_mut((bucket, node)..(bucket + 1, 0)).next();
            let Some((&(_, number), knode)) = found else {
                (table, bucket, node, at) = stack.pop()?;
                (terminal, at2) = (true, 0);
                continue;
            };
            if !std::mem::take(&mut terminal) {
                knode.tried += 1;
                let marked = mark & knode.mark.1 == knode.mark.0;
                knode.mark_hits += u32::from(marked && knode.mark != (0, 0));
                if !marked || !knode.matches(&bytes, at, at2)? {
                    node = number + 1;
                    continue;
                }
                if let Some(below) = knode.link {
                    if stack.len() >= DEPTH {
                        return None;
                    }
                    stack.push((table, bucket, number, at));
                    let sel = &knode.sel;
                    let hash_mask = u32::from_be(word(sel, 12));
                    let hoff = i64::from(half(sel, 10) as i16);
                    let key = u32::from_be(read(&bytes, at + hoff).unwrap_or(0));
                    let hash = (key & hash_mask).checked_shr(hash_mask.trailing_zeros()).unwrap_or(0);
                    if sel[0] & (OFFSET | VAROFFSET) != 0 {
                        at2 = i64::from(half(sel, 6)) + 3;
                        if sel[0] & VAROFFSET != 0 {
                            let place = usize::try_from(at + i64::from(half(sel, 8) as i16)).ok()?;
                            let pair = bytes.get(place..place + 2)?;
                            let value = u16::from_be_bytes([pair[0], pair[1]]);
                            at2 += i64::from(u16::from_be(half(sel, 4)) & value) >> sel[1].min(15);
                        }
                        at2 &= !3;
                    }
                    if sel[0] & EAT != 0 {
                        at += at2;
                        at2 = 0;
                    }
                    if at >= bytes.len() as i64 {
                        return None;
                    }
                    bucket = self.all.get(&below).map_or(0, |table| table.mask & hash);
                    (table, node) = (below, 0);
                    continue;
                }
            }
            if knode.sel_flags() & TERMINAL != 0 {
                knode.hits += 1;
                if let Some(matched) = knode.target.execute(knode.target.class, buffer, context) {
                    return Some(matched);
                }
            }
            node = number + 1;
        }
        None
    }
    /// Makes or changes a filter or a table (`u32_change`).
    pub(crate) fn change(
        &mut self,
        root: u32,
        change: Change<'_>,
        setup: &mut FilterSetup<'_>,
    ) -> Result<u32, TcError> {
        let Change { handle, exists, create, priority, options } = change;
        let Some(options) = options else {
            return match handle {
                0 => Ok(0),
                _ => Err(invalid("cls_u32: Filter handle requires options")),
            };
        };
        let given = flags(options.u32(FLAGS)?)?;
        if exists {
            return self.replace(root, handle, given, options, create, setup);
        }
        if let Some(divisor) = options.u32(DIVISOR)? {
            return self.make_table(handle, divisor, priority);
        }
        let mut htid = options.u32(HASH)?.unwrap_or(root);
        if table_of(htid) == ROOT || options.get(HASH).is_none() {
            htid = root;
        }
        let table = self.all.get(&table_of(htid));
        let table = table.ok_or(invalid("cls_u32: Specified hash table not found"))?;
        if table.mask < bucket_of(htid) {
            return Err(invalid("cls_u32: Specified hash table buckets exceed configured value"));
        }
        let bucket = bucket_of(htid);
        let node = if handle != 0 {
            if table_of(handle) != 0 && table_of(handle ^ htid) != 0 {
                return Err(invalid("cls_u32: Handle specified hash table address mismatch"));
            }
            if table.nodes.contains_key(&(bucket, node_of(handle))) {
                return Err(Errno::ENOSPC.into());
            }
            node_of(handle)
        } else {
            let free = |node: &u32| !table.nodes.contains_key(&(bucket, *node));
            (0x800..=0xfff).find(free).or_else(|| (1..0x800).find(free)).ok_or(Errno::ENOSPC)?
        };
        let knode = self.read(options, given, create, setup)?;
        self.link(None, knode.link);
        let table = self.all.get_mut(&table_of(htid)).ok_or(Errno::ENOENT)?;
        table.nodes.insert((bucket, node), knode);
        Ok(table_of(htid) | bucket << 12 | node)
    }
    fn make_table(&mut self, handle: u32, divisor: u32, priority: u32) -> Result<u32, TcError> {
        if !divisor.is_power_of_two() {
            return Err(invalid("cls_u32: Divisor is not a power of 2"));
        }
        if divisor > 0x100 {
            return Err(invalid("cls_u32: Exceeded maximum 256 hash buckets"));
        }
        if handle & 0xf_ffff != 0 {
            return Err(invalid("cls_u32: Divisor can only be used on a hash table"));
        }
        let handle = if handle == 0 { self.unused().ok_or(Errno::ENOMEM)? } else { handle };
        if self.all.contains_key(&handle) {
            return Err(Errno::ENOSPC.into());
        }
        self.add(handle, priority, divisor - 1, false);
        Ok(handle)
    }
    /// Replaces the settings of a filter.
    fn replace(
        &mut self,
        root: u32,
        handle: u32,
        given: u32,
        options: Attributes<'_>,
        create: bool,
        setup: &mut FilterSetup<'_>,
    ) -> Result<u32, TcError> {
        if handle & 0xf_ffff == 0 {
            return Err(invalid("cls_u32: Key node id cannot be zero"));
        }
        let table = if table_of(handle) == ROOT { root } else { table_of(handle) };
        let key = (bucket_of(handle), node_of(handle));
        let find = |tables: &Tables| {
            tables
                .all
                .get(&table)
                .and_then(|table| table.nodes.get(&key))
                .map(|knode| (knode.sel.clone(), knode.flags, knode.link, knode.target.class))
        };
        let (sel, flags, link, class) = find(self).ok_or(Errno::ENOENT)?;
        if flags != given {
            return Err(invalid("cls_u32: Key node flags do not match passed flags"));
        }
        // The selector stays, the target is replaced.
        let wanted = self.wanted_link(options)?.or(link);
        let mut target = Target::read(options, TARGET, create, setup)?;
        if target.class == 0 {
            target.class = class;
        }
        self.link(link, wanted);
        let table = self.all.get_mut(&table).ok_or(Errno::ENOENT)?;
        let knode = table.nodes.get_mut(&key).ok_or(Errno::ENOENT)?;
        let former = std::mem::replace(&mut knode.target, target);
        (knode.sel, knode.link) = (sel, wanted);
        setup.actions.release(&former.actions, true);
        Ok(handle)
    }
    fn wanted_link(&self, options: Attributes<'_>) -> Result<Option<u32>, TcError> {
        let Some(handle) = options.u32(LINK)?.filter(|handle| *handle != 0) else { return Ok(None) };
        if handle & 0xf_ffff != 0 {
            return Err(invalid("cls_u32: u32 Link handle must be a hash table"));
        }
        let below = self.all.get(&handle).ok_or(invalid("cls_u32: Link hash table not found"))?;
        if below.root { Err(invalid("cls_u32: Not linking to root node")) } else { Ok(Some(handle)) }
    }
    /// Counts the links to tables after a change of one.
    fn link(&mut self, former: Option<u32>, now: Option<u32>) {
        if let Some(table) = former.and_then(|handle| self.all.get_mut(&handle)) {
            table.links -= 1;
        }
        if let Some(table) = now.and_then(|handle| self.all.get_mut(&handle)) {
            table.links += 1;
        }
    }
    fn read(
        &self,
        options: Attributes<'_>,
        flags: u32,
        create: bool,
        setup: &mut FilterSetup<'_>,
    ) -> Result<Knode, TcError> {
        let sel = options.get(SEL).ok_or(invalid("cls_u32: Selector not specified"))?;
        let len = SEL_LEN + sel.get(2).map_or(0, |keys| usize::from(*keys)) * KEY_LEN;
        let sel = sel.get(..len.max(SEL_LEN)).ok_or(Errno::EINVAL)?.to_vec();
        let mark = options.array::<12>(MARK)?.map_or((0, 0), |mark| (word(&mark, 0), word(&mark, 4)));
        let link = self.wanted_link(options)?;
        let key_hits = vec![0; (sel.len() - SEL_LEN) / KEY_LEN];
        let target = Target::read(options, TARGET, create, setup)?;
        Ok(Knode { sel, link, mark, mark_hits: 0, flags, target, tried: 0, hits: 0, key_hits })
    }
    /// Deletes a filter or a table (`u32_delete`).
    pub(crate) fn delete(&mut self, root: u32, handle: u32, actions: &mut Actions) -> Result<bool, TcError> {
        let at = if table_of(handle) == ROOT { root } else { table_of(handle) };
        let table = self.all.get_mut(&at).ok_or(Errno::ENOENT)?;
        if handle & 0xf_ffff != 0 {
            if let Some(knode) = table.nodes.remove(&(bucket_of(handle), node_of(handle))) {
                actions.release(&knode.target.actions, true);
                self.link(knode.link, None);
            }
        } else {
            if table.root {
                return Err(invalid("cls_u32: Not allowed to delete root node"));
            }
            if table.links > 0 {
                return Err(error(Errno::EBUSY, "cls_u32: Can not delete in-use filter"));
            }
            self.remove_table(at, actions);
        }
        let roots = self.all.values().filter(|table| table.root).count();
        Ok(roots == 1 && self.all.values().all(|table| table.nodes.is_empty()))
    }
    fn remove_table(&mut self, handle: u32, actions: &mut Actions) {
        let Some(table) = self.all.remove(&handle) else { return };
        for knode in table.nodes.into_values() {
            actions.release(&knode.target.actions, true);
            self.link(knode.link, None);
        }
    }
    /// Handles of the tables and filters of a priority (`u32_walk`).
    pub(crate) fn handles(&self, priority: u32) -> Vec<u32> {
        let mut tables: Vec<_> = self.all.iter().filter(|(_, table)| table.priority == priority).collect();
        tables.sort_by_key(|(_, table)| std::cmp::Reverse(table.serial));
        let mut all = Vec::new();
        for (handle, table) in tables {
            all.push(*handle);
            all.extend(table.nodes.keys().map(|(bucket, node)| handle | bucket << 12 | node));
        }
        all
    }
    /// Appends the options of a table or filter (`u32_dump`).
    pub(crate) fn dump(&self, root: u32, handle: u32, actions: &Actions, now: SimTime, out: &mut Out) {
        let Some(table) = self.table(root, handle) else { return };
        if handle & 0xf_ffff == 0 {
            return out.u32(DIVISOR, table.mask + 1);
        }
        let Some(knode) = table.nodes.get(&(bucket_of(handle), node_of(handle))) else { return };
        out.put(SEL, &knode.sel);
        out.u32(HASH, handle & 0xffff_f000);
        if let Some(link) = knode.link {
            out.u32(LINK, link);
        }
        out.u32(FLAGS, knode.flags);
        if knode.mark != (0, 0) {
            out.put(MARK, &words([knode.mark.0, knode.mark.1, knode.mark_hits]));
        }
        knode.target.dump(TARGET, actions, now, out);
        let counts = [knode.tried, knode.hits].into_iter().chain(knode.key_hits.iter().copied());
        out.put(PCNT, &counts.flat_map(u64::to_ne_bytes).collect::<Vec<u8>>());
    }
    pub(crate) fn uses(&self, priority: u32, class: u32) -> bool {
        let of = self.all.values().filter(|table| table.priority == priority);
        of.flat_map(|table| table.nodes.values()).any(|knode| knode.target.class == class)
    }
    /// Deletes the tables of a priority (`u32_destroy`).
    pub(crate) fn clear(&mut self, priority: u32, actions: &mut Actions) {
        let of = self.all.iter().filter(|(_, table)| table.priority == priority);
        let handles: Vec<u32> = of.map(|(handle, _)| *handle).collect();
        handles.into_iter().for_each(|handle| self.remove_table(handle, actions));
        if !self.all.values().any(|table| table.root) {
            let rest: Vec<u32> = self.all.keys().copied().collect();
            rest.into_iter().for_each(|handle| self.remove_table(handle, actions));
        }
    }
}
