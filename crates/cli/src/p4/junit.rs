//! JUnit reports, for continuous integration and graders.

use super::test::Tested;
use belljar_base::Map;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// Renders the report: one suite per submission, or one for all scripts.
pub fn report(tested: &[Tested]) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("belljar p4 test");
    let mut suites: Map<&str, TestSuite> = Map::new();
    for one in tested {
        let submission = one.submission.as_deref().unwrap_or("belljar p4 test");
        let kind = if one.error { NonSuccessKind::Error } else { NonSuccessKind::Failure };
        let status = match one.failures.first() {
            None => TestCaseStatus::success(),
            Some(first) => {
                let mut status = TestCaseStatus::non_success(kind);
                status.set_message(first.as_str()).set_description(one.failures.join("\n"));
                status
            }
        };
        let mut case = TestCase::new(one.script.as_str(), status);
        case.set_classname(submission);
        suites.entry(submission).or_insert_with(|| TestSuite::new(submission)).add_test_case(case);
    }
    report.add_test_suites(suites.into_values());
    report.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_from_errors() {
        let one = |submission: &str, script: &str, failures: &[&str], error| Tested {
            submission: Some(submission.to_owned()),
            script: script.to_owned(),
            failures: failures.iter().map(|text| (*text).to_owned()).collect(),
            error,
        };
        let tested = [
            one("alice", "a", &[], false),
            one("bob", "b", &["1 < 2\u{1}"], false),
            one("bob", "c", &["no \"file\"", "and more"], true),
        ];
        let text = report(&tested).unwrap();
        assert!(
            text.contains("<testsuite name=\"bob\" tests=\"2\" disabled=\"0\" errors=\"1\" failures=\"1\">"),
            "{text}"
        );
        assert!(text.contains("<testcase name=\"a\" classname=\"alice\">"), "{text}");
        assert!(text.contains("<failure message=\"1 &lt; 2\">1 &lt; 2</failure>"), "{text}");
        assert!(
            text.contains("<error message=\"no &quot;file&quot;\">no &quot;file&quot;\nand more</error>"),
            "{text}"
        );
    }
}
