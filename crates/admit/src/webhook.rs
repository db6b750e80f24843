//! The pure half of dynamic webhooks: whom to ask, with what, and what the answer means. The call itself is made by
//! the server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meta::{ApiError, ObjectExt, Reason};
use serde_json::{Value, json};

use crate::admission::{Case, Effects, World};
use crate::matching::{self, Matched};
use crate::request_facts::{conditions_hold, request_facts, variables};

const GROUP: &str = "admissionregistration.k8s.io";
const REVIEW: &str = "admission.k8s.io/v1";
/// When a webhook names no timeout; ten is also upstream's default.
const TIMEOUT_SECONDS: u32 = 10;
/// Most warnings taken from one answer: a header each.
const WARNINGS_MAX: usize = 50;

/// A configured webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// Name of its configuration object.
    pub configuration: String,
    /// Whether it may change the object.
    pub mutating: bool,
    /// Its entry in the configuration.
    pub spec: Value,
}

/// A webhook that is to be called for a request.
#[derive(Clone, Debug)]
pub struct Call<'w> {
    webhook: &'w Webhook,
    matched: Matched,
}

/// What a webhook's answer brings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// JSON patch to apply to the object, as bytes.
    pub patch: Option<Vec<u8>>,
}

/// Every webhook of one sort, by configuration name and then in the order written there.
pub fn webhooks(world: &World<'_>, mutating: bool) -> Vec<Webhook> {
    let plural = if mutating { "mutatingwebhookconfigurations" } else { "validatingwebhookconfigurations" };
    let configurations = world.list(&format!("{GROUP}/{plural}"), "");
    let of = |configuration: &Value| {
        let name = configuration.name().to_owned();
        let hooks = configuration.items(&["webhooks"]).to_vec();
        hooks.into_iter().map(move |spec| Webhook { configuration: name.clone(), mutating, spec }).collect::<Vec<_>>()
    };
    configurations.iter().flat_map(of).collect()
}

impl Webhook {
    /// Its name.
    pub fn name(&self) -> &str {
        self.spec.text(&["name"])
    }

    /// Where it is: `url`, or `service` with namespace, name, path and port; `caBundle`.
    pub fn client_config(&self) -> &Value {
        self.spec.at(&["clientConfig"]).unwrap_or(&Value::Null)
    }

    /// How long to wait for it.
    pub fn timeout_seconds(&self) -> u32 {
        let given = self.spec.int(&["timeoutSeconds"]).and_then(|seconds| u32::try_from(seconds).ok());
        given.filter(|seconds| *seconds > 0).unwrap_or(TIMEOUT_SECONDS)
    }

    /// Whether it wants to see the object again when others have changed it after its own call.
    pub fn is_reinvoked(&self) -> bool {
        self.mutating && self.spec.text(&["reinvocationPolicy"]) == "IfNeeded"
    }

    fn fails_open(&self) -> bool {
        self.spec.text(&["failurePolicy"]) == "Ignore"
    }

    /// Whether it is to be called for this request as it stands now.
    pub fn relevant<'w>(&'w self, case: &Case<'_>, new: Option<&Value>) -> Result<Option<Call<'w>>, ApiError> {
        if matching::is_exempt(case) {
            return Ok(None);
        }
        let equivalent = self.spec.text(&["matchPolicy"]) != "Exact";
        let Some(matched) = matching::matches_rules(case, self.spec.items(&["rules"]), equivalent) else {
            return Ok(None);
        };
        if !matching::selects(case, &self.spec, new).map_err(ApiError::internal)? {
            return Ok(None);
        }
        match self.conditions(case, &matched, new) {
            Ok(true) => {}
            Err(why) if !self.fails_open() => return Err(case.forbids(new, why)),
            Ok(false) | Err(_) => return Ok(None),
        }
        if case.request.dry_run && !matches!(self.spec.text(&["sideEffects"]), "None" | "NoneOnDryRun") {
            let why = format!("admission webhook {:?} does not support dry run", self.name());
            return Err(ApiError::bad_request(why));
        }
        Ok(Some(Call { webhook: self, matched }))
    }

    fn conditions(&self, case: &Case<'_>, matched: &Matched, new: Option<&Value>) -> Result<bool, String> {
        let conditions = self.spec.items(&["matchConditions"]);
        if conditions.is_empty() {
            Ok(true)
        } else {
            conditions_hold(conditions, &variables(case, matched, new), case.world.may)
        }
    }
}

