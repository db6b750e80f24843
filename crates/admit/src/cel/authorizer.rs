//! The variable `authorizer`: expressions that ask what somebody may do.
//!
//! A function of the interpreter cannot borrow the server's authorisers. So an expression that asks something not yet
//! answered stops, the question is answered outside, and the expression runs again with the answer: it comes to the
//! same question at the same place, for it depends on nothing else.

use std::cell::RefCell;
use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{Context, ExecutionError, Value};

use super::{Budget, EvalError, Program, evaluate};
use crate::{Attributes, UserInfo};

/// How many questions one expression may ask; each costs an evaluation.
const QUESTIONS_MAX: usize = 32;

/// The variable that `authorizer.requestResource` is read from.
pub(super) const REQUEST_RESOURCE: &str = "@requestResource";

/// Somebody, and as much of a question about them as has been said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Question {
    user: Arc<UserInfo>,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    path: String,
    verb: String,
}

impl Opaque for Question {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.authorization.Authorizer"
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict(bool);

impl Opaque for Verdict {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.authorization.Decision"
    }
}

#[derive(Default)]
struct Talk {
    answers: Vec<(Question, bool)>,
    open: Option<Question>,
}

thread_local! {
    static TALK: RefCell<Talk> = RefCell::default();
}

/// `authorizer` and `authorizer.requestResource` for a request.
pub fn authorizer_variables(attributes: &Attributes) -> [(&'static str, Value); 2] {
    let nobody_yet = Question { user: Arc::clone(&attributes.user), ..Question::default() };
    let of_request = Question {
        group: attributes.group.clone(),
        resource: attributes.resource.clone(),
        subresource: attributes.subresource.clone(),
        namespace: attributes.namespace.clone(),
        name: attributes.name.clone(),
        ..nobody_yet.clone()
    };
    [("authorizer", opaque(nobody_yet)), (REQUEST_RESOURCE, opaque(of_request))]
}

/// Like [`evaluate`], with questions answered by `may`.
pub fn evaluate_asking(
    program: &Program,
    variables: &[(&str, Value)],
    budget: &mut Budget,
    may: &dyn Fn(&Attributes) -> bool,
) -> Result<Value, EvalError> {
    let asks = program.uses("authorizer") || program.uses(REQUEST_RESOURCE);
    if !asks {
        return evaluate(program, variables, budget);
    }
    let outer = TALK.take();
    let outcome = (0..=QUESTIONS_MAX).find_map(|_| {
        let outcome = evaluate(program, variables, budget);
        let open = TALK.with_borrow_mut(|talk| talk.open.take());
        let Some(question) = open else { return Some(outcome) };
        let answer = may(&question.to_attributes());
        TALK.with_borrow_mut(|talk| talk.answers.push((question, answer)));
        None
    });
    TALK.set(outer);
    outcome.unwrap_or_else(|| Err(EvalError::Failed("the expression asks too many questions".to_owned())))
}

impl Question {
    fn to_attributes(&self) -> Attributes {
        let of = Attributes { user: Arc::clone(&self.user), ..Attributes::default() };
        let mut asked = of.on_the_side(&self.verb, &self.group, &self.resource, &self.namespace, &self.name);
        asked.subresource.clone_from(&self.subresource);
        asked.path.clone_from(&self.path);
        asked
    }

    fn answer(self) -> Result<Value, ExecutionError> {
        TALK.with_borrow_mut(|talk| match talk.answers.iter().find(|(asked, _)| *asked == self) {
            Some((_, answer)) => Ok(Value::Opaque(Arc::new(Verdict(*answer)))),
            None => {
                // Of several open questions (both sides of `||`) the first is answered first.
                talk.open.get_or_insert(self);
                Err(ExecutionError::function_error("check", "not answered yet"))
            }
        })
    }
}

fn opaque(question: Question) -> Value {
    Value::Opaque(Arc::new(question))
}

fn read<T: Clone + 'static>(value: &Value) -> Result<T, ExecutionError> {
    let found = match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<T>().cloned(),
        _ => None,
    };
    found.ok_or(ExecutionError::NoSuchOverload)
}

type Answer = Result<Value, ExecutionError>;

pub(super) fn register(context: &mut Context<'static>) {
    type Setter = (&'static str, fn(&mut Question, String));
    const SETTERS: [Setter; 6] = [
        ("path", |question, text| question.path = text),
        ("group", |question, text| question.group = text),
        ("resource", |question, text| question.resource = text),
        ("subresource", |question, text| question.subresource = text),
        ("namespace", |question, text| question.namespace = text),
        ("name", |question, text| question.name = text),
    ];
    for (name, set) in SETTERS {
        context.add_function(name, move |This(this): This<Value>, text: Arc<String>| -> Answer {
            let mut question: Question = read(&this)?;
            set(&mut question, text.to_string());
            Ok(opaque(question))
        });
    }
    let account = |This(this): This<Value>, namespace: Arc<String>, name: Arc<String>| -> Answer {
        let question: Question = read(&this)?;
        Ok(opaque(Question { user: Arc::new(UserInfo::service_account(&namespace, &name, "")), ..question }))
    };
    context.add_function("serviceAccount", account);
    context.add_function("check", |This(this): This<Value>, verb: Arc<String>| -> Answer {
        Question { verb: verb.to_string(), ..read(&this)? }.answer()
    });
    context.add_function("allowed", |This(this): This<Value>| -> Answer {
        read(&this).map(|Verdict(allowed)| Value::Bool(allowed))
    });
    context.add_function("errored", |This(this): This<Value>| -> Answer {
        read(&this).map(|Verdict(_)| Value::Bool(false))
    });
    for name in ["reason", "error"] {
        context.add_function(name, |This(this): This<Value>| -> Answer {
            read(&this).map(|Verdict(_)| Value::String(Arc::default()))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CALL_COST_MAX, program};
    use super::*;

    fn ask(source: &str) -> Result<Value, String> {
        let user = Arc::new(UserInfo::new("ann", [""; 0]));
        let attributes = Attributes { user, resource: "pods".into(), namespace: "d".into(), ..Attributes::default() };
        let may = |asked: &Attributes| {
            let pods = asked.resource == "pods" && asked.namespace == "d" && asked.verb == "get";
            let account = asked.user.name == "system:serviceaccount:d:bot" && asked.verb == "list";
            let path = asked.path == "/healthz" && asked.verb == "get";
            pods || account || path
        };
        let program = program(source)?;
        let variables = authorizer_variables(&attributes);
        let outcome = evaluate_asking(&program, &variables, &mut Budget::new(CALL_COST_MAX), &may);
        outcome.map_err(|error| error.to_string())
    }

    #[test]
    fn questions_are_answered() {
        let check = |source: &str, expected: bool| assert_eq!(ask(source), Ok(Value::Bool(expected)), "{source}");
        let pods = "authorizer.group('').resource('pods').namespace('d')";
        check(&format!("{pods}.check('get').allowed()"), true);
        check(&format!("{pods}.check('delete').allowed()"), false);
        check(&format!("{pods}.check('delete').allowed() || {pods}.check('get').allowed()"), true);
        check(&format!("{pods}.check('get').allowed() && !{pods}.check('delete').allowed()"), true);
        check("authorizer.path('/healthz').check('get').allowed()", true);
        check("authorizer.path('/metrics').check('get').allowed()", false);
        check("authorizer.requestResource.check('get').allowed()", true);
        check("authorizer.serviceAccount('d', 'bot').group('').resource('secrets').check('list').allowed()", true);
        assert!(ask("'text'.check('get').allowed()").is_err());
    }
}
