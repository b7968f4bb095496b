//! Transmission: assembly of frames from descriptors, checksum and VLAN tag insertion, TCP segmentation.

use super::ring::Descriptor;
use super::{Device, Direction, Event, Loss, MESSAGE, Reading, bits, cause, descriptor, reg};
use crate::e1000::offload::{Checksum, Context};
use crate::fields::get_u16;
use belljar_base::SimTime;

/// Maximum length of an assembled frame.
const MOST: usize = 16_384;
/// Minimum frame length without check sequence, to which frames are padded. Frames shorter than [`HEADER`]
/// are dropped.
const SHORTEST: usize = 60;
const HEADER: usize = 14;
const CRC: usize = 4;
/// Offset of a VLAN tag.
const TAG: usize = 12;

/// Frame being assembled, and its processing options.
#[derive(Debug, Default)]
pub struct Gathering {
    bytes: Vec<u8>,
    /// Options of the first data descriptor.
    options: Option<Options>,
    /// VLAN tag of the first data descriptor that requests one: segments are sent before the last descriptor
    /// arrives.
    tag: Option<u16>,
    /// Segments already sent of the frame, and their payload bytes.
    segments: u16,
    sent: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Options {
    extended: bool,
    segment: bool,
    /// Field POPTS.
    packet: u8,
}

/// Transmit state besides the ring.
#[derive(Debug, Default)]
pub struct Sender {
    gathering: Gathering,
    /// Descriptor whose data is being read, and the bytes read.
    reading: Option<(Descriptor, u32)>,
    /// Contexts for unsegmented and for segmented frames.
    contexts: [Context; 2],
}

impl Sender {
    /// Restart of the ring.
    pub fn restart(&mut self) {
        (self.gathering, self.reading) = (Gathering::default(), None);
    }
}

fn command(descriptor: &Descriptor) -> u8 {
    descriptor.bytes[11]
}

fn is_extended(descriptor: &Descriptor) -> bool {
    command(descriptor) & descriptor::COMMAND_EXTENDED != 0
}

/// True for a context descriptor, which has type 0 and no data.
fn is_context(descriptor: &Descriptor) -> bool {
    is_extended(descriptor) && descriptor.bytes[10] >> 4 == 0
}

/// VLAN tag that a data descriptor requests.
fn tag(descriptor: &Descriptor) -> Option<u16> {
    (command(descriptor) & descriptor::COMMAND_VLAN != 0).then(|| get_u16(&descriptor.bytes, 14))
}

/// Length of a descriptor's data in bytes.
fn data_len(descriptor: &Descriptor) -> u32 {
    let low = u32::from(get_u16(&descriptor.bytes, 8));
    if is_extended(descriptor) { low | u32::from(descriptor.bytes[10] & 0xf) << 16 } else { low }
}

impl Device {
    pub(super) fn transmit_next(&mut self, now: SimTime) {
        if self.sender.reading.is_some() || !self.is_enabled(Direction::Transmit) {
            return;
        }
        let Some(descriptor) = self.transmit.cache.pop_front() else {
            return self.plan_fetch(now, Direction::Transmit);
        };
        if is_context(&descriptor) {
            let segments = command(&descriptor) & descriptor::COMMAND_SEGMENT != 0;
            self.sender.contexts[usize::from(segments)] = Context::read(&descriptor.bytes);
            self.count(reg::TSCTC, u32::from(segments));
            self.give_back(now, descriptor);
        } else {
            self.sender.reading = Some((descriptor, 0));
            self.read_data(now);
        }
        self.plan_fetch(now, Direction::Transmit);
    }

    /// Requests the next part of a descriptor's data, up to the maximum DMA length.
    fn read_data(&mut self, now: SimTime) {
        let Some((descriptor, done)) = self.sender.reading else { return };
        match data_len(&descriptor).saturating_sub(done).min(MESSAGE as u32) {
            0 => self.data_arrived(now, &[]),
            len => {
                let epoch = self.transmit.epoch;
                let address = descriptor.address().wrapping_add(done.into());
                self.dma_read(address, len as u16, Reading::Packet { epoch });
            }
        }
    }

    /// Completion of a data read.
    pub(super) fn data_arrived(&mut self, now: SimTime, data: &[u8]) {
        let Some((descriptor, done)) = &mut self.sender.reading else { return };
        *done += data.len() as u32;
        let (descriptor, is_complete) = (*descriptor, *done >= data_len(descriptor) || data.is_empty());
        let is_end = is_complete && command(&descriptor) & descriptor::COMMAND_END != 0;
        let options = self.gather(&descriptor, data);
        if options.segment {
            self.send_segments(now, options, is_end);
        } else if is_end {
            let bytes = std::mem::take(&mut self.sender.gathering.bytes);
            self.send_whole(now, options, &descriptor, bytes);
        }
        if !is_complete {
            return self.read_data(now);
        }
        if is_end {
            self.sender.gathering = Gathering::default();
        }
        self.sender.reading = None;
        self.give_back(now, descriptor);
    }

    /// Appends data to the frame. Bytes of an unsegmented frame beyond the maximum length are dropped.
    fn gather(&mut self, descriptor: &Descriptor, data: &[u8]) -> Options {
        let gathering = &mut self.sender.gathering;
        let extended = is_extended(descriptor);
        let options = *gathering.options.get_or_insert_with(|| Options {
            extended,
            segment: extended && command(descriptor) & descriptor::COMMAND_SEGMENT != 0,
            packet: if extended { descriptor.bytes[13] } else { 0 },
        });
        gathering.tag = gathering.tag.or_else(|| tag(descriptor));
        let room = if options.segment { data.len() } else { MOST - gathering.bytes.len() };
        gathering.bytes.extend_from_slice(&data[..data.len().min(room)]);
        options
    }

