//! `/proc/config.gz`: the features of a simulated host's kernel as configuration options, which test suites
//! and installers check.

use belljar_wire::checksum::crc32;
use std::fmt::Write;

/// Kernel release of a simulated host, as reported by `uname(2)`.
pub const RELEASE: &str = "6.18.0-belljar";
/// Kernel version of a simulated host, as reported by `uname(2)`.
pub const VERSION: &str = "#1 SMP Belljar";

/// Options that are set.
const HAS: &str = "64BIT X86_64 MMU MULTIUSER POSIX_TIMERS HIGH_RES_TIMERS PRINTK FUTEX FUTEX_PI EPOLL SIGNALFD TIMERFD EVENTFD SHMEM AIO \
    IO_URING ADVISE_SYSCALLS MEMBARRIER SYSVIPC SYSVIPC_SYSCTL POSIX_MQUEUE CROSS_MEMORY_ATTACH CHECKPOINT_RESTORE KCMP BINFMT_ELF \
    BINFMT_SCRIPT PROC_FS PROC_SYSCTL SYSFS TMPFS TMPFS_XATTR DEVTMPFS EXT4_FS INOTIFY_USER DNOTIFY FANOTIFY FANOTIFY_ACCESS_PERMISSIONS FHANDLE TIME_NS FILE_LOCKING MEMFD_CREATE UNIX98_PTYS TTY \
    NET UNIX UNIX_DIAG PACKET PACKET_DIAG INET INET_DIAG INET_TCP_DIAG INET_UDP_DIAG IPV6 IP_MULTICAST IP_ADVANCED_ROUTER \
    IP_MULTIPLE_TABLES IPV6_MULTIPLE_TABLES IP_ROUTE_MULTIPATH SYN_COOKIES TCP_CONG_ADVANCED TCP_CONG_BBR TCP_CONG_CUBIC TCP_CONG_DCTCP \
    TUN NETDEVICES ETHERNET DUMMY VETH VLAN_8021Q NAMESPACES UTS_NS IPC_NS USER_NS PID_NS NET_NS BLK_DEV BLK_DEV_LOOP SECCOMP SECCOMP_FILTER USERFAULTFD KEYS PERSISTENT_KEYRINGS BIG_KEYS SECURITY SECURITY_LANDLOCK";
/// Options that are not set but that programs check.
const LACKS: &str = "MODULES SMP NUMA SWAP KSM COREDUMP CGROUPS \
    BPF_SYSCALL PERF_EVENTS HUGETLBFS QUOTA BSD_PROCESS_ACCT UBSAN_SIGNED_OVERFLOW MEMCG \
    TRANSPARENT_HUGEPAGE RSEQ KEXEC TASKSTATS NETFILTER BRIDGE VXLAN BONDING SECURITY_LOCKDOWN_LSM \
    SECURITY_LOCKDOWN_LSM_EARLY KEY_DH_OPERATIONS KEY_NOTIFICATIONS KEYS_REQUEST_CACHE USER_DECRYPTED_DATA ENCRYPTED_KEYS TRUSTED_KEYS \
    BSD_PROCESS_ACCT_V3 QFMT_V2 XFS_FS XFS_QUOTA QUOTA_DEBUG SQUASHFS FS_VERITY EXT4_DEBUG TMPFS_POSIX_ACL BLK_DEV_RAM BLK_DEV_INTEGRITY \
    ZRAM MEMORY_FAILURE HWPOISON_INJECT HAVE_ARCH_USERFAULTFD_WP MEM_SOFT_DIRTY RT_GROUP_SCHED PREEMPT_RT POSIX_AUX_CLOCKS TLS RDS \
    RDS_TCP IP_SCTP NET_SCH_INGRESS NET_CLS_MATCHALL NET_ACT_PEDIT NETFILTER_XT_MATCH_STATE IP_NF_TARGET_REJECT CAN CAN_RAW CAN_BCM \
    CAN_VCAN INPUT_UINPUT KVM TRACING FTRACE TRACE_IRQFLAGS FAULT_INJECTION KASAN LOCKDEP PROVE_LOCKING DEBUG_NET DEBUG_OBJECTS \
    DEBUG_MUTEXES DEBUG_RT_MUTEXES DEBUG_SPINLOCK MODULE_SIG_FORCE SLUB_RCU_DEBUG";

/// Maximum length of a stored deflate block in bytes.
const BLOCK: usize = 65_535;

/// Content of the file: a gzip member with an uncompressed text.
pub fn config_gz() -> Vec<u8> {
    let mut text = format!(
        "#\n# Automatically generated file; DO NOT EDIT.\n# Linux/x86 {RELEASE} Kernel Configuration\n#\n"
    );
    for name in HAS.split_whitespace() {
        let _ = writeln!(text, "CONFIG_{name}=y");
    }
    text.push_str("CONFIG_DEFAULT_HOSTNAME=\"(none)\"\nCONFIG_PGTABLE_LEVELS=4\n");
    for name in LACKS.split_whitespace() {
        let _ = writeln!(text, "# CONFIG_{name} is not set");
    }
    gzip(text.as_bytes())
}

/// Encodes a gzip member (RFC 1952) with stored deflate blocks (RFC 1951).
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let mut blocks = bytes.chunks(BLOCK).peekable();
    while let Some(block) = blocks.next() {
        out.push(u8::from(blocks.peek().is_none()));
        let len = block.len() as u16;
        out.extend(len.to_le_bytes());
        out.extend((!len).to_le_bytes());
        out.extend(block);
    }
    out.extend(crc32(bytes).to_le_bytes());
    out.extend((bytes.len() as u32).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_there_once() {
        let mut names: Vec<&str> = HAS.split_whitespace().chain(LACKS.split_whitespace()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn packed_bytes_have_their_checksum() {
        let packed = gzip(b"abc");
        assert_eq!(packed[10..18], [1, 3, 0, 0xfc, 0xff, b'a', b'b', b'c']);
        // CRC-32 of the bytes, and their number.
        assert_eq!(packed[18..], [0xc2, 0x41, 0x24, 0x35, 3, 0, 0, 0]);
    }
}
