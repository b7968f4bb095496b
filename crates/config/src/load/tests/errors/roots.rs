//! Errors of hosts with a root file system of their own.

use super::*;
use std::os::unix::fs::PermissionsExt;

/// A root with one program, a file, a directory and a substitute for a special file.
fn folder() -> Folder {
    let folder = Folder::new("roots");
    for directory in ["r/bin/dir", "r/opt"] {
        std::fs::create_dir_all(folder.0.join(directory)).unwrap();
    }
    folder.write("r/bin/prog", "");
    std::fs::set_permissions(folder.0.join("r/bin/prog"), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder.write("r/bin/data", "");
    std::os::unix::fs::symlink("/bin/prog", folder.0.join("r/opt/link")).unwrap();
    std::os::unix::net::UnixListener::bind(folder.0.join("r/bin/socket")).unwrap();
    folder.write("file", "no archive");
    folder
}

fn load(folder: &Folder, root: &str, process: &str) -> Result<Experiment, (String, String)> {
    let text = format!(
        "{GENERAL}\n{NETWORK}\nhosts: {{ a: {{ network_node_id: 0, root: {root}, processes: [{process}] }} }}\n"
    );
    let around = PathContext { base_dir: folder.0.clone(), ..around() };
    let place = format!("{}/", folder.0.display());
    Experiment::parse_in("e.yaml", &text, &around).map_err(|error| {
        (error.message.replace(&place, ""), error.help.unwrap_or_default().replace(&place, ""))
    })
}

#[test]
fn roots_that_are_none() {
    let folder = folder();
    let told = |root: &str, message: &str, help: &str| {
        assert_eq!(load(&folder, root, "").unwrap_err(), (message.to_owned(), help.to_owned()));
    };
    told("none", "there is neither a directory nor an image 'none'", "looked for none and /nowhere/none");
    told("/", "'/' cannot be a root: this machine's root is what hosts have anyway", "leave 'root' out");
    told(
        "file",
        "'file' cannot be a root: it is no archive in the format of tar: failed to read entire block",
        "make one by 'docker save -o FILE IMAGE', or name a directory",
    );
    told("[]", "'root' must be a string, but is a list", "");
}

#[test]
fn programs_are_those_of_the_root() {
    let folder = folder();
    for good in ["/bin/prog", "prog", "/opt/link"] {
        let loaded = load(&folder, "r", &format!("{{ path: {good} }}")).unwrap();
        assert_eq!(loaded.hosts[0].processes[0].arg0, good);
        let again = Experiment::parse_in("again.yaml", &loaded.to_yaml(), &around()).unwrap();
        assert_eq!(again.hosts, loaded.hosts);
    }
    let told = |path: &str, message: &str, help: &str| {
        let found = load(&folder, "r", &format!("{{ path: {path} }}")).unwrap_err();
        assert_eq!(found, (message.to_owned(), help.to_owned()));
    };
    told(
        "ls",
        "there is no program 'ls' in PATH of the root 'r'",
        "PATH there is /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin: give the program's path in the root",
    );
    told(
        "./prog",
        "'./prog' is a path of this machine, and host 'a' has a root of its own",
        "write its absolute path in the root; programs of this machine can be put below a directory of 'shared'",
    );
    told("/usr/bin/env", "'/usr/bin/env' in the root 'r' does not exist", "");
    told("/bin/dir", "'/bin/dir' in the root 'r' is a directory, not a program", "");
    told("/bin/data", "'/bin/data' in the root 'r' is not executable", "");
    told("/bin/socket", "'/bin/socket' in the root 'r' is not a regular file", "");
    let without = load(&folder, "r", "{}").unwrap_err();
    assert_eq!(without, ("a process of host 'a' has no 'path'".into(), "add path: /bin/true".into()));
}

/// An experiment with an event.
fn event(folder: &Folder, event: &str) -> Result<Experiment, (String, String)> {
    let process = "{ path: /bin/prog }";
    let text = format!(
        "{GENERAL}\n{NETWORK}\nhosts:\n  a: {{ network_node_id: 0, root: r, processes: [{process}] }}\n  \
        b: {{ network_node_id: 0, root: r, processes: [{{ path: prog, args: [x] }}, {{ path: /bin/prog }}] }}\n  \
        m: {{ network_node_id: 0, processes: [] }}\nevents:\n- {{ at: 1 s, {event} }}\n"
    );
    let around = PathContext { base_dir: folder.0.clone(), ..around() };
    let place = format!("{}/", folder.0.display());
    Experiment::parse_in("e.yaml", &text, &around).map_err(|error| {
        let help = error.help.unwrap_or_default().replace(&place, "");
        (error.message.replace(&place, ""), help)
    })
}

#[test]
fn other_roots_at_a_restart() {
    let folder = folder();
    std::fs::create_dir_all(folder.0.join("new/usr/bin")).unwrap();
    let program = folder.0.join("new/usr/bin/prog");
    std::fs::write(&program, "").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let loaded = event(&folder, "restart: b, root: r, keep: [/opt/, /var/lib/data]").unwrap();
    let again = Experiment::parse_in("again.yaml", &loaded.to_yaml(), &around()).unwrap();
    assert_eq!(again.events, loaded.events);
    let told = |written: &str, message: &str, help: &str| {
        let (found, remedy) = event(&folder, written).unwrap_err();
        assert_eq!((found, remedy), (message.to_owned(), help.to_owned()), "{written}");
    };
    told(
        "restart: b, root: new, keep: []",
        "the programs of host 'b': '/bin/prog' in the root 'new' does not exist",
        "",
    );
    told(
        "restart: a, root: r, keep: data",
        "'keep' must be a list, but is a string",
        "begin each item with '- '",
    );
    told("restart: a, root: r, keep: [[data]]", "a path of 'keep' must be a string, but is a list", "");
    let no_folder = "write its path on the host, such as /var/lib/data";
    told("restart: a, root: r, keep: [data]", "'data' is no absolute path of a folder", no_folder);
    told(
        "restart: a, root: r, keep: [/srv/../etc]",
        "'/srv/../etc' is no absolute path of a folder",
        no_folder,
    );
    told(
        "restart: a, root: r, keep: [/]",
        "'/' would keep all files, so the root would not change",
        "name the folders with data, such as /var/lib/data",
    );
    told(
        "restart: a, root: r, keep: [/run/app]",
        "a host that starts has nothing of before in '/run'",
        "name a folder of the disk, such as /var/lib/data",
    );
    told(
        "restart: a, root: r, keep: [/srv, /srv/data]",
        "'/srv/data' and '/srv' contain each other",
        "name the outer one alone",
    );
    let links = "'keep' takes paths of folders, without links";
    told("restart: a, root: r, keep: [/opt/link]", "'/opt/link' is a link in 'r'", links);
    told("restart: a, root: r, keep: [/bin/data/x]", "'/bin/data' is no folder in 'r'", links);
    told(
        "restart: a, root: r",
        "an event has no 'keep'",
        "add keep: [/var/lib/data], or keep: [] if no file of the host stays",
    );
    told("restart: m, root: r, keep: []", "host 'm' runs no program, so 'restart' has no effect on it", "");
    told(
        "restart: a, keep: [/srv]",
        "'keep' is not valid without 'root'",
        "a restart with the same root keeps all files: leave it out",
    );
}

#[test]
fn images_that_run_nothing() {
    let folder = folder();
    let mut loaded = load(&folder, "r", "{ path: prog }").unwrap();
    let node = crate::yaml::parse("root: r").unwrap().unwrap();
    let around = PathContext { base_dir: folder.0.clone(), ..around() };
    let node = crate::yaml::Section::new(&node, "a host", &["root"], false).unwrap().get("root").unwrap();
    let files = crate::load::root::read(node, &around).unwrap();
    loaded.hosts[0].processes[0].written.as_mut().unwrap().path = None;
    let (message, help) = files.programs_of(&loaded.hosts[0], &around).unwrap_err();
    assert!(
        message.starts_with("the root '") && message.ends_with("' does not say which program it runs"),
        "{message}"
    );
    assert_eq!(help.as_deref(), Some("give the process a path"));
}
