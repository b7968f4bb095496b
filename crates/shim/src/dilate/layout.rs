//! The shim's part of a dilated process's address space. The upper half of an address identifies it, which is
//! a test that a filter can perform. The part is one of those that sanitizers leave to programs.

/// The upper half of all addresses of the shim.
pub const UPPER: u32 = 0x567c;
/// Link address of the program: [`FAR_IMAGE`](crate::layout::FAR_IMAGE), since one crate is linked for both.
pub const IMAGE: u64 = crate::layout::FAR_IMAGE;
/// Address of the temporary copy of the program.
pub const COPY: u64 = 0x567c_4000_0000;
/// Page of the clock: the first of the file.
pub const CLOCK: u64 = 0x567c_8000_0000;
/// The vDSO: the second page of the file.
pub const VDSO: u64 = 0x567c_8000_1000;
/// List of a process's packet rings.
pub const RINGS: u64 = 0x567c_8000_3000;
/// A page that is mapped once the process has the filter for packet timestamps.
pub const STAMPED: u64 = 0x567c_8000_4000;
/// A page that is mapped once the process has the filter for sockets with timeouts.
pub const TIMED: u64 = 0x567c_8000_5000;
/// A page that is mapped once the process has the filter for its end, see [`timers`](super::timers).
pub const ENDED: u64 = 0x567c_8000_6000;
/// A page that is mapped once the process has the filter that hides the timer thread.
pub const LISTED: u64 = 0x567c_8000_7000;
/// Table of the process's timers.
pub const TIMERS: u64 = 0x567c_8000_8000;
/// Size of that table.
pub const TIMERS_LEN: u64 = 0x1_8000;
/// Stack of the timer thread.
pub const TIMER_STACK: u64 = 0x567c_8004_0000;
/// Size of that stack.
pub const TIMER_STACK_LEN: u64 = 0x1_0000;
/// Addresses of the functions to which the vDSO jumps, in the order of
/// [`vdso::FUNCTIONS`](super::vdso::FUNCTIONS), followed by the folder of the shim and the path of the
/// executed program.
pub const TABLE: u64 = 0x567c_8000_2000;
/// Offset of the folder in the page: a path terminated by a zero byte.
pub const FOLDER_AT: u64 = 64;
/// Capacity for the folder, including the zero byte.
pub const FOLDER_LEN: usize = 512;
/// Offset of the program's path in the page.
pub const PATH_AT: u64 = FOLDER_AT + FOLDER_LEN as u64;
/// The size of a page.
pub const PAGE: u64 = crate::layout::PAGE;

/// The folder in a host's root that contains the shim and its clock. The shim itself works in any folder from
/// which it is started.
pub const FOLDER: &str = "/.belljar";
/// File name of the shim.
pub const PROGRAM: &str = "dilate";
/// File name of the clock: a page that begins with [`Page`](super::clock::Page), followed by the vDSO.
pub const CLOCK_FILE: &str = "clock";

const _: () =
    assert!(IMAGE >> 32 == UPPER as u64 && COPY >> 32 == UPPER as u64 && CLOCK >> 32 == UPPER as u64);

/// True if an address belongs to the shim.
pub fn is_shim(at: u64) -> bool {
    at >> 32 == u64::from(UPPER)
}
