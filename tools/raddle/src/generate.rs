//! `raddle gen`: a forward program of a model on a mesh, for `raddle-opt --append-backward` to make a training program of.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use raddle_compiler::driver::OutputFile;
use raddle_compiler::generate::{Activation, Model, Norm, SequenceParallel, Spec, Tied, generate};
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::{Context, VerifyOptions, verify};
use raddle_dialect::syntax::{PrintOptions, write};

/// Which model.
#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// Pairs of linear layers, mean squared error.
    Mlp,
    /// Decoder with vocabulary-parallel cross entropy.
    Gpt,
}

#[derive(Clone, Copy, ValueEnum)]
enum ActivationKind {
    Relu,
    Gelu,
    GeluTanh,
}

/// What the program is like.
#[derive(clap::Args)]
pub struct Options {
    /// The model.
    model: Kind,
    /// Pairs of linear layers, or blocks.
    #[arg(long, default_value_t = 2)]
    layers: i64,
    /// Width of activations.
    #[arg(long, default_value_t = 64)]
    hidden: i64,
    /// Width between the linear layers of a perceptron; four times the hidden width if left out.
    #[arg(long)]
    inner: Option<i64>,
    /// Attention heads (gpt).
    #[arg(long, default_value_t = 4)]
    heads: i64,
    /// Size of the vocabulary (gpt).
    #[arg(long, default_value_t = 256)]
    vocab: i64,
    /// Length of the sequence.
    #[arg(long, default_value_t = 32)]
    seq: i64,
    /// Samples of a training step, over all data ranks and micro-batches.
    #[arg(long, default_value_t = 8)]
    batch: i64,
    /// Axes of the mesh, slowest first, such as dp=2,mp=4; dp cuts the batch, mp is the tensor axis.
    #[arg(long, default_value = "mp=2", value_delimiter = ',')]
    mesh: Vec<String>,
    /// Cut the sequence over mp between pairs of linear layers.
    #[arg(long)]
    sequence_parallel: bool,
    /// The output layer shares the embedding's table (gpt).
    #[arg(long)]
    tied: bool,
    /// Linear layers and normalisations without biases.
    #[arg(long)]
    no_bias: bool,
    /// Probability that an activation is dropped.
    #[arg(long, default_value_t = 0.0)]
    dropout: f64,
    /// Micro-batches of a step.
    #[arg(long, default_value_t = 1)]
    microbatches: i64,
    /// Between the two linear layers of a perceptron.
    #[arg(long, value_enum, default_value = "gelu")]
    activation: ActivationKind,
    /// No layer norm before pairs (mlp).
    #[arg(long)]
    no_norm: bool,
    /// No residual connections (mlp).
    #[arg(long)]
    no_residual: bool,
    /// The file to write; standard output if left out.
    #[arg(short, long)]
    output: Option<PathBuf>,
}

/// Writes the program.
///
/// # Errors
/// If sizes do not go together, or the file cannot be written.
pub fn run(options: &Options) -> Result<ExitCode> {
    let spec = spec(options)?;
    let cx = Context::new();
    let module = generate(&cx, &spec)?;
    let mut diagnostics = Diagnostics::new();
    let Ok(module) = verify(module, VerifyOptions::default(), &mut diagnostics) else {
        let messages: Vec<_> = diagnostics.iter().map(|d| d.message.as_str()).collect();
        bail!("the sizes do not go together: {}", messages.join("; "));
    };
    match &options.output {
        None => write(
            &module,
            PrintOptions::default(),
            &mut std::io::stdout().lock(),
        )?,
        Some(path) => {
            let context = || format!("cannot write {}", path.display());
            let mut output = OutputFile::create(path).with_context(context)?;
            write(&module, PrintOptions::default(), &mut output).with_context(context)?;
            output.finish().with_context(context)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn spec(options: &Options) -> Result<Spec> {
    Ok(Spec {
        model: match options.model {
            Kind::Mlp => Model::Mlp,
            Kind::Gpt => Model::Gpt,
        },
        layers: options.layers,
        hidden: options.hidden,
        inner: match options.inner {
            Some(inner) => inner,
            None => options.hidden.saturating_mul(4),
        },
        heads: options.heads,
        vocab: options.vocab,
        seq: options.seq,
        batch: options.batch,
        mesh: options
            .mesh
            .iter()
            .map(|a| axis(a))
            .collect::<Result<_>>()?,
        sequence_parallel: match options.sequence_parallel {
            true => SequenceParallel::On,
            false => SequenceParallel::Off,
        },
        tied: match options.tied {
            true => Tied::Yes,
            false => Tied::No,
        },
        bias: !options.no_bias,
        dropout: options.dropout,
        microbatches: options.microbatches,
        activation: match options.activation {
            ActivationKind::Relu => Activation::Relu,
            ActivationKind::Gelu => Activation::Gelu,
            ActivationKind::GeluTanh => Activation::GeluTanh,
        },
        norm: match options.no_norm {
            true => Norm::None,
            false => Norm::Layer,
        },
        residual: !options.no_residual,
    })
}

/// `mp=2`
fn axis(text: &str) -> Result<(String, i64)> {
    let Some((name, size)) = text.split_once('=') else {
        bail!("'{text}' is no axis of a mesh: write its name and its size, such as mp=2");
    };
    let size = size
        .trim()
        .parse()
        .with_context(|| format!("the size of axis '{name}' is no number"))?;
    Ok((name.trim().into(), size))
}
