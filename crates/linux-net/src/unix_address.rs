//! `struct sockaddr_un`, unix(7) "Address format".

use belljar_linux_abi::{Errno, c};
use belljar_netstack::address::RawAddress;

/// Length of `sun_family`, which precedes the path, in bytes.
const FAMILY: usize = 2;
/// `sizeof(sun_path)`.
const PATH_MAX: usize = 108;

/// Name of a UNIX socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnixAddress {
    /// Path as given by the program.
    Path(Vec<u8>),
    /// Name in the abstract namespace, without its leading NUL byte.
    Abstract(Vec<u8>),
}

impl UnixAddress {
    /// Decodes a `struct sockaddr_un` of the given length; `None` if it holds only the family.
    pub fn parse(raw: &[u8]) -> Result<Option<UnixAddress>, Errno> {
        if raw.len() < FAMILY || raw.len() > FAMILY + PATH_MAX {
            return Err(Errno::EINVAL);
        }
        if i32::from(u16::from_le_bytes([raw[0], raw[1]])) != c::AF_UNIX {
            return Err(Errno::EINVAL);
        }
        Ok(match &raw[FAMILY..] {
            [] => None,
            [0, name @ ..] => Some(UnixAddress::Abstract(name.to_vec())),
            path => {
                let end = path.iter().position(|b| *b == 0).unwrap_or(path.len());
                Some(UnixAddress::Path(path[..end].to_vec()))
            }
        })
    }
    /// Encodes the address for `getsockname`; an unnamed socket has only the family.
    pub fn raw(address: Option<&UnixAddress>) -> RawAddress {
        let mut raw = RawAddress::from_slice(&(c::AF_UNIX as u16).to_le_bytes());
        match address {
            None => {}
            Some(UnixAddress::Path(path)) => {
                raw.extend_from_slice(path);
                raw.push(0);
            }
            Some(UnixAddress::Abstract(name)) => {
                raw.push(0);
                raw.extend_from_slice(name);
            }
        }
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockaddr(path: &[u8]) -> Vec<u8> {
        [&[1, 0], path].concat()
    }

    #[test]
    fn paths_end_at_their_zero_byte_and_abstract_names_hold_them() {
        assert_eq!(UnixAddress::parse(&sockaddr(b"/a\0rest")), Ok(Some(UnixAddress::Path(b"/a".to_vec()))));
        assert_eq!(
            UnixAddress::parse(&sockaddr(b"\0a\0b")),
            Ok(Some(UnixAddress::Abstract(b"a\0b".to_vec())))
        );
        assert_eq!(UnixAddress::parse(&sockaddr(b"")), Ok(None));
        assert_eq!(UnixAddress::parse(&[2, 0, b'/']), Err(Errno::EINVAL));
        assert_eq!(UnixAddress::parse(&[1]), Err(Errno::EINVAL));
        assert_eq!(UnixAddress::parse(&sockaddr(&[b'x'; 109])), Err(Errno::EINVAL));
    }

    #[test]
    fn a_path_is_shown_with_its_zero_byte() {
        assert_eq!(&UnixAddress::raw(Some(&UnixAddress::Path(b"/a".to_vec())))[..], b"\x01\0/a\0");
        assert_eq!(&UnixAddress::raw(Some(&UnixAddress::Abstract(b"a".to_vec())))[..], b"\x01\0\0a");
        assert_eq!(&UnixAddress::raw(None)[..], b"\x01\0");
    }
}
