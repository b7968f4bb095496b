//! Landlock, `landlock(7)`: self-imposed restrictions of a process.
//!
//! A [`Ruleset`] names the rights that it handles, and the file hierarchies and ports for which it grants
//! them. Once enforced, it is a layer of the process's [`Domain`], which children inherit and which can only
//! grow: a right that one layer denies is not granted by another. Files are identified by device and inode
//! number.

use crate::devices::Device;
use crate::ids::FileIdentity;
use crate::inode::Node;
use belljar_base::Map;
use belljar_linux_abi::landlock::*;
use belljar_linux_abi::{Errno, c};
use std::sync::Arc;

/// ABI version reported to programs.
pub const ABI: u64 = 6;
/// `LANDLOCK_MAX_NUM_LAYERS`.
const MAX_LAYERS: usize = 16;

/// Handled rights and the rules that grant them.
#[derive(Clone, Debug, Default)]
pub struct Ruleset {
    files_handled: u64,
    ports_handled: u64,
    scoped: u64,
    files: Map<FileIdentity, u64>,
    ports: Map<u16, u64>,
}

impl Ruleset {
    /// Creates a ruleset that handles these file rights, port rights and scopes. `EINVAL` for unknown bits,
    /// `ENOMSG` if there are none.
    pub fn new(files_handled: u64, ports_handled: u64, scoped: u64) -> Result<Ruleset, Errno> {
        let unknown = files_handled & !ACCESS_FS_ALL | ports_handled & !ACCESS_NET_ALL | scoped & !SCOPE_ALL;
        match (unknown, files_handled | ports_handled | scoped) {
            (0, 0) => Err(Errno::ENOMSG),
            (0, _) => Ok(Ruleset { files_handled, ports_handled, scoped, ..Ruleset::default() }),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Checks the rights of a rule, before its file is looked up: `ENOMSG`, `EINVAL`.
    pub fn check_file_rights(&self, rights: u64) -> Result<(), Errno> {
        check_rights(rights, self.files_handled)
    }

    /// Grants rights to a file, or to everything below a directory.
    pub fn allow_file(&mut self, file: FileIdentity, is_directory: bool, rights: u64) -> Result<(), Errno> {
        if !is_directory && rights & !ACCESS_FS_OF_FILES != 0 {
            return Err(Errno::EINVAL);
        }
        *self.files.entry(file).or_default() |= rights;
        Ok(())
    }

    /// Grants rights to a port.
    pub fn allow_port(&mut self, port: u64, rights: u64) -> Result<(), Errno> {
        check_rights(rights, self.ports_handled)?;
        let port = u16::try_from(port).map_err(|_| Errno::EINVAL)?;
        *self.ports.entry(port).or_default() |= rights;
        Ok(())
    }
}

fn check_rights(rights: u64, handled: u64) -> Result<(), Errno> {
    match rights {
        0 => Err(Errno::ENOMSG),
        _ if rights & !handled != 0 => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Layers that a process has enforced, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Domain {
    layers: Vec<Arc<Ruleset>>,
}

/// File rights that each layer denies.
pub type Denied = Vec<u64>;

impl Domain {
    /// Domain with one more layer; `E2BIG` beyond the maximum.
    pub fn with(&self, ruleset: &Ruleset) -> Result<Domain, Errno> {
        if self.layers.len() >= MAX_LAYERS {
            return Err(Errno::E2BIG);
        }
        let mut layers = self.layers.clone();
        layers.push(Arc::new(ruleset.clone()));
        Ok(Domain { layers })
    }

    /// True if a layer handles file rights.
    pub fn handles_files(&self) -> bool {
        self.layers.iter().any(|layer| layer.files_handled != 0)
    }

    /// Rights that each layer denies without a rule. `LANDLOCK_ACCESS_FS_REFER` is denied by default, handled
    /// or not.
    pub fn denied(&self) -> Denied {
        let applies = self.handles_files();
        let denied = |layer: &Arc<Ruleset>| if applies { layer.files_handled | ACCESS_FS_REFER } else { 0 };
        self.layers.iter().map(denied).collect()
    }

    /// Removes the rights that rules for a file grant from `denied`.
    pub fn grant(&self, file: FileIdentity, denied: &mut Denied) {
        for (layer, denied) in self.layers.iter().zip(denied) {
            *denied &= !layer.files.get(&file).copied().unwrap_or(0);
        }
    }

    /// Checks a right to a port: `EACCES` unless all layers grant it.
    pub fn check_port(&self, port: u16, right: u64) -> Result<(), Errno> {
        let denies = |layer: &Arc<Ruleset>| {
            let granted = layer.ports.get(&port).copied().unwrap_or(0);
            layer.ports_handled & right & !granted != 0
        };
        if self.layers.iter().any(denies) { Err(Errno::EACCES) } else { Ok(()) }
    }

    /// Checks an access to another domain: `EPERM` if a layer with this scope does not contain it.
    pub fn check_scope(&self, other: Option<&Domain>, scope: u64) -> Result<(), Errno> {
        let beyond = |(n, layer): (usize, &Arc<Ruleset>)| layer.scoped & scope != 0 && !has(other, n, layer);
        if self.layers.iter().enumerate().any(beyond) { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Checks `ptrace(2)` access: `EPERM` unless the other process is in all layers of this domain.
    pub fn check_trace(&self, other: Option<&Domain>) -> Result<(), Errno> {
        let within = self.layers.iter().enumerate().all(|(n, layer)| has(other, n, layer));
        if within { Ok(()) } else { Err(Errno::EPERM) }
    }
}

/// True if layer `n` of `domain` is `layer`.
fn has(domain: Option<&Domain>, n: usize, layer: &Arc<Ruleset>) -> bool {
    domain.and_then(|domain| domain.layers.get(n)).is_some_and(|other| Arc::ptr_eq(other, layer))
}

/// True if a layer denies one of the rights.
pub fn denies(denied: &Denied, rights: u64) -> bool {
    denied.iter().any(|layer| layer & rights != 0)
}

/// Rename, link or exchange across directories.
#[derive(Debug)]
pub struct Refer {
    /// Rights needed in the source and in the target directory.
    pub wanted: [u64; 2],
    /// Rights denied below the source and the target directory.
    pub denied: [Denied; 2],
    /// For the source and for the file exchanged with it: the rights that rules about the file itself leave
    /// denied, and whether it is a directory.
    pub moved: [Option<(Denied, bool)>; 2],
}

impl Refer {
    /// Checks the operation: `EACCES`, or `EXDEV` if the target directory denies less than the source, since
    /// a move must not gain rights.
    pub fn check(&self) -> Result<(), Errno> {
        let plain = [0, 1].into_iter().any(|n| denies(&self.denied[n], self.wanted[n] & !ACCESS_FS_REFER));
        let refers = [0, 1].into_iter().any(|n| denies(&self.denied[n], ACCESS_FS_REFER));
        match () {
            () if plain => Err(Errno::EACCES),
            () if refers || self.gains(0) || self.gains(1) => Err(Errno::EXDEV),
            () => Ok(()),
        }
    }

    /// True if the file that leaves directory `n` gains rights in the other.
    fn gains(&self, n: usize) -> bool {
        let Some((own, is_directory)) = &self.moved[n] else { return false };
        let rights = if *is_directory { u64::MAX } else { ACCESS_FS_OF_FILES };
        let layers = self.denied[n].iter().zip(own).zip(&self.denied[1 - n]);
        layers.into_iter().any(|((here, own), there)| here & own & rights & !there != 0)
    }
}

impl Node {
    /// Right needed to create a file of this type.
    pub fn right_to_make(&self) -> u64 {
        match self {
            Node::Directory(_) => ACCESS_FS_MAKE_DIR,
            Node::Symlink { .. } | Node::Magic(_) => ACCESS_FS_MAKE_SYM,
            Node::Socket => ACCESS_FS_MAKE_SOCK,
            Node::Fifo => ACCESS_FS_MAKE_FIFO,
            Node::Device(Device::Block(_)) => ACCESS_FS_MAKE_BLOCK,
            Node::Device(_) => ACCESS_FS_MAKE_CHAR,
            Node::Regular(_) | Node::Virtual(_) => ACCESS_FS_MAKE_REG,
        }
    }
    /// Right needed to remove a file of this type.
    pub fn right_to_remove(&self) -> u64 {
        if self.is_directory() { ACCESS_FS_REMOVE_DIR } else { ACCESS_FS_REMOVE_FILE }
    }
    /// Rights needed to open a file of this type with these flags.
    pub fn rights_to_open(&self, flags: i32) -> u64 {
        let access = match (flags & c::O_ACCMODE, self.is_directory()) {
            _ if flags & c::O_PATH != 0 || self.is_symlink() => return 0,
            (c::O_RDONLY, true) => ACCESS_FS_READ_DIR,
            (c::O_RDONLY, false) => ACCESS_FS_READ_FILE,
            (c::O_WRONLY, _) => ACCESS_FS_WRITE_FILE,
            (c::O_RDWR, _) => ACCESS_FS_READ_FILE | ACCESS_FS_WRITE_FILE,
            _ => 0,
        };
        if flags & c::O_TRUNC != 0 { access | ACCESS_FS_TRUNCATE } else { access }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileIdentity = (1, 5);
    const READ: u64 = ACCESS_FS_READ_FILE;
    const WRITE: u64 = ACCESS_FS_WRITE_FILE;

    fn domain(rulesets: &[&Ruleset]) -> Domain {
        rulesets.iter().fold(Domain::default(), |domain, ruleset| domain.with(ruleset).unwrap())
    }

    #[test]
    fn rulesets_are_about_something_that_there_is() {
        assert_eq!(Ruleset::new(0, 0, 0).err(), Some(Errno::ENOMSG));
        assert_eq!(Ruleset::new(ACCESS_FS_ALL + 1, 0, 0).err(), Some(Errno::EINVAL));
        let mut rules = Ruleset::new(READ | ACCESS_FS_READ_DIR, 0, 0).unwrap();
        assert_eq!(
            [0, WRITE, READ].map(|rights| rules.check_file_rights(rights)),
            [Err(Errno::ENOMSG), Err(Errno::EINVAL), Ok(())]
        );
        assert_eq!(rules.allow_file(FILE, false, ACCESS_FS_READ_DIR), Err(Errno::EINVAL));
        assert_eq!(rules.allow_file(FILE, true, ACCESS_FS_READ_DIR), Ok(()));
        assert_eq!(rules.allow_port(80, ACCESS_NET_BIND_TCP), Err(Errno::EINVAL));
    }

    #[test]
    fn what_one_layer_denies_no_other_grants() {
        let mut first = Ruleset::new(READ | WRITE, 0, 0).unwrap();
        first.allow_file(FILE, true, READ | WRITE).unwrap();
        let mut second = Ruleset::new(READ | WRITE, 0, 0).unwrap();
        second.allow_file(FILE, true, READ).unwrap();
        let domain = domain(&[&first, &second]);
        let mut denied = domain.denied();
        assert!(denies(&denied, READ) && !denies(&denied, ACCESS_FS_READ_DIR));
        domain.grant(FILE, &mut denied);
        assert!(!denies(&denied, READ) && denies(&denied, WRITE));
        let full = (0..14).fold(domain, |domain, _| domain.with(&first).unwrap());
        assert_eq!(full.with(&first).err(), Some(Errno::E2BIG));
    }

    #[test]
    fn ports_are_granted_one_by_one() {
        let mut rules = Ruleset::new(0, ACCESS_NET_BIND_TCP, 0).unwrap();
        rules.allow_port(80, ACCESS_NET_BIND_TCP).unwrap();
        assert_eq!(rules.allow_port(65_536, ACCESS_NET_BIND_TCP), Err(Errno::EINVAL));
        let domain = domain(&[&rules]);
        let bind = [80, 81].map(|port| domain.check_port(port, ACCESS_NET_BIND_TCP));
        assert_eq!(bind, [Ok(()), Err(Errno::EACCES)]);
        assert_eq!(domain.check_port(81, ACCESS_NET_CONNECT_TCP), Ok(()));
        assert!(!domain.handles_files() && !denies(&domain.denied(), ACCESS_FS_REFER));
    }

    #[test]
    fn scopes_and_tracing_end_at_a_layer() {
        let scoped = Ruleset::new(0, 0, SCOPE_SIGNAL).unwrap();
        let outer = domain(&[&scoped]);
        let inner = outer.with(&scoped).unwrap();
        assert_eq!(outer.check_scope(None, SCOPE_SIGNAL), Err(Errno::EPERM));
        assert_eq!(outer.check_scope(Some(&inner), SCOPE_SIGNAL), Ok(()));
        assert_eq!(inner.check_scope(Some(&outer), SCOPE_SIGNAL), Err(Errno::EPERM));
        assert_eq!(inner.check_scope(Some(&outer), SCOPE_ABSTRACT_UNIX_SOCKET), Ok(()));
        assert_eq!(
            [outer.check_trace(Some(&inner)), inner.check_trace(Some(&outer))],
            [Ok(()), Err(Errno::EPERM)]
        );
        // The same ruleset enforced separately is a different layer.
        assert_eq!(outer.check_trace(Some(&domain(&[&scoped]))), Err(Errno::EPERM));
    }

    #[test]
    fn a_move_gives_no_rights() {
        let refer = |here: u64, there: u64| Refer {
            wanted: [ACCESS_FS_REMOVE_FILE, ACCESS_FS_MAKE_REG],
            denied: [vec![here], vec![there]],
            moved: [Some((vec![u64::MAX], false)), None],
        };
        assert_eq!(refer(READ, READ | WRITE).check(), Ok(()));
        assert_eq!(refer(READ, WRITE).check(), Err(Errno::EXDEV));
        // A right that applies only to directories does not count for a file.
        assert_eq!(refer(ACCESS_FS_READ_DIR, 0).check(), Ok(()));
        assert_eq!(refer(0, ACCESS_FS_REFER).check(), Err(Errno::EXDEV));
        assert_eq!(refer(ACCESS_FS_REFER, ACCESS_FS_MAKE_REG).check(), Err(Errno::EACCES));
    }
}
