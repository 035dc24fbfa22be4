//! `raddle kernel`: one kernel of a linear layer as LLVM IR, PTX, machine code, disassembly, or as a report.

mod refusal;
mod run;
pub mod store;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use raddle_compiler::codegen::nvptx::{
    self, Architecture, LayerSetting, Planned, PtxVersion, Report, Sass, Target, Toolkit,
};
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, Math, MatrixLayout, MatrixOrder,
    TileSize, Wish,
};

use crate::input;
use refusal::BadOptions;

/// What `raddle kernel` takes.
#[derive(Args)]
pub struct Options {
    /// The kernel of the layer `C[m, n] = act(A[m, k] · B[k, n] + bias[n])`.
    #[arg(long, value_enum, default_value_t = Op::FusedLinear)]
    op: Op,
    /// The activation, or, for dx and dact, whose derivative multiplies; `gelu` is its tanh form.
    #[arg(long, value_enum, default_value_t = Act::None)]
    act: Act,
    /// The type of the inputs, and of the results unless --out-dtype says otherwise.
    #[arg(long, value_enum, default_value_t = Inputs::Bf16)]
    dtype: Inputs,
    /// How products of f32 inputs are computed; with --program, those of every layer in f32. `--dtype tf32` is short for
    /// `--dtype f32 --math tf32`.
    #[arg(long, value_enum)]
    math: Option<Products>,
    /// Tokens: rows of A and C.
    #[arg(long, value_parser = extent(), required_unless_present_any = ["program", "clear_cache"])]
    m: Option<u64>,
    /// Out features: columns of B and C.
    #[arg(long, value_parser = extent(), required_unless_present_any = ["program", "clear_cache"])]
    n: Option<u64>,
    /// In features: columns of A, rows of B.
    #[arg(long, value_parser = extent(), required_unless_present_any = ["program", "clear_cache"])]
    k: Option<u64>,
    /// Independent problems of this shape, one matrix after the other; they share the bias.
    #[arg(long, value_parser = extent(), default_value_t = 1)]
    batch: u64,
    /// Instead of one kernel: those of the linear layers of an MLIR program, assembled, one line each.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["m", "n", "k", "batch", "emit", "output", "run"])]
    program: Option<PathBuf>,

    /// With --program: a folder for the PTX of each kernel, made if it is not there.
    #[arg(long, value_name = "DIR", requires = "program")]
    ptx_dir: Option<PathBuf>,
    #[command(flatten)]
    operands: Operands,
    #[command(flatten)]
    epilogue: Epilogue,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    run: run::Run,
    #[command(flatten)]
    store: store::Kept,
    /// Remove the kernels that are kept, and do nothing else.
    #[arg(long, conflicts_with = "no_cache")]
    clear_cache: bool,
}

/// How the matrices lie in memory: a is the kernel's first input, b its second, c its result.
#[derive(Args)]
struct Operands {
    /// The first input lies transposed.
    #[arg(long)]
    trans_a: bool,
    /// The second input lies transposed.
    #[arg(long)]
    trans_b: bool,
    /// Elements from one line of the first input to the next.
    #[arg(long, value_name = "ELEMENTS")]
    lda: Option<u64>,
    /// Elements from one line of the second input to the next.
    #[arg(long, value_name = "ELEMENTS")]
    ldb: Option<u64>,
    /// Elements from one row of the result to the next.
    #[arg(long, value_name = "ELEMENTS")]
    ldc: Option<u64>,
    /// Elements before the first input's first.
    #[arg(long, value_name = "ELEMENTS", default_value_t = 0)]
    offset_a: u64,
    /// Elements before the second input's first.
    #[arg(long, value_name = "ELEMENTS", default_value_t = 0)]
    offset_b: u64,
    /// Elements before the result's first.
    #[arg(long, value_name = "ELEMENTS", default_value_t = 0)]
    offset_c: u64,
}

