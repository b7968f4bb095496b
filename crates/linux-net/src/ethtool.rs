//! `SIOCETHTOOL`: driver information of an adapter. The caller copies the structures in and out.

use belljar_linux_abi::Errno;
use belljar_netstack::Stack;
use belljar_netstack::adapter::Adapter;
use belljar_netstack::interface::Interface;

/// Requests, `ETHTOOL_*`, the first field of their structures.
mod request {
    pub const GDRVINFO: u32 = 0x03;
    pub const GLINK: u32 = 0x0a;
    pub const GCOALESCE: u32 = 0x0e;
    pub const GRINGPARAM: u32 = 0x10;
    pub const GSTRINGS: u32 = 0x1b;
    pub const GSTATS: u32 = 0x1d;
    pub const GSSET_INFO: u32 = 0x37;
}

/// `ETH_SS_STATS`: the string set with the names of the statistics.
const SET_STATS: u32 = 1;
/// `ETH_GSTRING_LEN`.
const STRING: usize = 32;
/// Number of fields of `struct ethtool_coalesce`.
const COALESCE: usize = 23;

/// Number of bytes of a request's structure to read before [`answer`].
pub fn head_len(number: u32) -> usize {
    match number {
        request::GSSET_INFO => 16,
        request::GSTRINGS => 12,
        _ => 4,
    }
}

/// Answers a request whose structure begins with `head`; returns the bytes to write over it.
///
/// # Errors
/// `EOPNOTSUPP` for an interface without an adapter, and for a request that its driver does not support.
pub fn answer(net: &Stack, interface: &Interface, head: &[u8]) -> Result<Vec<u8>, Errno> {
    let adapter = net.adapter(interface).ok_or(Errno::EOPNOTSUPP)?;
    let word = |at: usize| {
        head.get(at..at + 4).map_or(0, |bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let number = word(0);
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let count = adapter.statistics.len() as u32;
    Ok(match number {
        request::GDRVINFO => driver_info(adapter),
        request::GLINK => words(&[number, u32::from(interface.is_running())]),
        request::GCOALESCE => {
            let interval = adapter.interrupt_interval.ok_or(Errno::EOPNOTSUPP)?;
            let mut all = [0; COALESCE];
            // Receive and transmit share the interrupt.
            let micros = (interval.as_nanos() / 1_000) as u32;
            (all[0], all[1], all[5]) = (number, micros, micros);
            words(&all)
        }
        request::GRINGPARAM => {
            let (len, most) = adapter.ring;
            words(&[number, most, 0, 0, most, len, 0, 0, len])
        }
        request::GSTRINGS if word(4) == SET_STATS => {
            let mut all = words(&[number, SET_STATS, count]);
            adapter.statistics.iter().for_each(|(name, _)| put_text(&mut all, name, STRING));
            all
        }
        request::GSTATS => {
            let mut all = words(&[number, count]);
            all.extend(adapter.statistics.iter().flat_map(|(_, count)| count.to_ne_bytes()));
            all
        }
        request::GSSET_INFO => {
            let has = word(8) & (1 << SET_STATS);
            let mut all = words(&[number, 0, has, 0]);
            if has != 0 {
                all.extend(count.to_ne_bytes());
            }
            all
        }
        _ => return Err(Errno::EOPNOTSUPP),
    })
}

/// `struct ethtool_drvinfo`.
fn driver_info(adapter: &Adapter) -> Vec<u8> {
    let mut all = request::GDRVINFO.to_ne_bytes().to_vec();
    // Driver, driver version, firmware version, bus address, expansion ROM version.
    for text in [adapter.driver, env!("CARGO_PKG_VERSION"), "", &adapter.bus, ""] {
        put_text(&mut all, text, 32);
    }
    // Reserved bytes and private flags; number of statistics; lengths of self-test, EEPROM and registers.
    all.extend([0; 12 + 4]);
    all.extend((adapter.statistics.len() as u32).to_ne_bytes());
    all.extend([0; 12]);
    all
}

fn put_text(all: &mut Vec<u8>, text: &str, room: usize) {
    let end = all.len() + room;
    all.extend(text.bytes().take(room - 1));
    all.resize(end, 0);
}
