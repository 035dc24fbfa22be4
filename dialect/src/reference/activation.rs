//! Activations of the linear and elementwise ops: functions of one number, and their derivatives.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// An activation function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    /// `x`
    None,
    /// `max(x, 0)`
    Relu,
    /// `x·½(1 + erf(x/√2))`
    Gelu,
    /// `½x(1 + tanh(√(2/π)(x + 0.044715x³)))`
    GeluTanh,
    /// `x/(1 + e⁻ˣ)`
    Silu,
    /// `tanh x`
    Tanh,
}

impl Activation {
    /// The activation that the attribute `activation` names.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "none" => Self::None,
            "relu" => Self::Relu,
            "gelu" => Self::Gelu,
            "gelu_tanh" => Self::GeluTanh,
            "silu" => Self::Silu,
            _ => return None,
        })
    }

    /// gelu, exact or approximated by tanh.
    pub fn gelu(approximate: bool) -> Self {
        if approximate {
            Self::GeluTanh
        } else {
            Self::Gelu
        }
    }

    /// Its value.
    pub fn value(self, x: f64) -> f64 {
        match self {
            Self::None => x,
            Self::Relu if x.is_nan() => x,
            Self::Relu => x.max(0.0),
            Self::Gelu => x * 0.5 * (1.0 + libm::erf(x * FRAC_1_SQRT_2)),
            Self::GeluTanh => 0.5 * x * (1.0 + inner(x).tanh()),
            Self::Silu => x * sigmoid(x),
            Self::Tanh => x.tanh(),
        }
    }

    /// Its derivative; relu's at 0 is 0.
    pub fn derivative(self, x: f64) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Relu => f64::from(x > 0.0),
            Self::Gelu => {
                let density = (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
                0.5 * (1.0 + libm::erf(x * FRAC_1_SQRT_2)) + x * density
            }
            Self::GeluTanh => {
                let t = inner(x).tanh();
                let slope = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x);
                0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope
            }
            Self::Silu => {
                let s = sigmoid(x);
                s * (1.0 + x * (1.0 - s))
            }
            Self::Tanh => 1.0 - x.tanh().powi(2),
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn inner(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)
}
