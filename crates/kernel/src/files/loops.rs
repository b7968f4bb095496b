//! Loop devices, `loop(4)`: block devices backed by files.

use super::regular;
use crate::call::Call;
use crate::credentials::capability;
use crate::files::Files;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, InodeKey};
use crate::outcome::{Outcome, SysResult, done};
use belljar_linux_abi::Errno;
use belljar_objects::devices::Device;
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{DEV, Node};
use belljar_objects::loops::{
    AUTOCLEAR, INFO, LOOPS_AT_START, Loop, MAJOR, OLD_INFO, READ_ONLY, from_old, loop_of, to_old, valid_block,
};

/// `LOOP_*` of linux/loop.h.
const SET_FD: u64 = 0x4c00;
const CLR_FD: u64 = 0x4c01;
const SET_STATUS: u64 = 0x4c02;
const GET_STATUS: u64 = 0x4c03;
const SET_STATUS64: u64 = 0x4c04;
const GET_STATUS64: u64 = 0x4c05;
const CHANGE_FD: u64 = 0x4c06;
const SET_CAPACITY: u64 = 0x4c07;
const SET_DIRECT_IO: u64 = 0x4c08;
const SET_BLOCK_SIZE: u64 = 0x4c09;
const CONFIGURE: u64 = 0x4c0a;
const CTL_ADD: u64 = 0x4c80;
const CTL_REMOVE: u64 = 0x4c81;
const CTL_GET_FREE: u64 = 0x4c82;

/// `BLK*` of linux/fs.h.
const BLKROSET: u64 = 0x125d;
const BLKROGET: u64 = 0x125e;
const BLKRRPART: u64 = 0x125f;
const BLKGETSIZE: u64 = 0x1260;
const BLKFLSBUF: u64 = 0x1261;
const BLKRASET: u64 = 0x1262;
const BLKRAGET: u64 = 0x1263;
const BLKSSZGET: u64 = 0x1268;
const BLKIOMIN: u64 = 0x1278;
const BLKIOOPT: u64 = 0x1279;
const BLKALIGNOFF: u64 = 0x127a;
const BLKPBSZGET: u64 = 0x127b;
const BLKBSZGET: u64 = 0x8008_1270;
const BLKBSZSET: u64 = 0x4008_1271;
const BLKGETSIZE64: u64 = 0x8008_1272;

/// The first `len` bytes of the buffers.
fn cut(buffers: &GuestBuffers, mut len: u64) -> GuestBuffers {
    let mut part = GuestBuffers::new();
    for (addr, room) in buffers {
        let taken = len.min(*room);
        if taken > 0 {
            part.push((*addr, taken));
        }
        len -= taken;
    }
    part
}

impl Files {
    /// Size of a block device in bytes; 0 if it is unbound.
    pub(crate) fn block_size_of(&self, device: u64) -> u64 {
        loop_of(device).and_then(|number| self.loops.get(number)).map_or(0, Loop::size)
    }
    /// Number of open files of a block device.
    fn block_openers(&self, device: u64) -> usize {
        let is = |kind: &FileKind| matches!(kind, FileKind::Device { device: Device::Block(of), .. } if *of == device);
        self.open.iter().filter(|(_, open)| is(&open.kind)).count()
    }
}

impl Host {
    /// Unbinds an `LO_FLAGS_AUTOCLEAR` loop device when its last open file is closed.
    pub(crate) fn block_device_closed(&mut self, device: u64) {
        let Some(number) = loop_of(device) else { return };
        let clears = self.files.loops.get(number).is_some_and(|bound| bound.flags & AUTOCLEAR != 0);
        if clears && self.files.block_openers(device) == 0 {
            self.unbind_loop(number);
        }
    }
    /// Unbinds a loop device from its backing file.
    pub(crate) fn unbind_loop(&mut self, number: u64) {
        if let Some(bound) = self.files.loops.unbind(number) {
            self.release_file(bound.file);
        }
    }
    /// Creates the node of a loop device in `/dev`, if there is none.
    fn show_loop(&mut self, number: u64) {
        let Some(directory) = self.files.mounts.system(DEV).map(|system| system.root) else { return };
        let name = format!("loop{number}");
        if matches!(self.lookup(directory, name.as_bytes()), Ok(None)) {
            let inode = self.new_inode(directory, Node::Device(Device::Block(MAJOR << 8 | number)), 0o660);
            self.files.add_name(directory, name.as_bytes(), inode);
        }
    }
}