impl Call<'_> {
    /// The version at which the webhook wants to see the object; the caller converts.
    pub fn matched(&self) -> &Matched {
        &self.matched
    }

    /// The AdmissionReview to send; objects at the matched version.
    pub fn review(&self, case: &Case<'_>, uid: &str, new: Option<&Value>, old: Option<&Value>) -> Value {
        let mut request = request_facts(case, &self.matched);
        request["uid"] = json!(uid);
        request["object"] = new.cloned().unwrap_or(Value::Null);
        request["oldObject"] = old.cloned().unwrap_or(Value::Null);
        json!({"kind": "AdmissionReview", "apiVersion": REVIEW, "request": request})
    }

    /// What the webhook's answer means. A refusal is an error; so is an answer that is none, unless the webhook may
    /// fail.
    pub fn read_answer(&self, review: &Value, uid: &str, effects: &mut Effects) -> Result<Answer, ApiError> {
        let checked = self.check(review, uid).and_then(|response| Ok((response, self.patch_of(response)?)));
        let (response, patch) = match checked {
            Ok(checked) => checked,
            Err(why) => return self.failed(&why, effects).map(|()| Answer::default()),
        };
        self.take_notes(response, effects);
        if response.flag(&["allowed"]) { Ok(Answer { patch }) } else { Err(self.denial(response.get("status"))) }
    }

    /// What a call that brought no answer means: nothing when the webhook may fail, else the end of the request.
    pub fn failed(&self, why: &str, effects: &mut Effects) -> Result<(), ApiError> {
        let name = self.webhook.name();
        if self.webhook.fails_open() {
            let key = format!("failed-open.{}.webhook.admission.k8s.io/{name}", self.sort());
            effects.audit.insert(key, name.to_owned());
            return Ok(());
        }
        Err(ApiError::internal(format!("failed calling webhook {name:?}: {why}")))
    }

    fn sort(&self) -> &'static str {
        if self.webhook.mutating { "mutating" } else { "validating" }
    }

    fn check<'r>(&self, review: &'r Value, uid: &str) -> Result<&'r Value, String> {
        let (version, kind) = (review.text(&["apiVersion"]), review.text(&["kind"]));
        if version != REVIEW || kind != "AdmissionReview" {
            return Err(format!(
                "expected webhook response of {REVIEW}, Kind=AdmissionReview, got {version}, Kind={kind}"
            ));
        }
        let response = review.get("response").filter(|response| response.is_object());
        let response = response.ok_or("webhook response was absent")?;
        let given = response.text(&["uid"]);
        if given != uid {
            return Err(format!("expected response.uid={uid:?}, got {given:?}"));
        }
        Ok(response)
    }

    fn patch_of(&self, response: &Value) -> Result<Option<Vec<u8>>, String> {
        let (patch, kind) = (response.text(&["patch"]), response.text(&["patchType"]));
        if !self.webhook.mutating && !patch.is_empty() {
            return Err("validating webhook may not return response.patch".to_owned());
        }
        match (patch.is_empty(), kind) {
            (true, "") => Ok(None),
            (true, _) if !self.webhook.mutating => {
                Err("validating webhook may not return response.patchType".to_owned())
            }
            (true, _) => Err("webhook returned response.patchType but not response.patch".to_owned()),
            (false, "") => Err("webhook returned response.patch but not response.patchType".to_owned()),
            (false, "JSONPatch") => {
                STANDARD.decode(patch).map(Some).map_err(|_| "webhook returned a patch that is no base64".to_owned())
            }
            (false, other) => Err(format!("webhook returned invalid response.patchType of {other:?}")),
        }
    }

    fn take_notes(&self, response: &Value, effects: &mut Effects) {
        let warnings = response.items(&["warnings"]).iter().filter_map(Value::as_str);
        warnings.take(WARNINGS_MAX).for_each(|warning| effects.warn(warning));
        for (key, value) in response.map(&["auditAnnotations"]).into_iter().flatten() {
            if let Some(value) = value.as_str() {
                effects.audit.insert(format!("{}/{key}", self.webhook.name()), value.to_owned());
            }
        }
    }

    fn denial(&self, status: Option<&Value>) -> ApiError {
        let status = status.unwrap_or(&Value::Null);
        let denied = format!("admission webhook {:?} denied the request", self.webhook.name());
        let message = match (status.text(&["message"]), status.text(&["reason"])) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        let code = status.int(&["code"]).and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
        ApiError { code: code.unwrap_or(400), reason: reason_of(status.text(&["reason"])), message, details: None }
    }
}

