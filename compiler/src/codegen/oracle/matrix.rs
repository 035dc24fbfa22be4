//! Matrices as numbers and as bytes in memory.

use half::{bf16, f16};

use crate::codegen::description::{ElementType, MatrixLayout, MatrixOrder};
use crate::codegen::math::to_tf32;

/// A matrix of numbers that its element type can hold, and its bytes as they lie in memory.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// What the elements are.
    pub element: ElementType,
    /// How they lie in memory.
    pub layout: MatrixLayout,
    /// How many matrices of this shape.
    pub batch: usize,
    /// Rows of each.
    pub rows: usize,
    /// Columns of each.
    pub columns: usize,
    /// The numbers in memory, by batch, row and column.
    pub values: Vec<f64>,
    /// What a kernel takes them for, if it rounds what it reads.
    rounded: Option<Vec<f64>>,
}

/// Random numbers between −1 and 1: a linear congruence (Knuth, TAOCP 2, 3.3.4) is random enough for sums.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence that the seed decides.
    pub fn new(seed: u64) -> Random {
        // Neighbouring seeds give sequences that differ from the first number on.
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn draw(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    }
}

/// From one element to the next row, or to the next column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Walk {
    Rows,
    Columns,
}

/// A number, rounded to the nearest element, as it lies in memory.
pub(super) fn encode(element: ElementType, value: f32) -> Vec<u8> {
    match element {
        ElementType::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        ElementType::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
        ElementType::F32 => value.to_le_bytes().to_vec(),
    }
}

/// The number that an element in memory is.
pub(super) fn decode(element: ElementType, bytes: &[u8]) -> f64 {
    match element {
        ElementType::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
        ElementType::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
        ElementType::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into(),
    }
}

/// Half the distance from 1 to the next number.
pub(super) fn roundoff(element: ElementType) -> f64 {
    match element {
        ElementType::Bf16 => 2f64.powi(-8),
        ElementType::F16 => 2f64.powi(-11),
        ElementType::F32 => 2f64.powi(-24),
    }
}

impl Matrix {
    /// Random elements, as many as a batch of matrices has.
    pub fn random(
        random: &mut Random,
        element: ElementType,
        layout: MatrixLayout,
        [batch, rows, columns]: [u64; 3],
    ) -> Matrix {
        let values = (0..batch * rows * columns)
            .map(|_| decode(element, &encode(element, random.draw())))
            .collect();
        Matrix {
            element,
            layout,
            batch: batch as usize,
            columns: columns as usize,
            rows: rows as usize,
            values,
            rounded: None,
        }
    }

    /// The same matrix in memory, of which a kernel takes every number for the nearest tf32 one.
    #[must_use]
    pub fn taken_as_tf32(mut self) -> Matrix {
        let rounded = self
            .values
            .iter()
            .map(|&value| to_tf32(value as f32).into());
        self.rounded = Some(rounded.collect());
        self
    }

    /// The numbers that a kernel takes the elements for, by batch, row and column.
    pub fn taken(&self) -> &[f64] {
        self.rounded.as_ref().unwrap_or(&self.values)
    }

    /// Sets every number, given its batch, row and column, to one that an element can hold.
    pub(super) fn fill(&mut self, number: impl Fn([usize; 3]) -> f64) {
        for (place, value) in self.places().zip(&mut self.values) {
            *value = number(place);
        }
        if let Some(rounded) = &mut self.rounded {
            for (rounded, &value) in rounded.iter_mut().zip(&self.values) {
                *rounded = to_tf32(value as f32).into();
            }
        }
    }

    /// Moves all numbers, which lie between −1 and 1, at least 1/16 away from zero.
    pub(super) fn keep_from_zero(&mut self) {
        for value in &mut self.values {
            let moved = (value.abs() * 15.0 + 1.0) / 16.0;
            let moved = moved.copysign(*value) as f32;
            *value = decode(self.element, &encode(self.element, moved));
        }
    }

    /// What a kernel takes the element at a place for.
    pub fn at(&self, place: [usize; 3]) -> f64 {
        self.taken()[self.index(place)]
    }

    /// The number of the element at a place.
    fn index(&self, [batch, row, column]: [usize; 3]) -> usize {
        let batch = match self.layout.batch_stride {
            Some(0) => 0,
            _ => batch,
        };
        (batch * self.rows + row) * self.columns + column
    }

    /// The numbers from a place on, and how many of them lie between two that follow each other on a walk.
    pub(super) fn walk(&self, place: [usize; 3], walk: Walk) -> (&[f64], usize) {
        let start = self.index(place);
        let step = match walk {
            Walk::Rows => self.columns,
            Walk::Columns => 1,
        };
        (&self.taken()[start..], step)
    }

    /// Where an element lies, in elements from the start.
    fn place(&self, [batch, row, column]: [usize; 3]) -> usize {
        let (line, within, length, lines) = match self.layout.order {
            MatrixOrder::RowMajor => (row, column, self.columns, self.rows),
            MatrixOrder::ColumnMajor => (column, row, self.rows, self.columns),
        };
        let leading = self
            .layout
            .leading
            .map_or(length, |leading| leading as usize);
        let whole = (lines - 1) * leading + length;
        let stride = self
            .layout
            .batch_stride
            .map_or(whole, |stride| stride as usize);
        self.layout.offset as usize + batch * stride + line * leading + within
    }

    /// Bytes up to the last element.
    pub fn size(&self) -> usize {
        (self.place([self.batch - 1, self.rows - 1, self.columns - 1]) + 1)
            * self.element.bytes() as usize
    }

    /// The matrix in memory, NaN where it has gaps.
    pub fn bytes(&self) -> Vec<u8> {
        let width = self.element.bytes() as usize;
        let mut bytes = vec![0xff; self.size()];
        for place in self.places() {
            let start = self.place(place) * width;
            let value = encode(self.element, self.values[self.index(place)] as f32);
            bytes[start..start + width].copy_from_slice(&value);
        }
        bytes
    }

    /// Batch, row and column of every element.
    pub fn places(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        let (batch, rows, columns) = (self.batch, self.rows, self.columns);
        (0..batch * rows * columns).map(move |index| {
            [
                index / columns / rows,
                index / columns % rows,
                index % columns,
            ]
        })
    }

    /// The element at a place of some bytes that are laid out like this matrix.
    pub fn found(&self, bytes: &[u8], place: [usize; 3]) -> f64 {
        let width = self.element.bytes() as usize;
        decode(self.element, &bytes[self.place(place) * width..][..width])
    }
}