/// What happens to the sums.
#[derive(Args)]
struct Epilogue {
    /// Add no bias, and for dw and dact, compute no gradient of it.
    #[arg(long, conflicts_with = "bias_dtype")]
    no_bias: bool,
    /// The type of the bias, if it is not the matrices', or of its gradient, which is f32 unless given. For dx it asks for
    /// the gradient of the bias of the layer before.
    #[arg(long, value_enum)]
    bias_dtype: Option<Dtype>,
    /// Also write the biased product before the activation, in the result's type.
    #[arg(long)]
    aux: bool,
    /// For dw: 1 adds to what the result holds already.
    #[arg(long, value_name = "0|1", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    beta: u8,
    /// The result's type, if it is not the inputs'; for dw it is f32 unless given.
    #[arg(long, value_enum)]
    out_dtype: Option<Dtype>,
}

/// What to write, for which GPU, and where.
#[derive(Args)]
struct Output {
    /// The GPU: sm_80, sm_86, sm_89, sm_90a or sm_100a.
    #[arg(long, default_value = "sm_80", value_parser = architecture)]
    target: Architecture,
    /// The PTX version; the oldest that knows the target if left out.
    #[arg(long, value_name = "MAJOR.MINOR", value_parser = ptx_version)]
    ptx_version: Option<PtxVersion>,
    /// The size of a block's tile; the cost model's choice if left out.
    #[arg(long, value_name = "ROWSxCOLUMNS", value_parser = tile_size)]
    tile: Option<TileSize>,
    /// How many blocks share a tile, each with a share of the sums' terms; 1 means none do. The cost model's choice if
    /// left out. Where fewer shares of as many stages do, there are fewer.
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(1..))]
    split_k: Option<u32>,
    /// What to write.
    #[arg(long, value_enum, default_value_t = Emit::Ptx)]
    emit: Emit,
    /// Where to write it; standard output if left out.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Op {
    /// C = act(A · B + bias); inputs A and B.
    FusedLinear,
    /// dX = (dOut · Bᵀ) ⊙ act′(aux), and with --bias-dtype dBias = Σ dX of the layer before; inputs dOut and B.
    Dx,
    /// dW = Aᵀ · dOut, and dBias; inputs A and dOut.
    Dw,
    /// dBias = Σ dOut; input dOut.
    Dbias,
    /// dPre = dOut ⊙ act′(aux), and dBias = Σ dPre; input dOut.
    Dact,
}

#[derive(Clone, Copy, ValueEnum)]
enum Act {
    None,
    Relu,
    Gelu,
    GeluErf,
    Silu,
}

/// What the inputs are, and are taken for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Inputs {
    Bf16,
    F16,
    /// f32 in memory, rounded to tf32 when it is read.
    Tf32,
    F32,
}

/// How products of f32 elements are computed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Products {
    /// Fused multiply-adds in single precision.
    Full,
    /// Of inputs rounded to tf32, on tensor cores.
    Tf32,
    /// Of inputs as two tf32 numbers each, three products on tensor cores: nearly single precision.
    #[value(name = "3xtf32")]
    ThreeTf32,
}

/// What elements are in memory.
#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    Bf16,
    F16,
    F32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// LLVM IR after the passes.
    Llvm,
    /// PTX.
    Ptx,
    /// Machine code, as an ELF image.
    Cubin,
    /// Machine code, disassembled.
    Sass,
    /// Registers, spills, shared memory, occupancy, and the main loop's cycles.
    Report,
}

/// Runs the subcommand. Options that mean nothing, or that no kernel has, end it with 2.
///
/// # Errors
/// NVIDIA programs that are missing or fail, files that cannot be written.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    refusal::exit_code(emit(options))
}

