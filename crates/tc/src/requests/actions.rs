//! `RTM_NEWACTION`, `RTM_DELACTION` and `RTM_GETACTION` (`net/sched/act_api.c`).

use super::{DELACTION, Devices, GETACTION, NEWACTION, REPLACE, TcReply, TcRequest};
use crate::action::ActionKey;
use crate::actions::Kind;
use crate::attributes::{Attributes, Out, words};
use crate::control::TrafficControl;
use crate::error::{TcError, error, invalid};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;

/// Length of `struct tcamsg` in bytes.
const TCAMSG: usize = 4;
/// `TCA_ROOT_*`.
const TAB: u16 = 1;
const COUNT: u16 = 3;
/// `TCA_ACT_*`.
const ACT_KIND: u16 = 1;
const ACT_INDEX: u16 = 3;
/// `NLM_F_ROOT`: a deletion of all actions of a kind.
const ALL: u16 = 0x100;

impl TrafficControl {
    /// Answers a request about actions (`tc_ctl_action`, `tc_dump_action`).
    pub(super) fn action_request(
        &mut self,
        request: &TcRequest<'_>,
        devices: Devices<'_>,
        reply: &mut TcReply,
    ) -> Result<(), TcError> {
        let body = request.body.get(TCAMSG..).ok_or(Errno::EINVAL)?;
        let table = Attributes(body).nested(TAB);
        if request.dump {
            self.list_actions(table, request.now, reply);
            return Ok(());
        }
        let table = table.ok_or(invalid("Netlink action attributes missing"))?;
        match request.kind {
            NEWACTION => {
                let find = |index: u32| {
                    devices.iter().find(|(_, device)| device.index == index).map(|(number, _)| *number)
                };
                let replace = request.flags & REPLACE != 0;
                let made = self.actions.make_all(table, (replace, false), request.now, &find)?;
                let message = self.actions_message(&made, 1, request.now);
                reply.announcements.push((NEWACTION, message));
            }
            DELACTION if request.flags & ALL != 0 => {
                let kind = table.nested(1).and_then(|first| first.text(ACT_KIND));
                let kind = kind.ok_or(invalid("TC action kind must be specified"))?;
                let (count, complete) = self.actions.flush(kind)?;
                if !complete {
                    reply.warning = Some("Unable to flush all TC actions".into());
                }
                let mut out = Out(vec![0; TCAMSG]);
                out.nest(TAB, |out| {
                    out.nest(0, |out| {
                        out.text(ACT_KIND, &String::from_utf8_lossy(kind));
                        out.u32(7, count);
                    });
                });
                reply.announcements.push((DELACTION, out.0));
            }
            _ => {
                let keys = self.named(table)?;
                let message = self.actions_message(&keys, 1, request.now);
                if request.kind == GETACTION {
                    reply.messages.push((NEWACTION, message));
                    return Ok(());
                }
                for key in &keys {
                    self.actions.delete(key.0.as_bytes(), key.1)?;
                }
                reply.announcements.push((DELACTION, message));
            }
        }
        Ok(())
    }
    /// Actions that a request names by kind and index.
    fn named(&self, table: Attributes<'_>) -> Result<Vec<ActionKey>, TcError> {
        let mut keys = Vec::new();
        for number in 1..=32 {
            let Some(one) = table.nested(number) else { break };
            let kind = one.text(ACT_KIND).ok_or(invalid("TC action kind must be specified"))?;
            let index = one.u32(ACT_INDEX)?.ok_or(invalid("Invalid TC action index value"))?;
            let name = Kind::name(kind);
            let name = name.ok_or(invalid("Specified TC action kind not found"))?;
            if !self.actions.has(&(name, index)) {
                return Err(error(Errno::ENOENT, "TC action with specified index not found"));
            }
            keys.push((name, index));
        }
        Ok(keys)
    }
    /// Body of a message about actions; the numbers begin with `first`.
    fn actions_message(&self, keys: &[ActionKey], first: u16, now: SimTime) -> Vec<u8> {
        let mut out = Out(vec![0; TCAMSG]);
        out.nest(TAB, |out| {
            for (number, key) in keys.iter().enumerate() {
                out.nest(number as u16 + first, |out| self.actions.dump(key, true, now, out));
            }
        });
        out.0
    }
    /// Lists the actions of a kind.
    fn list_actions(&self, table: Option<Attributes<'_>>, now: SimTime, reply: &mut TcReply) {
        let kind = table.and_then(|table| table.nested(1)).and_then(|first| first.text(ACT_KIND));
        let Some(name) = kind.and_then(Kind::name) else { return };
        let keys: Vec<ActionKey> = self.actions.of_kind(name).collect();
        // The numbers of a listing are those of attributes: a message has at most as many as fit.
        for part in keys.chunks(32) {
            let mut message = Out(self.actions_message(part, 0, now));
            message.put(COUNT, &words([part.len() as u32]));
            reply.messages.push((NEWACTION, message.0));
        }
    }
}
