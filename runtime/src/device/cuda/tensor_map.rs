//! Descriptions of matrices for the tensor memory accelerator (CUDA driver API, "Tensor Map Object Management").

use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle, cuTensorMapEncodeTiled,
};

use raddle_bundle::kernel::{Element, Swizzle};

use super::buffer::Buffer;
use super::driver::{Gpu, TENSOR_MAP, require};
use super::error::CudaError;

/// A matrix and the tile of it that one copy moves. It names the buffer's address: the buffer must outlive its use.
#[derive(Clone, Copy, Debug)]
pub struct TensorMap(CUtensorMap);

/// What one copy moves, and from what.
#[derive(Clone, Copy, Debug)]
pub struct Tile<'a> {
    /// Elements of the tensor along each dimension, the one that lies together first.
    pub extents: &'a [u64],
    /// Bytes from one element to the next along each dimension but the first; multiples of 16.
    pub strides_bytes: &'a [u64],
    /// Elements of the tile along each dimension, at most 256.
    pub tile: &'a [u32],
    /// Bytes of the buffer before the tensor's first element; a multiple of 16.
    pub offset_bytes: u64,
    /// The elements.
    pub element: Element,
    /// How the tile lies in shared memory.
    pub swizzle: Swizzle,
}

impl Gpu {
    /// Describes a tensor in a buffer. What lies outside the extents reads as zero and is not written.
    ///
    /// # Errors
    /// [`CudaError::MissingSymbol`] where the driver is older than the accelerator, or [`CudaError::Call`] where the
    /// description breaks its rules.
    pub fn tensor_map(&self, buffer: &Buffer, tile: Tile<'_>) -> Result<TensorMap, CudaError> {
        require(TENSOR_MAP)?;
        let data_type = match tile.element {
            Element::Bf16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            Element::F16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            Element::F32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        };
        let swizzle = match tile.swizzle {
            Swizzle::None => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
            Swizzle::Bytes32 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
            Swizzle::Bytes64 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
            Swizzle::Bytes128 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        };
        let rank = tile.extents.len();
        let sound = (1..=5).contains(&rank)
            && tile.tile.len() == rank
            && tile.strides_bytes.len() == rank - 1;
        if !sound {
            return Err(CudaError::Length {
                given: tile.tile.len(),
                size: rank,
            });
        }
        let steps = vec![1u32; rank];
        let address = buffer.address() + tile.offset_bytes;
        let mut map = CUtensorMap { opaque: [0; 16] };
        self.call("cuTensorMapEncodeTiled", || {
            // SAFETY: every list is as long as the rank says, the strides one shorter; the address is only written down.
            let encoded = unsafe {
                cuTensorMapEncodeTiled(
                    &mut map,
                    data_type,
                    rank as u32,
                    std::ptr::without_provenance_mut(address as usize),
                    tile.extents.as_ptr(),
                    tile.strides_bytes.as_ptr(),
                    tile.tile.as_ptr(),
                    steps.as_ptr(),
                    CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                    swizzle,
                    CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                    CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                )
            };
            encoded.result()
        })?;
        Ok(TensorMap(map))
    }
}

impl TensorMap {
    pub(super) fn bytes(&self) -> *const CUtensorMap {
        &self.0
    }
}
