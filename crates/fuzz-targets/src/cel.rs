//! Expressions: whatever their author writes, they end within their budget.

use admit::cel::{self, Budget, CALL_COST_MAX};
use serde_json::json;

use crate::{inputs, text_of};

/// An expression is refused, or has a value, or spends its budget; nothing is charged that was not there.
pub fn parse_eval(data: &[u8]) {
    let Some(text) = text_of(data) else { return };
    let Ok(program) = cel::program(text) else { return };
    let object = json!({
        "metadata": {"name": "x", "labels": {"a": "b"}},
        "spec": {"replicas": 3, "list": [1, 2, 3], "names": ["a", "b"], "map": {"k": "v"}, "size": 1.5},
    });
    let value = cel::from_json(&object);
    let variables = [("object", value.clone()), ("self", value.clone()), ("oldSelf", value)];
    // A tenth of the real one: what is found with more is found with less, sooner.
    let mut budget = Budget::new(CALL_COST_MAX / 10);
    let outcome = cel::evaluate(&program, &variables, &mut budget);
    if budget.is_spent() {
        return;
    }
    if let Ok(value) = outcome {
        let _ = (cel::to_json(&value), cel::text_of(&value));
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    inputs(&[
        "self.spec.replicas <= 3",
        "object.spec.list.all(x, x > 0)",
        "self.spec.names.map(n, n + 'x').join(',')",
        "self.metadata.name.matches('^[a-z]+$')",
        "quantity('1Gi').isGreaterThan(quantity('500Mi'))",
        "has(self.spec.map.k) ? self.spec.map['k'] : ''",
        "'%s %d'.format(['a', 1])",
        "url('https://a/b').getHost()",
        "self.spec.list.exists(x, self.spec.list.exists(y, x + y == 5))",
        "duration('1h') > duration('1m')",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
        "oldSelf.?spec.?x.orValue(1)",
        "[1,2,3].map(x, [1,2,3].map(y, [1,2,3].map(z, x*y*z)))",
        "9223372036854775807 + 1",
        "1 / 0",
        "((((1))))",
        "'a'.replace('', 'b', 100)",
        "b'\\xff' == b'a'",
        "semver('1.2.3').major()",
        "timestamp('2026-01-01T00:00:00Z')",
    ])
}
