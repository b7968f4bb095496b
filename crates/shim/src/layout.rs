//! Where things lie in an address space with guest code in it.
//!
//! ```text
//! 0x1_0000 ..               fixed addresses of ET_EXEC images, the shadow memory of sanitizers
//! 0x1010_0000_0000 ..       the guest area: slots of equal size
//! 0x5000_0000_0000 ..       the simulator, or a far guest's shim: system calls from here are native
//! 0x6000_0000_0000 ..       beside a shim, fixed addresses as well: the heap of sanitizers
//! ```

use core::ops::Range;

/// The guests' part of the address space. It starts behind the shadow of AddressSanitizer, which ends at
/// 0x1000_8000_0000.
pub const GUEST_AREA: Range<u64> = 0x1010_0000_0000..0x5000_0000_0000;
/// The part of the simulator, or of a far guest's shim: image, heap, libraries and stacks.
pub const HOST_AREA: Range<u64> = 0x5000_0000_0000..0x7fff_ffff_f000;
/// What a claim of fixed addresses must lie in (below is `vm.mmap_min_addr`).
pub const FIXED_AREA: Range<u64> = 0x1_0000..GUEST_AREA.start;
/// The same in a process of a far guest's own, which has no libraries and no heap. Code there may make
/// system calls of its own: it is meant for data.
pub const FAR_FIXED_AREA: Range<u64> = 0x6000_0000_0000..0x7f00_0000_0000;
/// The size of a page.
pub const PAGE: u64 = 4096;

/// Where a far guest's process maps its channel.
pub const CHANNEL: u64 = 0x5e00_0000_0000;
/// The stack of a far guest's process that was forked from the simulator.
pub const FAR_STACK: u64 = 0x5e40_0000_0000;
/// Its size in bytes.
pub const FAR_STACK_SIZE: u64 = 64 << 10;
/// Where a far guest's process has its worker block and signal stack.
pub const FAR_WORKER: u64 = 0x5e80_0000_0000;
/// Where the far program is linked to.
pub const FAR_IMAGE: u64 = 0x5f00_0000_0000;
