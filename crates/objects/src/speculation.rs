//! Speculation control of processors that no known fault affects, `PR_GET_SPECULATION_CTRL`.

use belljar_linux_abi::Errno;

const STORE_BYPASS: u64 = 0;
const INDIRECT_BRANCH: u64 = 1;
const L1D_FLUSH: u64 = 2;
/// `PR_SPEC_NOT_AFFECTED`.
const NOT_AFFECTED: u64 = 0;
const ENABLE: u64 = 1 << 1;
const DISABLE: u64 = 1 << 2;
const FORCE_DISABLE: u64 = 1 << 3;

/// State of a kind of speculation. Fails with `ENODEV` for an unknown kind.
pub fn get(kind: u64) -> Result<u64, Errno> {
    match kind {
        STORE_BYPASS | INDIRECT_BRANCH => Ok(NOT_AFFECTED),
        // The flush of the L1 cache at context switches is off for good, unless the kernel is booted with it.
        L1D_FLUSH => Ok(FORCE_DISABLE),
        _ => Err(Errno::ENODEV),
    }
}

/// Changes a kind of speculation, which has no effect where it is permitted.
pub fn set(kind: u64, control: u64) -> Result<(), Errno> {
    match (kind, control) {
        (STORE_BYPASS, _) => Err(Errno::ENXIO),
        (INDIRECT_BRANCH, ENABLE) => Ok(()),
        (INDIRECT_BRANCH, DISABLE | FORCE_DISABLE) | (L1D_FLUSH, _) => Err(Errno::EPERM),
        (INDIRECT_BRANCH, _) => Err(Errno::ERANGE),
        _ => Err(Errno::ENODEV),
    }
}
