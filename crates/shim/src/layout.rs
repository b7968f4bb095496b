//! Layout of an address space with guest code in it.
//!
//! ```text
//! 0x1_0000 ..               fixed addresses of ET_EXEC images, the shadow memory of sanitizers
//! 0x1010_0000_0000 ..       the guest area: slots of equal size
//! 0x5000_0000_0000 ..       the simulator: system calls from here are native
//! ```
//! A far guest's process has nothing but its shim in it, all else is the guest's:
//!
//! ```text
//! 0x5670_0000_0000 ..       the shim: system calls from here are native
//! 0x5680_0000_0000 ..       what is too large for a slot, fixed addresses
//! ```
//! ThreadSanitizer and MemorySanitizer allow programs, and so the shim, a few parts of the address space: one
//! is where Linux puts position-independent programs. The simulator's own image and heap lie there too, by
//! Linux's randomisation up to 100 GiB below the shim.

use core::ops::Range;

/// The guests' part of the address space. It starts behind the shadow of AddressSanitizer, which ends at
/// 0x1000_8000_0000.
pub const GUEST_AREA: Range<u64> = 0x1010_0000_0000..0x5000_0000_0000;
/// The part of the simulator: image, heap, libraries and stacks.
pub const HOST_AREA: Range<u64> = 0x5000_0000_0000..USER_END;
/// The end of user memory, below which Linux puts stacks.
pub const USER_END: u64 = 0x7fff_ffff_f000;
/// The area in which near guests may claim fixed addresses (below it is `vm.mmap_min_addr`).
pub const FIXED_AREA: Range<u64> = 0x1_0000..GUEST_AREA.start;
/// The part of a far guest's shim.
pub const SHIM_AREA: Range<u64> = CHANNEL..0x5680_0000_0000;
/// The size of a page.
pub const PAGE: u64 = 4096;

/// Address of the channel in a far guest's process.
pub const CHANNEL: u64 = 0x5670_0000_0000;
/// The stack of a far guest's shim.
pub const FAR_STACK: u64 = 0x5674_0000_0000;
/// Its size in bytes.
pub const FAR_STACK_SIZE: u64 = 64 << 10;
/// Address of the worker block and signal stack in a far guest's process.
pub const FAR_WORKER: u64 = 0x5678_0000_0000;
/// Link address of the far program.
pub const FAR_IMAGE: u64 = 0x567c_0000_0000;
