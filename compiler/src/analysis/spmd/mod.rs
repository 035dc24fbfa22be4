//! Whether a program means the same on all ranks together as its ops say on each: no part of a sum is taken for the sum, no sum is
//! taken twice, and gradients have the size that the loss gives them.
//!
//! What a value is along each mesh axis comes from [`layouts`](super::layouts). On top of it: collectives that fit their operand by
//! form but not by sense (`collectives`), and constant factors on the way from a parameter's gradient to its optimizer
//! (`gradients`). Every finding shows the values that led there, from where they became what they are (`path`).

mod collectives;
mod gradients;
mod path;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Module, OpId};
use raddle_dialect::layout::Spread;
use raddle_dialect::mesh::RankSet;

use super::layouts::{Finding, Layouts, Own};

/// Finds what is wrong with the functions of a module's rank classes; nothing if all is well.
///
/// Codes: those of the layout rules (`E0340` to `E0344`, `E0346`, `E0348`), `E0411` a sum over ranks that all have the same,
/// `E0412` a collective over the wrong axis; `W0722` and `W0724` where each rank takes a norm or a flag
/// of its own, `W0723` a gradient that is divided by
/// the size of an axis along which the loss is whole; `R0722` where the layout of an input is not known, so that nothing is known of what
/// follows from it.
pub fn check(module: &Module, top: OpId) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for class in module.members(top, "builtin.module") {
        if module.attr(class, "dist.ranks").is_some() {
            check_class(module, class, &mut found);
        }
    }
    found
}

/// A function with what is known of its values.
struct Known<'m> {
    module: &'m Module,
    function: OpId,
    layouts: Layouts,
    /// Per axis, whether the class holds all of it. Along another one, other classes have what may be something else: "whole" says only
    /// that the ranks of this class have the same.
    held: Vec<bool>,
}

fn check_class(module: &Module, class: OpId, found: &mut Vec<Diagnostic>) {
    let known: Vec<Known> = module
        .members(class, "func.func")
        // What is wrong with the mesh, the verifier says.
        .filter_map(|function| {
            let layouts = Layouts::of(module, function).ok()?;
            let ranks = RankSet::from_module(module, class, &layouts.mesh).ok()?;
            let sizes = layouts.mesh.sizes();
            let all = |axis: usize| ranks.boxes().iter().all(|b| b[axis].len() == sizes[axis]);
            let held = (0..sizes.len()).map(all).collect();
            Some(Known {
                module,
                function,
                layouts,
                held,
            })
        })
        .collect();
    let divided = gradients::divided_axes(&known);
    for known in &known {
        let mut findings = known.layouts.findings.iter().peekable();
        let mut own = Vec::new();
        for op in module.walk(known.function) {
            while let Some(finding) = findings.next_if(|f| f.op == op) {
                // Everything that goes by one such number would be found; the first says enough.
                if finding.own.is_none() || !own.contains(&finding.own) {
                    own.push(finding.own);
                    found.extend(known.explain(finding));
                }
            }
            found.extend(collectives::check(known, op));
            if let Some(axes) = &divided {
                found.extend(gradients::check(known, op, axes));
            }
        }
        found.extend(known.unknown_inputs());
    }
}

