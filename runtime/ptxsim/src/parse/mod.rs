//! PTX text to instructions.

mod body;
mod cluster;
mod decode;
mod lexer;
mod operands;
mod strong;
mod tcgen05;
mod tensor_copy;

use std::collections::HashMap;

use crate::error::Error;
use crate::instruction::Instruction;
use lexer::{Lexer, Token};

/// A PTX module.
#[derive(Clone, Debug)]
pub struct Module {
    kernels: Vec<Kernel>,
}

/// One entry point.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) parameters: Vec<KernelParameter>,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) registers: usize,
    /// Bytes of shared memory that the module declares.
    pub(crate) static_shared_bytes: u32,
    /// Threads that a launch must have, if the kernel says.
    pub(crate) required_threads: Option<u32>,
    /// Blocks that the kernel says shall share a multiprocessor, and registers that it says a thread has at most.
    pub(crate) resident: Option<u32>,
    /// Threads that a launch has at most, and blocks of a cluster that it must have, if the kernel says.
    pub(crate) most_threads: Option<u32>,
    pub(crate) required_cluster: Option<u32>,
    /// What the module is for, such as `sm_90a`.
    pub(crate) target: String,
    pub(crate) most_registers: Option<u32>,
}

/// The most bytes of a kernel's parameters (PTX ISA, "Kernel Function Parameters").
const MOST_PARAMETER_BYTES: u32 = 32764;

/// One parameter.
#[derive(Clone, Debug)]
pub(crate) struct KernelParameter {
    pub name: String,
    pub bytes: u32,
    /// Where it lies among the parameters.
    pub offset: u32,
}

impl Module {
    /// Reads a module.
    ///
    /// # Errors
    /// [`Error::Syntax`] or [`Error::Unsupported`], with the line.
    pub fn parse(text: &str) -> Result<Module, Error> {
        let mut lexer = Lexer::new(text)?;
        let mut shared: HashMap<String, u32> = HashMap::new();
        let mut static_shared_bytes = 0;
        let mut kernels: Vec<Kernel> = Vec::new();
        let mut target = String::new();
        while let Some(directive) = lexer.next_word() {
            match directive.as_str() {
                ".version" | ".address_size" => lexer.skip_line(),
                ".target" => {
                    target = lexer.word()?;
                    lexer.skip_line();
                }
                ".visible" | ".extern" | ".weak" => {}
                ".shared" => {
                    body::shared_variable(&mut lexer, &mut shared, &mut static_shared_bytes)?;
                }
                ".entry" => kernels.push(entry(&mut lexer, &mut shared, &mut static_shared_bytes)?),
                other => return Err(lexer.unsupported(other)),
            }
        }
        match lexer.peek() {
            None => {
                for kernel in &mut kernels {
                    kernel.target.clone_from(&target);
                }
                Ok(Module { kernels })
            }
            Some(_) => Err(lexer.error("expected a directive")),
        }
    }

    /// The entry points, in order.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The entry point of this name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

impl Kernel {
    /// The entry point's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many parameters it takes.
    pub fn parameter_count(&self) -> usize {
        self.parameters.len()
    }
}

/// An entry point, from its name to its closing brace.
fn entry(
    lexer: &mut Lexer,
    shared: &mut HashMap<String, u32>,
    static_shared_bytes: &mut u32,
) -> Result<Kernel, Error> {
    let name = lexer.word()?;
    let parameters = parameters(lexer)?;
    let mut required_threads = None;
    let (mut resident, mut most_registers) = (None, None);
    let (mut most_threads, mut required_cluster) = (None, None);
    while let Some(directive) = lexer.next_word() {
        match directive.as_str() {
            ".reqntid" => {
                required_threads = Some(product(lexer)?);
            }
            ".minnctapersm" => resident = Some(lexer.number()? as u32),
            ".maxnreg" => most_registers = Some(lexer.number()? as u32),
            ".maxntid" => most_threads = Some(product(lexer)?),
            ".reqnctapercluster" => required_cluster = Some(product(lexer)?),
            ".explicitcluster" => {}
            other => return Err(lexer.unsupported(other)),
        }
    }
    let body = body::read(lexer, &parameters, shared, static_shared_bytes)?;
    Ok(Kernel {
        name,
        parameters,
        instructions: body.instructions,
        registers: body.registers,
        static_shared_bytes: *static_shared_bytes,
        required_threads,
        resident,
        most_threads,
        required_cluster,
        target: String::new(),
        most_registers,
    })
}

/// Up to three numbers with commas between them: their product.
fn product(lexer: &mut Lexer) -> Result<u32, Error> {
    let mut product = lexer.number()?;
    while lexer.take(',') {
        product = product.saturating_mul(lexer.number()?);
    }
    u32::try_from(product).map_err(|_| lexer.error("such a number does not exist"))
}

/// `(.param .u64 .ptr .global .align 16 a, …)`
fn parameters(lexer: &mut Lexer) -> Result<Vec<KernelParameter>, Error> {
    let mut list: Vec<KernelParameter> = Vec::new();
    let mut end = 0u32;
    if !lexer.take('(') {
        return Ok(list);
    }
    while !lexer.take(')') {
        let mut words = Vec::new();
        while let Some(word) = lexer.next_word() {
            words.push(word);
        }
        let size = words
            .iter()
            .find_map(|word| crate::instruction::Type::parse(word.strip_prefix('.')?))
            .map(|found| found.bits / 8);
        // A pointer's `.align` says how what it points to is aligned.
        let is_pointer = words.iter().any(|word| word == ".ptr");
        let written = words.iter().position(|word| word == ".align");
        let written = written.and_then(|at| words.get(at + 1)?.parse::<u32>().ok());
        let (Some(mut bytes), Some(name)) = (size, words.pop()) else {
            return Err(lexer.error("expected a parameter with a type and a name"));
        };
        let alignment = written.filter(|_| !is_pointer).unwrap_or(bytes);
        if lexer.take('[') {
            let count = u32::try_from(lexer.number()?).ok();
            let whole = count.and_then(|count| count.checked_mul(bytes));
            let Some(whole) = whole.filter(|&whole| whole <= MOST_PARAMETER_BYTES) else {
                return Err(lexer.error("parameters of this size do not exist"));
            };
            bytes = whole;
            lexer.expect(']')?;
        }
        if !alignment.is_power_of_two() || alignment > MOST_PARAMETER_BYTES {
            return Err(lexer.error("an alignment is a power of two"));
        }
        let offset = end.next_multiple_of(alignment);
        end = offset + bytes;
        if end > MOST_PARAMETER_BYTES {
            return Err(lexer.error("parameters of this size do not exist"));
        }
        list.push(KernelParameter {
            name,
            bytes,
            offset,
        });
        if !lexer.take(',') && !matches!(lexer.peek(), Some(Token::Mark(')'))) {
            return Err(lexer.error("expected `,` or `)` after a parameter"));
        }
    }
    Ok(list)
}
