//! Host without guests, for tests of the kernel: memory is a vector, and the test makes the calls of the
//! threads.

use crate::config::HostConfig;
use crate::host::Host;
use crate::ids::{MmKey, ProcessKey, ThreadKey};
use belljar_base::{HostId, Seed, SimDuration, SimTime};
use belljar_linux_abi::Errno;
use belljar_machine::*;
use belljar_netstack::{Stack, StackConfig};
use belljar_objects::space::{AddressSpace, Marks, Vma, VmaKind};
use belljar_tasks::strategy::Order;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Start of the memory of the only process.
pub const DATA: u64 = 0x10_0000;
const LEN: u64 = 1 << 20;

/// Result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call returned this value or error.
    Ended(Result<u64, Errno>),
    /// The call blocks.
    Blocked,
}

/// Host with one process, whose threads are driven by the test.
pub struct TestHost {
    /// Host under test.
    pub host: Host,
    /// Only process of the host.
    pub process: ProcessKey,
    /// Threads of the process.
    pub threads: Vec<ThreadKey>,
}

/// The accounts of the host's packets balance at the end of every test.
impl Drop for TestHost {
    fn drop(&mut self) {
        let further = self.host.networks.stacks().map(Stack::packet_account);
        for account in further.chain([self.host.net.packet_account()]) {
            assert!(account.imbalance() == 0 || std::thread::panicking(), "{account:?}");
        }
    }
}

impl TestHost {
    /// Creates a host whose process has `threads` threads.
    pub fn new(threads: usize) -> TestHost {
        TestHost::with(config(), Box::new(NoFiles), threads)
    }
    /// Creates a host with IPv6 and the address `2001:db8::b00:1` if `v6`.
    pub fn speaking(v6: bool, threads: usize) -> TestHost {
        let address6 = v6.then_some(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0xb00, 1));
        TestHost::of(config(), StackConfig { ipv6: v6, address6, ..network() }, Box::new(NoFiles), threads)
    }
    /// Creates a host with `config` on a machine with `files`.
    pub fn with(config: HostConfig, files: Box<dyn HostFiles>, threads: usize) -> TestHost {
        TestHost::of(config, network(), files, threads)
    }
    fn of(config: HostConfig, network: StackConfig, files: Box<dyn HostFiles>, threads: usize) -> TestHost {
        let machine = FakeMachine { files, memory: Vec::new(), contexts: Vec::new() };
        let mut host = Host::new(config, network, Box::new(machine));
        let process = host.create_process(0);
        let space = host.machine.create_space(0, Placement::Near).expect("there is room");
        let mut mm = AddressSpace::new(space, 0, DATA..DATA + LEN);
        mm.insert(Vma {
            start: DATA,
            end: DATA + LEN,
            kept_below: 0,
            prot: Prot::READ | Prot::WRITE,
            shared: false,
            may_write: true,
            marks: Marks::empty(),
            kind: VmaKind::Anonymous(""),
        });
        let mm = MmKey(host.spaces.insert(mm));
        host.process(process).mm = Some(mm);
        let threads = (0..threads)
            .map(|_| {
                let context = host.machine.create_context(space, &Regs::default());
                host.create_thread(process, context)
            })
            .collect();
        host.scheduler.clear();
        TestHost { host, process, threads }
    }
    /// Makes a call from thread `n`.
    pub fn attempt(&mut self, n: usize, number: i64, args: &[u64]) -> Answer {
        let context = self.host.thread(self.threads[n]).context;
        let regs = self.host.machine.regs_mut(context);
        let arg = |n: usize| args.get(n).copied().unwrap_or(0);
        (regs.rdi, regs.rsi, regs.rdx) = (arg(0), arg(1), arg(2));
        (regs.r10, regs.r8, regs.r9) = (arg(3), arg(4), arg(5));
        regs.rax = number as u64;
        self.step(n)
    }
    /// Makes a call from the first thread; panics if it blocks.
    pub fn call(&mut self, number: i64, args: &[u64]) -> Result<u64, Errno> {
        match self.attempt(0, number, args) {
            Answer::Ended(result) => result,
            Answer::Blocked => panic!("call {number} waits"),
        }
    }
    /// Makes a call from thread `n`; panics if it blocks or fails.
    pub fn call_by(&mut self, n: usize, number: i64, args: &[u64]) -> u64 {
        match self.attempt(n, number, args) {
            Answer::Ended(Ok(value)) => value,
            other => panic!("call {number}: {other:?}"),
        }
    }
    /// Continues thread `n`'s call if the thread has been woken.
    pub fn go_on(&mut self, n: usize) -> Answer {
        let key = self.threads[n];
        let before = self.host.scheduler.ready_count();
        self.host.scheduler.remove(key);
        if self.host.scheduler.ready_count() < before { self.step(n) } else { Answer::Blocked }
    }
    fn step(&mut self, n: usize) -> Answer {
        let key = self.threads[n];
        if !self.host.step_once(key) {
            return Answer::Blocked;
        }
        let context = self.host.thread(key).context;
        let value = self.host.machine.regs(context).rax;
        Answer::Ended(match value as i64 {
            error @ -4_095..0 => Err(Errno(-error as u16)),
            _ => Ok(value),
        })
    }
    /// Handles all events due up to `until`.
    pub fn fire_until(&mut self, until: SimTime) {
        self.host.fire_until(until);
    }
    /// Advances time by `time`, handling due events.
    pub fn pass(&mut self, time: SimDuration) {
        let until = self.host.net.clock.now() + time;
        self.host.fire_until(until);
    }
    /// Writes to the process's memory at [`DATA`]` + offset` and returns that address.
    pub fn put(&mut self, offset: u64, data: &[u8]) -> u64 {
        self.host.write_guest(self.process, DATA + offset, data).expect("it is mapped");
        DATA + offset
    }
    /// Reads `len` bytes from the process's memory at [`DATA`]` + offset`.
    pub fn get(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.host.read_guest(self.process, DATA + offset, &mut data).expect("it is mapped");
        data
    }
    /// Network stack of the host.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.host.net
    }
    /// Reads two descriptors that a call such as `pipe` has stored at [`DATA`]` + offset`.
    pub fn pair(&self, offset: u64) -> (u64, u64) {
        let word = |at| i32::from_le_bytes(self.get(at, 4).try_into().expect("four bytes")) as u64;
        (word(offset), word(offset + 4))
    }
}

