//! Numbers as they lie in a GPU's memory.

use half::{bf16, f16};
use raddle_bundle::kernel::Element;
use raddle_dialect::DType;

/// Numbers, each rounded to the nearest element. They are rounded first, for `half` looks at no more than the first bits of a double.
pub(super) fn encode(element: Element, values: &[f64]) -> Vec<u8> {
    let values = values.iter();
    match element {
        Element::Bf16 => values
            .flat_map(|&value| bf16::from_f64(DType::BF16.round(value)).to_le_bytes())
            .collect(),
        Element::F16 => values
            .flat_map(|&value| f16::from_f64(DType::F16.round(value)).to_le_bytes())
            .collect(),
        Element::F32 => values
            .flat_map(|&value| (value as f32).to_le_bytes())
            .collect(),
    }
}

/// The numbers that elements in memory are.
pub(super) fn decode(element: Element, bytes: &[u8]) -> Vec<f64> {
    let (pairs, _) = bytes.as_chunks::<2>();
    let (quads, _) = bytes.as_chunks::<4>();
    match element {
        Element::Bf16 => pairs
            .iter()
            .map(|&element| bf16::from_le_bytes(element).to_f64())
            .collect(),
        Element::F16 => pairs
            .iter()
            .map(|&element| f16::from_le_bytes(element).to_f64())
            .collect(),
        Element::F32 => quads
            .iter()
            .map(|&element| f32::from_le_bytes(element).into())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_rounded_once() {
        // Halfway between two elements once it is rounded to single precision, and above the middle before.
        for (element, unit) in [
            (Element::Bf16, 2f64.powi(-7)),
            (Element::F16, 2f64.powi(-10)),
        ] {
            let value = 1.0 + unit / 2.0 + 2f64.powi(-30);
            assert_eq!(decode(element, &encode(element, &[value])), [1.0 + unit]);
        }
        let values = [0.0, -1.5, 65504.0, f64::INFINITY];
        for element in [Element::F16, Element::F32] {
            assert_eq!(decode(element, &encode(element, &values)), values);
        }
    }
}
