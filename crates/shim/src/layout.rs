//! Layout of an address space that contains guest code.
//!
//! ```text
//! 0x1_0000 ..               fixed addresses of ET_EXEC images, the shadow memory of sanitizers
//! 0x1010_0000_0000 ..       the guest area: slots of equal size
//! 0x5000_0000_0000 ..       the simulator: system calls from here are native
//! ```
//! In a far guest's process, only the shim's part is reserved and the rest belongs to the guest:
//!
//! ```text
//! 0x5670_0000_0000 ..       the shim: system calls from here are native
//! 0x5680_0000_0000 ..       mappings too large for a slot, fixed addresses
//! ```
//! ThreadSanitizer and MemorySanitizer restrict programs, and thereby the shim, to a few parts of the address
//! space: one is the range in which Linux loads position-independent programs. The simulator's own image and
//! heap lie there too, by Linux's randomisation up to 100 GiB below the shim.

use core::ops::Range;

/// The guests' part of the address space. It starts behind the shadow of AddressSanitizer, which ends at
/// 0x1000_8000_0000.
pub const GUEST_AREA: Range<u64> = 0x1010_0000_0000..0x5000_0000_0000;
/// The simulator's part: image, heap, libraries and stacks.
pub const HOST_AREA: Range<u64> = 0x5000_0000_0000..USER_END;
/// End of user memory, below which Linux places stacks.
pub const USER_END: u64 = 0x7fff_ffff_f000;
/// Area in which near guests may claim fixed addresses (below it is `vm.mmap_min_addr`).
pub const FIXED_AREA: Range<u64> = 0x1_0000..GUEST_AREA.start;
/// The shim's part of a far guest's process.
pub const SHIM_AREA: Range<u64> = CHANNEL..0x5680_0000_0000;
/// The size of a page.
pub const PAGE: u64 = 4096;

/// Address of the channel in a far guest's process.
pub const CHANNEL: u64 = 0x5670_0000_0000;
/// Address of the shim's stack in a far guest's process.
pub const FAR_STACK: u64 = 0x5674_0000_0000;
/// Size of the shim's stack in bytes.
pub const FAR_STACK_SIZE: u64 = 64 << 10;
/// Address of the worker block and signal stack in a far guest's process.
pub const FAR_WORKER: u64 = 0x5678_0000_0000;
/// Link address of the far program.
pub const FAR_IMAGE: u64 = 0x567c_0000_0000;
