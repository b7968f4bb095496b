//! Archives and modules.

use crate::cpio::Archive;
use crate::modules::Modules;
use std::path::Path;

/// Files of an archive as (name, mode, content), parsed by the format.
fn read(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let mut files = Vec::new();
    let mut at = 0;
    loop {
        assert_eq!(&bytes[at..at + 6], b"070701");
        let field = |n: usize| {
            let text = std::str::from_utf8(&bytes[at + 6 + 8 * n..at + 14 + 8 * n]).unwrap();
            u32::from_str_radix(text, 16).unwrap()
        };
        let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
        let name = String::from_utf8(bytes[at + 110..at + 110 + name_size - 1].to_vec()).unwrap();
        let content = (at + 110 + name_size).next_multiple_of(4);
        at = (content + size).next_multiple_of(4);
        if name == "TRAILER!!!" {
            assert_eq!(at, bytes.len());
            return files;
        }
        files.push((name, mode, bytes[content..content + size].to_vec()));
    }
}

#[test]
fn directories_come_before_what_is_in_them() {
    let mut archive = Archive::default();
    archive.file(Path::new("/usr/bin/x"), 0o100755, b"one".to_vec()).unwrap();
    archive.file(Path::new("/usr-local/y"), 0o644, b"fourfive".to_vec()).unwrap();
    archive.link(Path::new("/bin"), b"usr/bin");
    archive.directory(Path::new("/usr"), 0o700);
    let expected: [(&str, u32, &[u8]); 6] = [
        ("bin", 0o120777, b"usr/bin"),
        ("usr", 0o040755, b""),
        ("usr-local", 0o040755, b""),
        ("usr-local/y", 0o100644, b"fourfive"),
        ("usr/bin", 0o040755, b""),
        ("usr/bin/x", 0o100755, b"one"),
    ];
    let files = read(&archive.bytes());
    let seen: Vec<(&str, u32, &[u8])> =
        files.iter().map(|(n, m, c)| (n.as_str(), *m, c.as_slice())).collect();
    assert_eq!(seen, expected);
    assert!(archive.has(Path::new("/usr/bin/x")) && !archive.has(Path::new("/usr/bin/z")));
}

/// Creates a fake module with dependencies.
fn module(folder: &Path, place: &str, depends: &str) {
    let path = folder.join("kernel").join(place);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("\x7fELF..\0license=GPL\0depends={depends}\0intree=Y\0")).unwrap();
}

#[test]
fn modules_come_after_those_that_they_need() {
    let folder = tempfile::tempdir().unwrap();
    module(folder.path(), "drivers/net/virtio_net.ko", "net-failover,virtio,virtio_ring");
    module(folder.path(), "drivers/net/net_failover.ko", "failover");
    module(folder.path(), "net/failover.ko", "");
    module(folder.path(), "drivers/virtio/virtio_ring.ko", "");
    std::fs::write(folder.path().join("modules.builtin"), "kernel/drivers/virtio/virtio.ko\n").unwrap();
    let modules = Modules::of(folder.path()).unwrap();
    let names = |wanted: &[&str]| -> Vec<String> {
        modules.closure(wanted).unwrap().into_iter().map(|module| module.name).collect()
    };
    assert_eq!(names(&["virtio_net", "failover"]), ["failover", "net_failover", "virtio_ring", "virtio_net"]);
    assert_eq!(names(&["virtio"]), [""; 0]);
    let error = modules.closure(&["e1000"]).unwrap_err().to_string();
    assert!(error.starts_with("the kernel has no module 'e1000'"), "{error}");
}