fn emit(options: &Options) -> anyhow::Result<ExitCode> {
    let output = &options.output;
    let target = match output.ptx_version {
        Some(version) => Target::with_ptx(output.target, version)?,
        None => Target::of(output.target),
    };
    if options.clear_cache {
        return options.store.clear();
    }
    if let Some(program) = &options.program {
        return run_program(program, options, target);
    }
    if output.emit == Emit::Cubin && output.output.is_none() && io::stdout().is_terminal() {
        return refuse("machine code is not for a terminal; name a file with -o");
    }
    let kernel = options.description()?;
    if output.emit == Emit::Llvm && options.run.run.is_none() {
        let emitted = nvptx::emit_tuned(&kernel, target, output.wish())?;
        write(output.output.as_deref(), emitted.ir.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let store = options.store.open();
    let ptx = store.emit(Planned::of(&kernel, target, output.wish())?)?;
    if let Some(device) = options.run.run {
        let image = device.image(&ptx, &store)?;
        return run::run(&ptx, &image, device, &options.run);
    }
    let toolkit = Toolkit::discover();
    let bytes = match output.emit {
        Emit::Llvm | Emit::Ptx => ptx.text.into_bytes(),
        Emit::Cubin => store.assemble(&ptx, &toolkit)?.image,
        Emit::Sass => toolkit
            .disassemble(&store.assemble(&ptx, &toolkit)?)?
            .into_bytes(),
        Emit::Report => {
            let cubin = store.assemble(&ptx, &toolkit)?;
            let sass = Sass::read(&toolkit.disassemble(&cubin)?)?;
            Report::from_parts(&ptx, &cubin, &sass)
                .to_string()
                .into_bytes()
        }
    };
    write(output.output.as_deref(), &bytes)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what the kernels of a program's linear layers take, and keeps their PTX if asked to.
fn run_program(path: &Path, options: &Options, target: Target) -> anyhow::Result<ExitCode> {
    let math = options.math.map_or(Math::Full, Products::math);
    let store = options.store.open();
    let loaded = input::load(path, |module, diagnostics| {
        let setting = LayerSetting {
            target,
            math,
            toolkit: &Toolkit::discover(),
            cache: store.cache(),
        };
        let emitted = nvptx::layer_kernels(&module, setting);
        Some(emitted.map(|(kernels, warnings)| {
            diagnostics.extend(warnings);
            kernels
        }))
    })?;
    let Some(kernels) = loaded.transpose()? else {
        return Ok(ExitCode::FAILURE);
    };
    if let Some(folder) = &options.ptx_dir {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for kernel in &kernels {
            let file = folder.join(format!("{}.ptx", kernel.ptx.entry));
            write(Some(&file), kernel.ptx.text.as_bytes())?;
        }
    }
    let lines: Vec<String> = kernels.iter().map(|kernel| format!("{kernel}\n")).collect();
    write(None, lines.concat().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

impl Output {
    fn wish(&self) -> Wish {
        Wish {
            tile: self.tile,
            splits: self.split_k,
        }
    }
}

impl Options {
    fn description(&self) -> anyhow::Result<KernelDescription> {
        let element = self.dtype.element();
        let math = self.math()?;
        self.check_operands()?;
        let operands = &self.operands;
        let layout = |transposed, leading, offset| MatrixLayout {
            order: if transposed {
                MatrixOrder::ColumnMajor
            } else {
                MatrixOrder::RowMajor
            },
            leading,
            offset,
            batch_stride: None,
        };
        let op = match self.op {
            Op::FusedLinear => KernelOp::FusedLinear,
            Op::Dx => KernelOp::InputGradient,
            Op::Dw => KernelOp::WeightGradient,
            Op::Dbias => KernelOp::BiasGradient,
            Op::Dact => KernelOp::ActivationGradient,
        };
        let usual_output = match op {
            KernelOp::WeightGradient => ElementType::F32,
            _ => element,
        };
        let usual_bias = match op {
            KernelOp::FusedLinear => Some(element),
            KernelOp::InputGradient => None,
            KernelOp::WeightGradient | KernelOp::BiasGradient | KernelOp::ActivationGradient => {
                Some(ElementType::F32)
            }
        };
        let bias = self.epilogue.bias_dtype.map(Dtype::element).or(usual_bias);
        Ok(KernelDescription {
            op,
            element,
            math,
            output: self.epilogue.out_dtype.map_or(usual_output, Dtype::element),
            batch: self.batch,
            m: self.m.unwrap_or_default(),
            n: self.n.unwrap_or_default(),
            k: self.k.unwrap_or_default(),
            a: layout(operands.trans_a, operands.lda, operands.offset_a),
            b: layout(operands.trans_b, operands.ldb, operands.offset_b),
            c: layout(false, operands.ldc, operands.offset_c),
            bias: bias.filter(|_| !self.epilogue.no_bias),
            activation: self.act.activation(),
            auxiliary: self.epilogue.aux,
            accumulate: self.epilogue.beta == 1,
        })
    }

    /// Refuses what is said of matrices that the op does not have.
    fn check_operands(&self) -> anyhow::Result<()> {
        let operands = &self.operands;
        let says_of_second = operands.trans_b || operands.ldb.is_some() || operands.offset_b != 0;
        if matches!(self.op, Op::Dbias | Op::Dact) && says_of_second {
            return refuse("dbias and dact have no second input to lay out");
        }
        let says_of_result = operands.ldc.is_some() || operands.offset_c != 0;
        if matches!(self.op, Op::Dbias) && (says_of_result || self.epilogue.out_dtype.is_some()) {
            return refuse("dbias has no result but dBias, whose type --bias-dtype says");
        }
        Ok(())
    }

    fn math(&self) -> anyhow::Result<Math> {
        match (self.dtype, self.math) {
            (Inputs::Tf32, None | Some(Products::Tf32)) => Ok(Math::Tf32),
            (Inputs::Tf32, Some(_)) => refuse(
                "--dtype tf32 rounds its inputs to tf32; another --math goes with --dtype f32",
            ),
            (_, math) => Ok(math.map_or(Math::Full, Products::math)),
        }
    }
}

impl Inputs {
    fn element(self) -> ElementType {
        match self {
            Inputs::Bf16 => ElementType::Bf16,
            Inputs::F16 => ElementType::F16,
            Inputs::Tf32 | Inputs::F32 => ElementType::F32,
        }
    }
}

impl Products {
    /// As the library says it.
    pub fn math(self) -> Math {
        match self {
            Products::Full => Math::Full,
            Products::Tf32 => Math::Tf32,
            Products::ThreeTf32 => Math::ThreeTf32,
        }
    }
}

impl Act {
    fn activation(self) -> Activation {
        match self {
            Act::None => Activation::None,
            Act::Relu => Activation::Relu,
            Act::Gelu => Activation::GeluTanh,
            Act::GeluErf => Activation::GeluErf,
            Act::Silu => Activation::Silu,
        }
    }
}

impl Dtype {
    fn element(self) -> ElementType {
        match self {
            Dtype::Bf16 => ElementType::Bf16,
            Dtype::F16 => ElementType::F16,
            Dtype::F32 => ElementType::F32,
        }
    }
}

fn refuse<T>(reason: &str) -> anyhow::Result<T> {
    Err(BadOptions(reason.to_owned()).into())
}

fn extent() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..)
}

/// A target by its name.
pub fn architecture(text: &str) -> Result<Architecture, String> {
    text.parse()
        .map_err(|error: raddle_compiler::codegen::CodegenError| error.to_string())
}

/// A PTX version.
pub fn ptx_version(text: &str) -> Result<PtxVersion, String> {
    text.parse()
        .map_err(|error: raddle_compiler::codegen::CodegenError| error.to_string())
}

fn tile_size(text: &str) -> Result<TileSize, String> {
    let parsed = text
        .split_once('x')
        .and_then(|(rows, columns)| Some((rows.parse().ok()?, columns.parse().ok()?)));
    match parsed {
        Some((rows, columns)) => Ok(TileSize { rows, columns }),
        None => Err("write a tile as 128x256".to_owned()),
    }
}

/// Writes to standard output, or replaces a file as a whole.
pub fn write(path: Option<&Path>, bytes: &[u8]) -> anyhow::Result<()> {
    let Some(path) = path else {
        let mut stdout = io::stdout().lock();
        return match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            // Whoever reads may stop early.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.context("cannot write to standard output"),
        };
    };
    let folder = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let attempt = || -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        file.write_all(bytes)?;
        file.persist(path)?;
        Ok(())
    };
    if path.is_file() || !path.exists() {
        attempt()
    } else {
        // A device or a pipe cannot be replaced.
        fs::write(path, bytes)
    }
    .with_context(|| format!("cannot write {}", path.display()))
}
