//! Classic BPF programs that filter the frames received by a packet socket.

use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;

/// Filter of received frames, executed by the kernel before it copies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    program: Vec<[u32; 4]>,
}

/// Verdict that accepts the whole frame.
const ALL: u32 = 0x40000;
const MAX_INSTRUCTIONS: usize = libc::BPF_MAXINSNS as usize;

impl Filter {
    /// Parses a program as printed by `tcpdump -ddd EXPRESSION`: the number of instructions, then one
    /// instruction per line.
    ///
    /// A program that the kernel rejects is an error when the port is opened.
    pub fn from_tcpdump(text: &str) -> Result<Filter, String> {
        let mut lines = text.lines().filter(|l| !l.trim().is_empty());
        let expects = "expected what `tcpdump -ddd EXPRESSION` prints";
        let count: usize = lines
            .next()
            .and_then(|l| l.trim().parse().ok())
            .ok_or_else(|| format!("{expects}: the first line is the number of instructions"))?;
        let mut program = Vec::new();
        for (i, line) in lines.enumerate() {
            let words: Vec<u32> = line.split_whitespace().filter_map(|w| w.parse().ok()).collect();
            match words[..] {
                [code, jt, jf, k] if code <= 0xffff && jt <= 0xff && jf <= 0xff => {
                    program.push([code, jt, jf, k])
                }
                _ => return Err(format!("{expects}: instruction {} ('{line}') is not four numbers", i + 1)),
            }
        }
        if program.len() != count || count == 0 || count > MAX_INSTRUCTIONS {
            let len = program.len();
            return Err(format!(
                "{expects}: {count} instructions announced, {len} found, 1 to 4096 possible"
            ));
        }
        Ok(Filter { program })
    }

    /// Accepts no frame.
    pub(crate) fn none() -> Filter {
        Filter { program: vec![[libc::BPF_RET | libc::BPF_K, 0, 0, 0]] }
    }

    /// Accepts frames of these Ethernet types, at most 254. A frame with one VLAN tag is classified by the
    /// inner type, because the kernel removes the tag before the filter runs.
    ///
    /// # Panics
    /// If there are more than 254 types.
    pub fn ethertypes(types: &[u16]) -> Filter {
        assert!(types.len() < 255, "{} Ethernet types", types.len());
        let mut program = vec![[libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 12]];
        for (i, kind) in types.iter().enumerate() {
            // On a match, jump over the remaining comparisons and the rejection.
            let to_accept = (types.len() - i) as u32;
            program.push([libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, to_accept, 0, u32::from(*kind)]);
        }
        program.push([libc::BPF_RET | libc::BPF_K, 0, 0, 0]);
        program.push([libc::BPF_RET | libc::BPF_K, 0, 0, ALL]);
        Filter { program }
    }

    /// Accepts IPv4 packets from or to one of these addresses, on a socket that receives packets without
    /// their Ethernet header (`SOCK_DGRAM`). With more than 100 addresses it accepts all packets.
    pub fn ipv4_addresses(addresses: &[Ipv4Addr]) -> Filter {
        let all = [libc::BPF_RET | libc::BPF_K, 0, 0, ALL];
        if addresses.len() > 100 {
            return Filter { program: vec![all] };
        }
        let mut program = Vec::new();
        let rules = 2 * (addresses.len() + 1);
        for offset in [12, 16] {
            program.push([libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset]);
            for address in addresses {
                // On a match past the other rules and the refusal.
                let to_accept = (rules - program.len()) as u32;
                program.push([
                    libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                    to_accept,
                    0,
                    u32::from(*address),
                ]);
            }
        }
        program.push([libc::BPF_RET | libc::BPF_K, 0, 0, 0]);
        program.push(all);
        Filter { program }
    }

    /// Attaches the filter to a socket; replaces its previous filter.
    pub fn attach(&self, socket: BorrowedFd<'_>) -> std::io::Result<()> {
        crate::sys::attach_filter(socket, &mut self.program())
    }

    pub(crate) fn program(&self) -> Vec<libc::sock_filter> {
        let narrow = |[code, jt, jf, k]: &[u32; 4]| libc::sock_filter {
            code: *code as u16,
            jt: *jt as u8,
            jf: *jf as u8,
            k: *k,
        };
        self.program.iter().map(narrow).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_tcpdump_prints() {
        // Output of tcpdump -ddd arp
        let text = "4\n40 0 0 12\n21 0 1 2054\n6 0 0 262144\n6 0 0 0\n";
        let program = Filter::from_tcpdump(text).unwrap().program();
        assert_eq!(program.len(), 4);
        assert_eq!((program[1].code, program[1].jt, program[1].jf, program[1].k), (21, 0, 1, 2054));
    }

    #[test]
    fn says_which_line_is_wrong() {
        assert!(Filter::from_tcpdump("").unwrap_err().contains("first line"));
        assert!(Filter::from_tcpdump("2\n40 0 0 12\n21 0 x 1\n").unwrap_err().contains("instruction 2"));
        assert!(
            Filter::from_tcpdump("2\n6 0 0 0\n").unwrap_err().contains("2 instructions announced, 1 found")
        );
        assert!(Filter::from_tcpdump("1\n6 256 0 0\n").is_err());
    }

    #[test]
    fn addresses_jump_to_acceptance() {
        let program =
            Filter::ipv4_addresses(&[Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)]).program();
        // A load and two comparisons, twice; reject; accept
        assert_eq!(program.len(), 8);
        for at in [1, 2, 4, 5] {
            assert_eq!(at + 1 + usize::from(program[at].jt), 7, "{at}");
        }
        assert_eq!(program[4].k, 0x0a00_0001);
    }

    #[test]
    fn types_jump_to_acceptance() {
        let program = Filter::ethertypes(&[0x0800, 0x0806]).program();
        assert_eq!(program.iter().map(|i| i.jt).collect::<Vec<_>>(), [0, 2, 1, 0, 0]);
    }
}
