use super::*;
use belljar_base::hex;
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Layer entry: kind (`f`, `d`, `l` symbolic, `h` hard), path, content or target.
type Entry<'a> = (char, &'a str, &'a str);

fn layer(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (kind, path, content) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_mode(if *kind == 'd' { 0o750 } else { 0o640 });
        header.set_mtime(1_000_000_000);
        header.set_uid(rustix::process::geteuid().as_raw().into());
        header.set_gid(0);
        header.set_size(0);
        // `set_path` rejects the paths of an attack.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        let kind = match kind {
            'f' => tar::EntryType::Regular,
            'd' => tar::EntryType::Directory,
            'l' => tar::EntryType::Symlink,
            _ => tar::EntryType::Link,
        };
        header.set_entry_type(kind);
        if matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link) {
            header.as_old_mut().linkname[..content.len()].copy_from_slice(content.as_bytes());
            header.set_cksum();
            archive.append(&header, &[][..]).unwrap();
        } else {
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append(&header, content.as_bytes()).unwrap();
        }
    }
    archive.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn configuration(layers: &[Vec<u8>], architecture: &str) -> String {
    let ids: Vec<_> = layers.iter().map(|layer| format!("\"sha256:{}\"", digest(layer))).collect();
    format!(
        r#"{{"architecture":"{architecture}","os":"linux","config":{{"Env":["PATH=/bin","A=b=c"],"Entrypoint":["/bin/x"],"Cmd":null,"User":"7:8","WorkingDir":"/srv"}},"rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
        ids.join(",")
    )
}

fn archive(path: &Path, parts: &[(&str, &[u8])]) {
    let mut archive = tar::Builder::new(fs::File::create(path).unwrap());
    for (name, content) in parts {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, *content).unwrap();
    }
    archive.finish().unwrap();
}

/// Writes an archive as by `docker save`.
fn docker(path: &Path, layers: &[Vec<u8>], architecture: &str) {
    let config = configuration(layers, architecture);
    let names: Vec<String> = (0..layers.len()).map(|number| format!("{number}/layer.tar")).collect();
    let listed: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let manifest = format!(r#"[{{"Config":"c.json","RepoTags":["x:1"],"Layers":[{}]}}]"#, listed.join(","));
    let mut parts: Vec<(&str, &[u8])> =
        vec![("c.json", config.as_bytes()), ("manifest.json", manifest.as_bytes())];
    parts.extend(names.iter().zip(layers).map(|(name, layer)| (&**name, &**layer)));
    archive(path, &parts);
}

fn opened(layers: &[Vec<u8>]) -> (tempfile::TempDir, Result<Root>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image.tar");
    docker(&path, layers, "amd64");
    let root = Root::open(&path, Some(&folder.path().join("cache")));
    (folder, root)
}

fn refused(layers: &[Vec<u8>]) -> String {
    let (folder, root) = opened(layers);
    let left: Vec<_> =
        fs::read_dir(folder.path().join("cache/images")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().ends_with(".lock")), "{left:?}");
    root.unwrap_err().to_string()
}

#[test]
fn layers_replace_and_remove_what_lies_below() {
    let first = layer(&[
        ('d', "etc", ""),
        ('f', "etc/one", "1"),
        ('f', "etc/two", "2"),
        ('d', "srv", ""),
        ('f', "srv/old", "old"),
        ('d', "srv/deep", ""),
        ('f', "srv/deep/old", "old"),
        ('l', "bin", "usr/bin"),
        ('d', "usr/bin", ""),
        ('f', "usr/bin/x", "x"),
        ('d', "gone", ""),
        ('f', "gone/file", ""),
    ]);
    let second = layer(&[
        ('f', "etc/.wh.one", ""),
        ('f', "etc/two", "zwei"),
        ('h', "etc/three", "etc/two"),
        ('f', "srv/new", "new"),
        ('f', "srv/deep/new", "new"),
        ('f', "srv/.wh..wh..opq", ""),
        ('f', ".wh..wh.plnk", ""),
        ('f', "bin/y", "y"),
        ('f', ".wh.gone", ""),
        ('f', "gone/new", ""),
    ]);
    let (_folder, root) = opened(&[first, second]);
    let root = root.unwrap();
    let at = |path: &str| root.directory.join(path);
    assert!(!at("etc/one").exists() && !at("srv/old").exists() && !at("srv/deep/old").exists());
    assert!(!at("gone/file").exists() && at("gone/new").exists() && !at(".wh..wh.plnk").exists());
    assert_eq!(fs::read_to_string(at("etc/three")).unwrap(), "zwei");
    assert_eq!(fs::metadata(at("etc/two")).unwrap().nlink(), 2);
    assert_eq!(fs::read_to_string(at("srv/deep/new")).unwrap(), "new");
    assert_eq!(fs::read_link(at("bin")).unwrap(), Path::new("usr/bin"));
    assert!(at("usr/bin/y").is_file(), "a path through a link of the image stays in it");
    let meta = fs::metadata(at("etc")).unwrap();
    assert_eq!((meta.permissions().mode() & 0o7777, meta.mtime()), (0o750, 1_000_000_000));
    assert_eq!(root.settings.environment, [("PATH".into(), "/bin".into()), ("A".into(), "b=c".into())]);
    assert_eq!((&root.settings.user, &root.settings.command), (&Some("7".into()), &vec![]));
    assert!(root.find(Path::new("/bin/x")).is_some() && root.find(Path::new("/../../bin/x")).is_some());
    assert!(root.find(Path::new("/etc/one")).is_none());
}

