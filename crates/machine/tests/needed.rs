//! Files named by a program of this machine.

use belljar_machine::needed::{Needed, needed};

#[test]
fn an_image_names_its_interpreter_and_libraries() {
    let image = std::fs::read("/bin/sh").unwrap();
    let found = needed(&image);
    assert_eq!(found.interpreter, Some(&b"/lib64/ld-linux-x86-64.so.2"[..]));
    assert!(found.libraries.contains(&&b"libc.so.6"[..]), "{found:?}");
}

#[test]
fn what_is_damaged_names_nothing() {
    let image = std::fs::read("/bin/sh").unwrap();
    assert_eq!(needed(b"#!/bin/sh\n"), Needed::default());
    assert_eq!(needed(&image[..100]), Needed::default());
    // Truncation at any offset does not panic.
    for len in (0..image.len()).step_by(997) {
        needed(&image[..len]);
    }
}
