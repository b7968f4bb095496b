//! Intros: the messages that the two sides of a channel exchange on the socket before they use the shared
//! memory.

use crate::error::Fault;
use crate::layer::{self, Layer};

/// Version of the protocol.
pub const VERSION: u64 = 1;
/// Flag: the side synchronises if the peer does.
pub const SYNC: u64 = 1;
/// Flag: the side requires synchronisation.
pub const SYNC_FORCE: u64 = 2;
/// Upper bound on the length of an intro.
pub const MAX_LEN: usize = 2048;

/// Length of an intro before the upper layer's part.
const LISTENER_LEN: usize = 80;
const CONNECTOR_LEN: usize = 32;
/// Upper bound on the size of a slot: all messages have 16-bit lengths.
const MAX_SLOT: u64 = 1 << 17;

/// A queue in the shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Offset from the start of the memory, in bytes.
    pub offset: u64,
    /// Size of a slot in bytes.
    pub slot_size: u64,
    /// Number of slots.
    pub slots: u64,
}

impl Queue {
    fn end(self) -> Option<u64> {
        self.offset.checked_add(self.slot_size.checked_mul(self.slots)?)
    }
}

/// Both queues of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Queue from the listener to the connector.
    pub to_connector: Queue,
    /// Queue from the connector to the listener.
    pub to_listener: Queue,
}

/// The intro of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intro {
    /// Bitwise combination of [`SYNC`] and [`SYNC_FORCE`].
    pub flags: u64,
    /// The queues, in a listener's intro.
    pub queues: Option<Queues>,
    /// The upper layer's part.
    pub upper: Vec<u8>,
}

impl Intro {
    /// Emits the intro.
    pub fn encode(&self, layer: &impl Layer) -> Vec<u8> {
        let mut words = vec![VERSION, self.flags];
        if let Some(Queues { to_connector, to_listener }) = self.queues {
            words.extend([to_connector.offset, to_connector.slot_size, to_connector.slots]);
            words.extend([to_listener.offset, to_listener.slot_size, to_listener.slots]);
        }
        words.push(layer.id());
        words.push(8 * (words.len() as u64 + 1));
        words.iter().flat_map(|word| word.to_le_bytes()).chain(self.upper.iter().copied()).collect()
    }

    /// Length of the shortest intro of a listener or of a connector.
    pub fn least_len(of_listener: bool, layer: &impl Layer) -> usize {
        layer.peer_intro_len() + if of_listener { LISTENER_LEN } else { CONNECTOR_LEN }
    }

    /// Checks version and layer of an intro that may be incomplete.
    pub fn check_head(bytes: &[u8], of_listener: bool, expected: &impl Layer) -> Result<(), Fault> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
            word.map(u64::from_le_bytes)
        };
        if let Some(version) = word(0).filter(|version| *version != VERSION) {
            return Err(Fault::Version(version));
        }
        let layer = word(if of_listener { LISTENER_LEN } else { CONNECTOR_LEN } - 16);
        match layer.filter(|layer| *layer != expected.id()) {
            Some(layer) => Err(Fault::Layer { theirs: layer::name(layer), ours: expected.name() }),
            None => Ok(()),
        }
    }

    /// Parses an intro of at least [`least_len`](Self::least_len) bytes.
    pub fn decode(bytes: &[u8], of_listener: bool, expected: &impl Layer) -> Result<Intro, Fault> {
        Intro::check_head(bytes, of_listener, expected)?;
        let mut words =
            bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let mut word = || words.next().unwrap_or(0);
        let (_, flags) = (word(), word());
        let mut queue = || Queue { offset: word(), slot_size: word(), slots: word() };
        let queues = of_listener.then(|| Queues { to_connector: queue(), to_listener: queue() });
        let (_, upper) = (word(), word());
        let begin = if of_listener { LISTENER_LEN } else { CONNECTOR_LEN };
        let upper = usize::try_from(upper).ok().filter(|at| *at >= begin).and_then(|at| bytes.get(at..));
        let Some(upper) = upper.filter(|upper| upper.len() >= expected.peer_intro_len()) else {
            return Err(Fault::Intro("the upper layer's part lies outside of it".into()));
        };
        if let Some(queues) = queues {
            check(queues)?;
        }
        Ok(Intro { flags, queues, upper: upper.to_vec() })
    }
}

fn check(Queues { to_connector, to_listener }: Queues) -> Result<(), Fault> {
    for queue in [to_connector, to_listener] {
        let Queue { offset, slot_size, slots } = queue;
        if !(64..=MAX_SLOT).contains(&slot_size) {
            return Err(Fault::Intro(format!("slots of {slot_size} bytes (64 to {MAX_SLOT} are allowed)")));
        }
        if slots == 0 || queue.end().is_none() {
            return Err(Fault::Intro(format!("a queue of {slots} slots at {offset}")));
        }
    }
    let (first, second) = if to_connector.offset <= to_listener.offset {
        (to_connector, to_listener)
    } else {
        (to_listener, to_connector)
    };
    if first.end() > Some(second.offset) {
        return Err(Fault::Intro("its queues overlap".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Net;

    fn intro() -> Intro {
        let queue = |offset| Queue { offset, slot_size: 1600, slots: 16 };
        let queues = Queues { to_connector: queue(0), to_listener: queue(25_600) };
        Intro { flags: SYNC, queues: Some(queues), upper: vec![0; 4] }
    }

    #[test]
    fn fields_lie_where_the_protocol_has_them() {
        let bytes = intro().encode(&Net);
        assert_eq!(bytes.len(), 84);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((word(0), word(8), word(16), word(24), word(32)), (1, 1, 0, 1600, 16));
        assert_eq!((word(40), word(48), word(56), word(64), word(72)), (25_600, 1600, 16, 1, 80));
        assert_eq!(Intro::decode(&bytes, true, &Net).unwrap(), intro());
        let connector = Intro { queues: None, ..intro() };
        let bytes = connector.encode(&Net);
        assert_eq!((bytes.len(), bytes[16], bytes[24]), (36, 1, 32));
        assert_eq!(Intro::decode(&bytes, false, &Net).unwrap(), connector);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let changed = |at: usize, word: u64| {
            let mut bytes = intro().encode(&Net);
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            Intro::decode(&bytes, true, &Net).unwrap_err().to_string()
        };
        assert!(changed(0, 2).contains("version 2"));
        assert!(changed(64, 2).contains("it speaks PCIe where Ethernet is expected"));
        for (at, word) in [(24, 0), (24, 63), (24, 1 << 40), (32, 0), (32, u64::MAX), (16, u64::MAX - 10)] {
            assert!(changed(at, word).contains("its intro is not valid"), "{at}: {word}");
        }
        assert!(changed(40, 25_599).contains("overlap"));
        for upper in [0, 79, 81, 84, u64::MAX] {
            assert!(changed(72, upper).contains("outside of it"), "{upper}");
        }
    }
}
