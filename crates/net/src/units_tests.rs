use super::*;

#[test]
fn times() {
    for (text, ps) in [
        ("10 ms", 10_000_000_000),
        ("10ms", 10_000_000_000),
        ("1 ns", 1_000),
        ("0.5 ns", 500),
        ("1.5 s", 1_500_000_000_000),
        ("3", 3_000_000_000_000),
        (" 2 min ", 120_000_000_000_000),
        ("1 hour", 3_600_000_000_000_000),
        ("7 μs", 7_000_000),
        ("0", 0),
    ] {
        assert_eq!(parse_duration(text).unwrap().as_picos(), ps, "{text}");
    }
}

#[test]
fn bandwidths_and_bytes() {
    for (text, bits) in [
        ("1 Gbit", 1_000_000_000),
        ("81920 Kibit", 83_886_080),
        ("10 M", 10_000_000),
        ("2.5 megabits", 2_500_000),
        ("56000", 56_000),
        ("56000 bit", 56_000),
    ] {
        assert_eq!(parse_bandwidth(text).unwrap(), bits, "{text}");
    }
    for (text, bytes) in [("16 MiB", 16 << 20), ("131072 B", 131_072), ("64 KB", 64_000), ("9 bytes", 9)] {
        assert_eq!(parse_bytes(text).unwrap(), bytes, "{text}");
    }
}

#[test]
fn errors_say_what_to_write() {
    let check = |result: Result<u64, UnitError>, message: &str, help: &str| {
        let error = result.unwrap_err();
        assert_eq!((error.message.as_str(), error.help.as_deref().unwrap()), (message, help));
    };
    let time = |text| parse_duration(text).map(SimDuration::as_picos);
    let example = "write a number and a unit, such as \"10 ms\"";
    check(time("-1 s"), "a time cannot be negative: \"-1 s\"", example);
    check(time(""), "\"\" is not a time", example);
    check(time("soon"), "\"soon\" is not a time", example);
    check(time("1.2.3 s"), "\"1.2.3 s\" is not a time", example);
    check(time("10 MS"), "\"MS\" is not a unit of time", "did you mean \"10 ms\"? Units are case-sensitive");
    check(time("10 parsecs"), "\"parsecs\" is not a unit of time", "use ns, us, ms, s, min or h");
    check(
        parse_bandwidth("10 parsecs"),
        "\"parsecs\" is not a unit of bandwidth",
        "use bit, Kbit, Mbit or Gbit",
    );
    check(time("99999999 hours"), "the time \"99999999 hours\" is too large", example);
    let nines = "9".repeat(60);
    check(time(&nines), &format!("the time \"{nines}\" is too large"), example);
    check(
        time("0.0001 ns"),
        "the time \"0.0001 ns\" has more decimals than can be kept",
        "use a smaller unit or fewer decimals",
    );
    check(
        parse_bandwidth("10 mbit"),
        "\"mbit\" is not a unit of bandwidth",
        "did you mean \"10 Mbit\"? Units are case-sensitive",
    );
    check(
        parse_bandwidth("10 Mbps"),
        "\"Mbps\" is not a unit of bandwidth",
        "did you mean \"10 Mbit\"? Units are case-sensitive",
    );
    check(
        parse_bytes("16 mib"),
        "\"mib\" is not a unit of size",
        "did you mean \"16 MiB\"? Units are case-sensitive",
    );
    check(
        parse_bandwidth("99999999999 Tbit"),
        "the bandwidth \"99999999999 Tbit\" is too large",
        "write a number and a unit, such as \"100 Mbit\"",
    );
}

#[test]
fn formatted_values_read_back() {
    for ps in [0, 1, 999, 1_000, 1_500, 10_000_000_000, 60_000_000_000_000, 1_234_567_890_123_456] {
        let value = SimDuration::from_picos(ps);
        assert_eq!(parse_duration(&format_duration(value)).unwrap(), value);
    }
    assert_eq!(format_duration(SimDuration::from_millis(10)), "10 ms");
    for bits in [0, 1, 999, 1_000, 1_000_000_000, 83_886_080, u64::MAX - 1] {
        assert_eq!(parse_bandwidth(&format_bandwidth(bits)).unwrap(), bits);
    }
    assert_eq!(format_bandwidth(1_000_000_000), "1 Gbit");
}
