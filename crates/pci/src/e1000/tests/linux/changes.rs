//! Register writes during operation, and descriptors that Linux's driver never writes.

use super::*;
use crate::transaction::enable;

const FRAME: usize = 66;

impl Linux {
    fn enable(&mut self, interrupts: u64) {
        self.device.handle(self.now, ToDevice::Control { interrupts });
        self.serve();
    }
    /// Writes a descriptor of a frame addressed to the controller itself.
    fn put_frame(&mut self, command: u64) -> Vec<u8> {
        let frame = own_frame(5);
        self.memory[TX_BUFFERS as usize..][..FRAME].copy_from_slice(&frame);
        self.put(TX_BUFFERS, command << 24 | FRAME as u64);
        frame
    }
    fn receive(&mut self, number: u8) {
        self.device.receive(self.now, own_frame(number));
        self.micros(1);
    }
}

fn own_frame(number: u8) -> Vec<u8> {
    [&MAC[..], &[number; FRAME - 6]].concat()
}

#[test]
fn causes_that_are_up_interrupt_by_the_kind_that_is_enabled() {
    let mut linux = Linux::opened(RCTL);
    // Causes remain pending while no interrupt kind is enabled.
    linux.enable(0);
    linux.write(reg::ICS, cause::LSC);
    assert!(!linux.line);
    linux.enable(enable::MSI);
    assert_eq!((linux.messages, linux.line), (1, false));
    linux.enable(enable::MSI | enable::INTX);
    assert_eq!(linux.messages, 1, "the kind in use is the same");
    linux.enable(enable::INTX);
    assert!(linux.line);
    // An asserted line is deasserted when MSI is enabled.
    linux.enable(enable::MSI);
    assert_eq!((linux.messages, linux.line), (2, false));
    linux.take_interrupt();
    linux.enable(enable::INTX);
    linux.enable(enable::MSI);
    assert_eq!((linux.messages, linux.line), (2, false));
    linux.write(reg::ICS, cause::LSC);
    assert_eq!(linux.messages, 3);
}

#[test]
fn a_ring_that_is_restarted_while_it_is_fetched_sends_frames_once() {
    let mut linux = Linux::opened(RCTL);
    let frame = linux.put_frame(0x0b);
    linux.send();
    linux.write(reg::TDH, 0);
    linux.send();
    linux.micros(10);
    assert_eq!(linux.sent, [frame]);
    assert_eq!(linux.read(reg::TDH), 1);
}

#[test]
fn a_tail_may_be_written_before_the_head() {
    for is_enabled in [true, false] {
        let mut linux = Linux::opened(RCTL);
        let control = linux.read(reg::TCTL);
        if !is_enabled {
            linux.write(reg::TCTL, control & !bits::ENABLE);
        }
        let frame = linux.put_frame(0x0b);
        linux.send();
        linux.write(reg::TDH, 0);
        linux.micros(10);
        if !is_enabled {
            assert!(linux.sent.is_empty());
            linux.write(reg::TCTL, control);
            linux.micros(10);
        }
        assert_eq!(linux.sent, [frame], "{is_enabled}");
    }
}

#[test]
fn nothing_is_fetched_in_a_direction_that_is_not_enabled() {
    let mut linux = Linux::opened(RCTL);
    let control = linux.read(reg::TCTL);
    linux.write(reg::RCTL, 0);
    linux.write(reg::TCTL, control & !bits::ENABLE);
    // Rings at unmapped addresses.
    linux.write(reg::RDBAH, 1);
    linux.write(reg::TDBAH, 1);
    for (head, tail) in [(reg::RDH, reg::RDT), (reg::TDH, reg::TDT)] {
        linux.write(head, 0);
        linux.write(tail, RING - 1);
        linux.micros(5);
        linux.write(tail, 0);
    }
    linux.write(reg::RDBAH, 0);
    linux.write(reg::TDBAH, 0);
    linux.write(reg::RDT, RING - 1);
    let frame = linux.put_frame(0x0b);
    linux.send();
    linux.write(reg::RCTL, RCTL);
    linux.write(reg::TCTL, control);
    linux.micros(5);
    assert!(linux.sent == [frame] && linux.received(0)[4] == 0);
    linux.receive(1);
    assert_eq!((linux.received(0)[4] & DONE, linux.read(reg::RNBC)), (DONE, 0));
}

#[test]
fn segments_are_whole_and_tagged_whichever_descriptor_says_so() {
    let payload: Vec<u8> = (0..4_000_u32).map(|n| (n * 7) as u8).collect();
    let mut linux = Linux::opened(RCTL);
    let frame = linux.put_for_segmentation(&payload);
    let control = linux.read(reg::CTRL);
    linux.write(reg::CTRL, control | bits::CTRL_VLAN_MODE);
    // IFCS on the last descriptor only; then with a tag on the first only.
    for (first, last, tag) in [(0x24, 0x2f, &[][..]), (0x64, 0x2f, &[0x81, 0, 0x20, 0x64][..])] {
        linux.context(34, 50, 54, 1_448, 0x27);
        linux.put(TX_BUFFERS, 0x2064 << 48 | 3 << 40 | first << 24 | 1 << 20 | 3_500);
        linux.put(TX_BUFFERS + 3_500, last << 24 | 1 << 20 | (frame.len() as u64 - 3_500));
        linux.send();
        linux.micros(10);
        let mut bytes = Vec::new();
        for mut segment in linux.sent.drain(..) {
            assert_eq!(segment.drain(12..12 + tag.len()).collect::<Vec<_>>(), tag);
            assert_eq!(offload::check(&segment), Checked { ip: Some(true), transport: Some(true) });
            bytes.extend_from_slice(tcp_of(&segment).3);
        }
        assert!(bytes == payload, "{} bytes of payload", bytes.len());
    }
}