#[test]
fn zstandard_layers_have_any_number_of_frames() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let content = "x".repeat(300_000);
    let whole = layer(&[('f', "one", &content), ('f', "two", "2")]);
    let id = digest(&whole);
    let (front, back) = whole.split_at(100_000);
    let frame = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
    let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"index"].concat();
    for parts in [
        vec![frame(&whole)],
        vec![frame(front), frame(back)],
        vec![skipped.clone(), frame(front), skipped.clone(), frame(&[]), frame(back), skipped.clone()],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = layer::Tree::new(folder.path(), false).unwrap();
        tree.put(&*parts.concat(), &id).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("one")).unwrap(), content);
        assert_eq!(fs::read_to_string(folder.path().join("two")).unwrap(), "2");
    }
    for damaged in [[frame(&whole), vec![1, 2, 3]].concat(), [frame(front), skipped[..10].to_vec()].concat()]
    {
        let folder = tempfile::tempdir().unwrap();
        assert!(layer::Tree::new(folder.path(), false).unwrap().put(&*damaged, &id).is_err());
    }
}

#[test]
fn nothing_leads_out_of_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().to_str().unwrap().to_owned();
    fs::write(folder.path().join("file"), "mine").unwrap();
    // Links that lead out of the image are resolved inside it.
    let first = layer(&[('l', "out", &outside), ('l', "up", "../../../../../../../..")]);
    let target = format!("up{outside}");
    let more =
        [('d', &outside[1..], ""), ('f', "out/file", "theirs"), ('f', "up/evil", "e"), ('d', &*target, "")];
    let (_kept, root) = opened(&[first.clone(), layer(&more)]);
    let root = root.unwrap();
    assert_eq!(fs::read_to_string(root.directory.join(&outside[1..]).join("file")).unwrap(), "theirs");
    assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), "mine");
    assert!(root.directory.join("evil").exists() && !Path::new("/evil").exists());
    let error = refused(&[layer(&[('f', "a/../../b", "")])]);
    assert!(error.starts_with("layer 1: the path 'a/../../b' leads out of the image"), "{error}");
    let error = refused(&[layer(&[('h', "a", "../../etc/passwd")])]);
    assert!(error.contains("'../../etc/passwd' leads out of the image"), "{error}");
    let error = refused(&[layer(&[('f', "d/.wh...", "")])]);
    assert!(error.contains("removes no file"), "{error}");
    // A hard link must refer to a file of the image.
    let error = refused(&[layer(&[('h', "a", "/etc/passwd")])]);
    assert!(error.contains("unpacking 'a'"), "{error}");
}

