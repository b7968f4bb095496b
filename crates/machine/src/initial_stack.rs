//! Initial stack of a program: arguments, environment and auxiliary vector, in the layout of the System V ABI
//! for x86-64 (section 3.4.1, "Initial Stack and Register State").

/// Contents of an initial stack.
pub struct InitialStack<'a> {
    /// Arguments, including `argv[0]`.
    pub args: &'a [Vec<u8>],
    /// Environment strings, `NAME=value`.
    pub environment: &'a [Vec<u8>],
    /// `AT_EXECFN`.
    pub path: &'a [u8],
    /// Random bytes for `AT_RANDOM`.
    pub random: [u8; 16],
    /// Auxiliary vector entries that do not depend on the stack.
    pub auxiliary: &'a [(u64, u64)],
}

/// Auxiliary vector types, `getauxval(3)`.
pub const AT_NULL: u64 = 0;
const AT_PLATFORM: u64 = 15;
const AT_RANDOM: u64 = 25;
const AT_EXECFN: u64 = 31;

impl InitialStack<'_> {
    /// Builds the stack below `top`. Returns the stack pointer, the bytes to store there, and the auxiliary
    /// vector among them.
    pub fn build(&self, top: u64) -> (u64, Vec<u8>, Vec<u8>) {
        // Strings come first, at the top, so that their addresses are known.
        let mut strings = Vec::new();
        let mut place = |text: &[u8], terminated: bool| {
            let at = strings.len() as u64;
            strings.extend_from_slice(text);
            if terminated {
                strings.push(0);
            }
            at
        };
        let random = place(&self.random, false);
        let platform = place(b"x86_64", true);
        let args: Vec<u64> = self.args.iter().map(|text| place(text, true)).collect();
        let environment: Vec<u64> = self.environment.iter().map(|text| place(text, true)).collect();
        let path = place(self.path, true);
        // Eight zero bytes end the stack, as on Linux.
        strings.resize((strings.len() + 8).next_multiple_of(16), 0);
        let base = top - strings.len() as u64;

        let mut words = vec![self.args.len() as u64];
        words.extend(args.iter().map(|at| base + at));
        words.push(0);
        words.extend(environment.iter().map(|at| base + at));
        words.push(0);
        let own = [
            (AT_RANDOM, base + random),
            (AT_EXECFN, base + path),
            (AT_PLATFORM, base + platform),
            (AT_NULL, 0),
        ];
        let first = words.len();
        for (kind, value) in self.auxiliary.iter().copied().chain(own) {
            words.extend([kind, value]);
        }
        let auxiliary = words[first..].iter().flat_map(|word| word.to_le_bytes()).collect();
        // RSP is a multiple of 16 at the program's entry.
        let padding = words.len() % 2;
        let pointer = base - (words.len() + padding) as u64 * 8;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(bytes.len() + padding * 8, 0);
        bytes.extend_from_slice(&strings);
        (pointer, bytes, auxiliary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_laid_out_as_the_abi_says() {
        for extra in [vec![], vec![b"two".to_vec()]] {
            let args: Vec<Vec<u8>> = [vec![b"prog".to_vec()], extra].concat();
            let stack = InitialStack {
                args: &args,
                environment: &[b"A=b".to_vec()],
                path: b"/bin/prog",
                random: [7; 16],
                auxiliary: &[(6, 4096)],
            };
            let top = 0x7000_0000;
            let (pointer, bytes, auxiliary) = stack.build(top);
            assert_eq!(auxiliary[..16], [[6u64.to_le_bytes(), 4096u64.to_le_bytes()].concat()].concat());
            assert_eq!(pointer % 16, 0);
            assert_eq!(pointer + bytes.len() as u64, top);
            let word = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap());
            assert_eq!(word(0), args.len() as u64);
            let first = (word(1) - pointer) as usize;
            assert_eq!(&bytes[first..first + 5], b"prog\0");
            assert_eq!(word(1 + args.len()), 0);
            let after_environment = 1 + args.len() + 1 + 2;
            assert_eq!((word(after_environment), word(after_environment + 1)), (6, 4096));
        }
    }
}
