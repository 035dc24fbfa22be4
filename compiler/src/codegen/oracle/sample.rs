//! Kernels too large to compare whole: inputs that are made element by element, and a part of the result.
//!
//! The part of a product at some rows and some columns is a product of its own, of those rows of one operand and those
//! columns of the other, with all terms of its sums. So a [`Sample`] describes a small kernel, gathers its inputs from
//! the large one's, and its results from what the large one wrote; [`super::compare`] does the rest.

use half::{bf16, f16};
use rayon::prelude::*;

use super::{Inputs, matrix::decode};
use crate::codegen::description::{
    ElementType, KernelDescription, KernelOp, MatrixOrder, NamedMatrix,
};

/// Rows, and columns, of the part that is compared.
const SAMPLED: u64 = 48;

/// Columns of the part where all rows are needed, because they are summed.
const SAMPLED_WITH_ALL_ROWS: u64 = 6;

/// Elements that one thread makes or looks at a time.
const PIECE: usize = 1 << 16;

/// One of a kernel's matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The op's first input.
    First,
    /// The op's second input.
    Second,
    /// The bias.
    Bias,
    /// The pre-activation that is read.
    Auxiliary,
    /// What the result holds before.
    Existing,
}

/// The inputs of a large kernel with dense matrices and a batch of one. Nothing is stored: every element is a function of its
/// place and the seed.
#[derive(Clone, Copy, Debug)]
pub struct Generated {
    kernel: KernelDescription,
    seed: u64,
}

impl Generated {
    /// The inputs that a seed decides; `None` for a kernel with a batch, gaps between lines, or elements before the first.
    pub fn of(kernel: &KernelDescription, seed: u64) -> Option<Generated> {
        let is_dense = [kernel.a, kernel.b, kernel.c]
            .iter()
            .all(|layout| layout.leading.is_none() && layout.offset == 0);
        (kernel.batch == 1 && is_dense).then_some(Generated {
            kernel: *kernel,
            seed,
        })
    }

    /// A matrix as it lies in memory, made by all processors.
    pub fn bytes(&self, which: Which) -> Vec<u8> {
        let (matrix, element) = self.matrix(which);
        let width = element.bytes() as usize;
        let elements = (matrix.rows * matrix.columns) as usize;
        let mut bytes = vec![0; elements * width];
        let line = match matrix.layout.order {
            MatrixOrder::RowMajor => matrix.columns,
            MatrixOrder::ColumnMajor => matrix.rows,
        };
        bytes
            .par_chunks_mut(PIECE * width)
            .enumerate()
            .for_each(|(piece, bytes)| {
                for (index, bytes) in bytes.chunks_exact_mut(width).enumerate() {
                    let place = (piece * PIECE + index) as u64;
                    let (outer, inner) = (place / line, place % line);
                    let (row, column) = match matrix.layout.order {
                        MatrixOrder::RowMajor => (outer, inner),
                        MatrixOrder::ColumnMajor => (inner, outer),
                    };
                    write(element, self.draw(which, row, column), bytes);
                }
            });
        bytes
    }

    /// The number at a place of a matrix.
    fn number(&self, which: Which, row: u64, column: u64) -> f64 {
        let (_, element) = self.matrix(which);
        let mut bytes = [0; 4];
        let bytes = &mut bytes[..element.bytes() as usize];
        write(element, self.draw(which, row, column), bytes);
        decode(element, bytes)
    }

    fn matrix(&self, which: Which) -> (NamedMatrix, ElementType) {
        let kernel = &self.kernel;
        let [first, second, result] = kernel.matrices();
        match which {
            Which::First => (first, kernel.element),
            Which::Second => (second, kernel.element),
            Which::Auxiliary => (result, kernel.element),
            Which::Existing => (result, kernel.output),
            Which::Bias => {
                let bias = NamedMatrix {
                    name: "bias",
                    rows: 1,
                    columns: kernel.bias_elements(),
                    ..result
                };
                (bias, kernel.bias.unwrap_or(ElementType::F32))
            }
        }
    }

