use belljar_base::hex;

/// Expected packet: nibbles with wildcards, and whether the packet must end after them.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    nibbles: Vec<Option<u8>>,
    exact: bool,
}

impl Pattern {
    pub fn new(text: &str) -> Result<Pattern, String> {
        let (mut nibbles, mut exact) = (Vec::new(), false);
        for letter in text.chars().filter(|letter| !letter.is_whitespace()) {
            if exact {
                return Err("nothing follows '$'".to_owned());
            }
            match letter {
                '*' => nibbles.push(None),
                '$' => exact = true,
                _ => {
                    let digit = letter
                        .to_digit(16)
                        .ok_or_else(|| format!("'{letter}' is not a hexadecimal digit, '*' or '$'"))?;
                    nibbles.push(Some(digit as u8));
                }
            }
        }
        Ok(Pattern { nibbles, exact })
    }

    /// Compares a packet; the error describes the first difference.
    pub fn check(&self, packet: &[u8]) -> Result<(), String> {
        let got = || format!("got {}", hex(packet));
        let nibbles: Vec<u8> = packet.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
        if nibbles.len() < self.nibbles.len() {
            let (got_bytes, wanted) = (packet.len(), self.nibbles.len().div_ceil(2));
            return Err(format!("it has {got_bytes} bytes, at least {wanted} were expected; {}", got()));
        }
        for (n, (wanted, nibble)) in self.nibbles.iter().zip(&nibbles).enumerate() {
            if let Some(wanted) = wanted
                && wanted != nibble
            {
                return Err(format!("byte {} is {:02x}; {}", n / 2, packet[n / 2], got()));
            }
        }
        if self.exact && nibbles.len() != self.nibbles.len() {
            return Err(format!(
                "it has {} bytes, {} were expected; {}",
                packet.len(),
                self.nibbles.len() / 2,
                got()
            ));
        }
        Ok(())
    }
}

/// Decodes hexadecimal digits; an odd final digit is the high half of a byte.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .map(|letter| {
            letter
                .to_digit(16)
                .map(|digit| digit as u8)
                .ok_or_else(|| format!("'{letter}' is not a hexadecimal digit"))
        })
        .collect::<Result<_, _>>()?;
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0)).collect())
}
