//! The whole run: input, sections, passes, output.

use std::cell::RefCell;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use raddle_compiler::driver::{Expectations, OutputFile, Section, sections, write_generic_copy};
use raddle_compiler::interop::mlir::{self, Door};
use raddle_compiler::pass::{Pipeline, registry};
use raddle_compiler::transforms::promote_linear;
use raddle_dialect::diag::{Diagnostics, Source};
use raddle_dialect::ir::{Context, Module, Verified};
use raddle_dialect::syntax::{self, PrintOptions};

use crate::instruments::TimingReport;
use crate::listing;
use crate::options::{Options, PassFlag, Printing, Report};
use crate::process::Processor;
use crate::report::Reporter;

/// Does what the command line asks for; `Ok(false)` if the input is wrong, which has then been reported.
///
/// # Errors
/// If files cannot be read or written, or options contradict each other.
pub fn run(options: &Options, flags: &[PassFlag]) -> Result<bool> {
    let started = Instant::now();
    if listing::print(&options.listing, &mut io::stdout().lock())? {
        return Ok(true);
    }
    let reporter = Reporter::new(options.diagnostic_format);
    let Some(pipeline) = pipeline(options, flags, &reporter)? else {
        return Ok(false);
    };
    if options.watching.dump_pass_pipeline {
        eprintln!(
            "Pass Manager with {} passes:\n{pipeline}",
            pipeline.steps().len()
        );
    }
    let report_file = report_file(options, &pipeline)?;
    let text = read(&options.input)?;
    let mut output = Output::create(&options.output)?;
    let report_file = report_file.map(|file| Output::create(&file)).transpose()?;
    let report = report_file.is_some().then(Rc::default);
    let timing = Rc::new(RefCell::new(TimingReport::default()));
    let run = Run {
        options,
        name: name(&options.input),
        reporter,
        processor: Processor {
            options,
            pipeline: &pipeline,
            mlir: RefCell::new(mlir(options)?),
            timing: timing.clone(),
            report: report.clone(),
        },
    };
    let good = run.sections(&text, &mut output)?;
    if good {
        output.finish()?;
        let report = report.and_then(|report| report.take());
        if let (Some(report), Some(mut file)) = (report, report_file) {
            writeln!(file, "{}", report.to_json()).context("cannot write the report")?;
            file.finish()?;
        }
    }
    if options.watching.mlir_timing {
        timing
            .borrow()
            .write(&mut io::stderr().lock(), started.elapsed())?;
    }
    Ok(good)
}

/// How modules are printed on this command line.
pub fn print_options(printing: &Printing) -> PrintOptions {
    PrintOptions {
        generic: printing.mlir_print_op_generic,
        debug_info: printing.mlir_print_debuginfo,
        ..PrintOptions::default()
    }
}

/// What a section was read into. At the end of the process it is not worth freeing piece by piece.
type Kept = ManuallyDrop<(Option<Verified>, Arc<Context>)>;

struct Run<'o> {
    options: &'o Options,
    name: String,
    reporter: Reporter,
    processor: Processor<'o>,
}

impl Run<'_> {
    fn sections(&self, text: &[u8], output: &mut Output) -> Result<bool> {
        let Some(marker) = &self.options.split_input_file else {
            let whole = Section {
                text,
                first_line: 1,
            };
            // The program ends right after this, and the system takes a large module back faster than we give it up.
            let (good, _kept) = self.section(whole, output)?;
            return Ok(good);
        };
        let mut good = true;
        for (index, section) in sections(text, marker).into_iter().enumerate() {
            if index > 0 {
                writeln!(output, "{marker}").context("cannot write the output")?;
            }
            let (section_good, kept) = self.section(section, output)?;
            good &= section_good;
            drop(ManuallyDrop::into_inner(kept));
        }
        Ok(good)
    }

    /// Processes and prints one section; false if it is wrong. What it was read into is handed out, to be dropped or not.
    fn section(&self, section: Section<'_>, output: &mut Output) -> Result<(bool, Kept)> {
        let source = Source::section(&self.name, section.text, section.first_line);
        let cx = Context::new();
        let mut diagnostics = Diagnostics::new();
        let mut module = self.processor.process(&cx, &source, &mut diagnostics);
        if let Some(done) = &module
            && !self.print(done, output, &mut diagnostics)?
        {
            module = None;
        }
        let reported = diagnostics.take();
        let Some(which) = self.options.verify_diagnostics else {
            self.reporter.show(&reported, &source, &cx);
            return Ok((module.is_some(), ManuallyDrop::new((module, cx))));
        };
        let wrong = Expectations::read(&source).check(&reported, &source, &cx, which.into());
        self.reporter.show(&wrong, &source, &cx);
        Ok((wrong.is_empty(), ManuallyDrop::new((module, cx))))
    }

    /// Prints a module, as text or bytecode; false if it has no such form, which `diagnostics` say.
    fn print(
        &self,
        module: &Module,
        output: &mut Output,
        diagnostics: &mut Diagnostics,
    ) -> Result<bool> {
        let printing = &self.options.printing;
        let start = Instant::now();
        if printing.emit_bytecode {
            let allow_unregistered = self.options.allow_unregistered_dialect;
            let options = mlir::Options { allow_unregistered };
            let mut mlir = self.processor.mlir.borrow_mut();
            let Some(bytes) = mlir.write_bytecode(module, options, diagnostics) else {
                return Ok(false);
            };
            output
                .write_all(&bytes)
                .context("cannot write the output")?;
            return Ok(true);
        }
        syntax::write(module, print_options(printing), output)
            .context("cannot write the output")?;
        if let Some(folder) = &printing.generic_copies {
            write_generic_copy(module, folder)
                .with_context(|| format!("cannot write to '{}'", folder.display()))?;
        }
        let mut timing = self.processor.timing.borrow_mut();
        timing.add("Output", start.elapsed());
        Ok(true)
    }
}

