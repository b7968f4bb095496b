//! Requests about traffic control, which [`belljar_tc`] answers: queueing disciplines, classes, filters, actions.

use super::message::{MULTI, Message, Request};
use super::refusal::Refusal;
use crate::Admin;
use belljar_linux_abi::Errno;
use belljar_netstack::{Stack, traffic};
use belljar_tc::{DefaultDiscipline, TcError, TcReply, TcRequest};

/// `RTNLGRP_TC`: the multicast group of changes of traffic control.
const GROUP: u32 = 4;

impl Admin<'_> {
    /// Answers a request about traffic control; a dump if `dump`.
    pub(super) fn traffic_control(
        &mut self,
        request: &Request<'_>,
        dump: bool,
        port: u32,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        let now = self.net.clock.now();
        let Request { kind, flags, body, .. } = *request;
        let asked = TcRequest { kind, flags, dump, body, now };
        let outcome = traffic::request(self.net, &asked);
        let TcReply { messages, announcements, warning } = match outcome {
            Ok(reply) => reply,
            Err(TcError { errno, words }) => {
                self.count_refused(request, errno, words);
                return Err(Refusal { words, ..errno.into() });
            }
        };
        for (kind, body) in announcements {
            let message = Message::new(kind, 0, request.sequence, port).put(&body).finish();
            self.announce(GROUP, &message);
        }
        if let Some(warning) = warning {
            request.note_text(warning);
        }
        let flags = if dump { MULTI } else { 0 };
        let made = |(kind, body): (u16, Vec<u8>)| {
            Message::new(kind, flags, request.sequence, port).put(&body).finish()
        };
        Ok(messages.into_iter().map(made).collect())
    }
    /// Counts a request that a Linux with all modules would have carried out.
    fn count_refused(&mut self, request: &Request<'_>, errno: Errno, words: Option<&'static str>) {
        const TCMSG: usize = 20;
        const KIND: u16 = 1;
        let kind = request.attribute(TCMSG, KIND).unwrap_or_default();
        let kind =
            String::from_utf8_lossy(kind.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        match words {
            Some("Specified qdisc kind is unknown") => {
                self.warn(format!("tc: queueing discipline '{kind}' is not supported and refused"));
            }
            Some("TC classifier not found") => {
                self.warn(format!("tc: classifier '{kind}' is not supported and refused"));
            }
            Some("Failed to load TC action module") => {
                self.warn("tc: the kind of an action is not supported and refused");
            }
            _ if errno == Errno::EOPNOTSUPP => {
                let of = words.unwrap_or("an option");
                self.warn(format!("tc: request about '{kind}' refused: {of}"));
            }
            _ => {}
        }
    }
    /// Kind of an interface's queueing discipline, as `ip link` shows it.
    pub(super) fn qdisc(&self, number: usize) -> &'static str {
        qdisc(self.net, number)
    }
}

/// Kind of an interface's queueing discipline.
fn qdisc(net: &Stack, number: usize) -> &'static str {
    let chosen = net.traffic.as_ref().and_then(|traffic| traffic.root_kind(number));
    chosen.unwrap_or(match traffic::default_discipline(net, number) {
        DefaultDiscipline::None => "noqueue",
        DefaultDiscipline::Bands => "pfifo_fast",
        DefaultDiscipline::Queue { kind, .. } => kind,
    })
}