/// Default host configuration for tests.
pub fn config() -> HostConfig {
    HostConfig {
        scheduling: Order::Fifo,
        epoch_secs: crate::clock::DEFAULT_EPOCH_SECS,
        clock_error: (0, 0),
        directory: "/results/hosts/test".into(),
        working_directory: "/tmp".into(),
        exposed: Vec::new(),
        root: "/".into(),
        shared: Vec::new(),
        interrupt: Default::default(),
        cpu: Default::default(),
        memory: None,
        processors: Default::default(),
        names: Arc::default(),
        processes: Vec::new(),
        models: Vec::new(),
        sdk: None,
        strace: false,
        watched: None,
        attention: Default::default(),
    }
}

/// Machine without a CPU; its files are those of the test.
struct FakeMachine {
    files: Box<dyn HostFiles>,
    memory: Vec<u8>,
    contexts: Vec<Regs>,
}

impl FakeMachine {
    fn range(addr: u64, len: usize) -> Result<Range<usize>, Errno> {
        let from = addr.checked_sub(DATA).ok_or(Errno::EFAULT)? as usize;
        Ok(from..from + len)
    }
}

impl GuestMemory for FakeMachine {
    fn read(&self, _: SpaceId, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        let bytes = self.memory.get(Self::range(addr, out.len())?).ok_or(Errno::EFAULT)?;
        out.copy_from_slice(bytes);
        Ok(())
    }
    fn write(&mut self, _: SpaceId, addr: u64, data: &[u8]) -> Result<(), Errno> {
        let bytes = self.memory.get_mut(Self::range(addr, data.len())?).ok_or(Errno::EFAULT)?;
        bytes.copy_from_slice(data);
        Ok(())
    }
    fn compare_exchange_u32(&mut self, space: SpaceId, addr: u64, old: u32, new: u32) -> Result<u32, Errno> {
        let mut word = [0; 4];
        self.read(space, addr, &mut word)?;
        let found = u32::from_le_bytes(word);
        if found == old {
            self.write(space, addr, &new.to_le_bytes())?;
        }
        Ok(found)
    }
}

