//! `listen` and `accept`.

use crate::call::Call;
use crate::ids::SocketKey;
use crate::net::message::Attempt;
use belljar_linux_abi::Errno;

pub fn listen(call: &mut Call<'_>, key: SocketKey, backlog: usize) -> Result<(), Errno> {
    call.host.stack_of_mut(key).tcp_listen(key, backlog)
}

pub fn accept(call: &mut Call<'_>, key: SocketKey) -> Result<Attempt<SocketKey>, Errno> {
    let queue = key.into();
    Ok(call.host.stack_of_mut(key).tcp_accept(key)?.map_or(Attempt::Wait(queue), Attempt::Done))
}
