//! Arguments of `io_uring_setup(2)`.

use crate::memory::{
    CQ_ENTRIES, CQ_FLAGS, CQ_HEAD, CQ_MASK, CQ_OVERFLOW, CQ_TAIL, CQES, Ring, SQ_DROPPED, SQ_ENTRIES,
    SQ_FLAGS, SQ_HEAD, SQ_MASK, SQ_TAIL,
};
use belljar_linux_abi::Errno;

/// `sizeof(struct io_uring_params)`.
pub const PARAMS_LEN: usize = 120;
/// `IORING_MAX_ENTRIES`; twice that for completions.
const MAX_ENTRIES: u32 = 32_768;
/// `IORING_SETUP_*`.
const IOPOLL: u32 = 1;
const SQPOLL: u32 = 2;
const SQ_AFF: u32 = 4;
const CQSIZE: u32 = 8;
const CLAMP: u32 = 16;
const ATTACH_WQ: u32 = 32;
const R_DISABLED: u32 = 64;
const SUBMIT_ALL: u32 = 128;
const COOP_TASKRUN: u32 = 1 << 8;
const TASKRUN_FLAG: u32 = 1 << 9;
const SQE128: u32 = 1 << 10;
const CQE32: u32 = 1 << 11;
const SINGLE_ISSUER: u32 = 1 << 12;
const DEFER_TASKRUN: u32 = 1 << 13;
const NO_MMAP: u32 = 1 << 14;
const REGISTERED_FD_ONLY: u32 = 1 << 15;
const NO_SQARRAY: u32 = 1 << 16;
const HYBRID_IOPOLL: u32 = 1 << 17;
const CQE_MIXED: u32 = 1 << 18;
/// All flags of Linux 6.18.
pub const KNOWN: u32 = (1 << 19) - 1;
/// Offsets in `struct io_uring_params` of the addresses of entries and rings in a program's memory.
const SQ_USER_ADDR: usize = 72;
const CQ_USER_ADDR: usize = 112;
/// Number of processors of a host.
const CPUS: u32 = 1;
/// `IORING_FEAT_*`: one mapping for both rings, nothing dropped, stable submission, current positions, the
/// submitter's personality, polling, 32-bit polling, polled submission of any file, extended arguments, native workers,
/// tags, skipped completions, linked files, registering by a registered instance, bundles, minimum waits, attributes of
/// reads and writes, waits that do not count as I/O.
pub const FEATURES: u32 = (1 << 18) - 1;

/// Properties requested by the flags of `io_uring_setup(2)`.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// True if the submission queue uses the index array (no `IORING_SETUP_NO_SQARRAY`).
    pub has_array: bool,
    /// `IORING_SETUP_R_DISABLED`.
    pub disabled: bool,
    /// `IORING_SETUP_SQPOLL`.
    pub polled: bool,
    /// `IORING_SETUP_SUBMIT_ALL`.
    pub submits_all: bool,
    /// `IORING_SETUP_SINGLE_ISSUER`.
    pub single_issuer: bool,
    /// `IORING_SETUP_DEFER_TASKRUN`.
    pub defers: bool,
    /// `IORING_SETUP_TASKRUN_FLAG`.
    pub tells_of_work: bool,
    /// `IORING_SETUP_IOPOLL`.
    pub polls_io: bool,
    /// `IORING_SETUP_SQE128`, `IORING_SETUP_CQE32`.
    pub large: (bool, bool),
    /// `IORING_SETUP_CQE_MIXED`.
    pub mixes_completions: bool,
    /// Addresses of rings and entries in the program's memory (`IORING_SETUP_NO_MMAP`).
    pub user_memory: Option<[u64; 2]>,
}

impl Setup {
    /// Flags that rings of another length inherit.
    fn inherited(&self) -> u32 {
        let flags = [
            (!self.has_array, NO_SQARRAY),
            (self.large.0, SQE128),
            (self.large.1, CQE32),
            (self.user_memory.is_some(), NO_MMAP),
            (self.mixes_completions, CQE_MIXED),
        ];
        flags.into_iter().filter(|(has, _)| *has).map(|(_, flag)| flag).sum()
    }
    /// True if completions of 32 bytes can be posted.
    pub fn has_large_completions(&self) -> bool {
        self.large.1 || self.mixes_completions
    }
}

/// Parsed `struct io_uring_params` of a program.
#[derive(Clone, Copy, Debug)]
pub struct SetupRequest {
    flags: u32,
    completions: u32,
    /// Descriptor of the instance whose workers are shared (`IORING_SETUP_ATTACH_WQ`).
    pub attached_to: Option<i32>,
    /// True if the instance is registered by the thread in place of a descriptor
    /// (`IORING_SETUP_REGISTERED_FD_ONLY`).
    pub registered_only: bool,
    /// Properties requested by the flags.
    pub setup: Setup,
}

