//! How many tests passed, read off what the test runners print.

use std::ops::Add;

/// Passed, failed and skipped tests.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Tests that ran and passed.
    pub passed: u64,
    /// Tests that failed, or could not be run.
    pub failed: u64,
    /// Tests that were left out on purpose.
    pub skipped: u64,
}

impl Counts {
    /// One check that passed or failed.
    pub fn one(passed: bool) -> Self {
        Self {
            passed: passed.into(),
            failed: (!passed).into(),
            skipped: 0,
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

/// Sums the `test result:` lines of `cargo test`.
pub fn from_cargo_test(lines: &[String]) -> Counts {
    lines
        .iter()
        .filter_map(|line| line.trim().strip_prefix("test result:"))
        .map(|rest| Counts {
            passed: number_before(rest, "passed"),
            failed: number_before(rest, "failed"),
            skipped: number_before(rest, "ignored"),
        })
        .fold(Counts::default(), Add::add)
}

/// Reads the `Summary` line of nextest.
pub fn from_nextest(lines: &[String]) -> Counts {
    lines
        .iter()
        .rev()
        .find(|line| line.trim_start().starts_with("Summary ["))
        .map(|line| Counts {
            passed: number_before(line, "passed"),
            failed: number_before(line, "failed")
                + number_before(line, "timed out")
                + number_before(line, "exec failed"),
            skipped: number_before(line, "skipped"),
        })
        .unwrap_or_default()
}

/// Counts the test codes in lit's JSON report.
pub fn from_lit(report: &serde_json::Value) -> Counts {
    let mut counts = Counts::default();
    for test in report["tests"].as_array().into_iter().flatten() {
        match test["code"].as_str() {
            Some("PASS" | "FLAKYPASS" | "XFAIL") => counts.passed += 1,
            Some("UNSUPPORTED" | "SKIPPED" | "EXCLUDED") => counts.skipped += 1,
            _ => counts.failed += 1,
        }
    }
    counts
}

/// The number that stands before `word`, or 0.
fn number_before(text: &str, word: &str) -> u64 {
    text.split([';', ',', ':', '(', ')', '.'])
        .map(str::trim)
        .filter_map(|piece| piece.strip_suffix(word))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn cargo_test_results_add_up() {
        let text = "\
test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s
noise
test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let expected = Counts {
            passed: 12,
            failed: 2,
            skipped: 1,
        };
        assert_eq!(from_cargo_test(&lines(text)), expected);
    }

    #[test]
    fn nextest_summary_is_read() {
        let text = "     Summary [   1.234s] 12 tests run: 9 passed (2 slow), 2 failed, 1 timed out, 4 skipped";
        let expected = Counts {
            passed: 9,
            failed: 3,
            skipped: 4,
        };
        assert_eq!(from_nextest(&lines(text)), expected);
        assert_eq!(from_nextest(&lines("error")), Counts::default());
    }

    #[test]
    fn unknown_lit_codes_fail() {
        let report = serde_json::json!({"tests": [
            {"code": "PASS"}, {"code": "XFAIL"}, {"code": "UNSUPPORTED"},
            {"code": "FAIL"}, {"code": "TIMEOUT"}, {"code": "XPASS"}, {"code": "UNRESOLVED"},
        ]});
        let expected = Counts {
            passed: 2,
            failed: 4,
            skipped: 1,
        };
        assert_eq!(from_lit(&report), expected);
    }
}
