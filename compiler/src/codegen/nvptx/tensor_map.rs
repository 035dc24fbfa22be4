//! Tensor maps: what the tensor memory accelerator must know of a matrix (PTX ISA, "Tensor-map"; CUDA driver API,
//! `cuTensorMapEncodeTiled`).
//!
//! A kernel takes its maps as parameters of 128 bytes each, after its pointers. Whoever launches the kernel encodes them
//! from these descriptions and the pointers.

use super::ptx::Parameter;
use crate::codegen::contraction::{Contraction, Major, Operand};
use crate::codegen::description::ElementType;
use crate::codegen::warpgroup_tiling::{
    BOX_EXTENT, LINE_BYTES, PANEL_ROWS, STAGE_DEPTH, StorePath, WarpgroupSchedule, line_elements,
    line_stride_bytes,
};

/// A matrix, or a batch of them, as boxes of elements. Boxes lie in shared memory line by line, 128 bytes each, with the
/// 16-byte chunks of a line permuted by an XOR with the line's number modulo 8 (`CU_TENSOR_MAP_SWIZZLE_128B`); what lies
/// outside the matrix reads as zero and is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Which matrix.
    pub parameter: Parameter,
    /// What its elements are.
    pub element: ElementType,
    /// Bytes from the parameter's pointer to the first element.
    pub offset_bytes: u64,
    /// Elements of a line, lines of a matrix, matrices.
    pub extents: [u64; 3],
    /// Bytes from one line to the next, and from one matrix to the next.
    pub strides_bytes: [u64; 2],
    /// Elements of a line, lines, and matrices of a box; a box lies within one matrix.
    pub box_extents: [u32; 3],
    /// Dimensions of the map: 2 for one matrix, 3 for a batch.
    pub rank: usize,
}

impl TensorMap {
    /// The maps of a kernel in the order of its parameters: both operands, then what is written through shared memory.
    pub fn all(contraction: &Contraction, schedule: &WarpgroupSchedule) -> Vec<TensorMap> {
        let mut maps = vec![
            operand(contraction, &contraction.left, Parameter::A, schedule.rows),
            operand(
                contraction,
                &contraction.right,
                Parameter::B,
                schedule.columns,
            ),
        ];
        if schedule.output == StorePath::Tensor {
            maps.push(result(
                contraction,
                Parameter::Output,
                contraction.output.element,
            ));
        }
        if schedule.auxiliary_output == Some(StorePath::Tensor) {
            let element = contraction
                .epilogue
                .auxiliary_output
                .unwrap_or(contraction.output.element);
            maps.push(result(contraction, Parameter::AuxiliaryOutput, element));
        }
        maps
    }
}

fn operand(
    contraction: &Contraction,
    operand: &Operand,
    parameter: Parameter,
    tile: u32,
) -> TensorMap {
    let bytes = u64::from(operand.element.bytes());
    let line = line_elements(operand);
    let is_batch = operand.batch_stride != 0;
    TensorMap {
        parameter,
        element: operand.element,
        offset_bytes: operand.offset * bytes,
        extents: [
            line,
            operand.lines(),
            if is_batch { contraction.batch } else { 1 },
        ],
        strides_bytes: [
            line_stride_bytes(operand.lines(), operand.leading, line, operand.element),
            operand.batch_stride * bytes,
        ],
        box_extents: match operand.major {
            Major::Depth => [STAGE_DEPTH, tile, 1],
            Major::Outer => [BOX_EXTENT, STAGE_DEPTH, 1],
        },
        rank: if is_batch { 3 } else { 2 },
    }
}

fn result(contraction: &Contraction, parameter: Parameter, element: ElementType) -> TensorMap {
    let output = contraction.output;
    let bytes = u64::from(element.bytes());
    let is_batch = contraction.batch > 1;
    TensorMap {
        parameter,
        element,
        offset_bytes: output.offset * bytes,
        extents: [contraction.columns, contraction.rows, contraction.batch],
        strides_bytes: [
            line_stride_bytes(
                contraction.rows,
                output.leading,
                contraction.columns,
                element,
            ),
            output.batch_stride * bytes,
        ],
        box_extents: [LINE_BYTES / element.bytes(), PANEL_ROWS, 1],
        rank: if is_batch { 3 } else { 2 },
    }
}
