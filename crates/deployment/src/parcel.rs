//! Files sent to a machine as an archive, and results received as another.

use crate::connection::Connection;
use crate::script::{self, Start, quoted};
use crate::{Doing, Error, Result};
use belljar_base::Map;
use belljar_config::{Experiment, Inventory, Machine};
use belljar_plan::Plan;
use belljar_results::ResultsFolder;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Architectures by their names in uname(1) and their numbers in ELF (elf.h, `e_machine`). A name with
/// several numbers denotes a kernel that runs programs of all of them.
const ARCHITECTURES: [(&str, u16); 15] = [
    ("x86_64", 62),
    ("x86_64", 3),
    ("aarch64", 183),
    ("aarch64", 40),
    ("riscv64", 243),
    ("riscv32", 243),
    ("i386", 3),
    ("i586", 3),
    ("i686", 3),
    ("armv6l", 40),
    ("armv7l", 40),
    ("ppc64", 21),
    ("ppc64le", 21),
    ("s390x", 22),
    ("loongarch64", 258),
];

/// Inputs of a deployment.
pub struct Inputs<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Plan of the experiment.
    pub plan: &'a Plan,
    /// The machines.
    pub inventory: &'a Inventory,
    /// Folder of the experiment file: programs and files in it are copied.
    pub base: &'a Path,
    /// Addresses and names of all hosts.
    pub names: &'a [(String, String)],
}

impl Inputs<'_> {
    /// Processes of a machine by their number on it: indices of the host and of the process in its list.
    pub fn processes(&self, machine: &Machine) -> Vec<(usize, usize)> {
        let of_host = |host: &usize| {
            (0..self.plan.processes[*host].len()).map(|number| (*host, number)).collect::<Vec<_>>()
        };
        machine.hosts.iter().flat_map(of_host).collect()
    }

    /// Sends a machine its files; a missing file is an error.
    pub fn send(&self, connection: &Connection) -> Result<()> {
        let archive = self.archive(connection)?;
        let folder = quoted(&connection.folder);
        connection.command(&format!("tar -xf - -C {folder}"), &archive).map(drop)
    }

    fn archive(&self, connection: &Connection) -> Result<Vec<u8>> {
        let machine = &connection.machine;
        let mut archive = tar::Builder::new(Vec::new());
        let mut copies: Map<PathBuf, String> = Map::new();
        let (mut starts, mut needed) = (Vec::new(), Vec::new());
        for (number, (host, place)) in self.processes(machine).into_iter().enumerate() {
            let plan = &self.plan.processes[host][place];
            let program = match self.copied(Path::new(&plan.path), &mut copies) {
                Some(word) => {
                    check_architecture(connection, Path::new(&plan.path))?;
                    word
                }
                None => {
                    needed.push(&*plan.path);
                    quoted(&plan.path)
                }
            };
            let args = plan.args.iter().skip(1);
            let args: Vec<String> = args
                .map(|arg| self.copied(Path::new(arg), &mut copies).unwrap_or_else(|| quoted(arg)))
                .collect();
            let own = &self.experiment.hosts[host].processes[place].environment;
            let mut environment: Map<String, String> = plan.environment.iter().cloned().collect();
            let weaker = machine.environment.iter().filter(|(name, _)| !own.contains_key(*name));
            environment.extend(weaker.map(|(name, value)| (name.clone(), value.clone())));
            let environment: Vec<_> = environment.into_iter().collect();
            let text = script::process(&program, &plan.program, &args, &environment);
            add(&mut archive, &format!("p/{number}"), text.as_bytes())?;
            starts.push(Start { number, host: &self.experiment.hosts[host].name, plan });
        }
        needed.sort_unstable();
        needed.dedup();
        add(&mut archive, "run.sh", script::run(&starts).as_bytes())?;
        add(&mut archive, "check.sh", script::check(&needed, self.names).as_bytes())?;
        add(&mut archive, "names.sh", script::NAMES.as_bytes())?;
        let hosts: String = self.names.iter().map(|(address, name)| format!("{address}\t{name}\n")).collect();
        add(&mut archive, "hosts.txt", hosts.as_bytes())?;
        add_folder(&mut archive, "state")?;
        add_folder(&mut archive, "hosts")?;
        for host in &machine.hosts {
            let name = &self.experiment.hosts[*host].name;
            let folder = format!("hosts/{name}");
            add_folder(&mut archive, &folder)?;
            if let Some(template) = &self.experiment.general.template_directory {
                let own = template.join("hosts").join(name);
                if own.is_dir() {
                    copy(&mut archive, &own, &folder)?;
                }
            }
            for file in &self.inventory.files {
                copy(
                    &mut archive,
                    file,
                    &format!("{folder}/{}", file.file_name().unwrap_or_default().display()),
                )?;
            }
        }
        for (path, name) in &copies {
            copy(&mut archive, path, name)?;
        }
        archive.into_inner().doing("packing the files")
    }

    /// The shell word for a copied file, if it is in the folder of the experiment; `None` for other files.
    fn copied(&self, path: &Path, copies: &mut Map<PathBuf, String>) -> Option<String> {
        let relative = path.strip_prefix(self.base).ok()?;
        if relative.as_os_str().is_empty() || !path.exists() {
            return None;
        }
        let name = format!("files/{}", relative.display());
        let word = format!("\"$d\"/{}", quoted(&name));
        copies.insert(path.to_owned(), name);
        Some(word)
    }
}

