//! What quantities accept, mean and print.

use proptest::prelude::*;

use super::*;

fn canonical(text: &str) -> String {
    Quantity::parse(text).unwrap().to_string()
}

#[test]
fn canonical_form() {
    let check = |text: &str, expected: &str| assert_eq!(canonical(text), expected, "{text:?}");
    check("1Ki", "1Ki");
    check("8Ki", "8Ki");
    check("1024Mi", "1Gi");
    check("1.5Gi", "1536Mi");
    check("1000Ki", "1000Ki");
    check("0.5Ki", "512");
    check("1.1Mi", "1153433600m");
    check("0.0000000001Ki", "103n");
    check("1.23456789012345678901Gi", "1325607178192992078n");
    check("8Ei", "9223372036854775807");
    check("-9Ei", "-9223372036854775807");
    check("-1Ki", "-1Ki");
    check("1.0m", "1m");
    check("0.001", "1m");
    check("1025m", "1025m");
    check("1500m", "1500m");
    check("0.1k", "100");
    check("1000000k", "1G");
    check("1E", "1E");
    check("1000E", "1000E");
    check("1e3", "1e3");
    check("1E6", "1e6");
    check("1e5", "100e3");
    check("1.5e-3", "1500e-6");
    check("1e-10", "1e-9");
    check("100e-11", "1e-9");
    check("1e0", "1");
    check("0.0000000001", "1n");
    check("-0.0000000001", "-1n");
    check("0.12345678901", "123456790n");
    check("9223372036854775808", "9223372036854775808");
    check("9999999999999999999999n", "9999999999999999999999n");
    for zero in ["0", "0n", "0Ki", "0e5", "-0", "0.00", "+", "-", ".", "m", "Ki"] {
        check(zero, "0");
    }
}

#[test]
fn refusals_are_upstreams_sentences() {
    let check = |text: &str, start: &str| {
        let error = Quantity::parse(text).unwrap_err();
        assert!(error.starts_with(start), "{text:?}: {error}");
    };
    let format = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for text in ["", "1.1.M", "1+1.0M", "0.1am", "aoeu", " 1", "1 ", "1\0", "٣", "1é", "1e5e5", "--1-"] {
        check(text, format);
    }
    for text in ["0.1mi", ".5i", "1i", "-3.01i", "-3.01e-", "1e", "1K", "1mm", "1Em", "--1", "1e99999999999999999999"] {
        check(text, "unable to parse quantity's suffix");
    }
    for text in ["Ei", ".Ei", "-e-10"] {
        check(text, "unable to parse numeric part of quantity");
    }
}

#[test]
fn the_stored_text_keeps_what_upstream_keeps() {
    let check = |text: &str, expected: &str| assert_eq!(Quantity::normalize(text).unwrap(), expected, "{text:?}");
    for kept in ["0", "1.500", "+5", "0005", "1e+3", "1E6", "12Mi", "1e30", "100m", "5."] {
        check(kept, kept);
    }
    check(" 1 ", "1");
    check("0.5", "500m");
    check("1024Mi", "1Gi");
    check("1000m", "1");
    check("+0", "0");
    check("1e5", "100e3");
    check("08Ki", "8Ki");
    check("1.5", "1500m");
}

#[test]
fn numbers_come_out_rounded_up() {
    let check = |text: &str, units: i64, milli: i64| {
        let quantity = Quantity::parse(text).unwrap();
        assert_eq!((quantity.units(), quantity.milli()), (units, milli), "{text:?}");
    };
    check("1500m", 2, 1500);
    check("1n", 1, 1);
    check("-1500m", -2, -1500);
    check("1Gi", 1 << 30, 1000 << 30);
    check("8Ei", i64::MAX, i64::MAX);
    check("-1e99", i64::MIN, i64::MIN);
    check("1e9223372036854775807", i64::MAX, i64::MAX);
    check("1e-9223372036854775808", 1, 1);
    assert!(!Quantity::parse("1500m").unwrap().is_whole() && Quantity::parse("2").unwrap().is_whole());
    assert_eq!(Quantity::from_bytes(3 << 20).to_string(), "3Mi");
    assert_eq!(Quantity::from_milli(2500).as_f64(), 2.5);
}

#[test]
fn json_carries_text_and_numbers() {
    let check = |value: Value, expected: Option<&str>| {
        assert_eq!(Quantity::from_value(&value).ok().map(|q| q.to_string()).as_deref(), expected, "{value}");
    };
    check(serde_json::json!(" 1Gi "), Some("1Gi"));
    check(serde_json::json!(2), Some("2"));
    check(serde_json::json!(0.5), Some("500m"));
    check(serde_json::json!(true), None);
    check(serde_json::json!([1]), None);
}

#[test]
fn sums_and_order() {
    let parse = |text| Quantity::parse(text).unwrap();
    let check = |quantity: Quantity, expected: &str| assert_eq!(quantity.to_string(), expected);
    check(parse("1Gi").plus(&parse("512Mi")), "1536Mi");
    check(parse("0").plus(&parse("1Ki")), "1Ki");
    check(parse("1").plus(&parse("1Ki")), "1025");
    check(parse("0Ki").minus(&parse("1500m")), "-1500m");
    check(parse("10").minus(&parse("100m")), "9900m");
    check(parse("250m").times(4), "1");
    check(parse("1e40").plus(&parse("1e40")), &parse("1e50").to_string());
    assert!(parse("1Ki") > parse("1k") && parse("1000m") == parse("1") && parse("-1") < Quantity::ZERO);
}

/// Texts that are quantities, mostly.
const WRITTEN: &str = r"[+-]?[0-9]{0,24}(\.[0-9]{0,24})?([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,2})";

proptest! {
    #[test]
    fn the_canonical_form_is_a_fixpoint(text in WRITTEN) {
        if let Ok(quantity) = Quantity::parse(&text) {
            let shown = quantity.to_string();
            prop_assert_eq!(Quantity::parse(&shown), Ok(quantity));
            prop_assert_eq!(canonical(&shown), shown.as_str());
            let stored = Quantity::normalize(&text).unwrap();
            prop_assert_eq!(Quantity::normalize(&stored).unwrap(), stored.as_ref());
            prop_assert_eq!(Quantity::parse(&stored), Ok(quantity));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        let _ = Quantity::parse(&text).map(|q| (q.to_string(), q.units(), q.milli(), q.plus(&q), q.times(i64::MIN)));
    }
}