impl Platform for FakeMachine {
    fn create_space(&mut self, _: u32, _: Placement) -> Result<SpaceId, Errno> {
        self.memory = vec![0; LEN as usize];
        Ok(SpaceId(0))
    }
    fn fork_space(&mut self, _: SpaceId) -> Result<SpaceId, Errno> {
        Err(Errno::ENOMEM)
    }
    fn destroy_space(&mut self, _: SpaceId) {}
    fn space_range(&self, _: SpaceId) -> Range<u64> {
        DATA..DATA + LEN
    }
    fn image_base(&self, _: SpaceId) -> u64 {
        DATA
    }
    fn claim_fixed(&mut self, _: SpaceId, _: Range<u64>) -> Result<(), Errno> {
        Err(Errno::ENOMEM)
    }
    fn map(&mut self, _: SpaceId, _: u64, _: u64, _: Prot, _: Backing) -> Result<(), Errno> {
        Ok(())
    }
    fn unmap(&mut self, _: SpaceId, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }
    fn protect(&mut self, _: SpaceId, _: u64, _: u64, _: Prot) -> Result<(), Errno> {
        Ok(())
    }
    fn relocate(&mut self, _: SpaceId, _: u64, _: u64, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::ENOMEM)
    }
    fn resident(&mut self, _: SpaceId, _: u64, pages: &mut [u8]) -> Result<(), Errno> {
        pages.fill(1);
        Ok(())
    }
    fn advise(&mut self, _: SpaceId, _: u64, _: u64, _: i32) -> Result<(), Errno> {
        Ok(())
    }
    fn map_vdso(&mut self, _: SpaceId, _: u64) -> Result<u64, Errno> {
        Ok(0)
    }
    fn create_context(&mut self, _: SpaceId, regs: &Regs) -> ContextId {
        self.contexts.push(*regs);
        ContextId(self.contexts.len() as u32 - 1)
    }
    fn copy_context(&mut self, from: ContextId, space: SpaceId) -> ContextId {
        let regs = *self.regs(from);
        self.create_context(space, &regs)
    }
    fn destroy_context(&mut self, _: ContextId) {}
    fn regs(&self, context: ContextId) -> &Regs {
        &self.contexts[context.0 as usize]
    }
    fn regs_mut(&mut self, context: ContextId) -> &mut Regs {
        &mut self.contexts[context.0 as usize]
    }
    fn xstate(&self, _: ContextId, out: &mut Vec<u8>) {
        out.resize(512, 0);
    }
    fn set_xstate(&mut self, _: ContextId, _: &[u8]) {}
    fn resume(&mut self, _: ContextId) -> Exit {
        Exit::Syscall
    }
}

