//! Assertions by Antithesis' SDK for Rust. With `wrong`, two of them do not hold.

use antithesis_sdk::prelude::*;
use serde_json::json;

fn main() {
    antithesis_init();
    lifecycle::setup_complete(&json!({"language": "rust"}));
    let first = random::get_random() % 1000;
    for number in first..first + 20 {
        let details = json!({"number": number});
        assert_always!(number >= first, "numbers are positive", &details);
        assert_sometimes!(number % 2 == 0, "some number is even", &details);
    }
    assert_reachable!("the end is reached");
    if std::env::args().count() > 1 {
        assert_always!(first > 1000, "the first number is negative", &json!(null));
        assert_unreachable!("the program is wrong");
    }
    println!("{first}");
}
