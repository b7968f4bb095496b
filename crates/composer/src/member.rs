//! Member: a host that carries out the orders of the first one.

use crate::clock::{Clock, NOTICE};
use crate::group::{JOINING, open, receive};
use crate::link::{Following, Taken};
use crate::message::{Order, Report, Request};
use crate::runner::Runner;
use crate::template;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for which a host still answers when it has heard of the end, since its answer may be lost.
const LINGER: Duration = Duration::from_secs(1);

/// Host that is led by another one.
pub struct Member {
    tests: PathBuf,
    socket: UdpSocket,
    clock: Clock,
    link: Following,
    first: Option<SocketAddr>,
    runner: Runner,
    /// Problem for which the run ends.
    problem: Option<String>,
    left: Option<Duration>,
}

impl Member {
    /// Opens the socket.
    ///
    /// # Errors
    /// The port cannot be used.
    pub fn new(tests: &Path, port: u16, incarnation: u64, clock: Clock) -> Result<Member, String> {
        Ok(Member {
            tests: tests.to_owned(),
            socket: open(port)?,
            clock,
            link: Following::new(incarnation),
            first: None,
            runner: Runner::new(tests),
            problem: None,
            left: None,
        })
    }

    /// Carries out orders until the run is over; gives the number of commands that have failed.
    ///
    /// # Errors
    /// The first host, here named `first`, does not ask, or an order cannot be carried out.
    pub fn run(mut self, first: &str) -> Result<usize, String> {
        let mut datagram = vec![0; 1 << 16];
        while self.left.is_none_or(|left| self.clock.now() < left + LINGER) {
            let due = self.clock.now() + NOTICE;
            if let Some((length, from)) = receive(&self.socket, &mut datagram, self.clock, due)?
                && let Some(request) = datagram.get(..length).and_then(Request::parse)
            {
                self.take(request, from);
            }
            self.notice()?;
            if self.first.is_none() && self.clock.now() >= JOINING {
                return Err(format!(
                    "{first}, the first of --hosts, has not asked within {} s: start belljar-composer there too, with the same --hosts and --port",
                    JOINING.as_secs()
                ));
            }
        }
        self.problem.map_or(Ok(self.runner.failed()), Err)
    }

    fn take(&mut self, request: Request, from: SocketAddr) {
        match self.link.take(request) {
            Taken::Stale => return,
            Taken::Known(order) => {
                if let Some(order) = order {
                    self.carry_out(order);
                }
            }
            Taken::Restarted => {
                self.kill();
                self.left = None;
            }
        }
        self.first = Some(from);
        self.answer();
    }

    fn answer(&self) {
        if let Some(first) = self.first {
            // A network that is down loses the answer.
            let _ = self.socket.send_to(self.link.answer().text().as_bytes(), first);
        }
    }

    fn carry_out(&mut self, order: Order) {
        let done = match order {
            Order::Names => self.list(template::names(&self.tests), Report::Name),
            Order::Template(name) => {
                let folder = self.tests.join(&name);
                self.runner = Runner::new(&folder);
                // A template may be one of other hosts alone.
                let commands = if folder.is_dir() { template::commands(&folder) } else { Ok(Vec::new()) };
                self.list(commands, Report::Command)
            }
            Order::Start { id, name } => {
                self.log(&name, "starts");
                self.runner.start(id, &name)
            }
            Order::Kill => {
                self.kill();
                Ok(())
            }
            Order::Leave => {
                self.kill();
                self.left = Some(self.clock.now());
                Ok(())
            }
        };
        if let Err(problem) = done {
            self.link.report(Report::Failed(problem.clone()));
            self.problem = Some(problem);
        }
    }

    fn list(
        &mut self,
        names: Result<Vec<String>, String>,
        report: fn(String) -> Report,
    ) -> Result<(), String> {
        names?.into_iter().for_each(|name| self.link.report(report(name)));
        self.link.report(Report::Listed);
        Ok(())
    }

    fn notice(&mut self) -> Result<(), String> {
        let ended = self.runner.notice()?;
        let is_any = !ended.is_empty();
        for (name, ended) in ended {
            self.log(&name, &format!("ends: {}", ended.status));
            self.link.report(Report::Ended(ended));
        }
        if is_any {
            self.answer();
        }
        Ok(())
    }

    fn kill(&mut self) {
        for name in self.runner.kill() {
            self.log(&name, "is killed");
        }
    }

    fn log(&self, name: &str, text: &str) {
        self.clock.log(&format!("{name} {text}"));
    }
}
