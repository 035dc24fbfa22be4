//! The generated module: generic text of the kind training programs have, the same on every machine.
//!
//! Functions of about fifty ops of one unregistered dialect. Most ops are small, with one or two operands; some carry
//! dictionaries, dense constants, layouts in the tensor type, or a region; every function ends in a return.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

const OPS_PER_FUNCTION: usize = 50;

/// Writes a module of `op_count` ops (functions and the module itself among them) to `path`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_module(path: &Path, op_count: usize) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    let mut out = BufWriter::new(file);
    write_text(&mut out, op_count)
        .and_then(|()| out.flush())
        .with_context(|| format!("cannot write {}", path.display()))
}

fn write_text(out: &mut impl Write, op_count: usize) -> std::io::Result<()> {
    writeln!(out, "\"builtin.module\"() ({{")?;
    let mut left = op_count - 1;
    let mut index = 0;
    while left > 0 {
        let size = left.min(OPS_PER_FUNCTION);
        write_function(out, index, size)?;
        left -= size;
        index += 1;
    }
    writeln!(out, "}}) : () -> ()")
}

/// One function of `size` ops, itself among them.
fn write_function(out: &mut impl Write, index: usize, size: usize) -> std::io::Result<()> {
    let width = 64 << (index % 5);
    let tensor = format!("tensor<{width}x128xf32>");
    let split = format!("tensor<{width}x128xbf16, #train.layout<[\"dp\", {index}]>>");
    writeln!(
        out,
        "  \"train.func\"() <{{name = \"layer_{index}\", type = ({tensor}) -> {tensor}}}> ({{\n  ^bb0(%arg0: {tensor}):"
    )?;
    let mut last = "%arg0".to_owned();
    let mut left = size.saturating_sub(2);
    let mut value = 0;
    while left > 0 {
        let name = format!("%{value}");
        match value % 10 {
            0 => writeln!(
                out,
                "    {name} = \"train.constant\"() {{value = dense<{}.5> : {tensor}}} : () -> {tensor}",
                value % 7
            )?,
            3 => {
                writeln!(
                    out,
                    "    {name} = \"train.matmul\"({last}, %{}) {{transpose = false, role = \"forward\", axes = [\"dp\", \"mp\"], \
                     attributes = {{layer = {index} : i64, scale = 1.250000e-01 : f32, ring = @ring_{}}}}} : ({tensor}, {tensor}) -> {tensor}",
                    value - 3,
                    index % 3
                )?;
            }
            6 => writeln!(
                out,
                "    {name} = \"train.cast\"({last}) : ({tensor}) -> {split}"
            )?,
            7 => writeln!(
                out,
                "    {name} = \"train.all_reduce\"(%{}) {{axes = [\"mp\"], kind = \"sum\"}} : ({split}) -> {tensor}",
                value - 1
            )?,
            8 if left >= 2 => {
                left -= 1;
                writeln!(
                    out,
                    "    {name} = \"train.recompute\"({last}) ({{\n    ^bb0(%arg1: {tensor}):\n      \"train.yield\"(%arg1) : ({tensor}) -> ()\n    \
                     }}) {{keep}} : ({tensor}) -> {tensor}"
                )?;
            }
            kind => {
                let op = ["add", "gelu", "layer_norm", "mul"][kind % 4];
                writeln!(
                    out,
                    "    {name} = \"train.{op}\"({last}, %arg0) {{role = \"backward\"}} : ({tensor}, {tensor}) -> {tensor}"
                )?;
            }
        }
        if value % 10 != 6 {
            last = name;
        }
        value += 1;
        left -= 1;
    }
    if size > 1 {
        writeln!(out, "    \"train.return\"({last}) : ({tensor}) -> ()")?;
    }
    writeln!(out, "  }}) : () -> ()")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_exactly_the_ops_asked_for() {
        for count in [2, 52, 1000, 1003] {
            let mut text = Vec::new();
            write_text(&mut text, count).unwrap();
            let text = String::from_utf8(text).unwrap();
            let module = text.matches("\"builtin.module\"(").count();
            let others = text.matches("\"train.").count();
            assert_eq!(module + others, count);
        }
    }
}
