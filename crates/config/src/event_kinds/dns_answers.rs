//! Event `dns_answers`: wrong answers of the name server.

use super::kind::Kind;
use crate::emit::{Writer, quoted};
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::{World, host_set};
use crate::model::Experiment;
use crate::yaml::{Node, Section, Value, section};
use belljar_net::dns::{DnsAnswer, DnsFault};
use std::net::IpAddr;

/// Gives hosts wrong answers to their queries, or none.
pub(super) struct DnsAnswers;

impl Kind for DnsAnswers {
    fn key(&self) -> &'static str {
        "dns_answers"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["names", "answer"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = host_set(value, "dns_answers", world)?;
        let names = s.read("names", names)?.unwrap_or_else(|| vec!["*".to_owned()]);
        let answer = answer(s.required("answer", "answer: SERVFAIL")?, "answer")?;
        Ok(Action::DnsAnswers { hosts, fault: DnsFault { names, answer } })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::DnsAnswers { hosts, fault } = action else { return };
        out.plain(1, "dns_answers", experiment.host_set(hosts));
        let names: Vec<String> = fault.names.iter().map(|name| quoted(name)).collect();
        out.plain(1, "names", format_args!("[{}]", names.join(", ")));
        out.plain(1, "answer", answer_text(&fault.answer));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::DnsAnswers { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
}

/// One name that is asked for, or several, in lower case without a final dot.
pub(crate) fn names(node: &Node, key: &str) -> Result<Vec<String>, Problem> {
    let one = |node: &Node, key: &str| -> Result<String, Problem> {
        let name = section::string(node, key)?;
        let plain = name.strip_suffix('.').unwrap_or(name);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
        match !plain.is_empty() && plain.bytes().all(is_name) {
            true => Ok(plain.to_ascii_lowercase()),
            false => Err(node
                .problem(format!("'{name}' is no name that programs look up"))
                .help("write names such as www.example.org, or '*.example.org'")),
        }
    };
    section::one_or_several(node, key, "leave it out for all names", one)
}

/// An answer by its name, or addresses.
pub(crate) fn answer(node: &Node, key: &str) -> Result<DnsAnswer, Problem> {
    let address = |node: &Node, key: &str| -> Result<IpAddr, Problem> {
        let text = section::string(node, key)?;
        text.parse().map_err(|_| {
            let names: Vec<&str> = DnsAnswer::NAMES.iter().map(|(name, _)| *name).collect();
            node.problem(format!("'{text}' is no answer of a name server"))
                .help(format!("use one of {}, or addresses such as 192.0.2.1", names.join(", ")))
        })
    };
    if let Value::Scalar(scalar) = &node.value
        && let Some((_, answer)) = DnsAnswer::NAMES.iter().find(|(name, _)| *name == scalar.text)
    {
        return Ok(answer.clone());
    }
    section::one_or_several(node, key, "write NXDOMAIN for a name without addresses", address)
        .map(DnsAnswer::Addresses)
}

/// The value in an experiment file.
pub(crate) fn answer_text(answer: &DnsAnswer) -> String {
    match answer {
        DnsAnswer::Addresses(addresses) => {
            let texts: Vec<String> = addresses.iter().map(|address| quoted(&address.to_string())).collect();
            format!("[{}]", texts.join(", "))
        }
        other => {
            DnsAnswer::NAMES.iter().find(|(_, known)| known == other).map_or("", |(name, _)| name).to_owned()
        }
    }
}