    fn send_whole(&mut self, now: SimTime, options: Options, last: &Descriptor, mut frame: Vec<u8>) {
        self.flow.assembled += 1;
        if options.extended {
            self.insert_checksums(self.sender.contexts[0], options, &mut frame);
        } else if command(last) & descriptor::COMMAND_CHECKSUM != 0 {
            let (start, offset) = (last.bytes[13].into(), last.bytes[10].into());
            Checksum { start, offset, end: 0 }.insert(&mut frame);
        }
        if command(last) & descriptor::COMMAND_ADD_CRC == 0 {
            // The driver supplies the check sequence; it is not transferred on simulated wires.
            frame.truncate(frame.len().saturating_sub(CRC));
        }
        self.finish(now, tag(last), frame);
    }

    /// Sends complete segments: all that are followed by more data and, at the end, the last. The controller
    /// always computes their check sequences, whatever the descriptors request.
    fn send_segments(&mut self, now: SimTime, options: Options, is_end: bool) {
        let (context, tag) = (self.sender.contexts[1], self.sender.gathering.tag);
        let header = context.header;
        // An MSS of 0, or one that makes frames too long, is the maximum.
        let mss = if context.mss == 0 { MOST } else { context.mss }.min(MOST - header);
        let bytes = std::mem::take(&mut self.sender.gathering.bytes);
        let mut from = header.min(bytes.len());
        while bytes.len() - from > mss || is_end {
            let to = bytes.len().min(from + mss);
            let is_last = is_end && to == bytes.len();
            self.flow.assembled += 1;
            let mut segment = [&bytes[..header.min(bytes.len())], &bytes[from..to]].concat();
            let gathering = &mut self.sender.gathering;
            let (number, at) = (gathering.segments, gathering.sent);
            gathering.segments = number.wrapping_add(1);
            gathering.sent = at.wrapping_add((to - from) as u32);
            context.fit(&mut segment, number, at, is_last);
            self.insert_checksums(context, options, &mut segment);
            self.finish(now, tag, segment);
            from = to;
            if is_last {
                return;
            }
        }
        let mut bytes = bytes;
        bytes.drain(header.min(from)..from);
        self.sender.gathering.bytes = bytes;
    }

    fn insert_checksums(&self, context: Context, options: Options, frame: &mut [u8]) {
        // The two checksums are independent; the transport checksum is inserted first.
        if options.packet & descriptor::OPTION_TCP != 0 {
            context.transport.insert(frame);
        }
        if options.packet & descriptor::OPTION_IP != 0 {
            context.ip.insert(frame);
        }
    }

    /// True if transmitted frames are looped back by the controller or the PHY.
    pub(super) fn loops_back(&self) -> bool {
        self.get(reg::RCTL) & bits::LOOPBACK != 0 || self.phy.loops_back()
    }

    /// Sends a frame, with a VLAN tag if requested, on the wire or by loopback to reception.
    fn finish(&mut self, now: SimTime, tag: Option<u16>, mut frame: Vec<u8>) {
        let has_mode = self.get(reg::CTRL) & bits::CTRL_VLAN_MODE != 0;
        if let Some(tag) = tag.filter(|_| has_mode && frame.len() >= HEADER) {
            let tag = [(self.get(reg::VET) as u16).to_be_bytes(), tag.to_be_bytes()];
            frame.splice(TAG..TAG, tag.concat());
        }
        if self.get(reg::TCTL) & bits::PAD_SHORT != 0 && frame.len() < SHORTEST {
            frame.resize(SHORTEST, 0);
        }
        if frame.len() < HEADER {
            return self.flow.lose(Loss::TooShort, 1);
        }
        let loops_back = self.loops_back();
        // Without carrier a frame is counted and lost.
        if !loops_back && !self.phy.is_on() {
            return self.flow.lose(Loss::PhyOff, 1);
        }
        self.count_sent(&frame);
        if loops_back {
            self.arrive(now, frame);
        } else {
            self.to_wire.push_back(frame);
        }
    }

    /// Returns a used descriptor to the host.
    fn give_back(&mut self, now: SimTime, mut descriptor: Descriptor) {
        let ring = &mut self.transmit;
        ring.pass(descriptor.index);
        let empty = if ring.head == ring.tail { cause::TXQE } else { 0 };
        let at = now + self.timing.write_back;
        if command(&descriptor) & descriptor::COMMAND_REPORT != 0 {
            descriptor.bytes[12] |= descriptor::DONE;
            let address = ring.address(descriptor.index);
            let is_delayed = command(&descriptor) & descriptor::COMMAND_DELAY != 0;
            let causes = if is_delayed { 0 } else { cause::TXDW } | empty;
            let delayed = is_delayed.then_some(Direction::Transmit);
            let back = Event::WriteBack { address, bytes: descriptor.bytes, causes, delayed };
            self.schedule(at, back);
        } else if empty != 0 {
            self.schedule(at, Event::Causes(empty));
        }
        self.schedule(now + self.timing.step, Event::Transmit);
    }
}
