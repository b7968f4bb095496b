//! `NETLINK_GENERIC`: the control family, by which programs find families by name, and the
//! families `ethtool` and `wireguard`.

use super::Requester;
use super::ethtool_family;
use super::message::{DUMP, MULTI, Message, Request, attribute};
use super::refusal::Refusal;
use super::tree::{GenericRequest, nested, text, word};
use super::wireguard_family;
use crate::Admin;
use belljar_linux_abi::Errno;

/// `GENL_ID_CTRL`: the control family.
const CONTROL: u16 = 16;
/// Number of the family `ethtool`, of those that Linux assigns at boot.
const ETHTOOL: u16 = 21;
/// Number of the family `wireguard`.
const WIREGUARD: u16 = 34;
/// Number of the multicast group `monitor` of `ethtool`.
const MONITOR: u32 = 5;
/// `struct genlmsghdr`: command, version, reserved.
const HEADER: usize = 4;

/// `CTRL_CMD_*`.
const NEWFAMILY: u8 = 1;
const GETFAMILY: u8 = 3;
/// `CTRL_ATTR_*`.
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const VERSION: u16 = 3;
const HEADER_SIZE: u16 = 4;
const MAX_ATTRIBUTE: u16 = 5;
const OPERATIONS: u16 = 6;
const GROUPS: u16 = 7;

/// A family: number, name, version, commands with their flags, and multicast groups.
struct Family {
    id: u16,
    name: &'static str,
    version: u32,
    max_attribute: u32,
    operations: &'static [(u32, u32)],
    groups: &'static [(&'static str, u32)],
}

const FAMILIES: [Family; 3] = [
    Family {
        id: CONTROL,
        name: "nlctrl",
        version: 2,
        max_attribute: 10,
        operations: &[(GETFAMILY as u32, 0xe)],
        groups: &[("notify", CONTROL as u32)],
    },
    Family {
        id: ETHTOOL,
        name: "ethtool",
        version: 1,
        max_attribute: 0,
        operations: ethtool_family::OPERATIONS,
        groups: &[("monitor", MONITOR)],
    },
    Family {
        id: WIREGUARD,
        name: "wireguard",
        version: 1,
        max_attribute: 8,
        operations: wireguard_family::OPERATIONS,
        groups: &[],
    },
];

impl Family {
    /// `CTRL_CMD_NEWFAMILY`.
    fn message(&self, request: &Request<'_>, flags: u16, port: u32) -> Vec<u8> {
        let list = |all: Vec<Vec<u8>>| -> Vec<u8> {
            let numbered = all.iter().zip(1..).map(|(entry, number)| (number, entry.clone()));
            nested(&numbered.collect::<Vec<_>>())
        };
        let operations =
            self.operations.iter().map(|(id, flags)| nested(&[(1, word(*id)), (2, word(*flags))]));
        let groups = self.groups.iter().map(|(name, id)| nested(&[(2, word(*id)), (1, text(name))]));
        Message::new(CONTROL, flags, request.sequence, port)
            .put(&[NEWFAMILY, 2, 0, 0])
            .attribute(FAMILY_NAME, &text(self.name))
            .attribute(FAMILY_ID, &self.id.to_ne_bytes())
            .attribute(VERSION, &self.version.to_ne_bytes())
            .attribute(HEADER_SIZE, &0u32.to_ne_bytes())
            .attribute(MAX_ATTRIBUTE, &self.max_attribute.to_ne_bytes())
            .attribute(OPERATIONS, &list(operations.collect()))
            .attribute(GROUPS, &list(groups.collect()))
            .finish()
    }
}

impl Admin<'_> {
    /// Answers a request sent to a `NETLINK_GENERIC` socket; returns the messages besides the acknowledgment.
    pub(super) fn answer_generic(
        &mut self,
        request: &Request<'_>,
        asker: Requester,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        let family = FAMILIES.iter().find(|family| family.id == request.kind).ok_or(Errno::ENOENT)?;
        let command = *request.body.first().ok_or(Errno::EINVAL)?;
        let attributes = request.body.get(HEADER..).ok_or(Errno::EINVAL)?;
        let is_dump = is_dump(request);
        if family.id == CONTROL {
            if command != GETFAMILY {
                return Err(Errno::EOPNOTSUPP.into());
            }
            if is_dump {
                return Ok(FAMILIES
                    .iter()
                    .map(|family| family.message(request, MULTI, asker.port))
                    .collect());
            }
            let id = attribute(attributes, FAMILY_ID);
            let name = attribute(attributes, FAMILY_NAME);
            if id.is_none() && name.is_none() {
                return Err(Errno::EINVAL.into());
            }
            let named = |family: &&Family| {
                id.is_none_or(|id| id == family.id.to_ne_bytes())
                    && name
                        .is_none_or(|name| name.strip_suffix(&[0]).unwrap_or(name) == family.name.as_bytes())
            };
            let found = FAMILIES.iter().find(named).ok_or(Errno::ENOENT)?;
            return Ok(vec![found.message(request, 0, asker.port)]);
        }
        let Some((_, flags)) = family.operations.iter().find(|(id, _)| *id == u32::from(command)) else {
            self.warn(format!("command {command} of the netlink family {} is not supported", family.name));
            return Err(Errno::EOPNOTSUPP.into());
        };
        if flags & ethtool_family::FOR_ADMINISTRATORS != 0 && !asker.may_change {
            return Err(Errno::EPERM.into());
        }
        let asked = GenericRequest { command, attributes, is_dump };
        let replies = match family.id {
            WIREGUARD => wireguard_family::answer(self.net, request, &asked)?,
            _ => ethtool_family::answer(self.net, &asked)?,
        };
        let flags = if is_dump { MULTI } else { 0 };
        let message = |(command, body): (u8, Vec<u8>)| {
            Message::new(family.id, flags, request.sequence, asker.port)
                .put(&[command, 1, 0, 0])
                .put(&body)
                .finish()
        };
        Ok(replies.into_iter().map(message).collect())
    }
}

/// True if a request for a generic family is a dump.
pub(super) fn is_dump(request: &Request<'_>) -> bool {
    request.flags & DUMP == DUMP
}
