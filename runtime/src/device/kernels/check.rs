//! What kernels computed of a linear layer against what its op means, on the same operands.
//!
//! A result may be off by `2u|r| + 1.2 (d + 8) · 2⁻²³ · s`: u is the unit roundoff of its type, r its exact value, d the number of terms
//! of the sum and s the sum of their magnitudes, the bias's among them. Where the hardware's tanh serves a 16-bit result, 2⁻¹⁰ of the
//! activation's argument come on top. Kernels that round their inputs to tf32 are held against the op on rounded operands. The sums of magnitudes are the op itself on the operands' absolute values, without an activation.

use raddle_bundle::kernel::Inputs;
use raddle_bundle::{Instr, Value};
use raddle_dialect::DType;
use raddle_dialect::ops::{Args, Attrs, OPERAND_SEGMENTS, definition};
use raddle_dialect::reference::Tensor;
use raddle_dialect::reference::activation::Activation;

use crate::device::reference::{Evaluation, PlainAttrs, Program};

/// How far results are off.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Numbers that were compared.
    pub compared: u64,
    /// The largest error, as a share of what is allowed.
    pub worst: f64,
    /// Numbers that are off by more than is allowed.
    pub wrong: u64,
    /// What the first of them is, and should be.
    pub first_wrong: Option<String>,
}

/// A number, and how it is judged.
struct Number {
    found: f64,
    expected: f64,
    /// Beside what rounding the result to its type allows.
    allowed: f64,
}

impl Comparison {
    /// Whether every number is as exact as it must be.
    pub const fn is_right(&self) -> bool {
        self.wrong == 0
    }

    /// Adds what another comparison showed.
    pub fn add(&mut self, other: Comparison) {
        self.compared += other.compared;
        self.wrong += other.wrong;
        self.worst = self.worst.max(other.worst);
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
    }

    fn judge(&mut self, what: impl Fn() -> String, dtype: DType, number: &Number) {
        let Number {
            found,
            expected,
            allowed,
        } = *number;
        self.compared += 1;
        // Equal infinities, and what is no number on both sides, agree.
        if found == dtype.round(expected) || found.is_nan() && expected.is_nan() {
            return;
        }
        let (roundoff, smallest) = rounding(dtype);
        let allowed = allowed + 2.0 * roundoff * expected.abs() + smallest;
        let error = (found - expected).abs();
        if error <= allowed {
            self.worst = self.worst.max(error / allowed);
            return;
        }
        self.wrong += 1;
        // What is no number is as wrong as can be.
        let share = error / allowed;
        self.worst = self
            .worst
            .max(if share.is_nan() { f64::INFINITY } else { share });
        if self.first_wrong.is_none() {
            let what = what();
            self.first_wrong = Some(format!("{what} is {found}, not {expected} ± {allowed}"));
        }
    }
}

/// Half the distance from 1 to the next number of a type, and the distance between the smallest.
fn rounding(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::BF16 => (2f64.powi(-8), 2f64.powi(-133)),
        DType::F16 => (2f64.powi(-11), 2f64.powi(-24)),
        DType::TF32 => (2f64.powi(-11), 2f64.powi(-136)),
        _ => (2f64.powi(-24), 2f64.powi(-149)),
    }
}

/// Compares all results of a linear layer.
///
/// # Errors
/// If the instruction means nothing.
pub(super) fn compare(
    program: &Program,
    inputs: Inputs,
    evaluation: &Evaluation,
    results: &[Tensor],
) -> Result<Comparison, String> {
    let Evaluation {
        rank,
        instr,
        operands,
    } = *evaluation;
    let plain = PlainAttrs(instr);
    let attrs = Attrs(&plain);
    let def = definition(&instr.op).ok_or("there is no such op")?;
    let numbers: Vec<usize> = (0..results.len()).collect();
    let numbers = Args::results(def, &numbers, attrs).map_err(|e| e.to_string())?;
    let named = Args::operands(def, operands, attrs).map_err(|e| e.to_string())?;
    let activation = attrs.string("activation").ok();
    let layer = Layer {
        activation: activation
            .and_then(|name| Activation::parse(&name))
            .unwrap_or(Activation::None),
        is_x_transposed: attrs.bool("transpose_a").unwrap_or(false),
        overwrites: attrs.bool("overwrite").unwrap_or(false),
        rounds: inputs == Inputs::Tf32,
        named: &named,
    };
    let taken = match inputs {
        Inputs::Whole => operands.to_vec(),
        Inputs::Tf32 => rounded_inputs(&named),
    };
    let expected = program.evaluate(instr, &taken)?;
    let (linear, rest) = layer.linear(instr, &taken)?;
    let sums = program.evaluate(&linear, &rest)?;
    let magnitudes: Vec<Tensor> = rest.iter().map(|operand| operand.map(f64::abs)).collect();
    let sizes = program.evaluate(&linear, &magnitudes)?;
    let mut comparison = Comparison::default();
    for name in ["out", "aux", "dx", "dw", "dbias"] {
        let Some(&index) = numbers.optional(name) else {
            continue;
        };
        let (found, expected) = (&results[index], &expected[index]);
        for at in 0..found.len().min(expected.len()) {
            let sum = Sum {
                value: sums[index].data[at],
                size: sizes[index].data[at],
            };
            let number = Number {
                found: found.data[at],
                expected: expected.data[at],
                allowed: layer.allowed(name, at, &sum),
            };
            let what = || format!("{name}[{at}] at {} on rank {rank}", instr.location);
            comparison.judge(what, found.dtype, &number);
        }
    }
    Ok(comparison)
}

