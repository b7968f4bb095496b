//! Messages between the composers of several hosts: datagrams of text.
//!
//! The first host asks, the others answer. Each request has one order, which is repeated until an answer counts it as done; each answer has all reports
//! that no request has counted as seen. So what is lost or comes twice changes nothing. Both name the composer's run at either end (epoch of the
//! first host, incarnation of the other), since a host may crash and start again.

use crate::runner::Ended;

/// Order to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Report the templates.
    Names,
    /// Use this template, and report its commands.
    Template(String),
    /// Start a command.
    Start { id: u64, name: String },
    /// End all commands by force.
    Kill,
    /// The run is over.
    Leave,
}

/// Report of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Name of a template
    Name(String),
    /// File name of a command
    Command(String),
    /// All names or commands have been reported.
    Listed,
    Ended(Ended),
    /// The host cannot go on.
    Failed(String),
}

/// Request of the first host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub epoch: u64,
    /// Incarnation of the receiver; 0 if it is not known yet
    pub incarnation: u64,
    /// Number of the last report that was seen
    pub seen: u64,
    /// Number of the order
    pub number: u64,
    pub order: Option<Order>,
}

/// Answer of another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub epoch: u64,
    pub incarnation: u64,
    /// Number of the last order that is done
    pub done: u64,
    /// Number of the first report
    pub first: u64,
    pub reports: Vec<Report>,
}

const REQUEST: &str = "belljar-composer-request";
const ANSWER: &str = "belljar-composer-answer";
/// Bytes after which an answer has no further report.
const LONG: usize = 30_000;

impl Request {
    pub fn text(&self) -> String {
        let order = match &self.order {
            None => String::new(),
            Some(Order::Names) => "names".to_owned(),
            Some(Order::Template(name)) => format!("template {name}"),
            Some(Order::Start { id, name }) => format!("start {id} {name}"),
            Some(Order::Kill) => "kill".to_owned(),
            Some(Order::Leave) => "leave".to_owned(),
        };
        format!("{REQUEST} {} {} {} {}\n{order}", self.epoch, self.incarnation, self.seen, self.number)
    }

    /// Reads a request; none if the datagram is none.
    pub fn parse(datagram: &[u8]) -> Option<Request> {
        let (head, order) = std::str::from_utf8(datagram).ok()?.split_once('\n')?;
        let [epoch, incarnation, seen, number] = numbers(head, REQUEST)?;
        let (word, rest) = order.split_once(' ').unwrap_or((order, ""));
        let order = match word {
            "" => None,
            "names" => Some(Order::Names),
            "template" => Some(Order::Template(rest.to_owned())),
            "start" => {
                let (id, name) = rest.split_once(' ')?;
                Some(Order::Start { id: id.parse().ok()?, name: name.to_owned() })
            }
            "kill" => Some(Order::Kill),
            "leave" => Some(Order::Leave),
            _ => return None,
        };
        Some(Request { epoch, incarnation, seen, number, order })
    }
}

impl Answer {
    /// The answer as text, with as many of its reports as fit.
    pub fn text(&self) -> String {
        let mut text = format!("{ANSWER} {} {} {} {}\n", self.epoch, self.incarnation, self.done, self.first);
        for report in &self.reports {
            text.push_str(&match report {
                Report::Name(name) => format!("name {name}\n"),
                Report::Command(name) => format!("command {name}\n"),
                Report::Listed => "listed \n".to_owned(),
                Report::Ended(ended) => format!("ended {} {}\n", ended.id, ended.status),
                Report::Failed(problem) => format!("failed {problem}\n"),
            });
            if text.len() > LONG {
                break;
            }
        }
        text
    }

    /// Reads an answer; none if the datagram is none.
    pub fn parse(datagram: &[u8]) -> Option<Answer> {
        let (head, reports) = std::str::from_utf8(datagram).ok()?.split_once('\n')?;
        let [epoch, incarnation, done, first] = numbers(head, ANSWER)?;
        let report = |line: &str| {
            let (word, rest) = line.split_once(' ')?;
            Some(match word {
                "name" => Report::Name(rest.to_owned()),
                "command" => Report::Command(rest.to_owned()),
                "listed" => Report::Listed,
                "ended" => {
                    let (id, status) = rest.split_once(' ')?;
                    Report::Ended(Ended { id: id.parse().ok()?, status: status.to_owned() })
                }
                "failed" => Report::Failed(rest.to_owned()),
                _ => return None,
            })
        };
        let reports = reports.lines().map(report).collect::<Option<Vec<Report>>>()?;
        Some(Answer { epoch, incarnation, done, first, reports })
    }
}

/// The numbers after the first word of a line.
fn numbers(line: &str, word: &str) -> Option<[u64; 4]> {
    let rest = line.strip_prefix(word)?.strip_prefix(' ')?;
    let numbers = rest.split(' ').map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_read_as_they_were_written() {
        let orders = [
            None,
            Some(Order::Names),
            Some(Order::Template("two words".to_owned())),
            Some(Order::Start { id: 7, name: "parallel_driver_a b.py".to_owned() }),
            Some(Order::Kill),
            Some(Order::Leave),
        ];
        for order in orders {
            let request = Request { epoch: 1, incarnation: u64::MAX, seen: 3, number: 4, order };
            assert_eq!(Request::parse(request.text().as_bytes()), Some(request));
        }
        let reports = vec![
            Report::Name("a".to_owned()),
            Report::Command("first_b c".to_owned()),
            Report::Listed,
            Report::Ended(Ended { id: 9, status: "exit status: 3".to_owned() }),
            Report::Failed("no such folder".to_owned()),
        ];
        let answer = Answer { epoch: 1, incarnation: 2, done: 3, first: 4, reports };
        assert_eq!(Answer::parse(answer.text().as_bytes()), Some(answer));
    }

    #[test]
    fn long_answers_have_their_first_reports() {
        let reports = vec![Report::Command("x".repeat(1000)); 100];
        let text = Answer { epoch: 1, incarnation: 2, done: 3, first: 1, reports }.text();
        let count = Answer::parse(text.as_bytes()).unwrap().reports.len();
        assert!((29..100).contains(&count) && text.len() < 32_000);
    }

    #[test]
    fn other_datagrams_are_none() {
        for other in
            ["", "x", "belljar-composer-request 1 2 3\n", "belljar-composer-request 1 2 3 4\nstart x"]
        {
            assert_eq!(Request::parse(other.as_bytes()), None, "{other}");
        }
        for other in ["belljar-composer-answer 1 2 3 x\n", "belljar-composer-answer 1 2 3 4\nended 1\n"] {
            assert_eq!(Answer::parse(other.as_bytes()), None, "{other}");
        }
        assert_eq!(Request::parse(&[0xff, 0xfe]), None);
    }
}
