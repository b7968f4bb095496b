//! Datagrams: a message is cut into pieces that fit into packets. A message of which a piece is lost is lost.

use belljar_base::Map;

/// Bytes of a message in one datagram, so that it fits into an Ethernet frame.
const PIECE: usize = 1400;
/// Bytes of the header: number of the message, index and number of pieces.
const HEADER: usize = 16;
/// Largest message, in bytes.
pub const LARGEST: usize = 16 << 20;
/// Number of incomplete messages that are kept of one sender. Later ones replace the oldest.
const INCOMPLETE: usize = 64;

/// Cuts a message into datagrams.
pub fn pieces(number: u64, message: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let count = message.len().div_ceil(PIECE).max(1);
    (0..count).map(move |index| {
        let content = &message[index * PIECE..message.len().min((index + 1) * PIECE)];
        let mut datagram = Vec::with_capacity(HEADER + content.len());
        datagram.extend_from_slice(&number.to_be_bytes());
        datagram.extend_from_slice(&(index as u32).to_be_bytes());
        datagram.extend_from_slice(&(count as u32).to_be_bytes());
        datagram.extend_from_slice(content);
        datagram
    })
}

/// Messages of which pieces are missing, by sender and number.
pub struct Assembly<S: Ord> {
    open: Map<S, Map<u64, Open>>,
}

struct Open {
    pieces: Map<u32, Vec<u8>>,
    count: u32,
}

impl<S: Ord + Clone> Assembly<S> {
    pub fn new() -> Assembly<S> {
        Assembly { open: Map::new() }
    }

    /// Takes a datagram; gives the message that it completes. Datagrams of another form are ignored.
    pub fn take(&mut self, sender: &S, datagram: &[u8]) -> Option<Vec<u8>> {
        let (number, rest) = datagram.split_first_chunk::<8>()?;
        let (index, rest) = rest.split_first_chunk::<4>()?;
        let (count, content) = rest.split_first_chunk::<4>()?;
        let (number, index, count) =
            (u64::from_be_bytes(*number), u32::from_be_bytes(*index), u32::from_be_bytes(*count));
        if index >= count || count as usize > LARGEST.div_ceil(PIECE) {
            return None;
        }
        if count == 1 {
            return Some(content.to_vec());
        }
        let messages = self.open.entry(sender.clone()).or_default();
        let open = messages.entry(number).or_insert_with(|| Open { pieces: Map::new(), count });
        if open.count != count {
            return None;
        }
        open.pieces.insert(index, content.to_vec());
        if open.pieces.len() == count as usize {
            let open = messages.remove(&number)?;
            return Some(open.pieces.into_values().flatten().collect());
        }
        if messages.len() > INCOMPLETE {
            messages.pop_first();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_joined_in_any_order() {
        for length in [0, 1, PIECE, PIECE + 1, 10 * PIECE] {
            let message: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let mut sent: Vec<Vec<u8>> = pieces(7, &message).collect();
            sent.reverse();
            let mut assembly = Assembly::new();
            let taken: Vec<_> = sent.iter().map(|datagram| assembly.take(&"n1", datagram)).collect();
            let (last, before) = taken.split_last().unwrap();
            assert_eq!(last.as_ref(), Some(&message));
            assert!(before.iter().all(Option::is_none));
        }
    }

    #[test]
    fn lost_pieces_lose_their_message_only() {
        let mut assembly = Assembly::new();
        let message = vec![1; 2 * PIECE];
        for number in 0..1000 {
            assert_eq!(assembly.take(&"n1", &pieces(number, &message).next().unwrap()), None);
        }
        assert!(assembly.open.get(&"n1").unwrap().len() <= INCOMPLETE);
        // The same number of another sender is another message.
        assert_eq!(assembly.take(&"n2", &pieces(999, &message).nth(1).unwrap()), None);
        assert_eq!(assembly.take(&"n1", &pieces(999, &message).nth(1).unwrap()), Some(message.clone()));
        for malformed in [&b""[..], &[0; 15], &[0; 16], &[255; 40]] {
            assert_eq!(assembly.take(&"n1", malformed), None);
        }
    }
}
