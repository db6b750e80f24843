//! From text to a tree with meters in it.

use std::collections::BTreeSet;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::operators;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, MapEntryExpr, MapExpr};
use kube_cel::cel::parser::Parser;

use super::authorizer::REQUEST_RESOURCE;
use super::meter::{SIZED, TICK};

/// Longest expression; the API's own limit for rules is far below what a request may hold.
const SOURCE_BYTES_MAX: usize = 64 * 1024;
/// Most nodes of a tree after macros have been expanded.
const NODES_MAX: i64 = 20_000;

/// Functions whose result may be larger than their arguments, or costs as much as they are long.
const GROWING: [&str; 17] = [
    "_+_",
    "join",
    "replace",
    "split",
    "format",
    "flatten",
    "find",
    "findAll",
    "lowerAscii",
    "upperAscii",
    "reverse",
    "sort",
    "distinct",
    "lists.range",
    "matches",
    "strings.quote",
    "string",
];

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    expression: IdedExpr,
    size: i64,
    variables: BTreeSet<String>,
    composites: BTreeSet<String>,
}

impl Program {
    /// Compiles; the error is for the author.
    pub(super) fn compile(source: &str) -> Result<Self, String> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(format!("the expression is longer than {SOURCE_BYTES_MAX} bytes"));
        }
        let parsed = Parser::new().enable_optional_syntax(true).parse(source);
        let mut expression = parsed.map_err(|errors| errors.to_string().trim().to_owned())?;
        let mut walk = Walk::default();
        walk.visit(&mut expression, None)?;
        Ok(Self { expression, size: walk.nodes, variables: walk.variables, composites: walk.composites })
    }

    /// Whether the expression reads the variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.variables.contains(variable)
    }

    /// The names `x` that the expression reads as `variables.x`.
    pub fn composites(&self) -> impl Iterator<Item = &String> {
        self.composites.iter()
    }

    /// The first variable that is none of `known`, for compile-time checks.
    pub fn unknown_variable(&self, known: &[&str]) -> Option<&str> {
        self.variables.iter().map(String::as_str).find(|name| !known.contains(name) && !is_type_name(name))
    }

    pub(super) fn expression(&self) -> &IdedExpr {
        &self.expression
    }

    pub(super) fn size(&self) -> i64 {
        self.size
    }
}

/// Names that stand for types and namespaces of functions.
fn is_type_name(name: &str) -> bool {
    const NAMES: [&str; 19] = [
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "bytes",
        "list",
        "map",
        "null_type",
        "type",
        "optional",
        "sets",
        "math",
        "lists",
        "strings",
        "base64",
        "format",
        "jsonpatch",
        "ip",
    ];
    NAMES.contains(&name)
}

#[derive(Default)]
struct Walk {
    nodes: i64,
    variables: BTreeSet<String>,
    composites: BTreeSet<String>,
    /// Variables of the loops around.
    bound: Vec<String>,
}

