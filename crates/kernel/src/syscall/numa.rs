//! Memory policies: a host has one NUMA node, so all policies are equivalent.

use crate::call::Call;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::Errno;
use belljar_objects::space::PAGE;

const MPOL_F_NODE: u64 = 1;
const MPOL_F_ADDR: u64 = 2;
const MPOL_F_MEMS_ALLOWED: u64 = 4;
/// `MPOL_F_STATIC_NODES`, `MPOL_F_RELATIVE_NODES` and `MPOL_F_NUMA_BALANCING`.
const MODE_FLAGS: u32 = 0xe000;
const MPOL_DEFAULT: u32 = 0;
const MPOL_LOCAL: u32 = 4;
/// `MPOL_PREFERRED_MANY`, the last policy of Linux 6.1.
const MPOL_LAST: u32 = 5;
/// Maximum number of bits in a node mask: one page.
const LONGEST_MASK: u64 = 8 * 4_096;

/// get_mempolicy(2): always reports the default policy.
pub fn sys_get_mempolicy(call: &mut Call<'_>) -> SysResult {
    let [mode_at, mask_at, bits, addr, flags, _] = call.args;
    if flags & !(MPOL_F_NODE | MPOL_F_ADDR | MPOL_F_MEMS_ALLOWED) != 0 || (mask_at != 0 && bits < 1) {
        return Err(Errno::EINVAL);
    }
    let mut nodes = 0u64;
    if flags & MPOL_F_MEMS_ALLOWED != 0 {
        if flags & (MPOL_F_NODE | MPOL_F_ADDR) != 0 {
            return Err(Errno::EINVAL);
        }
        nodes = 1;
    } else if flags & MPOL_F_ADDR != 0 {
        let mm = call.mm();
        call.host.mm(mm).find(addr).ok_or(Errno::EFAULT)?;
    } else if addr != 0 || flags & MPOL_F_NODE != 0 {
        // The next node is defined for interleaving policies only.
        return Err(Errno::EINVAL);
    }
    if mode_at != 0 {
        // The policy or, with MPOL_F_NODE, the node of the address: both are 0.
        call.write(mode_at, &0u32)?;
    }
    if mask_at != 0 {
        let mut mask = vec![0u8; ((bits - 1).min(LONGEST_MASK).div_ceil(64).max(1) * 8) as usize];
        mask[..8].copy_from_slice(&nodes.to_le_bytes());
        call.write_bytes(mask_at, &mask)?;
    }
    done(0)
}

/// set_mempolicy(2): validates the policy; no effect.
pub fn sys_set_mempolicy(call: &mut Call<'_>) -> SysResult {
    check_policy(call, call.uint(0), call.args[1], call.args[2])?;
    done(0)
}

/// mbind(2): validates the policy and the range; no effect.
pub fn sys_mbind(call: &mut Call<'_>) -> SysResult {
    let [addr, len, _, mask, bits, flags] = call.args;
    if !addr.is_multiple_of(PAGE) || flags & !7 != 0 {
        return Err(Errno::EINVAL);
    }
    check_policy(call, call.uint(2), mask, bits)?;
    let end = addr.checked_add(len).ok_or(Errno::EINVAL)?.next_multiple_of(PAGE);
    call.require_mapped(&(addr..end)).map_err(|_| Errno::EFAULT)?;
    done(0)
}

/// `EINVAL` for unknown modes, nonexistent nodes, and masks not valid for the mode.
fn check_policy(call: &Call<'_>, mode: u32, mask_at: u64, bits: u64) -> Result<(), Errno> {
    let mode = mode & !MODE_FLAGS;
    if mode > MPOL_LAST || bits > LONGEST_MASK + 1 {
        return Err(Errno::EINVAL);
    }
    let bytes = if mask_at == 0 { 0 } else { bits.saturating_sub(1).div_ceil(64) * 8 };
    let mask = call.read_vec(mask_at, bytes as usize)?;
    let beyond =
        mask.first().is_some_and(|byte| byte & !1 != 0) || mask.iter().skip(1).any(|byte| *byte != 0);
    let empty = mask.iter().all(|byte| *byte == 0);
    let wants_nodes = !matches!(mode, MPOL_DEFAULT | 1 | MPOL_LOCAL);
    let refuses_nodes = matches!(mode, MPOL_DEFAULT | MPOL_LOCAL);
    if beyond || (empty && wants_nodes) || (!empty && refuses_nodes) { Err(Errno::EINVAL) } else { Ok(()) }
}
