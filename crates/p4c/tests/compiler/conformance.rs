//! The conformance suite: programs whose sources lie in a checkout of p4c (`BELLJAR_P4C`), with the P4Info that p4c
//! makes of them (`BELLJAR_P4_CONFORMANCE`, or `shared/p4-conformance` in a folder above).

use belljar_p4c::{Options, compile};
use std::path::{Path, PathBuf};

/// The folders of expected results and of sources.
pub(super) fn folders() -> Option<(PathBuf, PathBuf)> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let data = match std::env::var_os("BELLJAR_P4_CONFORMANCE") {
        Some(path) => PathBuf::from(path),
        None => manifest
            .ancestors()
            .map(|above| above.join("shared/p4-conformance"))
            .find(|data| data.is_dir())?,
    };
    let sources = PathBuf::from(std::env::var_os("BELLJAR_P4C")?).join("testdata/p4_16_samples");
    (data.is_dir() && sources.is_dir()).then_some((data, sources))
}

/// Lines that matter.
fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).collect()
}

#[test]
fn p4info_equals_the_reference() {
    let Some((data, sources)) = folders() else {
        eprintln!("skipped: set BELLJAR_P4C to a checkout of p4c and BELLJAR_P4_CONFORMANCE to the suite");
        return;
    };
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(data.join("v1model")).expect("the suite is readable") {
        let path = entry.expect("the suite is readable").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(base) = name.strip_suffix(".p4info.txtpb") else { continue };
        let expected = std::fs::read_to_string(&path).expect("the suite is readable");
        let source = sources.join(format!("{base}.p4"));
        let text = std::fs::read_to_string(&source).expect("the source is readable");
        count += 1;
        match compile(&source.display().to_string(), &text, &Options::default()) {
            Ok(compiled) if lines(&compiled.p4info) == lines(&expected) => {}
            Ok(_) => wrong.push(format!("{base}: differs")),
            Err(error) => wrong.push(format!("{base}: {error}")),
        }
    }
    assert!(count > 100, "the suite has only {count} programs");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