/// A linear layer, forward or backward.
struct Layer<'a> {
    activation: Activation,
    is_x_transposed: bool,
    overwrites: bool,
    /// Whether kernels round their inputs, and what is summed on the way.
    rounds: bool,
    named: &'a Args<'a, Tensor>,
}

/// What a result is without an activation and without what was there before, and the sum of the magnitudes of its terms.
struct Sum {
    value: f64,
    size: f64,
}

impl Layer<'_> {
    /// The same layer without an activation and without what its result is added to, and its operands.
    fn linear(&self, instr: &Instr, operands: &[Tensor]) -> Result<(Instr, Vec<Tensor>), String> {
        let mut linear = instr.clone();
        let attrs = &mut linear.attrs;
        attrs.insert("activation".into(), Value::Str("none".into()));
        if instr.op == "dist.fused_linear" {
            return Ok((linear, operands.to_vec()));
        }
        attrs.insert("overwrite".into(), Value::Bool(true));
        let (aux, acc) = (self.named.many("aux").len(), self.named.many("acc").len());
        let [x, w, dout, rest @ ..] = operands else {
            return Err("it lacks operands".to_owned());
        };
        let products = [x, w, dout].into_iter().chain(&rest[aux.min(rest.len())..]);
        let sizes = [1, 1, 1, 0, acc as i64];
        attrs.insert(OPERAND_SEGMENTS.into(), Value::Ints(sizes.into()));
        Ok((linear, products.cloned().collect()))
    }

    /// What an element may be off beside its own rounding.
    fn allowed(&self, name: &str, at: usize, sum: &Sum) -> f64 {
        let summed = 1.2 * (self.depth(name) as f64 + 8.0) * 2f64.powi(-23) * sum.size;
        let is_short = matches!(self.x().dtype, DType::BF16 | DType::F16);
        let is_approximate = is_short && self.activation == Activation::GeluTanh;
        let acc = self.named.optional("acc").filter(|_| !self.overwrites);
        match (name, self.named.optional("aux"), acc) {
            ("out", ..) if is_approximate => summed + 2f64.powi(-10) * sum.value.abs(),
            ("dx", Some(aux), _) => {
                let x = aux.data[at];
                let slope = self.activation.derivative(x);
                // The slope itself is computed in single precision, or from the hardware's tanh.
                let error = if is_approximate { 2f64.powi(-10) } else { 1e-6 };
                summed * slope.abs() + error * sum.value.abs() * (1.0 + x.abs())
            }
            ("dw", _, Some(acc)) => {
                summed + 2f64.powi(-23) * (acc.data[at].abs() + sum.value.abs())
            }
            // dBias is of rounded terms where it is summed beside dw, and of whole ones where it is not.
            ("dbias", ..) if self.rounds => summed + 2f64.powi(-11) * sum.size,
            _ => summed,
        }
    }

    /// Terms of each sum.
    fn depth(&self, name: &str) -> usize {
        let last = |tensor: &Tensor| tensor.shape.last().copied().unwrap_or(1).max(1);
        match (name, self.named.optional("dout")) {
            ("dx", Some(dout)) => last(dout),
            (_, Some(dout)) => dout.len() / last(dout),
            (_, None) => {
                let from_the_end = 1 + usize::from(self.is_x_transposed);
                let shape = &self.x().shape;
                shape
                    .len()
                    .checked_sub(from_the_end)
                    .map_or(1, |at| shape[at])
            }
        }
    }

    fn x(&self) -> &Tensor {
        &self.named.many("x")[0]
    }
}

/// The operands, with the factors of products, x, w and dout, rounded to tf32. They come first.
fn rounded_inputs(named: &Args<Tensor>) -> Vec<Tensor> {
    let factors = 2 + named.many("dout").len();
    let operands = named.all().iter().enumerate();
    let rounded = operands.map(|(at, operand)| match at < factors {
        true => operand.map(to_tf32),
        false => operand.clone(),
    });
    rounded.collect()
}

/// The tf32 number nearest to a number of single precision; of two, the one further from zero (PTX ISA, `cvt.rna.tf32.f32`).
fn to_tf32(x: f64) -> f64 {
    /// Bits of single precision that tf32 does not have.
    const DROPPED: u32 = 13;
    if x.is_nan() {
        return x;
    }
    let bits = (x as f32).to_bits() + (1 << (DROPPED - 1));
    f32::from_bits(bits & (u32::MAX << DROPPED)).into()
}
