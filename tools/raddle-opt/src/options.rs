//! The command line: fixed options, and one flag for each pass of the registry.
//!
//! MLIR's tools take one dash or two before a long option, so this one does too.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use raddle_compiler::driver::{Checked, DEFAULT_MARKER};
use raddle_compiler::pass::{OptionDef, PassDef, registry};

/// Everything that can be asked for besides passes.
#[derive(Args, Debug)]
pub struct Options {
    /// The file to read; `-` is standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    pub input: PathBuf,

    /// Where to write; `-` is standard output.
    #[arg(short = 'o', default_value = "-", value_name = "FILE")]
    pub output: PathBuf,

    /// The passes to run, as text: 'builtin.module(canonicalize,func.func(cse))'.
    #[arg(long, value_name = "TEXT")]
    pub pass_pipeline: Option<String>,

    /// Passes of MLIR to run after Raddle's own, as text: 'builtin.module(canonicalize)'.
    #[arg(long, value_name = "TEXT")]
    pub mlir_pass_pipeline: Option<String>,

    /// How long MLIR's passes may take for one section of the input.
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    pub mlir_timeout: u64,

    /// Verify the module after every pass, not only at the end.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set, value_name = "BOOL")]
    pub verify_each: bool,

    /// Run the program on all ranks before and after every pass, with random inputs and state from this seed, and stop
    /// where a loss, a gradient or an updated global changes.
    #[arg(long, value_name = "SEED")]
    pub validate_each: Option<u64>,

    /// Write what promote-linear took away from which ranks, in bytes, and how checkpoints are converted: `json` writes
    /// OUTPUT.promotion.json, `json:FILE` that file.
    #[arg(long, value_name = "json[:FILE]", value_parser = report, require_equals = true, conflicts_with = "split_input_file")]
    pub promote_linear_report: Option<Report>,

    /// After the passes, print what memory each rank class holds at most, in bytes, to standard error.
    #[arg(long)]
    pub memory_report: bool,

    /// Accept ops of dialects that are not registered.
    #[arg(long)]
    pub allow_unregistered_dialect: bool,

    /// Cut the input at marker lines and process each section by itself.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_MARKER, value_name = "MARKER")]
    pub split_input_file: Option<String>,

    /// Compare the diagnostics with the `expected-…` comments in the input instead of printing them.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "all", value_name = "WHICH")]
    pub verify_diagnostics: Option<VerifyDiagnostics>,

    /// Show what passes did and why not more.
    #[arg(long)]
    pub remarks: bool,

    /// How diagnostics look: the first line only, or with the source text.
    #[arg(long, default_value = "pretty", value_name = "FORMAT")]
    pub diagnostic_format: DiagnosticFormat,

    #[command(flatten)]
    pub printing: Printing,

    #[command(flatten)]
    pub watching: Watching,

    #[command(flatten)]
    pub listing: Listing,
}

/// Where a report goes, in JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// Beside the output.
    BesideOutput,
    /// Into this file.
    File(PathBuf),
}

fn report(text: &str) -> Result<Report, String> {
    match text.split_once(':') {
        None if text == "json" => Ok(Report::BesideOutput),
        Some(("json", file)) if !file.is_empty() => Ok(Report::File(file.into())),
        _ => Err("the report is `json` or `json:FILE`".to_owned()),
    }
}

/// How modules are printed.
#[derive(Args, Debug)]
pub struct Printing {
    /// Print every op in generic form.
    #[arg(long)]
    pub mlir_print_op_generic: bool,

    /// Write MLIR bytecode instead of text.
    #[arg(long, conflicts_with = "split_input_file")]
    pub emit_bytecode: bool,

    /// Print locations.
    #[arg(long)]
    pub mlir_print_debuginfo: bool,

    /// Also write every printed module in generic form into this folder, under a name made from its content.
    #[arg(long, value_name = "DIR")]
    pub generic_copies: Option<PathBuf>,
}

/// What to show while passes run, on standard error.
#[derive(Args, Debug)]
pub struct Watching {
    /// Print the module before each pass.
    #[arg(long)]
    pub mlir_print_ir_before_all: bool,

    /// Print the module after each pass.
    #[arg(long)]
    pub mlir_print_ir_after_all: bool,

    /// Print the module before these passes.
    #[arg(long, value_delimiter = ',', value_name = "PASSES")]
    pub mlir_print_ir_before: Vec<String>,

    /// Print the module after these passes.
    #[arg(long, value_delimiter = ',', value_name = "PASSES")]
    pub mlir_print_ir_after: Vec<String>,

    /// Of the modules after passes, print only those that changed.
    #[arg(long)]
    pub mlir_print_ir_after_change: bool,

    /// Print the module when a pass failed.
    #[arg(long)]
    pub mlir_print_ir_after_failure: bool,

    /// Print how long reading, each pass and printing took.
    #[arg(long)]
    pub mlir_timing: bool,

    /// Print the pipeline as text before it runs.
    #[arg(long)]
    pub dump_pass_pipeline: bool,
}

/// What to print instead of reading a module.
#[derive(Args, Debug)]
pub struct Listing {
    /// List the passes with their options.
    #[arg(long)]
    pub list_passes: bool,

    /// List the registered dialects.
    #[arg(long)]
    pub show_dialects: bool,

    /// Print the reference of the `dist` dialect (docs/dialect.md).
    #[arg(long)]
    pub dialect_docs: bool,

    /// Print the `dist` dialect for stock MLIR tools (dialect/dist.irdl.mlir).
    #[arg(long)]
    pub dialect_irdl: bool,
}

