//! Reference for the profile `Any`: every combination of the versions of pages, sizes and entries, of which those are
//! left out that lose a name that was synced and still exists.

use super::fixture::{Step, Tree, UNITS};
use belljar_base::{Map, Set};

type Slot = (u64, String);
/// Part of a state, with the contents that were chosen for files.
type Draft = (Tree, Map<u64, Vec<u8>>);

#[derive(Clone, Default)]
struct File {
    is_directory: bool,
    cache: Map<usize, Vec<u8>>,
    size: usize,
    sizes: Vec<usize>,
    pages: Map<usize, Vec<Vec<u8>>>,
}

/// Versions of an entry, with the times of the changes; those before `floor` are not possible.
#[derive(Default)]
struct Entry {
    versions: Vec<(usize, Option<u64>)>,
    floor: usize,
}

#[derive(Default)]
struct Machine {
    time: usize,
    names: Map<Slot, u64>,
    entries: Map<Slot, Entry>,
    files: Map<u64, File>,
}

impl File {
    fn changed(&mut self, before: &File) {
        let blank = vec![0; UNITS];
        let pages: Set<usize> = self.cache.keys().chain(before.cache.keys()).copied().collect();
        for page in pages {
            let (old, new) =
                (before.cache.get(&page).unwrap_or(&blank), self.cache.get(&page).unwrap_or(&blank));
            if old != new {
                self.pages.entry(page).or_insert_with(|| vec![old.clone()]).push(new.clone());
            }
        }
        self.sizes.push(self.size);
    }
    fn sync(&mut self) {
        self.pages.clear();
        self.sizes = vec![self.size];
    }
    /// Contents that a crash may leave.
    fn contents(&self) -> Set<Vec<u8>> {
        let mut found: Vec<Map<usize, Vec<u8>>> = vec![self.cache.clone()];
        for (page, versions) in &self.pages {
            let with = |content: &Vec<u8>| {
                let put = |mut pages: Map<usize, Vec<u8>>| {
                    pages.insert(*page, content.clone());
                    pages
                };
                found.iter().cloned().map(put).collect::<Vec<_>>()
            };
            found = versions.iter().flat_map(with).collect();
        }
        let unit = |pages: &Map<usize, Vec<u8>>, at: usize| {
            pages.get(&(at / UNITS)).map_or(0, |page| page[at % UNITS])
        };
        let sizes = self.sizes.iter().flat_map(|size| found.iter().map(move |pages| (*size, pages)));
        sizes.map(|(size, pages)| (0..size).map(|at| unit(pages, at)).collect()).collect()
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
    fn set(&mut self, slot: Slot, inode: Option<u64>) {
        let first = || Entry { versions: vec![(0, None)], floor: 0 };
        self.entries.entry(slot.clone()).or_insert_with(first).versions.push((self.time, inode));
        match inode {
            Some(inode) => self.names.insert(slot, inode),
            None => self.names.remove(&slot),
        };
    }
    fn change(&mut self, path: &str, change: impl Fn(&mut File)) {
        let inode = self.inode(path);
        let file = self.files.get_mut(&inode).unwrap();
        let before = file.clone();
        change(file);
        file.changed(&before);
    }
    fn step(&mut self, step: &Step) {
        self.time += 1;
        match step {
            Step::Create(path) | Step::Mkdir(path) => {
                let inode = self.files.len() as u64 + 1;
                let is_directory = matches!(step, Step::Mkdir(_));
                self.files.insert(inode, File { is_directory, sizes: vec![0], ..File::default() });
                self.set(self.slot(path), Some(inode));
            }
            Step::Write { path, start, len, byte } => self.change(path, |file| {
                for unit in *start..start + len {
                    file.cache.entry(unit / UNITS).or_insert_with(|| vec![0; UNITS])[unit % UNITS] = *byte;
                }
                file.size = file.size.max(start + len);
            }),
            Step::Truncate(path, size) => self.change(path, |file| {
                file.size = *size;
                for (page, content) in &mut file.cache {
                    content[size.saturating_sub(page * UNITS).min(UNITS)..].fill(0);
                }
            }),
            Step::Rename(from, to) => {
                let inode = self.inode(from);
                self.set(self.slot(to), Some(inode));
                self.set(self.slot(from), None);
            }
            Step::Link(path, new) => self.set(self.slot(new), Some(self.inode(path))),
            Step::Unlink(path) => self.set(self.slot(path), None),
            Step::Close(_) => {}
            Step::Fsync(path) | Step::Fdatasync(path) => {
                let inode = self.inode(path);
                self.files.get_mut(&inode).into_iter().for_each(File::sync);
                self.make_durable(|slot| slot.0 == inode);
            }
            Step::Fail(_) => unreachable!("the reference has no syncs that fail"),
            Step::Sync => {
                self.files.values_mut().for_each(File::sync);
                self.make_durable(|_| true);
            }
        }
    }
    fn make_durable(&mut self, which: impl Fn(&Slot) -> bool) {
        for (_, entry) in self.entries.iter_mut().filter(|(slot, _)| which(slot)) {
            entry.floor = entry.versions.len() - 1;
        }
    }
    /// True if no name is lost before the file's earlier names are there, and no directory before its entries.
    fn is_possible(&self, chosen: &Map<&Slot, usize>) -> bool {
        let is_kept = |slot: &Slot, time: usize| self.entries[slot].versions[chosen[slot]].0 >= time;
        self.entries.iter().all(|(slot, entry)| {
            (1..=chosen[slot]).all(|version| {
                let (time, new) = entry.versions[version];
                let Some(lost) = entry.versions[version - 1].1.filter(|old| Some(*old) != new) else {
                    return true;
                };
                let earlier = |other: &Slot, named: &dyn Fn(Option<u64>) -> bool| {
                    let versions = self.entries[other].versions[1..].iter();
                    versions
                        .filter(|(at, _)| *at <= time)
                        .filter(|(_, inode)| named(*inode))
                        .all(|(at, _)| is_kept(other, *at))
                };
                self.entries.keys().filter(|other| *other != slot).all(|other| {
                    earlier(other, &|inode| inode == Some(lost))
                        && (other.0 != lost || earlier(other, &|_| true))
                })
            })
        })
    }
    fn walk(&self, directory: u64, prefix: &str, chosen: &Map<&Slot, usize>, trees: &mut Vec<Draft>) {
        for (slot, entry) in self.entries.iter().filter(|(slot, _)| slot.0 == directory) {
            let Some(inode) = entry.versions[chosen[slot]].1 else { continue };
            let (path, file) = (format!("{prefix}{}", slot.1), &self.files[&inode]);
            if file.is_directory {
                trees.iter_mut().for_each(|draft| drop(draft.0.insert(path.clone(), None)));
                self.walk(inode, &format!("{path}/"), chosen, trees);
                continue;
            }
            let contents = file.contents();
            let named = |(tree, known): &Draft| {
                let all = known.get(&inode).map_or_else(|| contents.clone(), |one| Set::from([one.clone()]));
                let with = |content: &Vec<u8>| {
                    let mut draft = (tree.clone(), known.clone());
                    draft.0.insert(path.clone(), Some(content.clone()));
                    draft.1.insert(inode, content.clone());
                    draft
                };
                all.iter().map(with).collect::<Vec<_>>()
            };
            *trees = trees.iter().flat_map(named).collect();
        }
    }
}

/// All states that a crash after these steps may leave.
pub fn states(steps: &[Step]) -> Set<Tree> {
    let mut machine = Machine::default();
    steps.iter().for_each(|step| machine.step(step));
    let mut choices: Vec<Map<&Slot, usize>> = vec![Map::new()];
    for (slot, entry) in &machine.entries {
        let with = |version: usize| {
            let put = |mut chosen: Map<_, _>| {
                chosen.insert(slot, version);
                chosen
            };
            choices.iter().cloned().map(put).collect::<Vec<_>>()
        };
        choices = (entry.floor..entry.versions.len()).flat_map(with).collect();
    }
    let mut found = Set::default();
    for chosen in choices.iter().filter(|chosen| machine.is_possible(chosen)) {
        let mut trees = vec![Draft::default()];
        machine.walk(0, "", chosen, &mut trees);
        trees.into_iter().for_each(|(tree, _)| {
            found.insert(tree);
        });
    }
    found
}
