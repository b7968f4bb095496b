//! Section `belljar`: extensions of Shadow's format.

use super::hosts;
use crate::error::Problem;
use crate::model::{Extensions, PlacementSetting};
use crate::yaml::{Node, Section, section};
use belljar_base::SimDuration;
use belljar_net::dns::Zone;
use belljar_net::{InterfaceAddress, Prefix, addresses};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use std::net::Ipv4Addr;

const KEYS: &[&str] = &["start_date", "placement", "dns", "metrics", "ipv6", "route_log", "address_pool"];
const DNS_KEYS: &[&str] = &["address", "records"];
const METRICS_KEYS: &[&str] = &["interval"];

/// Latest start of a clock: simulated time ends 213 days later, before 32-bit clocks overflow.
const LAST_START: i64 = 2_100_000_000;

pub(super) fn read(node: &Node) -> Result<Extensions, Problem> {
    let s = Section::new(node, "section 'belljar'", KEYS, false)?;
    let mut result = Extensions::default();
    s.read("start_date", start_date)?.inspect(|v| result.start_date = *v);
    s.read("placement", |n, k| section::choice(n, k, PlacementSetting::NAMES))?
        .inspect(|v| result.placement = *v);
    s.read("ipv6", section::boolean)?.inspect(|v| result.ipv6 = *v);
    s.read("route_log", section::boolean)?.inspect(|v| result.route_log = *v);
    result.address_pool = s.read("address_pool", address_pool)?;
    if let Some(node) = s.get("dns") {
        dns(node, &mut result)?;
    }
    if let Some(node) = s.get("metrics") {
        let metrics = Section::new(node, "'metrics'", METRICS_KEYS, false)?;
        let interval = metrics.required("interval", "interval: 100 ms")?;
        let every = section::duration(interval, "interval")?;
        // More frequent samples would exhaust memory.
        if every < SimDuration::from_micros(1) {
            return Err(interval.problem("'interval' must be at least 1 us").help("write interval: 100 ms"));
        }
        result.metrics_interval = Some(every);
    }
    Ok(result)
}

/// The network from which hosts on the graph are assigned addresses.
fn address_pool(node: &Node, key: &str) -> Result<Prefix, Problem> {
    let text = section::string(node, key)?;
    let own = text
        .parse::<InterfaceAddress>()
        .ok()
        .filter(|own| own.network().address() == own.ip && own.len <= 30);
    let pool = own.map(|own| own.network()).ok_or_else(|| {
        node.problem(format!("'{text}' is not a network of IPv4 addresses"))
            .help("write such as address_pool: 10.0.0.0/8")
    })?;
    let first = Ipv4Addr::from(u32::from(pool.address()) + 1);
    addresses::check_usable("", first).map_err(|_| {
        node.problem(format!("hosts cannot have the addresses of {text}"))
            .help("write such as address_pool: 10.0.0.0/8")
    })?;
    Ok(pool)
}

/// Loads the name server's address and its additional records.
fn dns(node: &Node, result: &mut Extensions) -> Result<(), Problem> {
    let s = Section::new(node, "'dns'", DNS_KEYS, false)?;
    if let Some(node) = s.get("address") {
        result.dns_address = hosts::address(node, "address")?;
        addresses::check_usable("dns", result.dns_address).map_err(|_| {
            node.problem(format!("no name server can have the address {}", result.dns_address))
        })?;
    }
    if let Some(node) = s.get("records") {
        let mut zone = Zone::new(result.dns_address, std::iter::empty());
        for item in section::list(node, "records")? {
            let line = section::string(item, "a record")?;
            zone.add(line).map_err(|why| {
                item.problem(format!("this record cannot be read: {why}"))
                    .help("write it as in a zone file: www.example.org. 300 A 11.0.0.1")
            })?;
            result.dns_records.push(line.to_owned());
        }
    }
    Ok(())
}

/// A date, a date and time in UTC, or a date and time with an offset.
fn start_date(node: &Node, key: &str) -> Result<u64, Problem> {
    let text = section::string(node, key)?;
    let in_utc = |civil: DateTime| civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    let date =
        || text.parse::<Date>().ok().and_then(|date| in_utc(date.to_datetime(jiff::civil::Time::midnight())));
    let stamp = text.parse::<Timestamp>().ok();
    let stamp = match text.len() > 10 {
        true => stamp.or_else(|| text.parse::<DateTime>().ok().and_then(in_utc)),
        false => date(),
    };
    let Some(stamp) = stamp else {
        return Err(node
            .problem(format!("'{text}' is not a date"))
            .help(format!("write {key}: 2026-01-31 or {key}: \"2026-01-31T12:00:00Z\"")));
    };
    if stamp.subsec_nanosecond() != 0 {
        return Err(node.problem(format!("'{key}' must be a whole second")));
    }
    u64::try_from(stamp.as_second()).ok().filter(|s| *s <= LAST_START as u64).ok_or_else(|| {
        node.problem(format!("'{key}' must lie between 1970-01-01 and 2036-07-18, not {text}"))
    })
}
