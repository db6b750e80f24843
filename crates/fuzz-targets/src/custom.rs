//! Schemas that people declare, and what becomes of objects under them.

use meta::FieldPath;
use schema::{Mode, crd, defaults, json, openapi, prune, validate};

use crate::{examples, inputs, lines};

/// The first line is an openAPIV3Schema, the second an object. A structural schema prunes, defaults and checks any
/// object; what is pruned or defaulted once is so for good.
pub fn structural(data: &[u8]) {
    let mut documents = lines(data).map(|line| json::decode(line).map(|decoded| decoded.value));
    let Some(Ok(props)) = documents.next() else { return };
    let root = FieldPath::ROOT.field("openAPIV3Schema");
    let _ = crd::lenient(&props);
    let Ok(schema) = crd::structural(&props, &root) else { return };
    let _ = (openapi::v2_schema(&schema), openapi::v3_schema(&schema));
    let Some(Ok(object)) = documents.next() else { return };
    let Ok(conformed) = schema::conform_as(&schema, object, Mode::Whole) else { return };
    let mut value = conformed.value;
    prune::prune(&schema, &mut value);
    let mut again = value.clone();
    assert!(prune::prune(&schema, &mut again).is_empty(), "what is pruned is pruned");
    assert_eq!(again, value);
    defaults::apply(&schema, &mut value);
    let mut again = value.clone();
    defaults::apply(&schema, &mut again);
    assert_eq!(again, value, "what is defaulted is defaulted");
    let _ = validate::check(&schema, &value, &FieldPath::ROOT);
    let _ = merge::typed::extract(&schema, &value);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = inputs(&[
        "{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":1,\"default\":2},\"b\":{\"type\":\"string\",\"pattern\":\"^a+$\",\"enum\":[\"a\"]}}}}}\n{\"spec\":{\"a\":1,\"c\":2}}",
        "{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true,\"properties\":{\"l\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"k\"],\"items\":{\"type\":\"object\",\"required\":[\"k\"],\"properties\":{\"k\":{\"type\":\"string\"}}}}}}\n{\"l\":[{\"k\":\"a\"},{\"k\":\"a\"}]}",
        "{\"type\":\"object\",\"additionalProperties\":{\"x-kubernetes-int-or-string\":true},\"maxProperties\":2}\n{\"a\":1,\"b\":\"2\"}",
        "{\"type\":\"object\",\"properties\":{\"e\":{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true,\"x-kubernetes-preserve-unknown-fields\":true}},\"allOf\":[{\"required\":[\"e\"]}],\"not\":{\"properties\":{\"e\":{\"nullable\":true}}}}\n{\"e\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\"}}}",
        "{\"type\":\"number\",\"multipleOf\":0.1,\"maximum\":1e308,\"exclusiveMaximum\":true,\"format\":\"double\"}\n0.3",
        "{\"type\":\"string\",\"format\":\"date-time\",\"maxLength\":5}\n\"2026-01-01T00:00:00Z\"",
    ]);
    let definitions = examples().filter(|(kind, _)| kind.kind == "CustomResourceDefinition");
    seeds.extend(definitions.map(|(_, tree)| {
        let schema = &tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        format!("{schema}\n{{}}").into_bytes()
    }));
    seeds
}