impl Known<'_> {
    fn spread(&self, value: raddle_dialect::ir::ValueId, axis: usize) -> Option<Spread> {
        Some(self.layouts.get(value)?.on(axis))
    }

    fn axis_name(&self, axis: usize) -> &str {
        &self.layouts.mesh.axes()[axis]
    }

    /// Positions of the axes of size above 1 that a collective names.
    fn group(&self, op: OpId) -> Vec<usize> {
        let mesh = &self.layouts.mesh;
        let axes = mesh.axis_set(&self.module.axes_attr(op, "axes"));
        let mut axes = axes.unwrap_or_default();
        axes.retain(|&a| mesh.sizes()[a] > 1);
        axes
    }

    /// The diagnostic for what a layout rule found.
    fn explain(&self, finding: &Finding) -> Option<Diagnostic> {
        let Finding {
            op, error, axis, ..
        } = finding;
        // Nothing is wrong with an op of which nothing can be said.
        if error.code() == "E0345" {
            return None;
        }
        let module = self.module;
        let loc = module.loc(*op);
        let name = module.name_str(*op);
        // Pieces of a merged dimension in another order than ranks have them: no layout says that, and nothing is wrong with it.
        let merges = error.code() == "E0340" && name == "dist.reshape";
        if merges || finding.doubtful {
            return Some(Diagnostic::remark(
                "R0723",
                loc,
                format!("what is computed from '{name}' is not checked: it {error}"),
            ));
        }
        let mut diagnostic = match finding.own {
            Some(Own::Norm) => Diagnostic::warning(
                "W0722",
                loc,
                format!("'{name}' makes a norm of what each rank has for itself: it {error}"),
            )
            .help("reduce the squared norms of what is cut before they are added to the others, so that all ranks clip alike"),
            Some(Own::Flag) => Diagnostic::warning(
                "W0724",
                loc,
                format!("'{name}' goes by a flag that each rank has for itself: it {error}"),
            )
            .help("combine the flags over the axis first, so that all ranks skip the same updates"),
            None => {
                let diagnostic = Diagnostic::error(error.code(), loc, format!("'{name}' {error}"));
                match error.help() {
                    Some(help) => diagnostic.help(help),
                    None => diagnostic,
                }
            }
        };
        if let Some(axis) = *axis {
            diagnostic = path::add(
                self,
                diagnostic,
                &self.culprits(*op, axis, error.code()),
                axis,
            );
            diagnostic = self.elsewhere(diagnostic, *op, axis);
        }
        Some(diagnostic)
    }

    /// The operands to explain: what is not whole along the axis, and where a whole one is the trouble, that.
    fn culprits(&self, op: OpId, axis: usize, code: &str) -> Vec<raddle_dialect::ir::ValueId> {
        let mut whole = None;
        let mut odd: Vec<(Spread, _)> = Vec::new();
        for value in self.module.operands(op) {
            match self.spread(value, axis) {
                Some(Spread::Replicated) => {
                    whole.get_or_insert(value);
                }
                // One of each kind says enough.
                Some(spread) if odd.iter().all(|(s, _)| *s != spread) => odd.push((spread, value)),
                _ => {}
            }
        }
        let mut values: Vec<_> = odd.into_iter().map(|(_, value)| value).take(2).collect();
        let whole_matters = code == "E0348" || (code == "E0340" && values.len() == 1);
        values.extend(whole.filter(|_| whole_matters || values.is_empty()));
        values
    }

    /// Where a collective over one axis has trouble, and another axis needs it.
    fn elsewhere(&self, diagnostic: Diagnostic, op: OpId, axis: usize) -> Diagnostic {
        let reduces = self.module.attr(op, "reduction").is_some();
        if !reduces || !self.group(op).contains(&axis) {
            return diagnostic;
        }
        match self.partial_outside(op) {
            Some(other) => diagnostic.note(
                None,
                format!(
                    "its operand is partial along axis '{}', over which it is not reduced",
                    self.axis_name(other)
                ),
            ),
            None => diagnostic,
        }
    }

    /// An axis outside a collective's group along which its operand is partial.
    fn partial_outside(&self, op: OpId) -> Option<usize> {
        let group = self.group(op);
        let layout = self.layouts.get(self.module.operand(op, 0))?;
        let mut partial = layout.partial.iter().map(|p| p.0);
        partial.find(|a| !group.contains(a) && self.layouts.mesh.sizes()[*a] > 1)
    }

    /// Inputs without a layout leave all that follows from them unchecked.
    fn unknown_inputs(&self) -> Option<Diagnostic> {
        let module = self.module;
        let body = module.first_block(*module.regions(self.function).first()?)?;
        let args = module.args(body);
        let index = args.iter().position(|&arg| {
            module.cx().as_tensor(module.ty(arg)).is_some() && self.layouts.get(arg).is_none()
        })?;
        let message = format!(
            "argument #{index} has no 'dist.layout', so what is computed from it is not checked"
        );
        Some(
            Diagnostic::remark("R0722", module.loc(self.function), message).help(
                "say how the input is spread: `{dist.layout = #dist.layout<[[\"dp\"], []], []>}`",
            ),
        )
    }
}