impl Call<'_> {
    /// `read(2)` of a block device.
    pub(crate) fn read_block(
        &mut self,
        file: FileKey,
        device: u64,
        buffers: &GuestBuffers,
        offset: Option<u64>,
    ) -> SysResult {
        self.block_io(file, device, buffers, offset, false)
    }
    /// `write(2)` of a block device. `ENOSPC` at the end, `EPERM` if it is read-only.
    pub(crate) fn write_block(
        &mut self,
        file: FileKey,
        device: u64,
        buffers: &GuestBuffers,
        offset: Option<u64>,
    ) -> SysResult {
        self.block_io(file, device, buffers, offset, true)
    }
    fn block_io(
        &mut self,
        file: FileKey,
        device: u64,
        buffers: &GuestBuffers,
        offset: Option<u64>,
        writes: bool,
    ) -> SysResult {
        let start = offset.unwrap_or(self.host.files.open(file).offset);
        let size = self.host.files.block_size_of(device);
        let len = total_len(buffers).min(size.saturating_sub(start));
        if len == 0 {
            return if writes && total_len(buffers) > 0 { Err(Errno::ENOSPC) } else { done(0) };
        }
        let number = loop_of(device).ok_or(Errno::ENXIO)?;
        let (backing, first) = {
            let bound = self.host.files.loops.get_mut(number)?;
            if writes && bound.flags & READ_ONLY != 0 {
                return Err(Errno::EPERM);
            }
            (bound.file, bound.offset)
        };
        let inode = self.host.files.open(backing).kind.inode().ok_or(Errno::EIO)?;
        let (part, at) = (cut(buffers, len), Some(first + start));
        let outcome = match writes {
            true => regular::write(self, backing, inode, &part, at)?,
            false => regular::read(self, backing, inode, &part, at)?,
        };
        let Outcome::Done(moved) = outcome else { return Ok(outcome) };
        if offset.is_none() {
            self.host.files.open(file).offset = start + moved;
        }
        done(moved)
    }

    /// `ioctl(2)` of `/dev/loop-control`.
    pub(crate) fn loop_control(&mut self, request: u64, argument: u64) -> SysResult {
        let number = match request {
            CTL_GET_FREE => self.host.files.loops.free(),
            CTL_ADD if (argument as i64) < 0 => self.host.files.loops.free(),
            CTL_ADD if argument < LOOPS_AT_START => return Err(Errno::EEXIST),
            CTL_ADD => argument,
            CTL_REMOVE if self.host.files.loops.get(argument).is_some() => return Err(Errno::EBUSY),
            CTL_REMOVE if argument < LOOPS_AT_START => return done(0),
            CTL_REMOVE => return Err(Errno::ENODEV),
            _ => return Err(Errno::ENOSYS),
        };
        // Minor numbers are limited to eight bits.
        if number > 0xff {
            return Err(if request == CTL_ADD { Errno::EINVAL } else { Errno::ENOSPC });
        }
        self.host.show_loop(number);
        done(number)
    }

    /// `ioctl(2)` of a block device.
    pub(crate) fn block_ioctl(
        &mut self,
        file: FileKey,
        device: u64,
        request: u64,
        argument: u64,
    ) -> SysResult {
        let number = loop_of(device).ok_or(Errno::ENOTTY)?;
        match request {
            BLKGETSIZE64 => self.give_block(argument, &self.host.files.block_size_of(device)),
            BLKGETSIZE => self.give_block(argument, &(self.host.files.block_size_of(device) / 512)),
            BLKSSZGET | BLKIOMIN => {
                let block = self.host.files.loops.get(number).map_or(512, |bound| bound.block);
                self.give_block(argument, &block)
            }
            BLKPBSZGET => {
                let block = self.host.files.loops.get(number).map_or(512, |bound| bound.block);
                self.give_block(argument, &block)
            }
            BLKBSZGET => self.give_block(argument, &4_096u32),
            BLKIOOPT | BLKALIGNOFF => self.give_block(argument, &0u32),
            BLKRAGET => self.give_block(argument, &self.host.files.loops.read_ahead(number)),
            BLKROGET => {
                let fixed =
                    self.host.files.loops.get(number).is_some_and(|bound| bound.flags & READ_ONLY != 0);
                self.give_block(argument, &u32::from(fixed))
            }
            BLKRASET => {
                self.host.processes.require(self.process, capability::SYS_ADMIN)?;
                self.host.files.loops.set_read_ahead(number, argument);
                done(0)
            }
            BLKROSET => {
                self.host.processes.require(self.process, capability::SYS_ADMIN)?;
                let fixed: u32 = self.read(argument)?;
                if let Ok(bound) = self.host.files.loops.get_mut(number) {
                    bound.flags = bound.flags & !READ_ONLY | if fixed != 0 { READ_ONLY } else { 0 };
                }
                done(0)
            }
            BLKFLSBUF | BLKBSZSET => {
                self.host.processes.require(self.process, capability::SYS_ADMIN)?;
                done(0)
            }
            BLKRRPART => Err(Errno::EINVAL),
            _ => self.loop_ioctl(file, number, request, argument),
        }
    }
    fn give_block<T: zerocopy::IntoBytes + zerocopy::Immutable>(
        &mut self,
        addr: u64,
        value: &T,
    ) -> SysResult {
        self.write(addr, value)?;
        done(0)
    }

    fn loop_ioctl(&mut self, file: FileKey, number: u64, request: u64, argument: u64) -> SysResult {
        match request {
            SET_FD => {
                let bound = self.loop_over(file, argument as i32)?;
                self.bind_loop(number, bound)
            }
            CONFIGURE => {
                let (fd, block): (i32, u32) = (self.read(argument)?, self.read(argument + 4)?);
                let info: [u8; INFO] = self.read(argument + 8)?;
                let mut bound = self.loop_over(file, fd)?;
                if block != 0 {
                    bound.block = valid_block(u64::from(block))?;
                }
                bound.set_info(&info, true)?;
                self.bind_loop(number, bound)
            }
            CLR_FD => {
                self.host.files.loops.get_mut(number)?;
                // While others have the device open, it is unbound at the last close instead.
                if self.host.files.block_openers(MAJOR << 8 | number) > 1 {
                    self.host.files.loops.get_mut(number)?.flags |= AUTOCLEAR;
                } else {
                    self.host.unbind_loop(number);
                }
                done(0)
            }
            CHANGE_FD => {
                let new = self.loop_over(file, argument as i32)?;
                let bound = self.host.files.loops.get_mut(number)?;
                if bound.flags & READ_ONLY == 0 || new.file_size != bound.file_size {
                    return Err(Errno::EINVAL);
                }
                let old = std::mem::replace(&mut bound.file, new.file);
                self.host.files.retain_file(new.file);
                self.host.release_file(old);
                done(0)
            }
            SET_STATUS | SET_STATUS64 => {
                self.host.files.loops.get_mut(number)?;
                let info = match request {
                    SET_STATUS => from_old(&self.read::<[u8; OLD_INFO]>(argument)?),
                    _ => self.read::<[u8; INFO]>(argument)?,
                };
                self.host.files.loops.get_mut(number)?.set_info(&info, false)?;
                self.look_at_backing(number)
            }
            GET_STATUS | GET_STATUS64 => {
                let backing = self.host.files.loops.get_mut(number)?.file;
                let identity = match self.host.files.open(backing).kind.inode() {
                    Some(inode) => self.host.files.inode(inode).identity(),
                    None => (0, 0),
                };
                let info = self.host.files.loops.get_mut(number)?.info(number, identity);
                match request {
                    GET_STATUS => self.write(argument, &to_old(&info)?)?,
                    _ => self.write(argument, &info)?,
                }
                done(0)
            }
            SET_CAPACITY => self.look_at_backing(number),
            SET_BLOCK_SIZE => {
                self.host.files.loops.get_mut(number)?.block = valid_block(argument)?;
                done(0)
            }
            SET_DIRECT_IO => {
                self.host.files.loops.get_mut(number)?;
                if argument == 0 { done(0) } else { Err(Errno::EINVAL) }
            }
            _ => Err(Errno::ENOTTY),
        }
    }
    /// Loop device over the file of a descriptor. `EINVAL` unless that is a regular file.
    fn loop_over(&mut self, by: FileKey, fd: i32) -> Result<Loop, Errno> {
        let backing = self.host.file_of(self.process, fd)?;
        let FileKind::Regular(inode) = self.host.files.open(backing).kind else { return Err(Errno::EINVAL) };
        let size = self.host.size_of(inode)?;
        let written = self.host.files.open(by).is_writable() && self.host.files.open(backing).is_writable();
        Ok(Loop::new(backing, size, !written))
    }
    fn bind_loop(&mut self, number: u64, bound: Loop) -> SysResult {
        let backing = bound.file;
        self.host.files.loops.bind(number, bound)?;
        self.host.files.retain_file(backing);
        done(0)
    }
    /// Updates the device's size from its backing file.
    fn look_at_backing(&mut self, number: u64) -> SysResult {
        let backing = self.host.files.loops.get_mut(number)?.file;
        let inode: InodeKey = self.host.files.open(backing).kind.inode().ok_or(Errno::EIO)?;
        let size = self.host.size_of(inode)?;
        self.host.files.loops.get_mut(number)?.file_size = size;
        done(0)
    }
}
