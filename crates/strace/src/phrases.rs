//! Cache of formatted calls. Most calls recur with the same registers, so their text is cached; guest memory
//! is formatted anew each time.

use super::arity;
use super::format::Formatter;
use super::signatures::{Arg, Signature};
use super::text::Text;
use smallvec::SmallVec;

/// Recently formatted calls of a host's programs. Entries do not depend on the process.
#[derive(Debug, Default)]
pub struct Phrases(Vec<Option<Box<Phrase>>>);

/// Number of cache slots.
const KEPT: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 6;

/// Formatted call without its result, with gaps for text that depends on memory.
#[derive(Debug, Default)]
struct Phrase {
    number: u32,
    /// Argument registers that the text depends on; zero for others.
    args: [u64; 6],
    /// Masks of the registers in `args`: all ones if the text depends on the register.
    said: [u64; 6],
    text: Text,
    /// Gaps in order: index of the pointer argument, and length of the text before the gap.
    gaps: SmallVec<[(usize, u8); 3]>,
}

impl Phrases {
    /// Appends the name and arguments of a call, without its result.
    #[inline]
    pub fn push(&mut self, signature: &Signature, formatter: &Formatter, out: &mut Text) {
        let (number, args) = (formatter.number, formatter.args);
        if self.0.is_empty() {
            self.0.resize_with(KEPT, || None);
        }
        let phrase = &mut self.0[place(number, args[0])];
        let phrase = match phrase {
            Some(phrase) if phrase.fits(number, args) => phrase,
            _ => {
                let phrase = phrase.get_or_insert_default();
                phrase.make(signature, formatter);
                phrase
            }
        };
        let text = phrase.text.as_bytes();
        let mut from = 0;
        for (to, n) in &phrase.gaps {
            let n = usize::from(*n);
            out.push_bytes(&text[from..*to]);
            formatter.push_argument(signature.arguments[n], args[n], out);
            from = *to;
        }
        out.push_bytes(&text[from..]);
    }
}

/// Cache slot of a call: by number and first argument, because programs use several descriptors alternately,
/// usually as the first argument. Fibonacci hashing (Knuth, The Art of Computer Programming, section 6.4).
#[inline]
pub fn place(number: u32, first: u64) -> usize {
    let key = u64::from(number) << 16 | first & 0xffff;
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACE_BITS)) as usize
}

impl Phrase {
    /// True if the entry is for this call.
    #[inline]
    fn fits(&self, number: u32, args: &[u64; 6]) -> bool {
        let differs = (0..6).fold(0, |differs, n| differs | (args[n] & self.said[n]) ^ self.args[n]);
        self.number == number && differs == 0 && self.gaps.iter().all(|(_, n)| args[usize::from(*n)] != 0)
    }

    /// Replaces the entry by one for this call.
    fn make(&mut self, signature: &Signature, formatter: &Formatter) {
        let (number, args) = (formatter.number, formatter.args);
        let mut text = std::mem::take(&mut self.text);
        text.truncate(0);
        text.push_short(&signature.head);
        *self = Phrase { number, ..Phrase::default() };
        let given = arity::given(number, args);
        for (n, arg) in signature.arguments.iter().enumerate().filter(|(n, _)| given >> n & 1 != 0) {
            if n > 0 {
                text.push_str(", ");
            }
            if points_to_memory(*arg) && args[n] != 0 {
                self.gaps.push((text.len(), n as u8));
            } else {
                (self.args[n], self.said[n]) = (args[n], u64::MAX);
                formatter.push_argument(*arg, args[n], &mut text);
            }
        }
        text.push_str(") = ");
        self.text = text;
    }
}

/// True if the text of an argument depends on memory, not only on its register.
fn points_to_memory(arg: Arg) -> bool {
    !matches!(
        arg,
        Arg::Fd
            | Arg::DirFd
            | Arg::Int
            | Arg::Size
            | Arg::Hex
            | Arg::Word
            | Arg::OpenFlags
            | Arg::Mode
            | Arg::Flags(_)
            | Arg::OneOf(_)
            | Arg::Signal
    )
}
