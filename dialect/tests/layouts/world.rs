//! Two ranks that have parts of whole tensors: taking values apart, putting results together, and trying every way to do so.

use raddle_dialect::layout::{Layout, Reduction, Spread};
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::{self, LayoutCall, OpDef, Value};
use raddle_dialect::reference::{Call, Place, Tensor, combine, eval, ravel, unravel};
use raddle_dialect::{DType, TensorType};

pub const RANKS: usize = 2;

pub type Attrs = Vec<(&'static str, Value)>;

pub fn mesh() -> Mesh {
    Mesh::new(vec!["mp".into()], vec![RANKS]).unwrap()
}

pub fn definition(name: &str) -> &'static OpDef {
    ops::definition(name).unwrap_or_else(|| panic!("no op {name}"))
}

/// Numbers that look random.
pub fn noise(seed: usize, at: usize) -> f64 {
    let x = (at as f64 + 1.7) * (seed as f64 + 0.9);
    (x * 12.9898).sin() * 1.5 + (x * 0.37).cos() * 0.25
}

/// The piece of a rank along a dimension.
fn piece(x: &Tensor, dim: usize, rank: usize) -> Tensor {
    let mut shape = x.shape.clone();
    assert_eq!(shape[dim] % RANKS, 0);
    shape[dim] /= RANKS;
    Tensor::from_fn(shape.clone(), x.dtype, |at| {
        let mut index = unravel(at, &shape);
        index[dim] += rank * shape[dim];
        x.data[ravel(&index, &x.shape)]
    })
}

/// What each rank has of a whole tensor.
pub fn take_apart(x: &Tensor, spread: Spread, seed: usize) -> Vec<Tensor> {
    let other = Tensor::from_fn(x.shape.clone(), x.dtype, |at| noise(seed + 50, at).abs());
    match spread {
        Spread::Replicated => vec![x.clone(); RANKS],
        Spread::Sharded(dim) => (0..RANKS).map(|r| piece(x, dim, r)).collect(),
        Spread::Partial(reduction) => {
            let second = |x: f64, o: f64| match reduction {
                Reduction::Sum => x - o,
                Reduction::Avg => 2.0 * x - o,
                // One of both has the value itself, which of them depends on the element.
                _ => x,
            };
            let first = |x: f64, o: f64| match reduction {
                Reduction::Sum | Reduction::Avg => o,
                Reduction::Max => x - o,
                Reduction::Min => x + o,
                Reduction::Any => 0.0,
                Reduction::Prod => unreachable!("not tested"),
            };
            let pick = |flip: bool| {
                let data = x.data.iter().zip(other.data.iter()).enumerate();
                let data = data.map(|(at, (&x, &o))| {
                    let takes_first = match reduction.is_linear() {
                        true => !flip,
                        false => (at % 2 == 0) != flip,
                    };
                    if takes_first {
                        first(x, o)
                    } else {
                        second(x, o)
                    }
                });
                Tensor::new(x.shape.clone(), x.dtype, data.collect())
            };
            vec![pick(false), pick(true)]
        }
        Spread::Own => unreachable!("not tested"),
    }
}

/// One operand of each rank.
fn each(parts: &[Tensor]) -> Vec<Vec<Tensor>> {
    parts.iter().map(|x| vec![x.clone()]).collect()
}

/// The whole tensor that the ranks have.
pub fn put_together(parts: &[Tensor], spread: Spread) -> Tensor {
    match spread {
        Spread::Replicated => {
            close(&parts[0], &parts[1]).unwrap_or_else(|e| panic!("ranks differ: {e}"));
            parts[0].clone()
        }
        Spread::Sharded(dim) => {
            let attrs: Attrs = vec![("dim", Value::Int(dim as i64))];
            combine(definition("dist.all_gather"), &each(parts), &attrs).unwrap()[0][0].clone()
        }
        Spread::Partial(reduction) => {
            let attrs: Attrs = vec![("reduction", Value::Str(reduction.name().into()))];
            combine(definition("dist.all_reduce"), &each(parts), &attrs).unwrap()[0][0].clone()
        }
        Spread::Own => panic!("nothing is known"),
    }
}