    /// A number between −1 and 1, before it is rounded: a hash of its place (Steele, Lea and Flood, "Fast splittable
    /// pseudorandom number generators", 2014, figure 16). As in [`Inputs::random`], pre-activations lie between −4 and 4,
    /// and what is only multiplied stays away from zero.
    fn draw(&self, which: Which, row: u64, column: u64) -> f32 {
        let mut z = self
            .seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add((which as u64 + 1) << 60)
            .wrapping_add(row << 30)
            .wrapping_add(column);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let number = (z >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        match which {
            Which::Auxiliary => number * 4.0,
            Which::First if self.kernel.op == KernelOp::ActivationGradient => {
                number.abs().max(1.0 / 16.0).copysign(number)
            }
            _ => number,
        }
    }
}

/// The rows and columns of a large kernel's result that are compared.
#[derive(Clone, Debug)]
pub struct Sample {
    kernel: KernelDescription,
    rows: Vec<u64>,
    columns: Vec<u64>,
}

/// What a kernel wrote at the places of a sample.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// The result.
    pub output: Option<Vec<u8>>,
    /// The biased product before the activation.
    pub auxiliary: Option<Vec<u8>>,
    /// The gradient of the bias.
    pub bias_gradient: Option<Vec<u8>>,
}

impl Sample {
    /// Chooses rows and columns: the first, the last, those around the edges of tiles, and random ones. Where columns are
    /// summed over rows, all rows and fewer columns.
    pub fn of(kernel: &KernelDescription, seed: u64) -> Sample {
        let [.., result] = kernel.matrices();
        let sums_rows = kernel.op == KernelOp::BiasGradient
            || kernel.bias.is_some()
                && matches!(
                    kernel.op,
                    KernelOp::InputGradient | KernelOp::ActivationGradient
                );
        let (rows, columns) = if sums_rows {
            let columns = spread(result.columns, SAMPLED_WITH_ALL_ROWS, seed);
            ((0..result.rows).collect(), columns)
        } else {
            (
                spread(result.rows, SAMPLED, seed),
                spread(result.columns, SAMPLED, seed ^ 1),
            )
        };
        Sample {
            kernel: *kernel,
            rows,
            columns,
        }
    }

    /// The kernel that computes the sampled part.
    pub fn part(&self) -> KernelDescription {
        let (rows, columns) = (self.rows.len() as u64, self.columns.len() as u64);
        let kernel = self.kernel;
        match kernel.op {
            KernelOp::FusedLinear | KernelOp::ActivationGradient => KernelDescription {
                m: rows,
                n: columns,
                ..kernel
            },
            KernelOp::InputGradient => KernelDescription {
                m: rows,
                k: columns,
                ..kernel
            },
            KernelOp::WeightGradient => KernelDescription {
                k: rows,
                n: columns,
                ..kernel
            },
            KernelOp::BiasGradient => KernelDescription {
                n: columns,
                ..kernel
            },
        }
    }

    /// The inputs of the part.
    pub fn inputs(&self, generated: &Generated) -> Inputs {
        let part = self.part();
        let mut inputs = Inputs::random(&part, 0);
        let row = |index: usize| self.rows[index];
        let column = |index: usize| self.columns[index];
        let all = |index: usize| index as u64;
        type Place<'a> = &'a dyn Fn(usize) -> u64;
        let (first, second): ([Place<'_>; 2], [Place<'_>; 2]) = match part.op {
            KernelOp::FusedLinear => ([&row, &all], [&all, &column]),
            KernelOp::InputGradient => ([&row, &all], [&column, &all]),
            KernelOp::WeightGradient => ([&all, &row], [&all, &column]),
            KernelOp::BiasGradient => ([&all, &column], [&all, &column]),
            KernelOp::ActivationGradient => ([&row, &column], [&row, &column]),
        };
        let result: [Place<'_>; 2] = match part.op {
            KernelOp::BiasGradient => [&all, &column],
            _ => [&row, &column],
        };
        for (which, matrix, [row, column]) in [
            (Which::First, &mut inputs.first, first),
            (Which::Second, &mut inputs.second, second),
            (Which::Auxiliary, &mut inputs.auxiliary, result),
            (Which::Existing, &mut inputs.existing, result),
            (Which::Bias, &mut inputs.bias, [&all, &column]),
        ] {
            matrix.fill(|place| generated.number(which, row(place[1]), column(place[2])));
        }
        inputs
    }

