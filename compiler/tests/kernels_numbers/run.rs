//! Emits a kernel, runs it in the simulator, and looks at what it wrote.

use raddle_compiler::codegen::nvptx::{
    Architecture, Parameter, Ptx, Target, TensorMap, emit_tuned,
};
use raddle_compiler::codegen::oracle::{self, Comparison, Inputs, Results};
use raddle_compiler::codegen::{KernelDescription, Wish};
use raddle_ptxsim::{Argument, Delivery, Error, Launch, Memory, Module, Outcome, Pointer, Swizzle};

/// One run's memory after it.
pub struct Ran {
    pub memory: Memory,
    pub pointers: Vec<(Parameter, Pointer)>,
}

impl Ran {
    /// Compares all that the kernel wrote with what it should have.
    pub fn compare(&self, kernel: &KernelDescription, inputs: &Inputs) -> Comparison {
        let results = Results::behind(|parameter| self.bytes(parameter));
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

pub fn emit(kernel: &KernelDescription, architecture: Architecture, wish: impl Into<Wish>) -> Ptx {
    emit_tuned(kernel, Target::of(architecture), wish)
        .unwrap_or_else(|error| panic!("{kernel:?}: {error}"))
        .ptx
}

/// Runs a kernel in several ways, and asserts that each finds nothing and wastes no pass over the banks, that the numbers are
/// right, that all ways give the same bits, and that counters are as they were.
pub fn check(ptx: &Ptx, ways: &[Way]) {
    let kernel = &ptx.kernel;
    let inputs = Inputs::random(kernel, kernel.m * 31 + kernel.n * 17 + kernel.k);
    let mut before = None;
    for &way in ways {
        let (ran, outcome) = run(ptx, &inputs, way);
        let shown: Vec<String> = outcome.findings.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [] as [String; 0], "{kernel:?} {way:?}");
        let passes = outcome.counters.matrix_read_passes;
        assert_eq!(passes, outcome.counters.matrix_reads, "{kernel:?}");
        let written = [
            Parameter::Output,
            Parameter::AuxiliaryOutput,
            Parameter::BiasGradient,
        ];
        let bits = written.map(|parameter| ran.bytes(parameter).map(<[u8]>::to_vec));
        match &before {
            None => {
                let comparison = ran.compare(kernel, &inputs);
                assert!(comparison.is_right(), "{kernel:?} {way:?}\n{comparison:?}");
                let whole = match ran.bytes(Parameter::Output) {
                    Some(_) => inputs.existing.values.len() as u64,
                    None => kernel.bias_elements(),
                };
                assert!(comparison.compared >= whole, "{kernel:?}");
                before = Some(bits);
            }
            Some(before) => assert!(
                *before == bits,
                "{kernel:?}: the order of things changes the result"
            ),
        }
        let counters = ran.bytes(Parameter::Counters).unwrap_or_default();
        assert!(counters.iter().all(|&byte| byte == 0), "{kernel:?}");
    }
}

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
                Parameter::Output if !kernel.accumulate => {
                    memory.allocate_uninitialised(inputs.existing.size())
                }
                Parameter::AuxiliaryOutput => memory.allocate_uninitialised(inputs.existing.size()),
                Parameter::BiasGradient | Parameter::Workspace => {
                    memory.allocate_uninitialised(ptx.bytes(parameter) as usize)
                }
                Parameter::Counters => memory.allocate(vec![0; ptx.bytes(parameter) as usize]),
                reads => memory.allocate(inputs.matrix(reads.before()).bytes()),
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
