//! A kernel as whoever launches it sees it: plain data, without anything of how it was made.

use raddle_bundle::KernelImage;
use raddle_bundle::kernel::{Access, Element, Grid, KernelParameter, Swizzle, TensorMap};

use super::ptx::{Parameter, Ptx};
use crate::codegen::description::{ElementType, KernelDescription, NamedMatrix};

impl Ptx {
    /// The kernel as plain data, without machine code.
    pub fn image(&self) -> KernelImage {
        let pointers = self.parameters.as_slice();
        let parameters = pointers.iter().map(|&parameter| KernelParameter {
            name: parameter.name().to_owned(),
            bytes: self.bytes(parameter),
            access: access(&self.kernel, parameter),
        });
        let maps = self.tensor_maps.iter().map(|map| TensorMap {
            parameter: self.parameters.index(map.parameter).unwrap_or_default() as usize,
            element: map.element.in_memory(),
            offset_bytes: map.offset_bytes,
            extents: map.extents[..map.rank].to_vec(),
            strides_bytes: map.strides_bytes[..map.rank - 1].to_vec(),
            box_extents: map.box_extents[..map.rank].to_vec(),
            swizzle: Swizzle::Bytes128,
        });
        KernelImage {
            entry: self.entry.clone(),
            target: self.target.architecture().name().to_owned(),
            ptx: self.text.clone(),
            cubin: None,
            grid: Grid {
                blocks: self.launch.blocks,
                threads: self.launch.threads,
                shared_bytes: self.launch.shared_bytes,
                cluster: 1,
            },
            parameters: parameters.collect(),
            tensor_maps: maps.collect(),
        }
    }
}

impl Ptx {
    /// Bytes from a pointer on that the kernel may reach.
    pub fn bytes(&self, parameter: Parameter) -> u64 {
        let kernel = &self.kernel;
        let [first, second, result] = kernel.matrices();
        let matrix = |matrix: NamedMatrix, element: ElementType| {
            matrix.reach(kernel.batch) * u64::from(element.bytes())
        };
        match parameter {
            Parameter::A => matrix(first, kernel.element),
            Parameter::B => matrix(second, kernel.element),
            Parameter::Bias | Parameter::BiasGradient => {
                let bytes = kernel.bias.map_or(0, |bias| u64::from(bias.bytes()));
                kernel.bias_elements() * bytes
            }
            Parameter::Output | Parameter::AuxiliaryOutput => matrix(result, kernel.output),
            Parameter::AuxiliaryInput => matrix(result, kernel.element),
            Parameter::Workspace => self.scratch.workspace_bytes,
            Parameter::Counters => self.scratch.counter_bytes,
        }
    }
}

impl ElementType {
    /// How elements of this type lie in a GPU's memory.
    pub const fn in_memory(self) -> Element {
        match self {
            ElementType::Bf16 => Element::Bf16,
            ElementType::F16 => Element::F16,
            ElementType::F32 => Element::F32,
        }
    }
}

fn access(kernel: &KernelDescription, parameter: Parameter) -> Access {
    match parameter {
        Parameter::A | Parameter::B | Parameter::Bias | Parameter::AuxiliaryInput => Access::Reads,
        Parameter::Output if kernel.accumulate => Access::Updates,
        Parameter::Output | Parameter::AuxiliaryOutput | Parameter::BiasGradient => Access::Writes,
        Parameter::Workspace => Access::Scratch,
        Parameter::Counters => Access::ZeroedScratch,
    }
}