    /// What lies at the places of the sample in the bytes that the large kernel wrote.
    pub fn gather(&self, written: &super::Results<'_>) -> Gathered {
        let [.., result] = self.kernel.matrices();
        let matrix = |bytes: &[u8], element: ElementType| {
            let places = self.rows.iter().flat_map(|row| {
                self.columns
                    .iter()
                    .map(move |column| row * result.columns + column)
            });
            pick(bytes, element, places)
        };
        let output = self.kernel.output;
        Gathered {
            output: written.output.map(|bytes| matrix(bytes, output)),
            auxiliary: written.auxiliary.map(|bytes| matrix(bytes, output)),
            bias_gradient: written.bias_gradient.map(|bytes| {
                let element = self.kernel.bias.unwrap_or(ElementType::F32);
                pick(bytes, element, self.columns.iter().copied())
            }),
        }
    }
}

impl Gathered {
    /// The same as results to compare.
    pub fn results(&self) -> super::Results<'_> {
        super::Results {
            output: self.output.as_deref(),
            auxiliary: self.auxiliary.as_deref(),
            bias_gradient: self.bias_gradient.as_deref(),
        }
    }
}

/// How many numbers of a matrix are none: what a kernel did not write, where nothing was written before, and sums that went
/// wrong.
pub fn nans(element: ElementType, bytes: &[u8]) -> u64 {
    let width = element.bytes() as usize;
    bytes
        .par_chunks(PIECE * width)
        .map(|piece| {
            let numbers = piece.chunks_exact(width);
            numbers
                .filter(|number| decode(element, number).is_nan())
                .count() as u64
        })
        .sum()
}

fn write(element: ElementType, number: f32, bytes: &mut [u8]) {
    match element {
        ElementType::Bf16 => bytes.copy_from_slice(&bf16::from_f32(number).to_le_bytes()),
        ElementType::F16 => bytes.copy_from_slice(&f16::from_f32(number).to_le_bytes()),
        ElementType::F32 => bytes.copy_from_slice(&number.to_le_bytes()),
    }
}

fn pick(bytes: &[u8], element: ElementType, places: impl Iterator<Item = u64>) -> Vec<u8> {
    let width = element.bytes() as usize;
    places
        .flat_map(|place| &bytes[place as usize * width..][..width])
        .copied()
        .collect()
}

