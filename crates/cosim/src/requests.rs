//! Layers of requests and completions: PCIe between a host and a device, and memory.
//!
//! A read completion does not contain its length. Each end therefore records the reads that it has sent, and
//! accepts completions for these only.

use crate::layer::{HEADER, Layer};
use belljar_base::Map;
use belljar_pci::transaction::BodyLen;
use belljar_pci::{Codec, DeviceInfo, FromMemory, ToDevice, ToHost, ToMemory};

/// Outstanding reads: their lengths by request id.
#[derive(Clone, Debug, Default)]
pub struct Outstanding(Map<u64, u16>);

impl Outstanding {
    fn body_len<C: Codec>(&self, kind: u8, header: &[u8; HEADER]) -> Result<usize, String> {
        match C::body_len(kind, header)? {
            BodyLen::Bytes(len) => Ok(len),
            BodyLen::OfRequest(id) => match self.0.get(&id) {
                Some(len) => Ok(usize::from(*len)),
                None => Err(format!("it answers request {id}, which has not been made")),
            },
        }
    }
    fn decode<C: Codec>(&mut self, kind: u8, header: &[u8; HEADER], body: Vec<u8>) -> Result<C, String> {
        if let BodyLen::OfRequest(id) = C::body_len(kind, header)? {
            self.0.remove(&id);
        }
        C::decode(kind, header, body)
    }
    fn encode<'m, C: Codec>(&mut self, message: &'m C, header: &mut [u8; HEADER]) -> (u8, &'m [u8]) {
        self.0.extend(message.awaits_data());
        message.encode(header)
    }
}

const PCIE: (u64, &str, usize) = (2, "PCIe", 9088);
const MEMORY: (u64, &str, usize) = (3, "memory", 8256);

/// Implements [`Layer`] for an end that receives and sends these transactions.
macro_rules! end {
    ($name:ty, $received:ty, $sent:ty, $layer:expr, { $($more:item)* }) => {
        impl Layer for $name {
            type Received = $received;
            type Sent = $sent;
            fn id(&self) -> u64 {
                $layer.0
            }
            fn name(&self) -> &'static str {
                $layer.1
            }
            fn slot_size(&self) -> usize {
                $layer.2
            }
            fn body_len(&self, kind: u8, header: &[u8; HEADER]) -> Result<usize, String> {
                self.outstanding.body_len::<$received>(kind, header)
            }
            fn decode(&mut self, kind: u8, header: &[u8; HEADER], body: Vec<u8>) -> Result<$received, String> {
                let message = self.outstanding.decode(kind, header, body)?;
                self.check(&message).map(|()| message)
            }
            fn encode<'m>(&mut self, message: &'m $sent, header: &mut [u8; HEADER]) -> (u8, &'m [u8]) {
                self.outstanding.encode(message, header)
            }
            $($more)*
        }
    };
}

/// Host end of PCIe.
#[derive(Clone, Debug, Default)]
pub struct PcieHost {
    outstanding: Outstanding,
    device: DeviceInfo,
}

impl PcieHost {
    /// The device's description from its intro.
    pub fn device(&self) -> &DeviceInfo {
        &self.device
    }
    fn check(&self, message: &ToHost) -> Result<(), String> {
        use belljar_pci::Interrupt::{Line, Msi, Msix};
        let ToHost::Interrupt(interrupt) = message else { return Ok(()) };
        let (vector, vectors, what) = match *interrupt {
            Line(_) => return Ok(()),
            Msi(vector) => (vector, u16::from(self.device.msi_vectors), "MSI"),
            Msix(vector) => (vector, self.device.msix_vectors, "MSI-X"),
        };
        match vector < vectors {
            true => Ok(()),
            false => Err(format!("{what} vector {vector} of a device that has {vectors}")),
        }
    }
}

end!(PcieHost, ToHost, ToDevice, PCIE, {
    fn peer_intro_len(&self) -> usize {
        belljar_pci::info::INFO_LEN
    }
    fn take_intro(&mut self, intro: &[u8]) -> Result<(), String> {
        self.device = DeviceInfo::decode(intro)?;
        Ok(())
    }
});

/// Device end of PCIe.
#[derive(Clone, Debug, Default)]
pub struct PcieDevice {
    outstanding: Outstanding,
    device: DeviceInfo,
}

impl PcieDevice {
    /// The end of the described device.
    pub fn new(device: DeviceInfo) -> PcieDevice {
        PcieDevice { device, ..PcieDevice::default() }
    }
    fn check(&self, message: &ToDevice) -> Result<(), String> {
        let (bar, offset, len) = match message {
            ToDevice::Read { bar, offset, len, .. } => (*bar, *offset, usize::from(*len)),
            ToDevice::Write { bar, offset, data, .. } => (*bar, *offset, data.len()),
            ToDevice::Control { interrupts } if *interrupts > 7 => {
                return Err(format!("it enables the unknown interrupts {interrupts:#x}"));
            }
            _ => return Ok(()),
        };
        match self.device.has(bar, offset, len) {
            true => Ok(()),
            false => {
                Err(format!("an access to {len} bytes at {offset:#x}, which do not lie within BAR {bar}"))
            }
        }
    }
}

end!(PcieDevice, ToDevice, ToHost, PCIE, {
    fn intro(&self) -> Vec<u8> {
        self.device.encode()
    }
});

/// Host end of a memory channel.
#[derive(Clone, Debug, Default)]
pub struct MemoryHost {
    outstanding: Outstanding,
}

impl MemoryHost {
    fn check(&self, _: &FromMemory) -> Result<(), String> {
        Ok(())
    }
}

end!(MemoryHost, FromMemory, ToMemory, MEMORY, {});

/// Memory end of a memory channel.
#[derive(Clone, Debug, Default)]
pub struct MemoryDevice {
    outstanding: Outstanding,
}

impl MemoryDevice {
    fn check(&self, _: &ToMemory) -> Result<(), String> {
        Ok(())
    }
}

end!(MemoryDevice, ToMemory, FromMemory, MEMORY, {});
