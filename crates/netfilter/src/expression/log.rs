//! `log`: lines for the kernel's log, in the form of Linux's `nf_log_syslog`.

use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::environment::RuleRequest;
use crate::log_line::{LogStyle, log_line};
use crate::operation::{DumpScope, Operation, Outcome, Passing, Scope};
use crate::registers::Registers;
use belljar_linux_abi::Errno;

/// `NFT_LOGLEVEL_WARNING`, `NFT_LOGLEVEL_DEBUG`, `NFT_LOGLEVEL_AUDIT`.
const WARNING: u32 = 4;
const DEBUG: u32 = 7;
const AUDIT: u32 = 8;

/// `NF_LOG_*` except `NF_LOG_UID`: the group of a socket's owner is not known.
const LOG_FLAGS: u32 = 0x37;

/// `log`.
#[derive(Debug)]
pub(super) struct Log {
    prefix: Option<String>,
    level: u32,
    flags: u32,
    /// Group of `NFLOG` with its snapshot length and threshold: no program can listen to one.
    group: Option<(u16, Option<u32>, Option<u16>)>,
}

impl Log {
    pub(super) fn read(attributes: Attributes<'_>, scope: &mut dyn Scope) -> Result<Log, NetfilterError> {
        let half = |kind| {
            let value = attributes.get(kind).map(|found| found.value.first_chunk().ok_or(Errno::ERANGE));
            value.transpose().map(|value| value.map(|bytes| u16::from_be_bytes(*bytes)))
        };
        let group = half(1)?;
        if group.is_some() && attributes.get(5).is_some() {
            return Err(Errno::EINVAL.into());
        }
        let level = attributes.u32(5)?.unwrap_or(WARNING);
        if level > AUDIT {
            return Err(Errno::EINVAL.into());
        }
        if level > DEBUG {
            return Err(scope.refuse("log level audit in rules".into()).into());
        }
        let flags = attributes.u32(6)?.unwrap_or(0);
        if flags & !LOG_FLAGS != 0 {
            return Err(scope.refuse("log flags skuid in rules".into()).into());
        }
        let prefix = attributes.text(2)?.map(String::from);
        if prefix.as_ref().is_some_and(|prefix| prefix.len() > 127) {
            return Err(Errno::ERANGE.into());
        }
        Ok(Log {
            prefix,
            level,
            flags,
            group: match group {
                Some(number) => Some((number, attributes.u32(3)?, half(4)?)),
                None => None,
            },
        })
    }
}

impl Operation for Log {
    fn name(&self) -> &'static str {
        "log"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        if let Some(prefix) = &self.prefix {
            out.text(2, prefix);
        }
        match self.group {
            Some((group, snapshot, threshold)) => {
                out.u16(1, group);
                if let Some(snapshot) = snapshot {
                    out.u32(3, snapshot);
                }
                if let Some(threshold) = threshold {
                    out.u16(4, threshold);
                }
            }
            None => {
                out.u32(5, self.level);
                if self.flags != 0 {
                    out.u32(6, self.flags);
                }
            }
        }
    }
    fn evaluate(&self, _: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        if self.group.is_none() {
            let prefix = self.prefix.as_deref().unwrap_or("");
            let line = log_line(passing, prefix, LogStyle::of_flags(self.flags));
            passing.requests.push(RuleRequest::Log(self.level as u8, line));
        }
        Outcome::Continue
    }
}
