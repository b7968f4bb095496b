//! The synthetic vDSO: a shared object of one page whose functions make the system calls of their names, so
//! that the kernel counts and times every one. It lies in a memory file, and its call sites are rewritten
//! like those of any other image; stubs of calls that read the clock answer them locally if the result is the
//! same (`rewrite::clock`).
//!
//! Both hash tables are present because C libraries and language runtimes look symbols up by either, and the
//! version `LINUX_2.6` because most require it.

use crate::layout::PAGE;
use crate::rewrite::FileKey;
use belljar_linux_abi::Errno;
use std::sync::OnceLock;

/// The exported functions and their system calls.
pub const FUNCTIONS: [(&str, i64); 5] = [
    ("__vdso_clock_gettime", libc::SYS_clock_gettime),
    ("__vdso_gettimeofday", libc::SYS_gettimeofday),
    ("__vdso_time", libc::SYS_time),
    ("__vdso_clock_getres", libc::SYS_clock_getres),
    ("__vdso_getcpu", libc::SYS_getcpu),
];
const SONAME: &str = "linux-vdso.so.1";
const VERSION: &str = "LINUX_2.6";
/// Offset of the functions in the page.
const TEXT: usize = 0x800;
const FUNCTION_SIZE: usize = 64;

const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_SYMENT: u64 = 11;
const DT_SONAME: u64 = 14;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
const DT_VERDEF: u64 = 0x6fff_fffc;
const DT_VERDEFNUM: u64 = 0x6fff_fffd;
const DYNAMIC_ENTRIES: usize = 11;

/// Descriptor of the memory file with the vDSO, created on first use.
pub fn file() -> Result<i32, Errno> {
    static FILE: OnceLock<Result<i32, Errno>> = OnceLock::new();
    *FILE.get_or_init(|| {
        let file = crate::files::shared_memory(PAGE)?;
        crate::files::write_at(file, 0, &image(call))?;
        Ok(file.0)
    })
}

/// True if the file is the vDSO's.
pub fn is(file: &FileKey) -> bool {
    static KEY: OnceLock<Option<FileKey>> = OnceLock::new();
    let key = KEY.get_or_init(|| self::file().ok().and_then(FileKey::of));
    key.as_ref() == Some(file)
}

/// Buffer to which parts are appended, each aligned to 8 bytes.
#[derive(Default)]
struct Image(Vec<u8>);

impl Image {
    fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    fn all<const N: usize>(&mut self, words: [u32; N]) {
        words.into_iter().for_each(|w| self.u32(w));
    }
    /// Begins a part; returns its offset.
    fn part(&mut self) -> u64 {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.len() as u64
    }
}

/// A string table; its first byte is 0.
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        at
    }
}

/// Code of function `n`, which makes its system call.
fn call(n: usize) -> Vec<u8> {
    // mov $nr, %eax; syscall; ret
    let mut code = vec![0xb8];
    code.extend((FUNCTIONS[n].1 as u32).to_le_bytes());
    code.extend([0x0f, 0x05, 0xc3]);
    code
}

