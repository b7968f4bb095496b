
use crate::net::message::{Attempt, Incoming, Outgoing, RawAddress, Received};
use crate::call::Call;
use crate::host::Host;
use crate::ids::SocketKey;
use belljar_linux_abi::Errno;

/// What a Netlink socket keeps.
#[derive(Debug)]
pub struct NetlinkSocket {}

pub fn create(_host: &mut Host, _type: i32, _protocol: i32) -> Result<SocketKey, Errno> {
    Err(Errno::EAFNOSUPPORT)
}
pub fn create_pair(_host: &mut Host, _type: i32, _protocol: i32) -> Result<(SocketKey, SocketKey), Errno> {
    Err(Errno::EAFNOSUPPORT)
}
pub fn bind(_call: &mut Call<'_>, _key: SocketKey, _address: &[u8]) -> Result<(), Errno> {
    Err(Errno::EOPNOTSUPP)
}
pub fn connect(
    _call: &mut Call<'_>,
    _key: SocketKey,
    _address: &[u8],
    _again: bool,
) -> Result<Attempt<()>, Errno> {
    Err(Errno::EOPNOTSUPP)
}
pub fn listen(_call: &mut Call<'_>, _key: SocketKey, _backlog: usize) -> Result<(), Errno> {
    Err(Errno::EOPNOTSUPP)
}
pub fn accept(_call: &mut Call<'_>, _key: SocketKey) -> Result<Attempt<SocketKey>, Errno> {
    Err(Errno::EOPNOTSUPP)
}
pub fn send(
    _call: &mut Call<'_>,
    _key: SocketKey,
    _message: &Outgoing,
    _done: usize,
) -> Result<Attempt<usize>, Errno> {
    Err(Errno::EOPNOTSUPP)
}
pub fn receive(
    _call: &mut Call<'_>,
    _key: SocketKey,
    _room: &Incoming,
    _done: usize,
) -> Result<Attempt<Received>, Errno> {
    Err(Errno::EOPNOTSUPP)
}
pub fn shutdown(_call: &mut Call<'_>, _key: SocketKey, _how: i32) -> Result<(), Errno> {
    Err(Errno::EOPNOTSUPP)
}
pub fn local_name(_host: &mut Host, _key: SocketKey) -> Result<RawAddress, Errno> {
    Err(Errno::EOPNOTSUPP)
}
pub fn peer_name(_host: &mut Host, _key: SocketKey) -> Result<RawAddress, Errno> {
    Err(Errno::EOPNOTSUPP)
}
pub fn readiness(_host: &Host, _key: SocketKey) -> u32 {
    0
}
pub fn readable_bytes(_host: &mut Host, _key: SocketKey) -> Result<usize, Errno> {
    Err(Errno::EOPNOTSUPP)
}
pub fn unsent_bytes(_host: &mut Host, _key: SocketKey) -> Result<usize, Errno> {
    Err(Errno::EOPNOTSUPP)
}
pub fn close(host: &mut Host, key: SocketKey) {
    host.remove_socket(key);
}
/// `SO_PEERCRED`: process, user and group of the peer.
pub fn peer_credentials(_host: &mut Host, _key: SocketKey) -> Result<(i32, u32, u32), Errno> {
    Err(Errno::ENOTCONN)
}