/// The program `raddle-mlir` that belongs to this one.
fn mlir(options: &Options) -> Result<mlir::Process> {
    let this = std::env::current_exe().context("cannot find out where this program is")?;
    let limit = Duration::from_secs(options.mlir_timeout);
    Ok(mlir::Process::new(
        this.with_file_name("raddle-mlir"),
        limit,
    ))
}

/// The passes to run; `None` if their text is wrong, which has then been reported.
fn pipeline(
    options: &Options,
    flags: &[PassFlag],
    reporter: &Reporter,
) -> Result<Option<Pipeline>> {
    let watching = &options.watching;
    let named = watching
        .mlir_print_ir_before
        .iter()
        .chain(&watching.mlir_print_ir_after);
    for name in named {
        if registry::find(name).is_none() {
            bail!("there is no pass '{name}' to print the module around");
        }
    }
    let cx = Context::new();
    let mut diagnostics = Diagnostics::new();
    if let Some(text) = &options.pass_pipeline {
        if !flags.is_empty() {
            bail!(
                "--pass-pipeline and pass flags exclude each other; put all passes into one of them"
            );
        }
        let parsed = Pipeline::parse(text, &mut diagnostics).ok();
        let source = Source::new("--pass-pipeline", text.as_bytes());
        reporter.show(&diagnostics.take(), &source, &cx);
        return Ok(parsed);
    }
    let mut pipeline = Pipeline::new();
    for (def, text) in flags {
        let pushed = pipeline.push(def, text, &mut diagnostics);
        let flag = format!("--{}", def.name);
        let source = Source::new(&flag, text.as_bytes());
        reporter.show(&diagnostics.take(), &source, &cx);
        if pushed.is_err() {
            return Ok(None);
        }
    }
    Ok(Some(pipeline))
}

/// Where the report on promotion goes, if one is wanted.
fn report_file(options: &Options, pipeline: &Pipeline) -> Result<Option<PathBuf>> {
    let Some(report) = &options.promote_linear_report else {
        return Ok(None);
    };
    let name = promote_linear::DEF.name;
    if !pipeline.steps().iter().any(|step| step.def.name == name) {
        bail!("--promote-linear-report needs the pass {name} in the pipeline");
    }
    match report {
        Report::File(file) => Ok(Some(file.clone())),
        Report::BesideOutput if is_dash(&options.output) => {
            bail!(
                "say where the report goes: --promote-linear-report=json:FILE, or -o FILE for the module"
            )
        }
        Report::BesideOutput => {
            let mut file = options.output.clone().into_os_string();
            file.push(".promotion.json");
            Ok(Some(file.into()))
        }
    }
}

/// What locations call the input.
fn name(input: &Path) -> String {
    if is_dash(input) {
        "<stdin>".to_owned()
    } else {
        input.to_string_lossy().into_owned()
    }
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn read(input: &Path) -> Result<Vec<u8>> {
    if is_dash(input) {
        let mut text = Vec::new();
        io::stdin()
            .lock()
            .read_to_end(&mut text)
            .context("cannot read standard input")?;
        Ok(text)
    } else {
        fs::read(input).with_context(|| format!("cannot read '{}'", input.display()))
    }
}

/// Standard output, or a file that appears only when everything went well.
enum Output {
    Stdout(BufWriter<io::StdoutLock<'static>>),
    File(OutputFile),
}

impl Output {
    fn create(path: &Path) -> Result<Self> {
        if is_dash(path) {
            return Ok(Self::Stdout(BufWriter::with_capacity(
                1 << 16,
                io::stdout().lock(),
            )));
        }
        let file = OutputFile::create(path)
            .with_context(|| format!("cannot write '{}'", path.display()))?;
        Ok(Self::File(file))
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Stdout(mut out) => out.flush(),
            Self::File(file) => file.finish(),
        }
        .context("cannot write the output")
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::File(file) => file.flush(),
        }
    }
}
