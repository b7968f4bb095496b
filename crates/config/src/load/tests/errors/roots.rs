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
