use serde_json::json;

use super::*;

fn eval(source: &str, variables: &[(&str, CelValue)]) -> Result<CelValue, EvalError> {
    let program = program(source).map_err(EvalError::Failed)?;
    evaluate(&program, variables, &mut Budget::new(OBJECT_COST_MAX))
}

fn holds(source: &str) {
    let object = from_json(&json!({"name": "web", "ports": [80, 443], "labels": {"a": "b"}, "memory": "1Gi"}));
    assert_eq!(eval(source, &[("self", object)]), Ok(CelValue::Bool(true)), "{source}");
}

#[test]
fn the_language_and_kubernetes_functions() {
    for source in [
        "self.name == 'web' && size(self.ports) == 2",
        "self.ports.all(p, p > 0 && p < 65536)",
        "self.ports.exists(p, p == 443)",
        "self.ports.exists_one(p, p == 80)",
        "self.ports.map(p, p + 1) == [81, 444]",
        "self.ports.filter(p, p < 100) == [80]",
        "has(self.labels.a) && !has(self.labels.b)",
        "'a' in self.labels",
        "self.labels.all(k, k.startsWith('a'))",
        "quantity(self.memory).isGreaterThan(quantity('512Mi'))",
        "self.name.matches('^w.b$')",
        "isIP('10.0.0.1') && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "url('https://a.example/x').getHost() == 'a.example'",
        "['b', 'a'].isSorted() == false && [1, 2].sum() == 3",
        "'%s-%d'.format(['a', 3]) == 'a-3'",
        "duration('90s') == duration('1m30s')",
        "timestamp('2026-01-01T00:00:00Z') < timestamp('2027-01-01T00:00:00Z')",
        "self.?missing.orValue('x') == 'x'",
        "self.name == 'x' ? false : true",
        "semver('1.2.3').isLessThan(semver('1.10.0'))",
        "sets.contains([1, 2, 3], [1, 2])",
    ] {
        holds(source);
    }
}

#[test]
fn errors_speak_like_cel_go() {
    let check = |source: &str, why: &str| {
        let object = from_json(&json!({"list": [1]}));
        assert_eq!(eval(source, &[("self", object)]).unwrap_err().to_string(), why, "{source}");
    };
    check("self.absent == 1", "no such key: absent");
    check("self.list[3] == 1", "index out of bounds: 3");
    check("1 / 0 == 1", "division by zero");
    check("nobody == 1", "undeclared reference to 'nobody' (in container '')");
    assert!(program("self.").is_err());
    assert!(program("Widget{a: 1}").is_err());
    assert!(program("@tick(true, 0)").is_err());
}

#[test]
fn loops_stop_when_the_budget_is_spent() {
    let list: Vec<i64> = (0..1000).collect();
    let object = [("self", from_json(&json!(list)))];
    let nested = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))";
    assert_eq!(eval(nested, &object), Err(EvalError::CallCost));
    assert_eq!(eval("self.all(a, a >= 0)", &object), Ok(CelValue::Bool(true)));
    let mut budget = Budget::new(100);
    let cheap = program("self.all(a, a >= 0)").expect("compiles");
    assert_eq!(evaluate(&cheap, &object, &mut budget), Err(EvalError::Budget));
    assert!(budget.is_spent());
    assert_eq!(evaluate(&cheap, &object, &mut budget), Err(EvalError::Budget));
}

#[test]
fn values_cannot_grow_without_end() {
    let mut source = "['x'.replace('x', 'xxxxxxxxxxxxxxxx')]".to_owned();
    for _ in 0..30 {
        source.push_str(".map(s, s + s)");
    }
    assert_eq!(eval(&format!("{source}.size() == 1"), &[]), Err(EvalError::CallCost));
}

#[test]
fn fields_are_escaped() {
    let check = |name: &str, expected: &str| assert_eq!(escaped(name), expected);
    check("namespace", "__namespace__");
    check("a-b.c/d", "a__dash__b__dot__c__slash__d");
    check("a__b", "a__underscores__b");
    check("plain_name", "plain_name");
}
