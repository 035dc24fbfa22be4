//! Tensors of the reference semantics.

use std::sync::Arc;

use crate::error::Error;
use crate::tensor_type::{DType, TensorType};

/// A dense row-major tensor. Every element is held as an f64, whatever the element type; integers beyond 2⁵³ are not exact.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Extents.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: DType,
    /// Elements, as many as the extents multiply to. Copies of a tensor share them.
    pub data: Arc<Vec<f64>>,
}

impl Tensor {
    /// A tensor of these elements.
    ///
    /// # Panics
    /// If there are not as many elements as the shape says.
    pub fn new(shape: impl Into<Vec<usize>>, dtype: DType, data: Vec<f64>) -> Self {
        let shape = shape.into();
        assert_eq!(
            shape.iter().product::<usize>(),
            data.len(),
            "a tensor of shape {shape:?} has other than {} elements",
            data.len()
        );
        Self {
            shape,
            dtype,
            data: Arc::new(data),
        }
    }

    /// A tensor whose elements are all the same.
    pub fn filled(shape: impl Into<Vec<usize>>, dtype: DType, value: f64) -> Self {
        let shape = shape.into();
        let len = shape.iter().product();
        Self::new(shape, dtype, vec![value; len])
    }

    /// A tensor whose elements are computed from their row-major position.
    pub fn from_fn(
        shape: impl Into<Vec<usize>>,
        dtype: DType,
        element: impl FnMut(usize) -> f64,
    ) -> Self {
        let shape = shape.into();
        let len: usize = shape.iter().product();
        Self::new(shape, dtype, (0..len).map(element).collect())
    }

    /// Each element changed.
    pub fn map(&self, f: impl FnMut(f64) -> f64) -> Self {
        let data = self.data.iter().copied().map(f).collect();
        Self::new(self.shape.clone(), self.dtype, data)
    }

    /// Each element combined with its like in a tensor of the same shape.
    ///
    /// # Errors
    /// `E0317` if the shapes differ.
    pub fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Result<Self, Error> {
        if self.shape != other.shape {
            return Err(Error::op(
                "E0317",
                format!("shapes {:?} and {:?} differ", self.shape, other.shape),
            ));
        }
        let pairs = self.data.iter().zip(other.data.iter());
        let data = pairs.map(|(&a, &b)| f(a, b)).collect();
        Ok(Self::new(self.shape.clone(), self.dtype, data))
    }

    /// The same elements in another shape with as many.
    ///
    /// # Errors
    /// `E0317` if there are not as many.
    pub fn reshaped(&self, shape: impl Into<Vec<usize>>) -> Result<Self, Error> {
        let shape = shape.into();
        if shape.iter().product::<usize>() != self.data.len() {
            return Err(Error::op(
                "E0317",
                format!(
                    "{} elements do not fill the shape {shape:?}",
                    self.data.len()
                ),
            ));
        }
        Ok(Self {
            shape,
            dtype: self.dtype,
            data: self.data.clone(),
        })
    }

    /// The same elements called by another type, unrounded.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self {
            dtype,
            ..self.clone()
        }
    }

    /// Each element rounded to the element type.
    pub fn rounded(&self) -> Self {
        if self.dtype == DType::F64 {
            return self.clone();
        }
        self.map(|x| self.dtype.round(x))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The type.
    pub fn ty(&self) -> TensorType {
        TensorType {
            shape: self.shape.iter().map(|&d| d as i64).collect(),
            dtype: self.dtype,
        }
    }

    /// Distance in elements between neighbours along each dimension.
    pub fn strides(&self) -> Vec<usize> {
        strides(&self.shape)
    }

    /// The only element.
    ///
    /// # Errors
    /// `E0317` if there is not exactly one.
    pub fn item(&self) -> Result<f64, Error> {
        match self.data[..] {
            [value] => Ok(value),
            _ => Err(Error::op(
                "E0317",
                format!("expected one element, but the shape is {:?}", self.shape),
            )),
        }
    }
}

/// Row-major strides of a shape, in elements.
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d];
    }
    strides
}

/// The multi-index of a row-major position.
pub fn unravel(mut position: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &extent) in index.iter_mut().zip(shape).rev() {
        *i = position % extent;
        position /= extent;
    }
    index
}

/// The row-major position of a multi-index.
pub fn ravel(index: &[usize], shape: &[usize]) -> usize {
    index
        .iter()
        .zip(shape)
        .fold(0, |position, (&i, &extent)| position * extent + i)
}
