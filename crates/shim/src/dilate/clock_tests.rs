//! Properties of clocks that guests rely on.

use super::*;

const PAST: Pace = Pace { real: 1_000, start: 1_000, rate: FULL_RATE / 4, limit: u64::MAX };

fn page(tdf_milli: u64) -> Page {
    let pace = Pace { real: 9_000, start: PAST.at(9_000), rate: Pace::rate_of(tdf_milli), limit: u64::MAX };
    let (wall, boot, tai) = (1_700_000_000 * SECOND, 0, 0);
    let mean_rate = pace.rate / 4;
    Page {
        sequence: 2,
        pace,
        before: pace,
        past: PAST,
        wall,
        boot,
        tai,
        counter_rate: 0,
        nap: 0,
        rings: 0,
        mean_rate,
        freezes: NOT_FROZEN,
    }
}

#[test]
fn a_time_is_the_same_after_the_way_there_and_back() {
    for tdf in [1_000, 1_500, 3_000, 7_300, 10_000, 999_000] {
        let page = page(tdf);
        for span in [0, 1, 17, 999_999_937, 3_600 * SECOND + 1] {
            assert_eq!(page.pace.virtual_span(page.pace.real_span(span)), span, "{tdf}");
            let time = page.wall + page.pace.start + span;
            assert_eq!(page.wall_of_real(page.real_of_wall(time)), time, "{tdf}");
        }
    }
}

#[test]
fn whole_factors_make_whole_spans() {
    let pace = page(10_000).pace;
    assert_eq!(pace.real_span(100_000_000), SECOND);
    assert_eq!(pace.virtual_span(SECOND), 100_000_000);
}

#[test]
fn what_came_before_a_host_was_frozen_has_the_time_of_then() {
    let now = page(2_000);
    // The host ran for 1 us and was then frozen for 3.
    let before = Pace { real: 5_000, start: now.pace.start - 1_000, rate: FULL_RATE, limit: now.pace.start };
    let page = Page { before, ..now };
    let times =
        [5_000, 5_400, 6_000, 8_999, 9_000].map(|real| page.wall_of_real(page.wall + real) - page.wall);
    assert_eq!(times, [2_000, 2_400, 3_000, 3_000, 3_000]);
}

#[test]
fn what_the_kernel_times_takes_longer_where_a_host_is_frozen_in_between() {
    let page = page(2_000);
    assert_eq!((page.pace.real_span(1_000), page.kernel().real_span(1_000)), (2_000, 8_000));
}

#[test]
fn the_place_of_a_word_in_the_file_is_that_in_the_page() {
    let bytes = Page { freezes: BY_SIGNALS, ..page(2_000) }.to_bytes();
    assert_eq!(bytes[FREEZES_AT as usize..][..8], BY_SIGNALS.to_le_bytes());
}

#[test]
fn a_clock_stands_at_its_limit() {
    let pace = Pace { limit: 3_000, ..page(2_000).pace };
    assert_eq!(pace.at(9_000), 3_000);
    assert_eq!(pace.at(9_000 + SECOND), 3_000);
    assert_eq!(pace.at(0), 3_000, "it does not go back");
}

#[test]
fn files_keep_their_order_over_a_change() {
    let page = page(2_000);
    let times: [u64; 5] =
        [500, 1_000, 5_000, 9_000, 9_100].map(|real| page.wall_of_real(page.wall + real) - page.wall);
    assert_eq!(times, [500, 1_000, 2_000, 3_000, 3_050]);
}