#[test]
fn a_frame_beyond_the_longest_is_cut_off_at_its_end() {
    let mut linux = Linux::opened(RCTL);
    let at = TX_BUFFERS as usize;
    let bytes: Vec<u8> = (0..17_060_u32).map(|n| (n * 7) as u8 ^ (n >> 8) as u8).collect();
    linux.memory[at..at + bytes.len()].copy_from_slice(&bytes);
    let mut offset = 0;
    for (len, command) in [(10_000, 0x02), (7_000, 0x02), (60, 0x0b)] {
        linux.put(TX_BUFFERS + offset, command << 24 | len);
        offset += len;
    }
    linux.send();
    linux.micros(10);
    assert!(linux.sent.len() == 1 && linux.sent[0] == bytes[..16_384]);
}

#[test]
fn a_frame_of_which_a_part_was_written_begins_again_in_a_new_ring() {
    let mut linux = Linux::opened(RCTL);
    let frame = [&MAC[..], &(0..5_000_u32).map(|n| (n * 3) as u8).collect::<Vec<_>>()].concat();
    // One buffer receives the first part.
    linux.write(reg::RCTL, 0);
    linux.write(reg::RDT, 1);
    linux.write(reg::RDH, 0);
    linux.write(reg::RCTL, RCTL | bits::LONG_PACKETS);
    linux.device.receive(linux.now, frame.clone());
    linux.micros(5);
    assert_eq!((get_len(linux.received(0)), linux.read(reg::RDH)), (2_048, 1));
    linux.write(reg::RDH, 0);
    linux.write(reg::RDT, RING - 1);
    linux.micros(5);
    let lens: Vec<_> = (0..3).map(|n| (get_len(linux.received(n)), linux.received(n)[4] & 3)).collect();
    assert_eq!(lens, [(2_048, 1), (2_048, 1), (914, 3)]);
    let bytes = [linux.buffer(0, 2_048), linux.buffer(1, 2_048), linux.buffer(2, 910)].concat();
    assert!(bytes == frame);
}

#[test]
fn a_phy_that_is_powered_down_passes_nothing_but_loops() {
    let mut linux = Linux::opened(RCTL);
    linux.write_phy(0, 0x1940);
    assert_eq!(linux.read(reg::STATUS) & bits::STATUS_LINK_UP, 0);
    linux.take_interrupt();
    linux.put_frame(0x0b);
    linux.send();
    linux.receive(1);
    assert!(linux.sent.is_empty() && linux.received(0)[4] == 0);
    // The descriptor is returned nevertheless.
    assert_eq!((linux.read(reg::TDH), linux.read(reg::GPTC), linux.read(reg::TPR)), (1, 0, 0));
    linux.write_phy(0, 0x5940);
    linux.put_frame(0x0b);
    linux.send();
    linux.micros(5);
    assert!(linux.sent.is_empty() && linux.received(0)[4] & DONE != 0);
    linux.write_phy(0, 0x1140);
    let frame = linux.put_frame(0x0b);
    linux.send();
    linux.receive(2);
    linux.micros(5);
    assert!(linux.sent == [frame] && linux.received(1)[4] & DONE != 0);
}

#[test]
fn a_delay_that_is_lowered_holds_for_the_next_frame() {
    let mut linux = Linux::opened(RCTL);
    linux.write(reg::RDTR, 500);
    linux.receive(1);
    linux.write(reg::RDTR, 10);
    linux.receive(2);
    linux.micros(8);
    assert!(!linux.line);
    linux.micros(4);
    assert!(linux.line);
    linux.take_interrupt();
    // No event of the longer delay remains.
    let before = linux.interrupts;
    linux.micros(600);
    assert_eq!(linux.interrupts, before);
    // A frame without delay flushes the delayed one.
    linux.write(reg::RDTR, 100);
    linux.receive(3);
    assert!(!linux.line);
    linux.write(reg::RDTR, 0);
    linux.receive(4);
    assert!(linux.line);
    linux.take_interrupt();
    linux.micros(600);
    assert_eq!(linux.interrupts, before + 1);
    // A delayed interrupt is on time, whatever events were scheduled.
    linux.write(reg::RDTR, 100);
    linux.receive(5);
    linux.micros(100);
    assert!(!linux.line);
    linux.micros(3);
    assert!(linux.line);
}

#[test]
fn an_empty_ring_of_transmission_interrupts_without_a_report() {
    let mut linux = Linux::opened(RCTL);
    linux.write(reg::IMS, cause::TXQE);
    linux.put_frame(0x03);
    linux.put_frame(0x03);
    linux.send();
    linux.micros(5);
    assert_eq!((linux.sent.len(), linux.line), (2, true));
    assert_eq!(linux.read(reg::ICR) & (cause::TXQE | cause::TXDW), cause::TXQE);
    // None of these descriptors is written back.
    assert_eq!(linux.memory[(TX_RING + 12) as usize] & DONE, 0);
}