/// So many numbers below an extent, in order: both ends, both sides of the edge of a tile, and random ones.
fn spread(extent: u64, wanted: u64, seed: u64) -> Vec<u64> {
    if extent <= wanted {
        return (0..extent).collect();
    }
    let mut chosen: Vec<u64> = [0, extent - 1, 127, 128, 255, 256, extent / 2]
        .into_iter()
        .filter(|&place| place < extent)
        .take(wanted as usize)
        .collect();
    let mut state = seed ^ extent;
    while chosen.len() < wanted as usize {
        // Knuth, TAOCP 2, 3.3.4; the low bits are not random enough.
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let place = (state >> 33) % extent;
        if !chosen.contains(&place) {
            chosen.push(place);
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::description::MatrixLayout;
    use crate::codegen::oracle::{Results, compare};

    fn f32s(numbers: &[f64]) -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|&number| (number as f32).to_le_bytes())
            .collect()
    }

    fn read(generated: &Generated, which: Which) -> Vec<f64> {
        let (_, element) = generated.matrix(which);
        let bytes = generated.bytes(which);
        let numbers = bytes.chunks_exact(element.bytes() as usize);
        numbers.map(|number| decode(element, number)).collect()
    }

    /// Computes kernels from what would be uploaded, by plain loops, and lets samples judge.
    #[test]
    fn a_sample_accepts_what_is_right_and_finds_what_is_not() {
        let (m, n, k) = (70, 90, 33);
        let plain = KernelDescription {
            output: ElementType::F32,
            ..KernelDescription::product(ElementType::Bf16, m, n, k)
        };
        let forward = KernelDescription {
            bias: Some(ElementType::F32),
            b: MatrixLayout::COLUMN_MAJOR,
            ..plain
        };
        let generated = Generated::of(&forward, 3).expect("dense");
        let (a, b) = (
            read(&generated, Which::First),
            read(&generated, Which::Second),
        );
        let bias = read(&generated, Which::Bias);
        let (m, n, k) = (m as usize, n as usize, k as usize);
        let mut c = vec![0.0; m * n];
        for (place, sum) in c.iter_mut().enumerate() {
            let (row, column) = (place / n, place % n);
            let terms = (0..k).map(|i| a[row * k + i] * b[column * k + i]);
            *sum = terms.sum::<f64>() + bias[column];
        }
        let judge = |kernel: &KernelDescription, generated: &Generated, results: &Results<'_>| {
            let sample = Sample::of(kernel, 5);
            let inputs = sample.inputs(generated);
            compare(&sample.part(), &inputs, &sample.gather(results).results())
        };
        let judge_output = |generated: &Generated, numbers: &[f64]| {
            let bytes = f32s(numbers);
            let results = Results {
                output: Some(&bytes),
                ..Results::default()
            };
            judge(&forward, generated, &results)
        };
        let right = judge_output(&generated, &c);
        assert!(right.is_right(), "{right:?}");
        assert_eq!(right.compared, SAMPLED * SAMPLED);
        // Another seed's numbers, and one column off.
        let other = Generated::of(&forward, 4).expect("dense");
        assert!(!judge_output(&other, &c).is_right());
        c.rotate_right(1);
        assert!(!judge_output(&generated, &c).is_right());

        let weights = KernelDescription {
            op: KernelOp::WeightGradient,
            bias: Some(ElementType::F32),
            ..plain
        };
        let generated = Generated::of(&weights, 3).expect("dense");
        let (a, d) = (
            read(&generated, Which::First),
            read(&generated, Which::Second),
        );
        let product = |place: usize| {
            let (row, column) = (place / n, place % n);
            (0..m)
                .map(|i| a[i * k + row] * d[i * n + column])
                .sum::<f64>()
        };
        let dw = f32s(&(0..k * n).map(product).collect::<Vec<_>>());
        let sum = |column: usize| (0..m).map(|i| d[i * n + column]).sum::<f64>();
        let mut sums: Vec<f64> = (0..n).map(sum).collect();
        let good = f32s(&sums);
        let judge_sums = |sums: &[u8]| {
            let results = Results {
                output: Some(&dw),
                bias_gradient: Some(sums),
                auxiliary: None,
            };
            judge(&weights, &generated, &results)
        };
        let right = judge_sums(&good);
        assert!(right.is_right(), "{right:?}");
        sums[n - 1] += 0.5;
        assert!(!judge_sums(&f32s(&sums)).is_right());
    }

    #[test]
    fn what_was_not_written_is_counted() {
        let mut bytes = f32s(&[1.0, -2.0, 0.0]);
        bytes.extend([0xff; 8]);
        assert_eq!(nans(ElementType::F32, &bytes), 2);
        assert_eq!(nans(ElementType::Bf16, &[0xff, 0xff, 0x80, 0x3f]), 1);
    }

    #[test]
    fn kernels_with_gaps_are_not_sampled() {
        let kernel = KernelDescription::product(ElementType::F16, 64, 64, 64);
        assert!(Generated::of(&kernel, 0).is_some());
        let batch = KernelDescription { batch: 2, ..kernel };
        assert!(Generated::of(&batch, 0).is_none());
        let a = MatrixLayout {
            leading: Some(65),
            ..MatrixLayout::ROW_MAJOR
        };
        assert!(Generated::of(&KernelDescription { a, ..kernel }, 0).is_none());
    }
}
