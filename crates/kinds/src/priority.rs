//! Which group and which version come first when a client leaves the choice to the server.

use std::cmp::Ordering;

/// Groups in the order that discovery lists them and short names resolve in; others follow, by name.
const GROUPS: &[&str] = &[
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "resource.k8s.io",
    "storagemigration.k8s.io",
];

/// Compares two groups: the one that clients should see first is less.
pub fn by_group(a: &str, b: &str) -> Ordering {
    let rank = |group: &str| GROUPS.iter().position(|known| *known == group).unwrap_or(GROUPS.len());
    rank(a).cmp(&rank(b)).then_with(|| a.cmp(b))
}

/// Compares two versions: the preferred one is less. Stable before beta before alpha, newer before older, and
/// what is not of that form last, by name.
pub fn by_version(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(left), Some(right)) => right.cmp(&left).then_with(|| a.cmp(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// `v2beta1` as (stability, major, minor), greater is preferred.
fn parse(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, suffix) = rest.split_at(digits);
    let major = number(major)?;
    if suffix.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match (suffix.strip_prefix("beta"), suffix.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (0, minor),
        _ => return None,
    };
    Some((stability, major, number(minor)?))
}

fn number(text: &str) -> Option<u32> {
    let plain = !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_as_clients_expect() {
        let mut versions =
            ["foo1", "v1alpha1", "v10", "v2beta1", "v1", "v11alpha2", "v1beta1", "v2", "foo10", "v12alpha1", "v3beta1"];
        versions.sort_by(|a, b| by_version(a, b));
        let expected =
            ["v10", "v2", "v1", "v3beta1", "v2beta1", "v1beta1", "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10"];
        assert_eq!(versions, expected);
    }

    #[test]
    fn the_legacy_group_comes_first_and_custom_ones_last() {
        let mut groups = ["example.com", "batch", "apps", ""];
        groups.sort_by(|a, b| by_group(a, b));
        assert_eq!(groups, ["", "apps", "batch", "example.com"]);
    }
}
