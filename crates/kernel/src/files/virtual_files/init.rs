//! Process 1 as `/proc` shows it. The experiment starts programs and takes in orphans in its place, so there is no process of
//! this number; programs look for it all the same, to learn what has started the machine.

use super::ProcessFile;
use super::mounts::MountsForm;
use crate::host::Host;
use belljar_linux_abi::Errno;

/// Its number.
pub(crate) const INIT: i32 = 1;

impl Host {
    /// The bytes of a file of `/proc/1`.
    pub(super) fn init_file(&self, file: ProcessFile) -> Result<Vec<u8>, Errno> {
        let text = match file {
            ProcessFile::Comm => "init\n",
            ProcessFile::Cmdline => "/init\0",
            ProcessFile::Cgroup => "0::/init.scope\n",
            ProcessFile::OomScore | ProcessFile::OomAdj | ProcessFile::OomScoreAdj => "0\n",
            ProcessFile::Loginuid => "4294967295",
            ProcessFile::SetGroups => "allow\n",
            ProcessFile::IdMap(_) => "         0          0 4294967295\n",
            ProcessFile::Personality => "00000000\n",
            ProcessFile::Stat => {
                "1 (init) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 0 2625536 256 18446744073709551615 0 0 0 0 0 0 0 4096 0 0 0 \
                 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
            }
            ProcessFile::Statm => "641 256 0 0 0 33 0\n",
            ProcessFile::Status => {
                "Name:\tinit\nUmask:\t0000\nState:\tS (sleeping)\nTgid:\t1\nNgid:\t0\nPid:\t1\nPPid:\t0\nTracerPid:\t0\n\
                 Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t \nNStgid:\t1\nNSpid:\t1\nNSpgid:\t1\nNSsid:\t1\n\
                 VmPeak:\t    2564 kB\nVmSize:\t    2564 kB\nVmLck:\t       0 kB\nVmRSS:\t    1024 kB\nThreads:\t1\n\
                 SigBlk:\t0000000000000000\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000014003\n\
                 CapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\nCapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\n\
                 CapAmb:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n"
            }
            ProcessFile::Mounts => return Ok(self.mounts_seen(0, b"/", MountsForm::Mounts)),
            ProcessFile::Mountinfo => return Ok(self.mounts_seen(0, b"/", MountsForm::Mountinfo)),
            ProcessFile::Mountstats => return Ok(self.mounts_seen(0, b"/", MountsForm::Mountstats)),
            // What it maps, opens and was given is not made up.
            _ => "",
        };
        Ok(text.as_bytes().to_vec())
    }
}