fn word(params: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([params[at], params[at + 1], params[at + 2], params[at + 3]])
}

fn long(params: &[u8], at: usize) -> u64 {
    u64::from(word(params, at)) | u64::from(word(params, at + 4)) << 32
}

impl SetupRequest {
    /// Parses the parameters; `EINVAL` for invalid combinations of flags.
    pub fn parse(params: &[u8]) -> Result<SetupRequest, Errno> {
        let (completions, flags, cpu) = (word(params, 4), word(params, 8), word(params, 12));
        let has = |flag: u32| flags & flag != 0;
        let wrong = (28..40).step_by(4).any(|at| word(params, at) != 0)
            || flags & !KNOWN != 0
            || has(SQ_AFF) && (!has(SQPOLL) || cpu >= CPUS)
            || has(SQPOLL) && has(COOP_TASKRUN | TASKRUN_FLAG | DEFER_TASKRUN)
            || has(TASKRUN_FLAG) && !has(COOP_TASKRUN | DEFER_TASKRUN)
            || has(DEFER_TASKRUN) && !has(SINGLE_ISSUER)
            || has(REGISTERED_FD_ONLY) && !has(NO_MMAP)
            || has(CQE32) && has(CQE_MIXED)
            || has(HYBRID_IOPOLL) && !has(IOPOLL);
        if wrong {
            return Err(Errno::EINVAL);
        }
        let setup = Setup {
            has_array: !has(NO_SQARRAY),
            disabled: has(R_DISABLED),
            polled: has(SQPOLL),
            submits_all: has(SUBMIT_ALL),
            single_issuer: has(SINGLE_ISSUER),
            defers: has(DEFER_TASKRUN),
            tells_of_work: has(TASKRUN_FLAG),
            polls_io: has(IOPOLL),
            large: (has(SQE128), has(CQE32)),
            mixes_completions: has(CQE_MIXED),
            user_memory: has(NO_MMAP).then(|| [CQ_USER_ADDR, SQ_USER_ADDR].map(|at| long(params, at))),
        };
        let attached_to = has(ATTACH_WQ).then_some(word(params, 24) as i32);
        Ok(SetupRequest { flags, completions, attached_to, registered_only: has(REGISTERED_FD_ONLY), setup })
    }

    /// Parses the parameters of `IORING_REGISTER_RESIZE_RINGS`, which keeps the other properties of an instance.
    /// Returns the lengths of both rings, too.
    pub fn resized(params: &mut [u8], setup: &Setup) -> Result<((u32, u32), Setup), Errno> {
        let (entries, completions, flags) = (word(params, 0), word(params, 4), word(params, 8));
        if !setup.defers || flags & !(CQSIZE | CLAMP) != 0 {
            return Err(Errno::EINVAL);
        }
        let user_memory = setup.user_memory.map(|_| [CQ_USER_ADDR, SQ_USER_ADDR].map(|at| long(params, at)));
        let setup = Setup { user_memory, ..*setup };
        let asked = SetupRequest { flags, completions, attached_to: None, registered_only: false, setup };
        params[8..12].copy_from_slice(&(flags | setup.inherited()).to_ne_bytes());
        Ok((asked.sizes(entries)?, setup))
    }

    /// Lengths of both rings for `entries` requested submission queue entries.
    pub fn sizes(&self, entries: u32) -> Result<(u32, u32), Errno> {
        let round = |entries: u32, most: u32| match entries {
            0 => Err(Errno::EINVAL),
            n if n > most && self.flags & CLAMP == 0 => Err(Errno::EINVAL),
            n => Ok(n.min(most).next_power_of_two()),
        };
        let sq_entries = round(entries, MAX_ENTRIES)?;
        let cq_entries = match self.flags & CQSIZE {
            0 => 2 * sq_entries,
            _ => round(self.completions, 2 * MAX_ENTRIES)?,
        };
        if cq_entries < sq_entries { Err(Errno::EINVAL) } else { Ok((sq_entries, cq_entries)) }
    }
}

impl Ring {
    /// Fills in the ring offsets and features of `struct io_uring_params`.
    pub fn describe(&self, params: &mut [u8]) {
        let mut put = |at: usize, value: u32| params[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        put(0, self.sq_entries);
        put(4, self.cq_entries);
        put(20, FEATURES);
        let array = if self.has_array { self.array() } else { 0 };
        let sq = [SQ_HEAD, SQ_TAIL, SQ_MASK, SQ_ENTRIES, SQ_FLAGS, SQ_DROPPED, array];
        let cq = [CQ_HEAD, CQ_TAIL, CQ_MASK, CQ_ENTRIES, CQ_OVERFLOW, CQES, CQ_FLAGS];
        for (start, offsets) in [(40, sq), (80, cq)] {
            offsets.into_iter().enumerate().for_each(|(at, offset)| put(start + 4 * at, offset));
        }
    }
}
