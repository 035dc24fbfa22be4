//! `raddle-translate`: programs of other systems in and out. One file per system; this one only dispatches.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Parser};

mod diagnostics;
mod paddle;

/// Turns programs of other systems into Raddle modules and back.
#[derive(Parser)]
#[command(name = "raddle-translate", version, about)]
#[command(group(ArgGroup::new("direction").required(true).args(["import_paddle", "export_paddle"])))]
struct Cli {
    /// Import PaddlePaddle main programs (ProgramDesc files): one, which every rank runs, or one for each rank.
    #[arg(long, value_name = "MAIN", num_args = 1.., requires_all = ["startup", "mesh"])]
    import_paddle: Vec<PathBuf>,

    /// The startup programs, in the same order.
    #[arg(long, value_name = "STARTUP", num_args = 1.., requires = "import_paddle")]
    startup: Vec<PathBuf>,

    /// The mesh files (JSON: mesh, rank, rings), in the same order.
    #[arg(long, value_name = "MESH", num_args = 1.., requires = "import_paddle")]
    mesh: Vec<PathBuf>,

    /// Export one rank's main program as a PaddlePaddle ProgramDesc.
    #[arg(long, requires_all = ["rank", "startup_out"])]
    export_paddle: bool,

    /// The rank to export.
    #[arg(long, value_name = "R", requires = "export_paddle")]
    rank: Option<usize>,

    /// Where the rank's startup program goes.
    #[arg(long, value_name = "FILE", requires = "export_paddle")]
    startup_out: Option<PathBuf>,

    /// The module to export; `-` is standard input.
    #[arg(
        value_name = "MODULE",
        default_value = "-",
        conflicts_with = "import_paddle"
    )]
    input: PathBuf,

    /// Where the result goes; `-` is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Print ops in generic form.
    #[arg(long, requires = "import_paddle")]
    mlir_print_op_generic: bool,

    /// Print locations: file, and the op's number in its program as line.
    #[arg(long, requires = "import_paddle")]
    mlir_print_debuginfo: bool,

    /// Also write the imported module in generic form into this folder, under a name made from its content.
    #[arg(long, value_name = "DIR")]
    generic_copies: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = u8::from(error.use_stderr());
            // Nothing is left to do if standard error is gone.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let outcome = if cli.export_paddle {
        paddle::export(&cli)
    } else {
        paddle::import(&cli)
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