#[test]
fn damage_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cache) = (folder.path().join("image.tar"), folder.path().join("cache"));
    let open = |path: &Path| Root::open(path, Some(&cache)).unwrap_err().to_string();
    let good = layer(&[('f', "a", "1")]);
    let config = configuration(&[layer(&[('f', "a", "2")])], "amd64");
    let manifest = r#"[{"Config":"c.json","RepoTags":null,"Layers":["l"]}]"#;
    archive(&path, &[("c.json", config.as_bytes()), ("l", &good), ("manifest.json", manifest.as_bytes())]);
    assert!(open(&path).starts_with("layer 1: its content is not that of its digest"), "{}", open(&path));
    archive(&path, &[("c.json", config.as_bytes()), ("manifest.json", manifest.as_bytes())]);
    assert!(open(&path).starts_with("its part 'l' is missing"), "{}", open(&path));
    archive(&path, &[("c.json", b"{}"), ("manifest.json", manifest.as_bytes())]);
    assert!(
        open(&path).starts_with("its part 'c.json' is not what images have: missing field"),
        "{}",
        open(&path)
    );
    archive(&path, &[("x", b"")]);
    assert!(open(&path).starts_with("it is no image: it has neither"), "{}", open(&path));
    let two =
        r#"[{"Config":"a","RepoTags":["a:1"],"Layers":[]},{"Config":"b","RepoTags":["b:2"],"Layers":[]}]"#;
    archive(&path, &[("manifest.json", two.as_bytes())]);
    assert!(open(&path).starts_with("there are several images in it: a:1, b:2: save one"), "{}", open(&path));
    docker(&path, &[good], "arm64");
    assert!(open(&path).starts_with("the image is for linux/arm64, and this machine runs linux/amd64"));
    fs::write(&path, gzip(b"x")).unwrap();
    assert_eq!(open(&path), "the archive is compressed as a whole: unpack it with gunzip");
    fs::write(&path, [b'x'; 2_000]).unwrap();
    assert!(open(&path).starts_with("it is no archive in the format of tar"), "{}", open(&path));
    assert!(open(Path::new("/")).starts_with("this machine's root is what hosts have anyway"));
    assert!(open(Path::new("/dev/null")).starts_with("it is neither a directory nor a file"));
    let there = folder.path().join("dir");
    fs::create_dir(&there).unwrap();
    assert_eq!(Root::open(&there, None).unwrap().directory, there.canonicalize().unwrap());
}

#[test]
fn an_oci_layout_has_compressed_layers_and_several_platforms() {
    let folder = tempfile::tempdir().unwrap();
    let (layout, cache) = (folder.path().join("layout"), folder.path().join("cache"));
    fs::create_dir_all(layout.join("blobs/sha256")).unwrap();
    let put = |bytes: &[u8]| {
        fs::write(layout.join("blobs/sha256").join(digest(bytes)), bytes).unwrap();
        format!("\"sha256:{}\"", digest(bytes))
    };
    let own = layer(&[('f', "a", "1")]);
    let config = put(configuration(std::slice::from_ref(&own), "amd64").as_bytes());
    let packed = put(&gzip(&own));
    let manifest =
        put(format!(r#"{{"config":{{"digest":{config}}},"layers":[{{"digest":{packed}}}]}}"#).as_bytes());
    let platform = |name: &str| {
        format!(r#"{{"digest":{manifest},"platform":{{"os":"linux","architecture":"{name}"}}}}"#)
    };
    let inner = put(format!(r#"{{"manifests":[{},{}]}}"#, platform("arm64"), platform("amd64")).as_bytes());
    fs::write(layout.join("oci-layout"), "{}").unwrap();
    fs::write(layout.join("index.json"), format!(r#"{{"manifests":[{{"digest":{inner}}}]}}"#)).unwrap();
    let root = Root::open(&layout, Some(&cache)).unwrap();
    assert_eq!(fs::read_to_string(root.directory.join("a")).unwrap(), "1");
    fs::write(layout.join("index.json"), format!(r#"{{"manifests":[{}]}}"#, platform("arm64"))).unwrap();
    let error = Root::open(&layout, Some(&cache)).unwrap_err();
    assert_eq!(error.message, "it has no image for linux/amd64, but linux/arm64");
}

#[test]
fn runs_at_once_unpack_once_and_leftovers_of_killed_ones_go() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cache) = (folder.path().join("image.tar"), folder.path().join("cache"));
    docker(&path, &[layer(&[('f', "a", &"x".repeat(1 << 20))])], "amd64");
    let found: Vec<PathBuf> = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..4).map(|_| scope.spawn(|| Root::open(&path, Some(&cache)).unwrap().directory)).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(
        found.iter().all(|each| *each == found[0] && each.join("a").metadata().unwrap().len() == 1 << 20)
    );
    let partial = PathBuf::from(format!("{}.partial", found[0].display()));
    fs::rename(&found[0], &partial).unwrap();
    fs::write(partial.join("half"), "").unwrap();
    let again = Root::open(&path, Some(&cache)).unwrap().directory;
    assert!(again.join("a").exists() && !again.join("half").exists() && !partial.exists());
    let error = Root::open(&path, None).unwrap_err();
    assert!(error.message.starts_with("there is no place for the unpacked image"), "{error}");
    let error = Root::open(&path, Some(Path::new("/proc/none"))).unwrap_err();
    assert!(error.message.starts_with("the image cannot be unpacked below '/proc/none/images'"), "{error}");
}