/// Forwards file operations to the files of the test.
impl HostFiles for FakeMachine {
    fn open(&mut self, path: &Path, how: OpenHow) -> Result<NativeFile, Errno> {
        self.files.open(path, how)
    }
    fn close(&mut self, file: NativeFile) {
        self.files.close(file);
    }
    fn read_at(&mut self, file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        self.files.read_at(file, offset, out)
    }
    fn write_at(&mut self, file: NativeFile, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.files.write_at(file, offset, data)
    }
    fn stat_file(&mut self, file: NativeFile) -> Result<NativeStat, Errno> {
        self.files.stat_file(file)
    }
    fn set_len(&mut self, file: NativeFile, len: u64) -> Result<(), Errno> {
        self.files.set_len(file, len)
    }
    fn stat(&mut self, path: &Path) -> Result<NativeStat, Errno> {
        self.files.stat(path)
    }
    fn read_link(&mut self, path: &Path) -> Result<Vec<u8>, Errno> {
        self.files.read_link(path)
    }
    fn read_dir(&mut self, path: &Path) -> Result<Vec<NativeDirEntry>, Errno> {
        self.files.read_dir(path)
    }
    fn create_dir(&mut self, path: &Path, mode: u32) -> Result<(), Errno> {
        self.files.create_dir(path, mode)
    }
    fn create_symlink(&mut self, target: &[u8], path: &Path) -> Result<(), Errno> {
        self.files.create_symlink(target, path)
    }
    fn create_link(&mut self, existing: &Path, path: &Path) -> Result<(), Errno> {
        self.files.create_link(existing, path)
    }
    fn remove_file(&mut self, path: &Path) -> Result<(), Errno> {
        self.files.remove_file(path)
    }
    fn remove_dir(&mut self, path: &Path) -> Result<(), Errno> {
        self.files.remove_dir(path)
    }
    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        self.files.rename(from, to)
    }
    fn set_mode(&mut self, path: &Path, mode: u32) -> Result<(), Errno> {
        self.files.set_mode(path, mode)
    }
    fn shared_memory(&mut self, len: u64) -> Result<NativeFile, Errno> {
        self.files.shared_memory(len)
    }
    fn read_stream(&mut self, stream: u8, out: &mut [u8]) -> Result<usize, Errno> {
        self.files.read_stream(stream, out)
    }
    fn write_stream(&mut self, stream: u8, data: &[u8]) -> Result<(), Errno> {
        self.files.write_stream(stream, data)
    }
}

/// Empty file system: no file exists and none can be created.
pub struct NoFiles;

impl HostFiles for NoFiles {
    fn open(&mut self, _: &Path, _: OpenHow) -> Result<NativeFile, Errno> {
        Err(Errno::ENOENT)
    }
    fn close(&mut self, _: NativeFile) {}
    fn read_at(&mut self, _: NativeFile, _: u64, _: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::EIO)
    }
    fn write_at(&mut self, _: NativeFile, _: u64, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::EIO)
    }
    fn stat_file(&mut self, _: NativeFile) -> Result<NativeStat, Errno> {
        Err(Errno::EIO)
    }
    fn set_len(&mut self, _: NativeFile, _: u64) -> Result<(), Errno> {
        Err(Errno::EIO)
    }
    fn stat(&mut self, _: &Path) -> Result<NativeStat, Errno> {
        Err(Errno::ENOENT)
    }
    fn read_link(&mut self, _: &Path) -> Result<Vec<u8>, Errno> {
        Err(Errno::ENOENT)
    }
    fn read_dir(&mut self, _: &Path) -> Result<Vec<NativeDirEntry>, Errno> {
        Ok(Vec::new())
    }
    fn create_dir(&mut self, _: &Path, _: u32) -> Result<(), Errno> {
        Err(Errno::EROFS)
    }
    fn create_symlink(&mut self, _: &[u8], _: &Path) -> Result<(), Errno> {
        Err(Errno::EROFS)
    }
    fn create_link(&mut self, _: &Path, _: &Path) -> Result<(), Errno> {
        Err(Errno::EROFS)
    }
    fn remove_file(&mut self, _: &Path) -> Result<(), Errno> {
        Err(Errno::EROFS)
    }
    fn remove_dir(&mut self, _: &Path) -> Result<(), Errno> {
        Err(Errno::EROFS)
    }
    fn rename(&mut self, _: &Path, _: &Path) -> Result<(), Errno> {
        Err(Errno::EROFS)
    }
    fn set_mode(&mut self, _: &Path, _: u32) -> Result<(), Errno> {
        Err(Errno::EROFS)
    }
    fn shared_memory(&mut self, _: u64) -> Result<NativeFile, Errno> {
        Err(Errno::ENOMEM)
    }
    fn read_stream(&mut self, _: u8, _: &mut [u8]) -> Result<usize, Errno> {
        Ok(0)
    }
    fn write_stream(&mut self, _: u8, _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
}

/// Default network configuration for tests.
pub fn network() -> StackConfig {
    let address = Ipv4Addr::new(11, 0, 0, 1);
    StackConfig { address, on_graph: true, ..StackConfig::new(HostId(0), "test", Seed(1)) }
}
