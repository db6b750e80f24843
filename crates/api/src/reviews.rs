//! Kinds that are questions: access reviews and who-am-I. They are answered and forgotten.

use admit::rbac::PolicyRule;
use admit::{Attributes, UserInfo};
use meta::{ApiError, FieldError, ObjectExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Answer, Request, Verb, World, body, component_status};

/// Answers a request for a kind that is never stored.
pub(crate) fn attempt(world: World<'_>, request: &Request) -> Result<Answer, ApiError> {
    let kind = &request.target.kind;
    if kind.kind == "ComponentStatus" {
        return component_status::read(world, request);
    }
    if request.verb != Verb::Create {
        return Err(ApiError::method_not_allowed(&kind.group_resource(), request.verb.as_str()));
    }
    let decoded = body::decode(&request.body, &kind.gvk(), kind.schema.get(), request.options.field_validation)?;
    let mut review = decoded.object;
    let status = match &*kind.kind {
        "SelfSubjectAccessReview" => decide(world, Arc::clone(&request.user), &review, None)?,
        "SubjectAccessReview" => decide(world, subject(&review)?, &review, None)?,
        "LocalSubjectAccessReview" => decide(world, subject(&review)?, &review, Some(&request.target.namespace))?,
        "SelfSubjectRulesReview" => rules(world, request, &review)?,
        "SelfSubjectReview" => json!({"userInfo": request.user.to_value()}),
        _ => return Err(ApiError::method_not_allowed(&kind.group_resource(), "create")),
    };
    review.put(&["status"], status);
    review.put(&["metadata", "creationTimestamp"], world.now.to_rfc3339());
    Ok(Answer { code: 201, body: crate::Body::Tree(review), warnings: decoded.warnings })
}

fn subject(review: &Value) -> Result<Arc<UserInfo>, ApiError> {
    let texts =
        |value: &Value| value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let extra: BTreeMap<String, Vec<String>> = review
        .map(&["spec", "extra"])
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.to_lowercase(), texts(values)))
        .collect();
    let user = UserInfo {
        name: review.text(&["spec", "user"]).to_owned(),
        uid: review.text(&["spec", "uid"]).to_owned(),
        groups: review.at(&["spec", "groups"]).map(texts).unwrap_or_default(),
        extra,
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let message = "at least one of user or group must be specified";
        return Err(invalid(review, FieldError::invalid("spec.user", "", message)));
    }
    Ok(Arc::new(user))
}

fn invalid(review: &Value, error: FieldError) -> ApiError {
    let kind = review.gvk().unwrap_or_else(|| meta::Gvk::new("authorization.k8s.io", "v1", "SubjectAccessReview"));
    ApiError::invalid(&kind.group_kind(), review.name(), &[error])
}

fn decide(world: World<'_>, user: Arc<UserInfo>, review: &Value, namespace: Option<&str>) -> Result<Value, ApiError> {
    let attributes = asked(user, review)?;
    if let Some(namespace) = namespace
        && attributes.namespace != namespace
    {
        let message = "must match metadata.namespace";
        return Err(invalid(
            review,
            FieldError::invalid("spec.resourceAttributes.namespace", attributes.namespace, message),
        ));
    }
    let decision = world.authorizer.authorize(world.snapshot, &attributes);
    let mut status = json!({"allowed": decision.is_allowed()});
    if !decision.reason().is_empty() {
        status["reason"] = json!(decision.reason());
    }
    Ok(status)
}

fn asked(user: Arc<UserInfo>, review: &Value) -> Result<Attributes, ApiError> {
    let spec = |path: &[&str]| review.at(&["spec"]).map(|s| s.text(path).to_owned()).unwrap_or_default();
    let (resource, other) = (review.at(&["spec", "resourceAttributes"]), review.at(&["spec", "nonResourceAttributes"]));
    match (resource.is_some(), other.is_some()) {
        (true, false) => Ok(Attributes {
            user,
            verb: spec(&["resourceAttributes", "verb"]),
            group: spec(&["resourceAttributes", "group"]),
            version: spec(&["resourceAttributes", "version"]),
            resource: spec(&["resourceAttributes", "resource"]),
            subresource: spec(&["resourceAttributes", "subresource"]),
            namespace: spec(&["resourceAttributes", "namespace"]),
            name: spec(&["resourceAttributes", "name"]),
            ..Attributes::default()
        }),
        (false, true) => Ok(Attributes {
            user,
            verb: spec(&["nonResourceAttributes", "verb"]),
            path: spec(&["nonResourceAttributes", "path"]),
            ..Attributes::default()
        }),
        _ => {
            let message = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            Err(invalid(review, FieldError::invalid("spec.resourceAttributes", Value::Null, message)))
        }
    }
}

fn rules(world: World<'_>, request: &Request, review: &Value) -> Result<Value, ApiError> {
    let namespace = review.text(&["spec", "namespace"]);
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let found = world.authorizer.rules_for(world.snapshot, &request.user, namespace);
    let rule = |rule: &PolicyRule| rule.to_value();
    let (paths, resources): (Vec<_>, Vec<_>) = found.rules.iter().partition(|rule| !rule.non_resource_urls.is_empty());
    let mut status = json!({
        "resourceRules": resources.into_iter().map(rule).collect::<Value>(),
        "nonResourceRules": paths.into_iter().map(rule).collect::<Value>(),
        "incomplete": !found.errors.is_empty(),
    });
    if !found.errors.is_empty() {
        status["evaluationError"] = json!(found.errors.join(", "));
    }
    Ok(status)
}
