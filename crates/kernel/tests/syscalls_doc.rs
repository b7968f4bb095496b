//! `docs/syscalls.md` says what the table of system calls says. To bring it up to date:
//! `BELLJAR_UPDATE_DOCS=1 cargo test -p belljar-kernel --test syscalls_doc`.

use belljar_kernel::syscall::table::{ENTRIES, Support};
use std::fmt::Write;

fn generate() -> String {
    let count = |support| ENTRIES.iter().filter(|entry| entry.support == support).count();
    let mut text = format!(
        "# System calls\n\n\
         Generated from the kernel's table of system calls (`crates/kernel/src/syscall/table.rs`).\n\
         Of the {} system calls of x86-64 Linux, {} are fully supported (held to Linux's behaviour by a\n\
         guest test), {} partially, {} are accepted without an effect that a simulated host could have, and\n\
         {} answer `ENOSYS` with a warning in the run's summary.\n\n\
         | number | name | support | note |\n|---|---|---|---|\n",
        ENTRIES.len(),
        count(Support::Full),
        count(Support::Partial),
        count(Support::NoEffect),
        count(Support::Unsupported),
    );
    for entry in ENTRIES {
        let support = match entry.support {
            Support::Full => "full",
            Support::Partial => "partial",
            Support::NoEffect => "no effect",
            Support::Unsupported => "no",
        };
        let _ = writeln!(text, "| {} | {} | {support} | {} |", entry.number, entry.name, entry.note);
    }
    text
}

#[test]
fn the_document_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/syscalls.md");
    let expected = generate();
    if std::env::var_os("BELLJAR_UPDATE_DOCS").is_some() {
        std::fs::write(path, &expected).expect("the document can be written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/syscalls.md is out of date: BELLJAR_UPDATE_DOCS=1 cargo test -p belljar-kernel --test syscalls_doc"
    );
}
