//! Reading machine code: which loop multiplies, and how many cycles it takes to issue.
//!
//! Each instruction of 128 bits carries what the hardware must wait for before the next one, set by the assembler. The
//! fields are not documented by NVIDIA; their places are those of Jia, Maggioni, Staiger and Scarpazza, "Dissecting the
//! NVIDIA Volta GPU Architecture via Microbenchmarking", 2018, section 2.1: the stall count is bits 105 to 108.

use std::collections::BTreeMap;

use crate::codegen::error::CodegenError;

/// Cycles for which one `HMMA.16816` occupies the tensor core of a quarter of an sm_80 multiprocessor:
/// 16 · 8 · 16 products at 256 a cycle.
const HMMA_16816_CYCLES: u32 = 8;

/// The columns of `HGMMA.64x256x16.F32.BF16`. Half as many cycles are what it occupies the tensor cores of a
/// multiprocessor for: 64 · 16 products for each column at 2048 a cycle.
fn hgmma_columns(operation: &str) -> Option<u32> {
    let shape = operation.split('.').find(|part| part.starts_with("64x"))?;
    shape.split('x').nth(1)?.parse().ok()
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its place in the kernel, in bytes.
    pub address: u64,
    /// The text, without the predicate.
    pub text: String,
    /// Cycles until the next one may be issued, at least 1.
    pub stall_cycles: u32,
}

impl Instruction {
    /// The operation with its modifiers, such as `HMMA.16816.F32.BF16`.
    pub fn operation(&self) -> &str {
        self.text.split_whitespace().next().unwrap_or_default()
    }

    /// The operation without modifiers, such as `HMMA`.
    pub fn family(&self) -> &str {
        self.operation().split('.').next().unwrap_or_default()
    }

    /// Cycles for which the instruction occupies a tensor core.
    fn tensor_cycles(&self) -> u32 {
        match self.family() {
            "HMMA" if self.operation().contains(".1688.") => {
                let is_tf32 = self.operation().ends_with(".TF32");
                // As many terms as half an `HMMA.16816`, at half the rate.
                HMMA_16816_CYCLES / if is_tf32 { 1 } else { 2 }
            }
            "HMMA" => HMMA_16816_CYCLES,
            "HGMMA" => hgmma_columns(self.operation()).map_or(0, |columns| columns / 2),
            _ => 0,
        }
    }
}

/// The loop that does a kernel's products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductLoop {
    /// Instructions of one round.
    pub instructions: u32,
    /// Those that multiply matrices.
    pub matrix_instructions: u32,
    /// Fused multiply-adds in single precision.
    pub multiply_adds: u32,
    /// Copies from global to shared memory.
    pub asynchronous_copies: u32,
    /// The sum of all stall counts: cycles that one warp alone takes to issue a round.
    pub stall_cycles: u32,
    /// Cycles for which one warp's round occupies the tensor core, as far as the instructions' text says it.
    pub tensor_cycles: u32,
}

/// One kernel's machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sass {
    instructions: Vec<Instruction>,
}

impl Sass {
    /// Reads what `cuobjdump -sass` prints about an image of one kernel.
    ///
    /// # Errors
    /// [`CodegenError::ToolOutput`] if there is no instruction in it.
    pub fn read(printed: &str) -> Result<Sass, CodegenError> {
        let mut instructions: Vec<Instruction> = Vec::new();
        let mut awaits_high_word = false;
        for line in printed.lines().map(str::trim) {
            if let Some((address, text)) = instruction_line(line) {
                instructions.push(Instruction {
                    address,
                    text: without_predicate(text).to_owned(),
                    stall_cycles: 1,
                });
                awaits_high_word = true;
            } else if let Some(word) = encoding(line).filter(|_| awaits_high_word) {
                let stall = (word >> 41) & 0xf;
                if let Some(instruction) = instructions.last_mut() {
                    instruction.stall_cycles = (stall as u32).max(1);
                }
                awaits_high_word = false;
            }
        }
        if instructions.is_empty() {
            return Err(CodegenError::ToolOutput {
                program: "cuobjdump",
                reason: "no instruction in its output".to_owned(),
            });
        }
        Ok(Sass { instructions })
    }

    /// All instructions in order.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// How many instructions belong to a family, such as `HMMA`.
    pub fn count(&self, family: &str) -> u32 {
        count(&self.instructions, family)
    }

    /// How many instructions multiply matrices.
    pub fn matrix_instructions(&self) -> u32 {
        matrix(&self.instructions)
    }

    /// The loop with the most products, and of those the most copies, among the loops that contain no other with products;
    /// `None` if no loop has any.
    pub fn product_loop(&self) -> Option<ProductLoop> {
        let products = |body: &[Instruction]| matrix(body) * 1000 + count(body, "FFMA");
        self.innermost_loops(|body| products(body) > 0)
            .into_iter()
            .max_by_key(|body| (products(body), count(body, "LDGSTS")))
            .map(|body| ProductLoop {
                instructions: body.len() as u32,
                matrix_instructions: matrix(body),
                multiply_adds: count(body, "FFMA"),
                asynchronous_copies: count(body, "LDGSTS"),
                stall_cycles: body
                    .iter()
                    .map(|instruction| instruction.stall_cycles)
                    .sum(),
                tensor_cycles: body.iter().map(Instruction::tensor_cycles).sum(),
            })
    }

