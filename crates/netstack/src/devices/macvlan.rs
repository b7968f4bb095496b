//! macvlan: interfaces with hardware addresses of their own on another interface.

use super::forward::address;
use super::macvlan_state::{Macvlan, MacvlanMode};
use super::{copy, cross, frame_received, of, originate_copy};
use crate::account::{DropCause, PacketDisposition};
use crate::veth::cross_now;
use crate::{PacketDirection, Stack};
use belljar_net::Packet;

/// The macvlans on an interface, by number.
pub fn on(stack: &Stack, below: usize) -> Vec<(usize, MacvlanMode)> {
    let all = stack.devices.iter().flat_map(|devices| devices.macvlans.iter());
    all.filter(|(_, macvlan)| macvlan.below == below)
        .map(|(number, macvlan)| (*number, macvlan.mode))
        .collect()
}

fn deliver(stack: &mut Stack, upper: usize, frame: Packet) -> PacketDisposition {
    if !stack.interfaces[upper].up {
        return PacketDisposition::dropped(DropCause::InterfaceDown);
    }
    frame_received(stack, upper, frame)
}

/// Receives a frame at the lower interface (`macvlan_handle_frame`). Returns a frame that the interface keeps.
pub(super) fn receive(stack: &mut Stack, below: usize, frame: Packet) -> Result<Packet, PacketDisposition> {
    let uppers = on(stack, below);
    let (to, from) = (address(frame.open_bytes(), 0), address(frame.open_bytes(), 6));
    let with = |stack: &Stack, mac: [u8; 6]| {
        uppers.iter().copied().find(|(upper, _)| stack.interfaces[*upper].mac == mac)
    };
    if to[0] & 1 != 0 {
        let source = with(stack, from);
        if let Some((upper, MacvlanMode::Private | MacvlanMode::Passthru)) = source {
            return Err(deliver(stack, upper, frame));
        }
        for (upper, mode) in uppers {
            let takes = match source {
                None => true,
                Some((own, _)) if own == upper => false,
                Some((_, MacvlanMode::Vepa)) => matches!(mode, MacvlanMode::Vepa | MacvlanMode::Bridge),
                // Those in mode bridge have seen the frame on its way out.
                Some(_) => mode == MacvlanMode::Vepa,
            };
            if takes && stack.interfaces[upper].up {
                let copied = copy(&frame);
                let end = deliver(stack, upper, copied);
                originate_copy(stack, end);
            }
        }
        return Ok(frame);
    }
    let passthru = uppers.iter().copied().find(|(_, mode)| *mode == MacvlanMode::Passthru);
    match passthru.or_else(|| with(stack, to)) {
        Some((upper, _)) => Err(deliver(stack, upper, frame)),
        None => Ok(frame),
    }
}

/// Sends a frame on a macvlan (`macvlan_queue_xmit`).
pub(super) fn output(stack: &mut Stack, number: usize, mut frame: Packet) -> PacketDisposition {
    stack.seen(stack.clock.now(), number, &mut frame, PacketDirection::Out);
    let Some(Macvlan { below, mode, .. }) = of(stack).macvlans.get(&number).copied() else {
        return PacketDisposition::dropped(DropCause::InterfaceDown);
    };
    if !stack.interfaces[below].up {
        return PacketDisposition::dropped(DropCause::InterfaceDown);
    }
    stack.interfaces.count_virtual(number, frame.len(), PacketDirection::Out);
    if mode == MacvlanMode::Bridge {
        let to = address(frame.open_bytes(), 0);
        let others = on(stack, below)
            .into_iter()
            .filter(|(other, mode)| *other != number && *mode == MacvlanMode::Bridge);
        let others: Vec<usize> =
            others.map(|(other, _)| other).filter(|other| stack.interfaces[*other].up).collect();
        if to[0] & 1 != 0 {
            for other in others {
                let copied = copy(&frame);
                cross_now(stack, other, copied);
                originate_copy(stack, PacketDisposition::HELD);
            }
        } else if let Some(other) = others.into_iter().find(|other| stack.interfaces[*other].mac == to) {
            return cross(stack, (number, other), frame);
        }
    }
    stack.send_framed(below, frame)
}
