//! The shim's part of a dilated process's address space. A comparison with the upper half of an address tells it: that is
//! what a filter can do. It is one of the parts that sanitizers leave to programs.

/// The upper half of all addresses of the shim.
pub const UPPER: u32 = 0x567c;
/// Link address of the program: [`FAR_IMAGE`](crate::layout::FAR_IMAGE), since one crate is linked for both.
pub const IMAGE: u64 = crate::layout::FAR_IMAGE;
/// The place where a copy of the program is made before it takes the program's place.
pub const COPY: u64 = 0x567c_4000_0000;
/// The page of the clock: the first of the file.
pub const CLOCK: u64 = 0x567c_8000_0000;
/// The vDSO: the second page of the file.
pub const VDSO: u64 = 0x567c_8000_1000;
/// The list of a process's packet rings.
pub const RINGS: u64 = 0x567c_8000_3000;
/// A page that is mapped once the process has the filter for the times of packets.
pub const STAMPED: u64 = 0x567c_8000_4000;
/// The addresses of the functions that the vDSO jumps to, in the order of [`vdso::FUNCTIONS`](super::vdso::FUNCTIONS), and behind
/// them the folder of the shim and the path of the executed program.
pub const TABLE: u64 = 0x567c_8000_2000;
/// Place of the folder in the page: a path that ends with a zero.
pub const FOLDER_AT: u64 = 64;
/// Most bytes of the folder, with the zero.
pub const FOLDER_LEN: usize = 512;
/// Place of the program's path in the page.
pub const PATH_AT: u64 = FOLDER_AT + FOLDER_LEN as u64;
/// The size of a page.
pub const PAGE: u64 = crate::layout::PAGE;

/// The folder in a host's root with the shim and its clock. The shim itself finds them wherever it is started.
pub const FOLDER: &str = "/.belljar";
/// The shim's name there.
pub const PROGRAM: &str = "dilate";
/// The clock's name there: a page of [`Page`](super::clock::Page), and the vDSO.
pub const CLOCK_FILE: &str = "clock";

const _: () =
    assert!(IMAGE >> 32 == UPPER as u64 && COPY >> 32 == UPPER as u64 && CLOCK >> 32 == UPPER as u64);

/// True if an address is the shim's.
pub fn is_shim(at: u64) -> bool {
    at >> 32 == u64::from(UPPER)
}
