//! Group: the other hosts, as the first one leads them over UDP.

use crate::clock::Clock;
use crate::link::{Leading, News};
use crate::message::{Answer, Order, Report};
use crate::runner::Ended;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

/// Interval at which a request is repeated.
const REPEAT: Duration = Duration::from_millis(50);
/// Time within which each host has to answer for the first time, and the first one to ask.
pub const JOINING: Duration = Duration::from_secs(60);
/// Time within which hosts are to hear of the end.
const LEAVING: Duration = Duration::from_secs(10);

/// Other hosts.
pub struct Group {
    socket: UdpSocket,
    port: u16,
    clock: Clock,
    members: Vec<Member>,
    stage: Stage,
}

/// Stage of the run: what a host that starts again is to do.
#[derive(Clone, Debug)]
enum Stage {
    Names,
    Template(String),
    Leaving,
}

/// Another host.
struct Member {
    name: String,
    address: Option<SocketAddr>,
    link: Leading,
    /// Time of the last request
    asked: Option<Duration>,
    /// Names that it has listed: of templates, later of commands
    listed: Vec<String>,
    is_listed: bool,
}

/// Change at another host, which is named by its place in the list of hosts.
pub enum Change {
    Ended(usize, Ended),
    /// Its commands are gone.
    Restarted(usize),
}

impl Group {
    /// Opens the socket of the first host.
    ///
    /// # Errors
    /// The port cannot be used.
    pub fn new(names: &[String], port: u16, epoch: u64, clock: Clock) -> Result<Group, String> {
        let member = |name: &String| Member {
            name: name.clone(),
            address: None,
            link: Leading::new(epoch),
            asked: None,
            listed: Vec::new(),
            is_listed: false,
        };
        let members = names.iter().map(member).collect();
        Ok(Group { socket: open(port)?, port, clock, members, stage: Stage::Names })
    }

    /// Names of the templates of the other hosts.
    ///
    /// # Errors
    /// A host does not answer, or has none.
    pub fn templates(&mut self) -> Result<Vec<String>, String> {
        self.list(Stage::Names)?;
        Ok(self.members.iter_mut().flat_map(|member| std::mem::take(&mut member.listed)).collect())
    }

    /// Lets the hosts use a template; gives the file names of the commands of each.
    ///
    /// # Errors
    /// A host has a folder that is wrong.
    pub fn commands(&mut self, template: &str) -> Result<Vec<Vec<String>>, String> {
        self.list(Stage::Template(template.to_owned()))?;
        Ok(self.members.iter_mut().map(|member| std::mem::take(&mut member.listed)).collect())
    }

    fn list(&mut self, stage: Stage) -> Result<(), String> {
        self.stage = stage;
        for member in &mut self.members {
            member.is_listed = false;
            member.link.push(self.stage.order());
        }
        let end = self.clock.now() + JOINING;
        while let Some(member) = self.members.iter().find(|member| !member.is_listed) {
            if self.clock.now() >= end {
                if member.address.is_none() {
                    return Err(format!("there is no host {} with an IPv4 address", member.name));
                }
                return Err(format!(
                    "{} has not answered within {} s: start belljar-composer there too, with the same --hosts and --port",
                    member.name,
                    JOINING.as_secs()
                ));
            }
            self.wait(self.clock.now() + REPEAT)?;
        }
        Ok(())
    }

    /// Gives an order to a host.
    pub fn order(&mut self, host: usize, order: Order) {
        if let Some(member) = self.members.get_mut(host) {
            member.link.push(order);
            member.asked = None;
        }
    }

    /// Gives an order to all hosts, and waits until they have carried it out.
    ///
    /// # Errors
    /// A host cannot go on.
    pub fn order_all(&mut self, order: &Order) -> Result<Vec<Change>, String> {
        (0..self.members.len()).for_each(|host| self.order(host, order.clone()));
        let mut changes = Vec::new();
        while !self.is_idle() {
            changes.extend(self.wait(self.clock.now() + REPEAT)?);
        }
        Ok(changes)
    }

    fn is_idle(&self) -> bool {
        self.members.iter().all(|member| member.link.is_idle())
    }

