//! Runner: the commands of a template that run on this host.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Commands of this host that run.
#[derive(Debug)]
pub struct Runner {
    /// Folder of the template
    folder: PathBuf,
    running: Vec<Running>,
    failed: usize,
}

#[derive(Debug)]
struct Running {
    id: u64,
    name: String,
    child: Child,
}

/// End of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub id: u64,
    /// Status as text
    pub status: String,
}

impl Runner {
    pub fn new(folder: &Path) -> Runner {
        Runner { folder: folder.to_owned(), running: Vec::new(), failed: 0 }
    }

    /// Number of commands that have ended with another status than 0.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// Starts a command of the template.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&mut self, id: u64, name: &str) -> Result<(), String> {
        let path = self.folder.join(name);
        let child = Command::new(&path)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", path.display()))?;
        self.running.push(Running { id, name: name.to_owned(), child });
        Ok(())
    }

    /// Takes out the commands that have ended.
    ///
    /// # Errors
    /// The status of one cannot be read.
    pub fn notice(&mut self) -> Result<Vec<(String, Ended)>, String> {
        let mut ended = Vec::new();
        let mut at = 0;
        while let Some(running) = self.running.get_mut(at) {
            let status =
                running.child.try_wait().map_err(|error| format!("{} is lost: {error}", running.name))?;
            let Some(status) = status else {
                at += 1;
                continue;
            };
            let running = self.running.remove(at);
            if !status.success() {
                self.failed += 1;
                eprintln!("belljar-composer: {} failed: {status}", running.name);
            }
            ended.push((running.name, Ended { id: running.id, status: status.to_string() }));
        }
        Ok(ended)
    }

    /// Ends all commands by force; gives their names.
    pub fn kill(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.running);
        all.into_iter()
            .map(|mut running| {
                let _ = running.child.kill();
                let _ = running.child.wait();
                running.name
            })
            .collect()
    }
}
