//! Activations and their derivatives in double precision.

use crate::codegen::description::Activation;

/// √(2/π)
const SCALE: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;

/// The coefficient of the cube in the tanh form of gelu.
const CUBIC: f64 = 0.044715;

/// Applies an activation.
pub(super) fn apply(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::GeluTanh => x / 2.0 * (1.0 + tanh_argument(x).tanh()),
        Activation::GeluErf => x * normal_distribution(x),
        Activation::Silu => x * logistic(x),
    }
}

/// The derivative of an activation.
pub(super) fn derivative(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => 1.0,
        Activation::Relu => f64::from(x > 0.0),
        Activation::GeluTanh => {
            let tanh = tanh_argument(x).tanh();
            let slope = SCALE * (1.0 + 3.0 * CUBIC * x * x);
            (1.0 + tanh) / 2.0 + x / 2.0 * (1.0 - tanh * tanh) * slope
        }
        Activation::GeluErf => {
            let density = (-x * x / 2.0).exp() * SCALE / 2.0;
            normal_distribution(x) + x * density
        }
        Activation::Silu => logistic(x) * (1.0 + x * (1.0 - logistic(x))),
    }
}

fn tanh_argument(x: f64) -> f64 {
    SCALE * (x + CUBIC * x.powi(3))
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The standard normal's distribution function.
fn normal_distribution(x: f64) -> f64 {
    libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_slopes() {
        for activation in Activation::ALL {
            for step in -40..=40 {
                let x = f64::from(step) / 8.0 + 0.01;
                let width = 1e-5;
                let slope =
                    (apply(activation, x + width) - apply(activation, x - width)) / (2.0 * width);
                let exact = derivative(activation, x);
                assert!(
                    (slope - exact).abs() < 1e-8,
                    "{activation:?} at {x}: {slope}, {exact}"
                );
            }
        }
    }

    #[test]
    fn known_values() {
        // Tables of the normal distribution and of the logistic function.
        for (activation, x, value) in [
            (Activation::GeluErf, 1.0, 0.841_344_746),
            (Activation::GeluErf, -1.0, -0.158_655_254),
            (Activation::GeluTanh, 1.0, 0.841_191_990),
            (Activation::Silu, 1.0, 0.731_058_579),
            (Activation::Relu, -1.0, 0.0),
        ] {
            assert!(
                (apply(activation, x) - value).abs() < 1e-8,
                "{activation:?}"
            );
        }
    }
}