/// The whole page; `function` returns the code of each function.
pub fn image(function: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let mut strings = Strings(vec![0]);
    let soname = strings.add(SONAME);
    let version = strings.add(VERSION);
    let names: Vec<u32> = FUNCTIONS.iter().map(|(name, _)| strings.add(name)).collect();
    let count = FUNCTIONS.len() as u32;

    // The parts referenced by the headers come first, behind space for the headers.
    let mut image = Image(vec![0; 64 + 2 * 56]);
    let hash = image.part();
    image.all([1, count + 1, 1, 0]);
    (1..=count).for_each(|n| image.u32(if n < count { n + 1 } else { 0 }));

    let gnu_hash = image.part();
    image.all([1, 1, 1, 6]);
    image.u64(u64::MAX);
    image.u32(1);
    for (n, (name, _)) in FUNCTIONS.iter().enumerate() {
        let last = u32::from(n + 1 == FUNCTIONS.len());
        image.u32(gnu_hash_of(name) & !1 | last);
    }

    let symbols = image.part();
    image.0.extend_from_slice(&[0; 24]);
    for (n, &name) in names.iter().enumerate() {
        image.u32(name);
        // STB_GLOBAL, STT_FUNC, defined.
        image.u16(0x12);
        image.u16(1);
        image.u64((TEXT + n * FUNCTION_SIZE) as u64);
        image.u64(FUNCTION_SIZE as u64);
    }

    let versions = image.part();
    image.u16(0);
    FUNCTIONS.iter().for_each(|_| image.u16(2));
    let definitions = image.part();
    // Version, flags (VER_FLG_BASE), index, number of names; hash, offset of the names, offset of the next
    // definition.
    for (flags, index, name, text, next) in [(1, 1, soname, SONAME, 28), (0, 2, version, VERSION, 0)] {
        image.u16(1);
        image.u16(flags);
        image.u16(index);
        image.u16(1);
        image.all([sysv_hash_of(text), 20, next]);
        image.all([name, 0]);
    }

    let string_table = image.part();
    image.0.extend_from_slice(&strings.0);
    let dynamic = image.part();
    let entries: [(u64, u64); DYNAMIC_ENTRIES] = [
        (DT_SONAME, u64::from(soname)),
        (DT_HASH, hash),
        (DT_GNU_HASH, gnu_hash),
        (DT_STRTAB, string_table),
        (DT_SYMTAB, symbols),
        (DT_STRSZ, strings.0.len() as u64),
        (DT_SYMENT, 24),
        (DT_VERSYM, versions),
        (DT_VERDEF, definitions),
        (DT_VERDEFNUM, 2),
        (DT_NULL, 0),
    ];
    for (tag, value) in entries {
        image.u64(tag);
        image.u64(value);
    }
    assert!(image.0.len() <= TEXT, "the tables end before the text");

    let mut page = image.0;
    // Padded with `nop` instead of zeros, which would decode as instructions that run into the first
    // function.
    page.resize(TEXT, 0x90);
    for n in 0..FUNCTIONS.len() {
        page.extend(function(n));
        page.resize(page.len().next_multiple_of(FUNCTION_SIZE), 0x90);
    }
    page.resize(PAGE as usize, 0x90);
    page[..64 + 2 * 56].copy_from_slice(&headers(dynamic));
    page
}

/// The ELF header and two program headers: PT_LOAD (all of it) and PT_DYNAMIC.
fn headers(dynamic: u64) -> Vec<u8> {
    let mut image = Image(vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // ET_DYN, EM_X86_64, EV_CURRENT; no entry point; program headers at 64, no sections.
    image.u16(3);
    image.u16(62);
    image.u32(1);
    image.u64(0);
    image.u64(64);
    image.u64(0);
    image.u32(0);
    [64, 56, 2, 64, 0, 0].into_iter().for_each(|v| image.u16(v));
    let size = (DYNAMIC_ENTRIES * 16) as u64;
    for (kind, flags, start, len, align) in [(1, 5, 0, PAGE, PAGE), (2, 4, dynamic, size, 8)] {
        image.all([kind, flags]);
        [start, start, start, len, len, align].into_iter().for_each(|v| image.u64(v));
    }
    image.0
}

/// The hash of `DT_GNU_HASH`.
fn gnu_hash_of(name: &str) -> u32 {
    name.bytes().fold(5381, |h: u32, b| h.wrapping_mul(33).wrapping_add(u32::from(b)))
}

/// The hash of `DT_HASH` and of version definitions (System V ABI, figure 5-13).
fn sysv_hash_of(name: &str) -> u32 {
    name.bytes().fold(0u32, |h, b| {
        let h = (h << 4).wrapping_add(u32::from(b));
        let high = h & 0xf000_0000;
        (h ^ (high >> 24)) & !high
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::{CStr, CString};

    /// The C library's own loader accepts the image and finds every function under its version.
    #[test]
    fn the_dynamic_loader_takes_it() {
        let path = CString::new(format!("/proc/self/fd/{}", file().unwrap())).unwrap();
        // SAFETY: all strings are C strings; the handle is checked before use; the called functions make a
        // system call with valid pointers.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!handle.is_null(), "{:?}", CStr::from_ptr(libc::dlerror()));
            for (name, _) in FUNCTIONS {
                let symbol = CString::new(name).unwrap();
                let found = libc::dlvsym(handle, symbol.as_ptr(), c"LINUX_2.6".as_ptr());
                assert!(!found.is_null(), "{name}");
                let wrong = libc::dlvsym(handle, symbol.as_ptr(), c"LINUX_9".as_ptr());
                assert!(wrong.is_null(), "{name}");
            }
            let clock = libc::dlsym(handle, c"__vdso_clock_gettime".as_ptr());
            let clock: extern "C" fn(i32, *mut libc::timespec) -> i64 = std::mem::transmute(clock);
            let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            assert_eq!(clock(libc::CLOCK_MONOTONIC, &mut now), 0);
            assert!(now.tv_sec > 0);
            assert_eq!(clock(4711, &mut now), -i64::from(libc::EINVAL));
            libc::dlclose(handle);
        }
    }
}
