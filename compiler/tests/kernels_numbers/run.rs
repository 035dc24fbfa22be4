//! Runs a kernel in the simulator.

use raddle_compiler::codegen::nvptx::{Parameter, Ptx, TensorMap};
use raddle_ptxsim::{Argument, Delivery, Error, Launch, Memory, Module, Outcome, Pointer, Swizzle};

use raddle_compiler::codegen::KernelDescription;
use raddle_compiler::codegen::oracle::{self, Comparison, Inputs, Results};

/// One run's memory after it.
pub struct Ran {
    pub memory: Memory,
    pub pointers: Vec<(Parameter, Pointer)>,
}

impl Ran {
    /// Compares all that the kernel wrote with what it should have.
    pub fn compare(&self, kernel: &KernelDescription, inputs: &Inputs) -> Comparison {
        let results = Results {
            output: self.bytes(Parameter::Output),
            auxiliary: self.bytes(Parameter::AuxiliaryOutput),
            bias_gradient: self.bytes(Parameter::BiasGradient),
        };
        oracle::compare(kernel, inputs, &results)
    }

    /// What a parameter points to.
    pub fn bytes(&self, parameter: Parameter) -> Option<&[u8]> {
        let found = self
            .pointers
            .iter()
            .find(|(other, _)| *other == parameter)?;
        Some(self.memory.bytes(found.1))
    }
}

/// When copies arrive, and in which order warps take turns.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub delivery: Delivery,
    pub seed: u64,
}

/// Both deliveries, each with another order of the warps.
pub const WAYS: [Way; 2] = [
    Way {
        delivery: Delivery::Eager,
        seed: 0,
    },
    Way {
        delivery: Delivery::Late,
        seed: 1,
    },
];

pub fn run(ptx: &Ptx, inputs: &Inputs, way: Way) -> (Ran, Outcome) {
    try_run(ptx, inputs, way).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, if the launch fits the kernel.
pub fn try_run(ptx: &Ptx, inputs: &Inputs, way: Way) -> Result<(Ran, Outcome), Error> {
    let kernel = &ptx.kernel;
    let module = Module::parse(&ptx.text).unwrap_or_else(|error| panic!("{error}\n{}", ptx.text));
    let mut memory = Memory::new();
    let pointers: Vec<(Parameter, Pointer)> = ptx
        .parameters
        .as_slice()
        .iter()
        .map(|&parameter| {
            let pointer = match parameter {
                Parameter::A => memory.allocate(inputs.first.bytes()),
                Parameter::B => memory.allocate(inputs.second.bytes()),
                Parameter::Bias => memory.allocate(inputs.bias.bytes()),
                Parameter::AuxiliaryInput => memory.allocate(inputs.auxiliary.bytes()),
                Parameter::Output if kernel.accumulate => memory.allocate(inputs.existing.bytes()),
                Parameter::Output | Parameter::AuxiliaryOutput => {
                    memory.allocate_uninitialised(inputs.existing.size())
                }
                Parameter::BiasGradient | Parameter::Workspace => {
                    memory.allocate_uninitialised(ptx.bytes(parameter) as usize)
                }
                Parameter::Counters => memory.allocate(vec![0; ptx.bytes(parameter) as usize]),
            };
            (parameter, pointer)
        })
        .collect();
    let launch = Launch {
        blocks: ptx.launch.blocks,
        threads: ptx.launch.threads,
        shared_bytes: ptx.launch.shared_bytes,
        arguments: arguments(ptx, &pointers),
        delivery: way.delivery,
        seed: way.seed,
        ..Launch::default()
    };
    let entry = module
        .kernel(&ptx.entry)
        .expect("the module has the entry point");
    let outcome = entry.run(&mut memory, &launch)?;
    Ok((Ran { memory, pointers }, outcome))
}

fn arguments(ptx: &Ptx, pointers: &[(Parameter, Pointer)]) -> Vec<Argument> {
    let pointer = |map: &TensorMap| {
        let mut found = pointers.iter();
        found
            .find(|(parameter, _)| *parameter == map.parameter)
            .expect("every map is one of a parameter")
            .1
    };
    let maps = ptx.tensor_maps.iter().map(|map| {
        let rank = map.rank;
        Argument::TensorMap(raddle_ptxsim::TensorMap {
            pointer: pointer(map),
            offset_bytes: map.offset_bytes,
            element_bytes: map.element.bytes(),
            extents: map.extents[..rank].to_vec(),
            strides_bytes: map.strides_bytes[..rank - 1].to_vec(),
            box_extents: map.box_extents[..rank].to_vec(),
            swizzle: Swizzle::Bytes128,
        })
    });
    let pointers = pointers
        .iter()
        .map(|&(_, pointer)| Argument::Pointer(pointer));
    pointers.chain(maps).collect()
}
