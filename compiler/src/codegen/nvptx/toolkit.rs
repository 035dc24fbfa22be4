//! NVIDIA's assembler and disassembler: finding them, running them, reading what they say.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use super::ptx::Ptx;
use super::target::Architecture;
use crate::codegen::error::CodegenError;

/// Where NVIDIA's programs are looked for.
#[derive(Clone, Debug)]
pub struct Toolkit {
    folders: Vec<PathBuf>,
}

/// A kernel as machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cubin {
    /// The ELF image.
    pub image: Vec<u8>,
    /// What the assembler says the kernel takes.
    pub resources: Resources,
    /// What else the assembler printed: warnings and advice.
    pub messages: Vec<String>,
}

/// What a kernel takes, as the assembler reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of a thread's stack.
    pub stack_bytes: u32,
    /// Bytes that a thread stores because registers ran out.
    pub spill_store_bytes: u32,
    /// Bytes that it loads back.
    pub spill_load_bytes: u32,
    /// Bytes of shared memory that the kernel declares, apart from what a launch asks for.
    pub static_shared_bytes: u32,
}

impl Toolkit {
    /// Looks in these folders.
    pub fn new(folders: Vec<PathBuf>) -> Toolkit {
        Toolkit { folders }
    }

    /// Looks in the environment that `cargo xtask setup` makes, which is `venv` in the build folder that the running
    /// program lies in, then on `PATH`.
    pub fn discover() -> Toolkit {
        let executable = env::current_exe().unwrap_or_default();
        let mut folders: Vec<PathBuf> = executable
            .ancestors()
            .map(|ancestor| ancestor.join("venv").join("bin"))
            .filter(|folder| folder.is_dir())
            .collect();
        if let Some(path) = env::var_os("PATH") {
            folders.extend(env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty()));
        }
        Toolkit { folders }
    }

    /// Assembles a kernel for the architecture that it was emitted for.
    ///
    /// # Errors
    /// [`CodegenError::ToolMissing`], [`CodegenError::ToolFailed`] with what `ptxas` says against the PTX,
    /// [`CodegenError::ToolOutput`], or [`CodegenError::Io`].
    pub fn assemble(&self, ptx: &Ptx) -> Result<Cubin, CodegenError> {
        self.assemble_text(&ptx.text, ptx.target.architecture())
    }

    /// Assembles a PTX module of one kernel.
    ///
    /// # Errors
    /// As [`Toolkit::assemble`].
    pub fn assemble_text(
        &self,
        ptx: &str,
        architecture: Architecture,
    ) -> Result<Cubin, CodegenError> {
        let ptxas = self.program("ptxas")?;
        let folder = scratch_folder()?;
        let source = folder.path().join("kernel.ptx");
        let image = folder.path().join("kernel.cubin");
        fs::write(&source, ptx).map_err(io("cannot write the PTX for ptxas"))?;
        let arguments = [
            OsString::from(format!("-arch={architecture}")),
            "-v".into(),
            "-warn-spills".into(),
            "-warn-lmem-usage".into(),
            "-o".into(),
            image.clone().into(),
            source.clone().into(),
        ];
        let output = self.run("ptxas", &ptxas, &arguments)?;
        let printed = String::from_utf8_lossy(&output.stderr)
            .replace(&source.display().to_string(), "kernel.ptx");
        let (resources, messages) = read_ptxas(&printed)?;
        Ok(Cubin {
            image: fs::read(&image).map_err(io("cannot read what ptxas wrote"))?,
            resources,
            messages,
        })
    }

    /// Disassembles machine code: one instruction a line, with its encoding.
    ///
    /// # Errors
    /// [`CodegenError::ToolMissing`], [`CodegenError::ToolFailed`] or [`CodegenError::Io`].
    pub fn disassemble(&self, cubin: &Cubin) -> Result<String, CodegenError> {
        let cuobjdump = self.program("cuobjdump")?;
        // cuobjdump starts nvdisasm by itself; without it, its message does not say what to do.
        self.program("nvdisasm")?;
        let folder = scratch_folder()?;
        let image = folder.path().join("kernel.cubin");
        fs::write(&image, &cubin.image)
            .map_err(io("cannot write the machine code for cuobjdump"))?;
        let output = self.run("cuobjdump", &cuobjdump, &["-sass".into(), image.into()])?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The assembler's file.
    pub(super) fn assembler(&self) -> Result<PathBuf, CodegenError> {
        self.program("ptxas")
    }

    /// The file of a program.
    fn program(&self, name: &'static str) -> Result<PathBuf, CodegenError> {
        self.folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
            .ok_or_else(|| CodegenError::ToolMissing {
                program: name,
                searched: self.folders.clone(),
            })
    }

    fn run(
        &self,
        name: &'static str,
        program: &Path,
        arguments: &[OsString],
    ) -> Result<Output, CodegenError> {
        let mut command = Command::new(program);
        command.args(arguments);
        // NVIDIA's programs start each other by name.
        if let Ok(path) = env::join_paths(&self.folders) {
            command.env("PATH", path);
        }
        let output = command
            .output()
            .map_err(io(&format!("cannot start {}", program.display())))?;
        if output.status.success() {
            return Ok(output);
        }
        let mut printed = String::from_utf8_lossy(&output.stderr).into_owned();
        printed.push_str(&String::from_utf8_lossy(&output.stdout));
        Err(CodegenError::ToolFailed {
            program: name,
            output: printed.trim_end().to_owned(),
        })
    }
}