/// A reason by its text.
pub(crate) fn reason_of(text: &str) -> Option<Reason> {
    const ALL: [Reason; 18] = [
        Reason::Unauthorized,
        Reason::Forbidden,
        Reason::NotFound,
        Reason::AlreadyExists,
        Reason::Conflict,
        Reason::Expired,
        Reason::Gone,
        Reason::Invalid,
        Reason::BadRequest,
        Reason::MethodNotAllowed,
        Reason::NotAcceptable,
        Reason::RequestEntityTooLarge,
        Reason::UnsupportedMediaType,
        Reason::TooManyRequests,
        Reason::InternalError,
        Reason::ServiceUnavailable,
        Reason::Timeout,
        Reason::ServerTimeout,
    ];
    ALL.into_iter().find(|reason| reason.as_str() == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::testing::{Scene, create};

    fn hook(mutating: bool, change: Value) -> Webhook {
        let mut spec = json!({"name": "h.example", "sideEffects": "None", "rules": [
            {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]},
        ]});
        for (key, value) in change.as_object().expect("an object") {
            spec[key] = value.clone();
        }
        Webhook { configuration: "c".into(), mutating, spec }
    }

    fn answer(hook: &Webhook, response: Value) -> Result<(Answer, Effects), String> {
        let (scene, asked) = (Scene::new(&[]), create("", "pods", "d", "p"));
        let call = hook.relevant(&scene.case(&asked, None), Some(&json!({}))).expect("no error").expect("relevant");
        let review = json!({"apiVersion": REVIEW, "kind": "AdmissionReview", "response": response});
        let mut effects = Effects::default();
        let answer = call.read_answer(&review, "u", &mut effects).map_err(|error| error.message)?;
        Ok((answer, effects))
    }

    #[test]
    fn conditions_and_rules_choose_requests() {
        let relevant = |change: Value, resource: &str| {
            let (scene, asked) = (Scene::new(&[]), create("", resource, "d", "p"));
            let new = json!({"metadata": {"labels": {"a": "b"}}});
            hook(false, change).relevant(&scene.case(&asked, None), Some(&new)).map(|call| call.is_some())
        };
        let condition = |source: &str| json!({"matchConditions": [{"name": "c", "expression": source}]});
        assert_eq!(relevant(json!({}), "pods"), Ok(true));
        assert_eq!(relevant(json!({}), "secrets"), Ok(false));
        assert_eq!(relevant(condition("object.metadata.labels.a == 'b'"), "pods"), Ok(true));
        assert_eq!(relevant(condition("request.userInfo.username == 'bob'"), "pods"), Ok(false));
        assert!(relevant(condition("object.absent == 1"), "pods").is_err());
        let mut open = condition("object.absent == 1");
        open["failurePolicy"] = json!("Ignore");
        assert_eq!(relevant(open, "pods"), Ok(false));
    }

    #[test]
    fn answers_are_read_like_upstream() {
        let patch = STANDARD.encode("[]");
        let changes = json!({"uid": "u", "allowed": true, "patch": patch, "patchType": "JSONPatch", "warnings": ["w"],
                             "auditAnnotations": {"k": "v"}});
        let (found, effects) = answer(&hook(true, json!({})), changes.clone()).expect("allowed");
        assert_eq!(found.patch.as_deref(), Some(&b"[]"[..]));
        assert_eq!(effects.warnings, ["w"]);
        assert_eq!(effects.audit["h.example/k"], "v");
        let refused = |mutating: bool, response: Value, why: &str| {
            assert_eq!(answer(&hook(mutating, json!({})), response).unwrap_err(), why);
        };
        let failed = "Internal error occurred: failed calling webhook \"h.example\": ";
        refused(false, changes, &format!("{failed}validating webhook may not return response.patch"));
        refused(true, json!({"uid": "x"}), &format!("{failed}expected response.uid=\"u\", got \"x\""));
        let denied = "admission webhook \"h.example\" denied the request";
        refused(true, json!({"uid": "u", "allowed": false, "status": {"message": "no"}}), &format!("{denied}: no"));
        refused(true, json!({"uid": "u", "allowed": false}), &format!("{denied} without explanation"));
        let open = hook(true, json!({"failurePolicy": "Ignore"}));
        assert_eq!(answer(&open, json!({"uid": "x"})).expect("fails open").0, Answer::default());
    }

    #[test]
    fn reviews_show_the_request() {
        let (scene, asked, hook) = (Scene::new(&[]), create("", "pods", "d", "p"), hook(false, json!({})));
        let case = scene.case(&asked, None);
        let call = hook.relevant(&case, None).expect("no error").expect("relevant");
        let review = call.review(&case, "u", Some(&json!({"a": 1})), None);
        let request = &review["request"];
        assert_eq!(request["uid"], "u");
        assert_eq!(request["operation"], "CREATE");
        assert_eq!(request["userInfo"], json!({"username": "ann", "groups": ["dev"]}));
        assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "pods"}));
        assert_eq!((&request["object"], &request["oldObject"]), (&json!({"a": 1}), &Value::Null));
    }
}
