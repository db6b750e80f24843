//! How objects get from one version of a custom kind to another.

use crate::admissionregistration::client_config;
use crate::check::{At, Faults, one_of};

/// Review versions that the server can speak.
const REVIEWS: &[&str] = &["v1", "v1beta1"];

pub(super) fn check(conversion: &At, faults: &mut Faults) {
    let strategy = conversion.field("strategy");
    one_of(&strategy, &["None", "Webhook"], faults);
    let webhook = conversion.field("webhook");
    if strategy.text() == "Webhook" {
        check_webhook(&webhook, faults);
    } else if webhook.is_set() {
        faults.push(webhook.forbidden("should not be set when strategy is not set to Webhook"));
    }
}

fn check_webhook(webhook: &At, faults: &mut Faults) {
    let config = webhook.field("clientConfig");
    if config.is_set() {
        client_config::check(&config, faults);
    } else {
        faults.push(config.required("required when strategy is set to Webhook"));
    }
    let versions = webhook.field("conversionReviewVersions");
    if versions.items().is_empty() {
        faults.push(versions.required(""));
    } else if !versions.items().iter().any(|version| REVIEWS.iter().any(|known| version == known)) {
        faults.push(versions.invalid(format!("must include at least one of {}", REVIEWS.join(", "))));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use serde_json::json;

    #[test]
    fn conversions() {
        let path = ["spec", "conversion"];
        check(&path, json!({"strategy": "None"}), &[]);
        let client = json!({"url": "https://example.com/convert"});
        check(
            &path,
            json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}),
            &[],
        );
        check(
            &path,
            json!({"strategy": "Webhook"}),
            &[
                "spec.conversion.webhook.clientConfig: Required value: required when strategy is set to Webhook",
                "spec.conversion.webhook.conversionReviewVersions: Required value",
            ],
        );
        check(
            &path,
            json!({"strategy": "None", "webhook": {}}),
            &["spec.conversion.webhook: Forbidden: should not be set when strategy is not set to Webhook"],
        );
    }
}