    /// Lets the hosts leave.
    pub fn leave(&mut self) {
        self.stage = Stage::Leaving;
        (0..self.members.len()).for_each(|host| self.order(host, Order::Leave));
        let end = self.clock.now() + LEAVING;
        // One that does not hear of it has lost its network for good.
        while !self.is_idle() && self.clock.now() < end {
            let _ = self.wait(self.clock.now() + REPEAT);
        }
    }

    /// Exchanges messages until a time.
    ///
    /// # Errors
    /// A host is not known, or cannot go on.
    pub fn wait(&mut self, until: Duration) -> Result<Vec<Change>, String> {
        let mut changes = Vec::new();
        self.ask();
        let mut datagram = vec![0; 1 << 16];
        while let Some((length, from)) = receive(&self.socket, &mut datagram, self.clock, until)? {
            let Some(answer) = datagram.get(..length).and_then(Answer::parse) else { continue };
            let Some(host) = self.members.iter().position(|member| member.address == Some(from)) else {
                continue;
            };
            self.take(host, answer, &mut changes)?;
            self.ask();
        }
        Ok(changes)
    }

    /// Takes an answer of a host.
    fn take(&mut self, host: usize, answer: Answer, changes: &mut Vec<Change>) -> Result<(), String> {
        let again = self.stage.order();
        let Some(member) = self.members.get_mut(host) else { return Ok(()) };
        let before = member.link.request();
        for news in member.link.take(answer) {
            match news {
                News::Joined => {}
                News::Restarted => {
                    changes.push(Change::Restarted(host));
                    member.link.push(again.clone());
                    if !member.is_listed {
                        member.listed.clear();
                    }
                }
                News::Report(Report::Name(name) | Report::Command(name)) if !member.is_listed => {
                    member.listed.push(name);
                }
                News::Report(Report::Name(_) | Report::Command(_)) => {}
                News::Report(Report::Listed) => member.is_listed = true,
                News::Report(Report::Ended(ended)) => changes.push(Change::Ended(host, ended)),
                News::Report(Report::Failed(problem)) => return Err(format!("{}: {problem}", member.name)),
            }
        }
        if member.link.request() != before {
            // The next order need not wait.
            member.asked = None;
        }
        Ok(())
    }

    /// Sends the requests that are due.
    fn ask(&mut self) {
        let now = self.clock.now();
        for member in &mut self.members {
            if member.asked.is_some_and(|asked| now < asked + REPEAT) {
                continue;
            }
            member.asked = Some(now);
            if member.address.is_none() {
                member.address = address(&member.name, self.port);
            }
            if let Some(address) = member.address {
                // A network that is down loses the request.
                let _ = self.socket.send_to(member.link.request().text().as_bytes(), address);
            }
        }
    }
}

impl Stage {
    fn order(&self) -> Order {
        match self {
            Stage::Names => Order::Names,
            Stage::Template(name) => Order::Template(name.clone()),
            Stage::Leaving => Order::Leave,
        }
    }
}

/// Address of a host; none while its name cannot be looked up.
fn address(name: &str, port: u16) -> Option<SocketAddr> {
    (name, port).to_socket_addrs().ok()?.find(SocketAddr::is_ipv4)
}

/// Opens the socket of a host.
///
/// # Errors
/// The port cannot be used.
pub fn open(port: u16) -> Result<UdpSocket, String> {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))
        .map_err(|error| format!("UDP port {port} cannot be used: {error}"))
}

/// Waits for a datagram until a time; none if there is none.
///
/// # Errors
/// The socket fails.
pub fn receive(
    socket: &UdpSocket,
    datagram: &mut [u8],
    clock: Clock,
    until: Duration,
) -> Result<Option<(usize, SocketAddr)>, String> {
    let left = until.saturating_sub(clock.now());
    if left.is_zero() {
        return Ok(None);
    }
    let received = socket.set_read_timeout(Some(left)).and_then(|()| socket.recv_from(datagram));
    match received {
        Ok(received) => Ok(Some(received)),
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
        {
            Ok(None)
        }
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
            receive(socket, datagram, clock, until)
        }
        Err(error) => Err(format!("messages of other hosts cannot be received: {error}")),
    }
}