/// How diagnostics look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DiagnosticFormat {
    /// `file:line:col: error: message [code]`, and a line for each note.
    Plain,
    /// That first line, then the source text with marks, notes and help.
    Pretty,
}

/// What is compared with the comments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum VerifyDiagnostics {
    /// Every diagnostic must be expected, and the other way round.
    All,
    /// Diagnostics that nothing expects are passed over.
    OnlyExpected,
}

impl From<VerifyDiagnostics> for Checked {
    fn from(which: VerifyDiagnostics) -> Self {
        match which {
            VerifyDiagnostics::All => Checked::All,
            VerifyDiagnostics::OnlyExpected => Checked::OnlyExpected,
        }
    }
}

/// A pass flag as it was written: the pass, and the options after `=`.
pub type PassFlag = (&'static PassDef, String);

/// Reads the command line, with the program's name first.
///
/// # Errors
/// As clap words them; asking for help or the version is one of them.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<(Options, Vec<PassFlag>), clap::Error> {
    let mut command = command();
    let arguments = double_dashes(&command, arguments);
    let matches = command.try_get_matches_from_mut(arguments)?;
    let flags = pass_flags(&matches);
    Ok((Options::from_arg_matches(&matches)?, flags))
}

fn command() -> Command {
    let command = Command::new("raddle-opt")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Reads a module, verifies it, runs passes on it and prints it.")
        .after_help("Passes run in the order in which they are written. A single dash before a long option is enough.")
        .max_term_width(120);
    registry::ALL
        .iter()
        .fold(Options::augment_args(command), |command, def| {
            command.arg(pass_argument(def))
        })
}

fn pass_argument(def: &'static PassDef) -> Arg {
    Arg::new(def.name)
        .long(def.name)
        .help(def.summary)
        .long_help(describe(def))
        .help_heading("Passes")
        .value_name("OPTIONS")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("")
        .action(ArgAction::Append)
}

/// Summary, description and options of a pass.
pub fn describe(def: &PassDef) -> String {
    let mut text = format!("{}\n\n{}", def.summary, def.description);
    for OptionDef {
        name,
        kind,
        default,
        doc,
    } in def.options
    {
        let default = if default.is_empty() {
            String::new()
        } else {
            format!(", default {default}")
        };
        text.push_str(&format!("\n  {name}: {doc} ({}{default})", kind.expected()));
    }
    text
}

/// The pass flags in the order in which they were written.
fn pass_flags(matches: &ArgMatches) -> Vec<PassFlag> {
    let mut flags: Vec<(usize, PassFlag)> = Vec::new();
    for def in registry::ALL {
        let written = matches.get_many::<String>(def.name).into_iter().flatten();
        let indices = matches.indices_of(def.name).into_iter().flatten();
        flags.extend(indices.zip(written.map(|options| (*def, options.clone()))));
    }
    flags.sort_by_key(|(index, _)| *index);
    flags.into_iter().map(|(_, flag)| flag).collect()
}

/// Puts a second dash before long options that have one.
fn double_dashes(
    command: &Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut long: HashSet<&str> = command.get_arguments().filter_map(Arg::get_long).collect();
    long.extend(["help", "version"]);
    let mut only_files = false;
    arguments
        .into_iter()
        .map(|argument| {
            only_files |= argument == "--";
            let Some(text) = argument.to_str() else {
                return argument;
            };
            let name = text.split('=').next().unwrap_or(text);
            let one_dash = name.strip_prefix('-').is_some_and(|n| long.contains(n));
            if one_dash && !only_files {
                format!("-{text}").into()
            } else {
                argument
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<(Options, Vec<PassFlag>), clap::Error> {
        parse(
            std::iter::once("raddle-opt")
                .chain(arguments.iter().copied())
                .map(OsString::from),
        )
    }

    #[test]
    fn the_command_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn one_dash_or_two() {
        let (options, flags) = read(&[
            "-verify-each",
            "-cse",
            "--split-input-file",
            "-o",
            "out",
            "-verify-diagnostics=only-expected",
            "in.mlir",
        ])
        .unwrap();
        assert!(options.verify_each);
        assert_eq!(options.split_input_file.as_deref(), Some(DEFAULT_MARKER));
        assert_eq!(
            options.verify_diagnostics,
            Some(VerifyDiagnostics::OnlyExpected)
        );
        assert_eq!(options.output, PathBuf::from("out"));
        assert_eq!(options.input, PathBuf::from("in.mlir"));
        assert_eq!(flags.len(), 1);
    }

    #[test]
    fn passes_keep_their_order_and_options() {
        let (_, flags) = read(&["--cse", "--dce", "-canonicalize=x=1 y=2", "--cse"]).unwrap();
        let shown: Vec<_> = flags
            .iter()
            .map(|(def, options)| format!("{}[{options}]", def.name))
            .collect();
        assert_eq!(shown, ["cse[]", "dce[]", "canonicalize[x=1 y=2]", "cse[]"]);
    }

    #[test]
    fn unknown_options_are_refused() {
        assert!(read(&["--no-such-pass"]).is_err());
        assert!(read(&["-no-such-pass"]).is_err());
        assert!(read(&["a.mlir", "b.mlir"]).is_err());
        assert!(read(&["--validate-each=x"]).is_err());
    }

    #[test]
    fn flags_with_a_truth_value() {
        assert!(!read(&[]).unwrap().0.verify_each);
        assert!(!read(&["--verify-each=false"]).unwrap().0.verify_each);
        assert!(read(&["--verify-each", "-"]).unwrap().0.verify_each);
    }
}