fn scratch_folder() -> Result<tempfile::TempDir, CodegenError> {
    tempfile::tempdir().map_err(io("cannot make a temporary folder"))
}

fn io(what: &str) -> impl FnOnce(std::io::Error) -> CodegenError + use<> {
    let what = what.to_owned();
    move |source| CodegenError::Io { what, source }
}

/// Reads what `ptxas -v` prints about a module of one kernel.
fn read_ptxas(printed: &str) -> Result<(Resources, Vec<String>), CodegenError> {
    let mut resources = Resources::default();
    let mut used_line = false;
    let mut spill_line = false;
    let mut messages = Vec::new();
    for line in printed
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        if let Some((_, used)) = line.split_once(": Used ") {
            resources.registers = number_before(used, "registers").unwrap_or(0);
            resources.static_shared_bytes = number_before(used, "bytes smem").unwrap_or(0);
            used_line = true;
        } else if line.contains("bytes stack frame") {
            resources.stack_bytes = number_before(line, "bytes stack frame").unwrap_or(0);
            resources.spill_store_bytes = number_before(line, "bytes spill stores").unwrap_or(0);
            resources.spill_load_bytes = number_before(line, "bytes spill loads").unwrap_or(0);
            spill_line = true;
        } else if !is_routine(line) {
            messages.push(line.to_owned());
        }
    }
    if used_line && spill_line {
        return Ok((resources, messages));
    }
    Err(CodegenError::ToolOutput {
        program: "ptxas",
        reason: format!("no line with registers and spills in\n{printed}"),
    })
}

/// Whether a line says what `ptxas -v` says of every kernel.
fn is_routine(line: &str) -> bool {
    let routine = [
        "bytes gmem",
        "Compiling entry function",
        "Function properties for",
        "Compile time =",
    ];
    routine.iter().any(|part| line.contains(part))
}

/// The number that stands before some words, in a list that commas separate.
fn number_before(line: &str, words: &str) -> Option<u32> {
    let part = line.split(',').find(|part| part.contains(words))?;
    part.trim().split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assembler_report_is_read() {
        let printed = "ptxas info    : 0 bytes gmem\n\
                       ptxas info    : Compiling entry function 'f' for 'sm_80'\n\
                       ptxas info    : Function properties for f\n\
                       \x20   8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n\
                       ptxas info    : Used 240 registers, used 1 barriers, 49152 bytes smem, 396 bytes cmem[0]\n\
                       ptxas warning : something odd\n";
        let (resources, messages) = read_ptxas(printed).unwrap();
        let expected = Resources {
            registers: 240,
            stack_bytes: 8,
            spill_store_bytes: 4,
            spill_load_bytes: 12,
            static_shared_bytes: 49152,
        };
        assert_eq!(resources, expected);
        assert_eq!(messages, ["ptxas warning : something odd"]);
        assert!(read_ptxas("ptxas info : 0 bytes gmem\n").is_err());
    }

    #[test]
    fn a_missing_program_names_the_folders_and_the_remedy() {
        let toolkit = Toolkit::new(vec![PathBuf::from("/nowhere/at/all")]);
        let error = toolkit
            .assemble_text("", Architecture::Sm80)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("ptxas") && error.contains("/nowhere/at/all"),
            "{error}"
        );
        assert!(error.contains("cargo xtask setup"), "{error}");
    }
}