/// Refuses a program built for another architecture.
fn check_architecture(connection: &Connection, program: &Path) -> Result<()> {
    let mut header = Vec::new();
    let file = File::open(program).doing(format!("opening '{}'", program.display()))?;
    file.take(20).read_to_end(&mut header).doing(format!("reading '{}'", program.display()))?;
    if header.len() < 20 || !header.starts_with(b"\x7fELF") {
        return Ok(());
    }
    let bytes = [header[18], header[19]];
    // The file's own byte order (EI_DATA).
    let number = if header[5] == 2 { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    match runs(&connection.architecture, number) {
        true => Ok(()),
        false => Err(connection.error(format!(
            "it is of architecture {}, and '{}' was made for {}: build it for that machine, or install it there and name its path",
            connection.architecture,
            program.display(),
            ARCHITECTURES.iter().find(|(_, own)| *own == number).map_or("another one", |(name, _)| name)
        ))),
    }
}

/// True unless the machine is known not to run programs with this ELF number; unlisted architectures are
/// accepted.
fn runs(architecture: &str, number: u16) -> bool {
    let mut listed =
        ARCHITECTURES.iter().filter(|(name, own)| *name == architecture || *own == number).peekable();
    listed.peek().is_none() || listed.any(|(name, own)| *name == architecture && *own == number)
}

fn add(archive: &mut tar::Builder<Vec<u8>>, name: &str, content: &[u8]) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, content).doing("packing the files")
}

fn add_folder(archive: &mut tar::Builder<Vec<u8>>, name: &str) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    header.set_mode(0o755);
    archive.append_data(&mut header, format!("{name}/"), std::io::empty()).doing("packing the files")
}

fn copy(archive: &mut tar::Builder<Vec<u8>>, path: &Path, name: &str) -> Result<()> {
    let doing = format!("packing '{}'", path.display());
    match path.is_dir() {
        true => archive.append_dir_all(name, path).doing(doing),
        false => archive.append_path_with_name(path, name).doing(doing),
    }
}

/// State files of a machine's processes, by name.
pub type States = Map<String, String>;

/// Receives a machine's results: files written by its hosts go to their folders.
pub fn collect(connection: &Connection, folder: &ResultsFolder, hosts: &[&str]) -> Result<States> {
    let from = quoted(&connection.folder);
    let bytes = connection.command(&format!("tar -cf - -C {from} hosts state"), &[])?;
    let mut archive = tar::Archive::new(&*bytes);
    archive.set_preserve_permissions(true);
    let mut states = States::new();
    let doing = || format!("unpacking the results of machine '{}'", connection.machine.name);
    for entry in archive.entries().doing(doing())? {
        let mut entry = entry.doing(doing())?;
        let path = entry.path().doing(doing())?.into_owned();
        let is_host = |name: &&str| path.starts_with(Path::new("hosts").join(name));
        if let Ok(name) = path.strip_prefix("state") {
            let (name, place) = (name.display().to_string(), folder.path().join(".deployment"));
            if entry.header().entry_type().is_file()
                && (name.ends_with(".stdout") || name.ends_with(".stderr"))
            {
                fs::create_dir_all(&place).doing(doing())?;
                let target = place.join(format!("{}.{name}", connection.machine.name));
                entry.unpack(target).doing(doing())?;
            } else if entry.header().entry_type().is_file() {
                let mut text = String::new();
                entry.read_to_string(&mut text).doing(doing())?;
                states.insert(name, text);
            }
        } else if hosts.iter().any(is_host) {
            // Paths that lead out of the folder are skipped.
            entry.unpack_in(folder.path()).doing(doing())?;
        }
    }
    Ok(states)
}

/// Renames a process's output to its name in the results.
pub fn place_output(
    folder: &ResultsFolder,
    machine: &Machine,
    number: usize,
    host: &str,
    program: &str,
    pid: i32,
) -> Result<()> {
    for stream in ["stdout", "stderr"] {
        let from = folder.path().join(".deployment").join(format!("{}.{number}.{stream}", machine.name));
        let to = folder.host(host).join(format!("{program}.{pid}.{stream}"));
        fs::rename(&from, &to).map_err(|error| Error::new(format!("'{}': {error}", from.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_for_machines() {
        for (architecture, number, expected) in [
            ("x86_64", 62, true),
            ("x86_64", 3, true),
            ("i686", 62, false),
            ("aarch64", 62, false),
            ("s390x", 22, true),
            ("mips64", 8, true),
            ("mips64", 62, false),
            ("x86_64", 8, false),
        ] {
            assert_eq!(runs(architecture, number), expected, "{architecture} {number}");
        }
    }
}
