//! Files that the processes of a dilated host need: the shim, and the vDSO behind its clock.

use crate::vdso;
use belljar_shim::dilate::layout;
pub use belljar_shim::dilate::{clock, layout as places};

/// The program that dilated processes execute, an ELF image.
pub const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dilate"));

/// The vDSO of dilated processes: each function jumps through the shim's table.
pub fn vdso() -> Vec<u8> {
    vdso::image(|n| {
        // mov $entry, %rax; jmp *(%rax)
        let mut code = vec![0x48, 0xb8];
        code.extend((layout::TABLE + 8 * n as u64).to_le_bytes());
        code.extend([0xff, 0x20]);
        code
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vdso_and_the_shim_agree_on_the_functions() {
        let names = vdso::FUNCTIONS.map(|(name, _)| name);
        assert_eq!(names, belljar_shim::dilate::vdso::FUNCTIONS);
        assert_eq!(vdso().len() as u64, layout::PAGE);
    }
}