    /// The bodies of all loops of some kind that contain no other of it, each from the target of a backward branch to the
    /// branch.
    fn innermost_loops(&self, counts: impl Fn(&[Instruction]) -> bool) -> Vec<&[Instruction]> {
        let places: BTreeMap<u64, usize> = self
            .instructions
            .iter()
            .enumerate()
            .map(|(index, instruction)| (instruction.address, index))
            .collect();
        let mut loops: Vec<(usize, usize)> = Vec::new();
        for (index, instruction) in self.instructions.iter().enumerate() {
            if instruction.family() != "BRA" {
                continue;
            }
            let target = branch_target(&instruction.text).and_then(|address| places.get(&address));
            // A branch to itself ends every kernel; it is padding.
            let Some(&target) = target.filter(|&&target| target < index) else {
                continue;
            };
            let body = &self.instructions[target..=index];
            // Code that seldom runs lies behind the kernel's end and branches back; that makes no loop.
            let leaves = body
                .iter()
                .any(|instruction| instruction.family() == "EXIT");
            if !leaves && counts(body) {
                loops.push((target, index));
            }
        }
        let contains = |outer: &(usize, usize), inner: &(usize, usize)| {
            outer.0 <= inner.0 && inner.1 <= outer.1
        };
        loops
            .iter()
            .filter(|&one| {
                !loops
                    .iter()
                    .any(|other| other != one && contains(one, other))
            })
            .map(|&(first, last)| &self.instructions[first..=last])
            .collect()
    }
}

/// Instructions that multiply matrices: `mma.sync`, `wgmma`, `tcgen05.mma`.
fn matrix(instructions: &[Instruction]) -> u32 {
    ["HMMA", "HGMMA", "UTCHMMA"]
        .map(|family| count(instructions, family))
        .iter()
        .sum()
}

fn count(instructions: &[Instruction], family: &str) -> u32 {
    instructions
        .iter()
        .filter(|instruction| instruction.family() == family)
        .count() as u32
}

/// `/*0a10*/ TEXT ; /* 0x… */` as address and text.
fn instruction_line(line: &str) -> Option<(u64, &str)> {
    let rest = line.strip_prefix("/*")?;
    let (address, rest) = rest.split_once("*/")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (text, _) = rest.split_once(';')?;
    Some((address, text.trim()))
}

/// `/* 0x… */`, the second half of an instruction.
fn encoding(line: &str) -> Option<u64> {
    let inner = line.strip_prefix("/*")?.strip_suffix("*/")?.trim();
    u64::from_str_radix(inner.strip_prefix("0x")?, 16).ok()
}

fn without_predicate(text: &str) -> &str {
    match text.strip_prefix('@') {
        Some(rest) => rest
            .split_once(' ')
            .map_or("", |(_, operation)| operation.trim_start()),
        None => text,
    }
}

fn branch_target(text: &str) -> Option<u64> {
    let (_, address) = text.rsplit_once("0x")?;
    let digits = address.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop of one `HMMA` and one `LDGSTS` (stalls 2 and 4) with its branch (stall 5), after a `MOV` and before the
    /// padding.
    const PRINTED: &str = "
        Function : f
        /*0000*/                   MOV R1, c[0x0][0x28] ;    /* 0x00000a0000017a02 */
                                                             /* 0x000fe20000000f00 */
        /*0010*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;  /* 0x0000000000000001 */
                                                             /* 0x0000040000000000 */
        /*0020*/              @!P0 LDGSTS.E.BYPASS.128 [R2], [R4.64] ;    /* 0x0000000000000002 */
                                                             /* 0x0000080000000000 */
        /*0030*/               @P1 BRA 0x10 ;                /* 0x0000000000000003 */
                                                             /* 0x00000a0000000000 */
        /*0040*/                   EXIT ;                    /* 0x0000000000000004 */
                                                             /* 0x0000000000000000 */
        /*0050*/                   BRA 0x50;                 /* 0x0000000000000005 */
                                                             /* 0x0000000000000000 */
";

    #[test]
    fn the_loop_with_products_is_measured() {
        let sass = Sass::read(PRINTED).unwrap();
        assert_eq!(sass.instructions().len(), 6);
        assert_eq!(sass.count("LDGSTS"), 1);
        let expected = ProductLoop {
            instructions: 3,
            matrix_instructions: 1,
            multiply_adds: 0,
            asynchronous_copies: 1,
            stall_cycles: 2 + 4 + 5,
            tensor_cycles: 8,
        };
        assert_eq!(sass.product_loop(), Some(expected));
    }

    #[test]
    fn output_without_code_is_refused() {
        assert!(Sass::read("").is_err());
        assert!(Sass::read("Fatbin elf code:\n====\n").is_err());
    }
}