impl Walk {
    /// Counts, checks and rewrites a subtree. `accumulator` is the loop's result variable when the subtree is its step.
    fn visit(&mut self, node: &mut IdedExpr, accumulator: Option<&str>) -> Result<(), String> {
        self.nodes += 1;
        // The variable cannot have fields: what reads like one is a variable of its own.
        if let Expr::Select(select) = &node.expr
            && select.field == "requestResource"
            && matches!(&select.operand.expr, Expr::Ident(name) if name == "authorizer")
        {
            node.expr = Expr::Ident(REQUEST_RESOURCE.to_owned());
        }
        if self.nodes > NODES_MAX {
            return Err(format!("the expression has more than {NODES_MAX} parts"));
        }
        match &mut node.expr {
            Expr::Ident(name) => {
                if !self.bound.contains(name) {
                    self.variables.insert(name.clone());
                }
            }
            Expr::Call(call) => self.visit_call(call, accumulator)?,
            Expr::Comprehension(comprehension) => self.visit_loop(comprehension)?,
            Expr::List(list) => list.elements.iter_mut().try_for_each(|item| self.visit(item, None))?,
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    self.visit_entry(&mut entry.expr)?;
                }
            }
            Expr::Select(select) => {
                if matches!(&select.operand.expr, Expr::Ident(name) if name == "variables") {
                    self.composites.insert(select.field.clone());
                }
                self.visit(&mut select.operand, None)?;
            }
            Expr::Struct(_) => {
                node.expr = as_map(node)?;
                return self.visit(node, None);
            }
            Expr::Unspecified => return Err("the expression is incomplete".to_owned()),
            Expr::Literal(_) => {}
        }
        let grows = matches!(&node.expr, Expr::Call(call) if GROWING.contains(&call.func_name.as_str()));
        if grows {
            wrap(node, SIZED, None);
        }
        Ok(())
    }

    fn visit_call(&mut self, call: &mut CallExpr, accumulator: Option<&str>) -> Result<(), String> {
        if call.func_name == TICK || call.func_name == SIZED {
            return Err(format!("undeclared reference to '{}'", call.func_name));
        }
        // The interpreter's `a.?b` fails when a map lacks the key; its `a[?'b']` does what both should.
        if call.func_name == operators::OPT_SELECT {
            call.func_name = operators::OPT_INDEX.to_owned();
        }
        if let Some(target) = &mut call.target {
            self.visit(target, None)?;
        }
        call.args.iter_mut().try_for_each(|argument| self.visit(argument, accumulator))
    }

    fn visit_entry(&mut self, entry: &mut EntryExpr) -> Result<(), String> {
        match entry {
            EntryExpr::MapEntry(entry) => {
                self.visit(&mut entry.key, None)?;
                self.visit(&mut entry.value, None)
            }
            EntryExpr::StructField(field) => self.visit(&mut field.value, None),
        }
    }

    fn visit_loop(&mut self, of: &mut ComprehensionExpr) -> Result<(), String> {
        self.visit(&mut of.iter_range, None)?;
        self.visit(&mut of.accu_init, None)?;
        let bound = self.bound.len();
        self.bound.extend([of.iter_var.clone(), of.accu_var.clone()]);
        self.bound.extend(of.iter_var2.clone());
        let before = self.nodes;
        self.visit(&mut of.loop_cond, None)?;
        self.visit(&mut of.loop_step, Some(&of.accu_var))?;
        let step = self.nodes - before;
        self.visit(&mut of.result, None)?;
        self.bound.truncate(bound);
        wrap(&mut of.loop_cond, TICK, Some(step));
        Ok(())
    }
}

/// The types of which mutations make values: parts of the object by their path, and steps of a JSON patch.
const OBJECT: &str = "Object";
const JSON_PATCH: &str = "JSONPatch";

/// A value of one of these types, as the map that it stands for; the interpreter knows no types of others.
fn as_map(node: &mut IdedExpr) -> Result<Expr, String> {
    let Expr::Struct(made) = std::mem::take(&mut node.expr) else { return Ok(Expr::Unspecified) };
    let name = made.type_name.trim_start_matches('.').to_owned();
    let is_part = name == OBJECT || name.strip_prefix(OBJECT).is_some_and(|path| path.starts_with('.'));
    if !is_part && name != JSON_PATCH {
        return Err(format!("undeclared reference to '{name}' (in container '')"));
    }
    let mut entries = Vec::with_capacity(made.entries.len());
    for mut entry in made.entries {
        if let EntryExpr::StructField(field) = entry.expr {
            if is_part {
                expect_part(&field.value, &format!("{name}.{}", field.field))?;
            }
            let key = IdedExpr { id: entry.id, expr: Expr::Literal(LiteralValue::String(field.field.into())) };
            let (value, optional) = (field.value, field.optional);
            entry.expr = EntryExpr::MapEntry(MapEntryExpr { key, value, optional });
        }
        entries.push(entry);
    }
    Ok(Expr::Map(MapExpr { entries }))
}

/// A part must be named by where it stands.
fn expect_part(value: &IdedExpr, expected: &str) -> Result<(), String> {
    match &value.expr {
        Expr::Struct(part) if part.type_name.trim_start_matches('.') != expected => Err(format!(
            "type mismatch: unexpected type name {:?}, expected {expected:?}, which matches field name path from root \
             Object type",
            part.type_name
        )),
        Expr::List(list) => list.elements.iter().try_for_each(|element| expect_part(element, expected)),
        _ => Ok(()),
    }
}

/// Puts the node into a call of `function`, with a cost as second argument when there is one.
fn wrap(node: &mut IdedExpr, function: &str, cost: Option<i64>) {
    let id = node.id;
    let inner = std::mem::take(node);
    let cost = cost.map(|cost| IdedExpr { id, expr: Expr::Literal(LiteralValue::Int(cost.into())) });
    let args = std::iter::once(inner).chain(cost).collect();
    *node = IdedExpr { id, expr: Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }) };
}
