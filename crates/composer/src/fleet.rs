//! Fleet: the commands of all hosts of a run, those of this host and those of others that it leads.

use crate::clock::Clock;
use crate::group::{Change, Group};
use crate::message::Order;
use crate::runner::{Ended, Runner};
use crate::template::Command;
use std::time::Duration;

/// Commands that run, on all hosts.
pub struct Fleet {
    own: Runner,
    group: Option<Group>,
    /// Names of the hosts, this one first; empty if it is the only one
    names: Vec<String>,
    running: Vec<Running>,
    started: u64,
    clock: Clock,
}

/// Command that has started.
struct Running {
    id: u64,
    command: Command,
    is_driver: bool,
}

impl Fleet {
    pub fn new(own: Runner, group: Option<Group>, names: &[String], clock: Clock) -> Fleet {
        Fleet { own, group, names: names.to_owned(), running: Vec::new(), started: 0, clock }
    }

    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Number of commands of this host that have failed. Other hosts count their own.
    pub fn failed(&self) -> usize {
        self.own.failed()
    }

    /// Number of drivers that run.
    pub fn drivers(&self) -> usize {
        self.running.iter().filter(|running| running.is_driver).count()
    }

    fn log(&self, command: &Command, text: &str) {
        let host = self.names.get(command.host).map_or(String::new(), |host| format!("{host}/"));
        self.clock.log(&format!("{host}{} {text}", command.name));
    }

    /// Starts a command on its host.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&mut self, command: &Command, is_driver: bool) -> Result<(), String> {
        self.log(command, "starts");
        self.started += 1;
        let (id, name) = (self.started, command.name.clone());
        match (command.host.checked_sub(1), &mut self.group) {
            (Some(host), Some(group)) => group.order(host, Order::Start { id, name }),
            _ => self.own.start(id, &name)?,
        }
        self.running.push(Running { id, command: command.clone(), is_driver });
        Ok(())
    }

    /// Waits until a time, and notices what happens meanwhile.
    ///
    /// # Errors
    /// A host cannot go on.
    pub fn wait(&mut self, until: Duration) -> Result<(), String> {
        match &mut self.group {
            Some(group) => {
                let changes = group.wait(until)?;
                self.take(changes);
            }
            None => self.clock.until(until),
        }
        for (_, ended) in self.own.notice()? {
            self.ended(0, &ended);
        }
        Ok(())
    }

    fn take(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Ended(host, ended) => self.ended(host + 1, &ended),
                Change::Restarted(host) => self.forget(host + 1, "is lost with its host"),
            }
        }
    }

    fn ended(&mut self, host: usize, ended: &Ended) {
        let is_it = |running: &Running| running.command.host == host && running.id == ended.id;
        if let Some(at) = self.running.iter().position(is_it) {
            let running = self.running.remove(at);
            self.log(&running.command, &format!("ends: {}", ended.status));
        }
    }

    /// Forgets the commands of a host.
    fn forget(&mut self, host: usize, text: &str) {
        let (gone, left) =
            std::mem::take(&mut self.running).into_iter().partition(|one| one.command.host == host);
        self.running = left;
        let gone: Vec<Running> = gone;
        gone.iter().for_each(|running| self.log(&running.command, text));
    }

    /// Ends all commands by force, on all hosts.
    ///
    /// # Errors
    /// A host cannot go on.
    pub fn kill(&mut self) -> Result<(), String> {
        self.own.kill();
        self.forget(0, "is killed");
        if let Some(group) = &mut self.group {
            let changes = group.order_all(&Order::Kill)?;
            self.take(changes);
            (1..self.names.len()).for_each(|host| self.forget(host, "is killed"));
        }
        Ok(())
    }

    /// Ends the run on all hosts.
    pub fn leave(&mut self) {
        self.own.kill();
        if let Some(group) = &mut self.group {
            group.leave();
        }
    }
}
