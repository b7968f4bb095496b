//! Reference for the ordered profile: a machine with a page cache, a journal and a disk, of which all interleavings
//! with background work are enumerated.
//!
//! Background work is: committing the running transaction, overwriting a block in place, flushing a file up to some page
//! (which allocates blocks and extends the size), and allocating a block for one page below the size. Contents are in units.

use super::fixture::{Step, Tree, UNITS};
use belljar_base::{Map, Set};

type Page = Vec<u8>;
type Slot = (u64, String);

/// A page's block in the running transaction and in the committed file system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Block {
    running: Option<Page>,
    committed: Option<Page>,
    /// True if both are one block.
    is_same: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct File {
    is_directory: bool,
    cache: Map<usize, Page>,
    /// Pages that were written since the file was synced.
    written: Set<usize>,
    size: usize,
    running_size: usize,
    committed_size: usize,
    blocks: Map<usize, Block>,
    /// Pages that the next commit waits for.
    due: Map<usize, Page>,
    flush_at_close: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Machine {
    names: Map<Slot, u64>,
    committed_names: Map<Slot, u64>,
    files: Map<u64, File>,
    touched: Set<u64>,
    touched_data: Set<u64>,
    last_inode: u64,
}

impl File {
    fn put(&mut self, page: usize) {
        let content = self.cache[&page].clone();
        let block = self.blocks.entry(page).or_default();
        if block.running.is_none() {
            block.is_same = false;
        }
        if block.is_same {
            block.committed = Some(content.clone());
        }
        block.running = Some(content);
        self.due.remove(&page);
    }
    fn has_block(&self, page: usize) -> bool {
        self.blocks.get(&page).is_some_and(|block| block.running.is_some())
    }
    fn flush(&mut self, pages: usize) {
        let below: Vec<usize> = self.cache.keys().copied().filter(|page| *page < pages).collect();
        below.into_iter().for_each(|page| self.put(page));
        self.running_size = self.running_size.max(self.size.min(pages.saturating_mul(UNITS)));
    }
    /// What `auto_da_alloc` does: blocks now, data before the commit.
    fn flush_with_commit(&mut self) {
        for page in self.cache.keys().copied().collect::<Vec<_>>() {
            match self.has_block(page) {
                true => drop(self.due.insert(page, self.cache[&page].clone())),
                false => self.put(page),
            }
        }
        self.running_size = self.running_size.max(self.size);
    }
    fn commit(&mut self) {
        for (page, content) in std::mem::take(&mut self.due) {
            if let Some(block) = self.blocks.get_mut(&page).filter(|block| block.running.is_some()) {
                block.running = Some(content);
            }
        }
        for block in self.blocks.values_mut() {
            (block.committed, block.is_same) = (block.running.clone(), block.running.is_some());
        }
        self.committed_size = self.running_size;
    }
    fn is_uncommitted(&self) -> bool {
        self.committed_size != self.running_size
            || self.blocks.values().any(|block| {
                block.running.is_some() != block.is_same || block.committed.is_some() != block.is_same
            })
    }
    fn truncate(&mut self, size: usize) {
        if size == self.size {
            return;
        }
        self.flush_at_close |= size == 0;
        (self.size, self.running_size) = (size, size);
        self.cache.retain(|page, _| page * UNITS < size);
        self.due.retain(|page, _| page * UNITS < size);
        self.written.retain(|page| page * UNITS < size);
        for (page, content) in &mut self.cache {
            let end = size.saturating_sub(page * UNITS).min(UNITS);
            content[end..].fill(0);
        }
        for (page, block) in &mut self.blocks {
            if page * UNITS >= size {
                (block.running, block.is_same) = (None, false);
            }
        }
    }
}

impl Machine {
    fn slot(&self, path: &str) -> Slot {
        match path.rsplit_once('/') {
            Some((directory, name)) => (self.inode(directory), name.into()),
            None => (0, path.into()),
        }
    }
    fn inode(&self, path: &str) -> u64 {
        if path == "." { 0 } else { self.names[&self.slot(path)] }
    }
    fn file(&mut self, path: &str) -> &mut File {
        let inode = self.inode(path);
        self.touched.insert(inode);
        self.files.get_mut(&inode).unwrap()
    }
    fn name_changed(&mut self, slot: &Slot, inode: u64) {
        for inode in [slot.0, inode] {
            self.touched.insert(inode);
        }
        self.touched_data.insert(slot.0);
    }
    fn commit(&mut self) {
        self.committed_names = self.names.clone();
        self.files.values_mut().for_each(File::commit);
        (self.touched, self.touched_data) = (Set::default(), Set::default());
    }
    fn step(&mut self, step: &Step) {
        match step {
            Step::Create(path) | Step::Mkdir(path) => {
                self.last_inode += 1;
                let (slot, inode) = (self.slot(path), self.last_inode);
                self.name_changed(&slot, inode);
                self.touched_data.insert(inode);
                self.names.insert(slot, inode);
                let is_directory = matches!(step, Step::Mkdir(_));
                self.files.insert(inode, File { is_directory, ..File::default() });
            }
            Step::Write { path, start, len, byte } => {
                let file = self.file(path);
                for unit in *start..start + len {
                    let page = file.cache.entry(unit / UNITS).or_insert_with(|| vec![0; UNITS]);
                    page[unit % UNITS] = *byte;
                    file.written.insert(unit / UNITS);
                }
                file.size = file.size.max(start + len);
            }
            Step::Truncate(path, size) => self.file(path).truncate(*size),
            Step::Rename(from, to) => {
                let (from, to) = (self.slot(from), self.slot(to));
                let inode = self.names.remove(&from).unwrap();
                self.name_changed(&from, inode);
                self.name_changed(&to, inode);
                if self.names.insert(to, inode).is_some() {
                    self.files.get_mut(&inode).unwrap().flush_with_commit();
                }
            }
            Step::Link(path, new) => {
                let (inode, slot) = (self.inode(path), self.slot(new));
                self.name_changed(&slot, inode);
                self.names.insert(slot, inode);
            }
            Step::Unlink(path) => {
                let slot = self.slot(path);
                let inode = self.names.remove(&slot).unwrap();
                self.name_changed(&slot, inode);
            }
            Step::Close(path) => {
                let inode = self.inode(path);
                let file = self.files.get_mut(&inode).unwrap();
                if std::mem::take(&mut file.flush_at_close) {
                    file.flush_with_commit();
                }
            }
            Step::Fsync(path) | Step::Fdatasync(path) => {
                let inode = self.inode(path);
                if let Some(file) = self.files.get_mut(&inode) {
                    file.flush(usize::MAX);
                    file.written.clear();
                }
                let is_touched = match step {
                    Step::Fsync(_) => self.touched.contains(&inode),
                    _ => self.touched_data.contains(&inode),
                };
                if is_touched || self.files.get(&inode).is_some_and(File::is_uncommitted) {
                    self.commit();
                }
            }
            Step::Fail(_) => unreachable!("the reference has no syncs that fail"),
            Step::Sync => {
                self.files.values_mut().for_each(|file| {
                    file.flush(usize::MAX);
                    file.written.clear();
                });
                self.commit();
            }
        }
    }
    /// States after one piece of background work.
    fn background(&self) -> Vec<Machine> {
        let mut next = Vec::new();
        let mut add = |work: &dyn Fn(&mut Machine)| {
            let mut machine = self.clone();
            work(&mut machine);
            next.push(machine);
        };
        add(&Machine::commit);
        for (inode, file) in &self.files {
            let of =
                |machine: &mut Machine, work: &dyn Fn(&mut File)| work(machine.files.get_mut(inode).unwrap());
            for page in file.cache.keys() {
                if file.has_block(*page) || page * UNITS < file.running_size {
                    add(&|machine| of(machine, &|file| file.put(*page)));
                }
                if file.written.contains(page) {
                    add(&|machine| of(machine, &|file| file.flush(page + 1)));
                }
            }
        }
        next
    }
    /// Files after a crash now.
    fn crash(&self) -> Tree {
        let mut tree = Tree::new();
        self.walk(0, "", &mut tree);
        tree
    }
    fn walk(&self, directory: u64, prefix: &str, tree: &mut Tree) {
        for ((_, name), inode) in self.committed_names.iter().filter(|((parent, _), _)| *parent == directory)
        {
            let (path, file) = (format!("{prefix}{name}"), &self.files[inode]);
            if file.is_directory {
                self.walk(*inode, &format!("{path}/"), tree);
                tree.insert(path, None);
                continue;
            }
            let unit = |at: usize| {
                let page = file.blocks.get(&(at / UNITS)).and_then(|block| block.committed.as_ref());
                page.map_or(0, |page| page[at % UNITS])
            };
            tree.insert(path, Some((0..file.committed_size).map(unit).collect()));
        }
    }
}

/// All states that a crash after these steps may leave.
pub fn states(steps: &[Step]) -> Set<Tree> {
    let mut machines = Set::from([Machine::default()]);
    for step in steps {
        machines = closure(machines.iter().map(|machine| {
            let mut machine = machine.clone();
            machine.step(step);
            machine
        }));
    }
    machines.iter().map(Machine::crash).collect()
}

/// Machines with any amount of background work done.
fn closure(start: impl Iterator<Item = Machine>) -> Set<Machine> {
    let (mut seen, mut work) = (Set::default(), start.collect::<Vec<_>>());
    while let Some(machine) = work.pop() {
        if seen.insert(machine.clone()) {
            work.extend(machine.background());
        }
    }
    seen
}