pub fn close(a: &Tensor, b: &Tensor) -> Result<(), String> {
    if a.shape != b.shape || a.dtype != b.dtype {
        return Err(format!("{} and {}", a.ty(), b.ty()));
    }
    match a
        .data
        .iter()
        .zip(b.data.iter())
        .find(|(a, b)| (**a - **b).abs() > 1e-9 * (1.0 + a.abs()))
    {
        Some((a, b)) => Err(format!("{a} and {b}")),
        None => Ok(()),
    }
}

fn sizes(groups: &[ops::Group], names: &[&str]) -> Value {
    let count = |g: &ops::Group| names.iter().filter(|n| **n == g.name).count() as i64;
    Value::Ints(groups.iter().map(count).collect())
}

/// One way for two ranks to have an operand.
struct Choice {
    spread: Spread,
    parts: Vec<Tensor>,
}

/// An op on whole tensors: operands and results by group.
pub struct Case {
    pub def: &'static OpDef,
    attrs: Attrs,
    operands: Vec<(&'static str, Tensor)>,
    results: Vec<&'static str>,
    /// Result types as functions of nothing: for ops that need to be told, per spread of their first operand.
    pub given: Option<fn(Spread) -> TensorType>,
}

impl Case {
    pub fn new(name: &str, operands: Vec<(&'static str, Tensor)>) -> Self {
        let def = definition(name);
        Self {
            def,
            attrs: vec![],
            operands,
            results: def.results.iter().map(|g| g.name).collect(),
            given: None,
        }
    }

    pub fn attr(mut self, name: &'static str, value: Value) -> Self {
        self.attrs.push((name, value));
        self
    }

    pub fn results(mut self, results: Vec<&'static str>) -> Self {
        self.results = results;
        self
    }

    pub fn attrs(&self) -> Attrs {
        let mut attrs = self.attrs.clone();
        let names: Vec<&str> = self.operands.iter().map(|o| o.0).collect();
        attrs.push((ops::OPERAND_SEGMENTS, sizes(self.def.operands, &names)));
        attrs.push((ops::RESULT_SEGMENTS, sizes(self.def.results, &self.results)));
        attrs
    }

    fn types(
        &self,
        operands: &[Tensor],
        given: Spread,
    ) -> Result<Vec<TensorType>, raddle_dialect::Error> {
        if let Some(ty) = self.given {
            return Ok(vec![ty(given)]);
        }
        let types: Vec<TensorType> = operands.iter().map(Tensor::ty).collect();
        let Value::Ints(counts) = sizes(self.def.results, &self.results) else {
            unreachable!()
        };
        let counts: Vec<usize> = counts.iter().map(|&c| c as usize).collect();
        let request = ops::Request {
            operands: &types,
            attrs: &self.attrs(),
            mesh: Some(&mesh()),
            counts: Some(&counts),
        };
        ops::infer(self.def, &request)
    }

    /// The whole operands.
    pub fn whole(&self) -> Vec<Tensor> {
        self.operands.iter().map(|o| o.1.clone()).collect()
    }

    /// Types of the results for operands that are whole.
    pub fn result_types(&self, operands: &[Tensor]) -> Vec<TensorType> {
        self.types(operands, Spread::Replicated)
            .unwrap_or_else(|e| panic!("{e}"))
    }

    pub fn run(&self, operands: &[Tensor], types: &[TensorType], rank: usize) -> Vec<Tensor> {
        let call = Call {
            operands,
            attrs: &self.attrs(),
            results: types,
            place: Some(Place {
                mesh: &mesh(),
                coordinate: &[rank],
            }),
            stream: 0,
            microbatch: 0,
        };
        eval(self.def, &call).unwrap_or_else(|e| panic!("'{}' op {e}", self.def.name))
    }

    /// Tries every combination of spreads; returns those that the rule allows.
    pub fn check(&self) -> Vec<String> {
        self.check_but(|_| false)
    }

    /// As `check`, without the combinations that `skip` names.
    pub fn check_but(&self, skip: impl Fn(&str) -> bool) -> Vec<String> {
        let whole = self.whole();
        let types = self.result_types(&whole);
        let expected = self.run(&whole, &types, 0);
        let choices: Vec<Vec<Choice>> = whole
            .iter()
            .enumerate()
            .map(|(i, x)| {
                let choice = |spread| Choice {
                    spread,
                    parts: take_apart(x, spread, i),
                };
                spreads(x).into_iter().map(choice).collect()
            })
            .collect();
        let total: usize = choices.iter().map(Vec::len).product();
        let mut allowed = Vec::new();
        for mut number in 0..total {
            let mut chosen = Vec::new();
            for choice in &choices {
                chosen.push(&choice[number % choice.len()]);
                number /= choice.len();
            }
            let words: Vec<String> = chosen.iter().map(|c| word(c.spread)).collect();
            let name = words.join(" ");
            if !skip(&name) && self.try_spreads(&expected, &chosen) {
                allowed.push(name);
            }
        }
        allowed.sort();
        allowed
    }

    /// Whether the rule allows operands that are spread like this.
    pub fn allows(&self, words: &str) -> bool {
        let parts: Vec<_> = self.operands.iter().zip(words.split(' ')).collect();
        let choice = |((_, x), wanted): &(&(_, Tensor), &str)| {
            let spread = spreads(x).into_iter().find(|&s| word(s) == *wanted);
            let spread = spread.expect("a way to spread it");
            (spread, take_apart(x, spread, 0).remove(0))
        };
        let parts: Vec<(Spread, Tensor)> = parts.iter().map(choice).collect();
        let first: Vec<Tensor> = parts.iter().map(|p| p.1.clone()).collect();
        let types = self.types(&first, parts[0].0).unwrap();
        let layouts: Vec<Layout> = parts
            .iter()
            .map(|(spread, x)| {
                let mut layout = Layout::replicated(x.rank());
                layout.set(0, *spread);
                layout
            })
            .collect();
        let call = LayoutCall {
            operands: &first.iter().map(Tensor::ty).collect::<Vec<_>>(),
            layouts: &layouts,
            attrs: &self.attrs(),
            results: &types,
            mesh: &mesh(),
        };
        ops::layouts(self.def, &call).is_ok()
    }

    fn try_spreads(&self, expected: &[Tensor], chosen: &[&Choice]) -> bool {
        let local =
            |rank: usize| -> Vec<Tensor> { chosen.iter().map(|c| c.parts[rank].clone()).collect() };
        let first = local(0);
        let Ok(types) = self.types(&first, chosen[0].spread) else {
            return false;
        };
        let operand_types: Vec<TensorType> = first.iter().map(Tensor::ty).collect();
        let layouts: Vec<Layout> = first
            .iter()
            .zip(chosen)
            .map(|(x, choice)| {
                let mut layout = Layout::replicated(x.rank());
                layout.set(0, choice.spread);
                layout
            })
            .collect();
        let call = LayoutCall {
            operands: &operand_types,
            layouts: &layouts,
            attrs: &self.attrs(),
            results: &types,
            mesh: &mesh(),
        };
        let Ok(results) = ops::layouts(self.def, &call) else {
            return false;
        };
        assert_eq!(results.len(), expected.len());
        let outs: Vec<Vec<Tensor>> = (0..RANKS).map(|r| self.run(&local(r), &types, r)).collect();
        for (i, (layout, expected)) in results.iter().zip(expected).enumerate() {
            let parts: Vec<Tensor> = outs.iter().map(|o| o[i].clone()).collect();
            let found = put_together(&parts, layout.on(0));
            close(&found, expected).unwrap_or_else(|e| {
                panic!(
                    "{} with operands {:?}: result #{i} as {:?} is wrong: {e}",
                    self.def.name,
                    chosen.iter().map(|c| c.spread).collect::<Vec<_>>(),
                    layout.on(0)
                )
            });
        }
        true
    }
}

/// All spreads that a tensor can have over two ranks.
fn spreads(x: &Tensor) -> Vec<Spread> {
    let cut = (0..x.rank()).filter(|&d| x.shape[d].is_multiple_of(RANKS));
    let mut all = vec![Spread::Replicated];
    all.extend(cut.map(Spread::Sharded));
    if x.dtype == DType::Bool {
        all.push(Spread::Partial(Reduction::Any));
    } else {
        let kinds = [
            Reduction::Sum,
            Reduction::Avg,
            Reduction::Max,
            Reduction::Min,
        ];
        all.extend(kinds.map(Spread::Partial));
    }
    all
}

/// `whole`, `d0`, `sum`
fn word(spread: Spread) -> String {
    match spread {
        Spread::Replicated => "whole".into(),
        Spread::Sharded(d) => format!("d{d}"),
        Spread::Partial(r) => r.name().into(),
        Spread::Own => "own".into(),
    }
}
