//! Attributes of processes as files of `/proc/<pid>` set them.

use crate::process::Processes;
use belljar_linux_abi::Errno;
use belljar_objects::attributes::number_in;
use belljar_objects::credentials::capability;
use belljar_objects::ids::ProcessKey;

impl Processes {
    /// Writes `/proc/<pid>/coredump_filter`, in any notation of C. Nothing dumps core here.
    pub fn set_coredump_filter(&mut self, pid: i32, text: &[u8]) -> Result<(), Errno> {
        let text = std::str::from_utf8(text).map_err(|_| Errno::EINVAL)?.trim();
        let parsed = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
            (Some(digits), _) => u32::from_str_radix(digits, 16),
            (None, Some(digits)) if !digits.is_empty() => u32::from_str_radix(digits, 8),
            _ => text.parse(),
        };
        let filter = parsed.map_err(|_| Errno::EINVAL)? & 0x1ff;
        let process = *self.by_pid.get(&pid).ok_or(Errno::ESRCH)?;
        self[process.0].attributes.coredump_filter = filter;
        Ok(())
    }

    /// Writes `/proc/<pid>/oom_score_adj`, or `oom_adj` of old: `EACCES` below the least that it had from those who may
    /// lower it (`__set_oom_adj`).
    pub fn set_oom_adjustment(
        &mut self,
        writer: ProcessKey,
        pid: i32,
        old_scale: bool,
        text: &[u8],
    ) -> Result<(), Errno> {
        let process = *self.by_pid.get(&pid).ok_or(Errno::ESRCH)?;
        let privileged = self.is_capable(writer, capability::SYS_RESOURCE);
        self[process.0].attributes.set_oom_adjustment(privileged, old_scale, text)
    }

    /// Writes `/proc/<pid>/timerslack_ns`: 0 stands for the default.
    pub fn set_timer_slack(&mut self, pid: i32, text: &[u8]) -> Result<(), Errno> {
        let slack: u64 = number_in(text).ok_or(Errno::EINVAL)?;
        let process = *self.by_pid.get(&pid).ok_or(Errno::ESRCH)?;
        let attributes = &mut self[process.0].attributes;
        attributes.timer_slack = if slack == 0 { attributes.timer_slack_default } else { slack };
        Ok(())
    }
}
