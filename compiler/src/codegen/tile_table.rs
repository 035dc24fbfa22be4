//! The checked-in table of tiles: which tile and how many shares of the depth a product takes, one row for each class of
//! products that is worth one.
//!
//! ```text
//! version 1
//! # target  type  left   right  sums  rows  columns  depth  tile     splits  cycles    us
//! sm_90a    bf16  depth  outer  no    8192  8192     8192   128x256  1       8412608   -
//! ```
//!
//! `cycles` is what the cost model expects of that choice, `us` what a launch took on a device. `raddle tune` writes both. A row
//! with a time decides for all products of its class; where there is none the cost model decides for the very extents. A class is
//! an architecture, the elements and how they are multiplied, along which index each operand's lines run, whether the right
//! operand's columns are summed, and the extents, each rounded up to a power of two. Batches, and operands whose lines do not
//! start at multiples of 16 bytes, are in no class.

use std::fmt;

use super::contraction::{Contraction, Major};
use super::depth_shares::Wish;
use super::description::ElementType;
use super::error::CodegenError;
use super::math::Math;
use super::nvptx::Architecture;
use super::tiling::TileSize;

/// The table that is compiled in.
const CHECKED_IN: &str = include_str!("tiles.txt");

/// The first line of a table.
const VERSION: &str = "version 1";

/// Names of the columns.
const COLUMNS: [&str; 12] = [
    "target", "type", "left", "right", "sums", "rows", "columns", "depth", "tile", "splits",
    "cycles", "us",
];

/// A class of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// What they run on.
    pub architecture: Architecture,
    /// The operands' elements.
    pub element: ElementType,
    /// How those are multiplied.
    pub math: Math,
    /// Along which index the left operand's lines run, and the right one's.
    pub majors: [Major; 2],
    /// Whether the right operand's columns are summed.
    pub column_sums: bool,
    /// Rows, columns and terms, each rounded up to a power of two.
    pub extents: [u64; 3],
}

impl Class {
    /// The class of a product; `None` if it is in none.
    pub fn of(product: &Contraction, architecture: Architecture) -> Option<Class> {
        let operands = [&product.left, &product.right];
        let is_aligned = operands
            .iter()
            .all(|operand| operand.alignment_bytes() >= 16);
        (is_aligned && product.batch == 1).then(|| Class {
            architecture,
            element: product.left.element,
            math: product.math,
            majors: operands.map(|operand| operand.major),
            column_sums: product.column_sums,
            extents: [product.rows, product.columns, product.depth].map(u64::next_power_of_two),
        })
    }
}

/// What a class of products takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Which products.
    pub class: Class,
    /// Their tile.
    pub tile: TileSize,
    /// Blocks that share a tile.
    pub splits: u32,
    /// Cycles that the cost model expects of a product with the class's extents.
    pub cycles: u64,
    /// Microseconds of a launch, if it was measured.
    pub us: Option<f64>,
}

impl Row {
    /// The row's choice as a wish.
    pub fn wish(&self) -> Wish {
        Wish {
            tile: Some(self.tile),
            splits: Some(self.splits),
        }
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TileTable {
    /// Its rows, at most one for each class.
    pub rows: Vec<Row>,
}

impl TileTable {
    /// The table that is compiled in.
    ///
    /// # Errors
    /// [`CodegenError::TileTable`] if it cannot be read; a test reads it.
    pub fn checked_in() -> Result<TileTable, CodegenError> {
        TileTable::parse(CHECKED_IN)
    }

    /// The row of the compiled-in table that decides for a product, if its class was measured. Only rows that may be it are
    /// read: this is done for every kernel.
    ///
    /// # Errors
    /// [`CodegenError::TileTable`] if one of those cannot be read.
    pub fn choice(
        product: &Contraction,
        architecture: Architecture,
    ) -> Result<Option<Row>, CodegenError> {
        TileTable::choice_in(CHECKED_IN, product, architecture)
    }

    fn choice_in(
        text: &str,
        product: &Contraction,
        architecture: Architecture,
    ) -> Result<Option<Row>, CodegenError> {
        let Some(class) = Class::of(product, architecture) else {
            return Ok(None);
        };
        for (index, line) in text.lines().enumerate() {
            let may_decide = line.starts_with(architecture.name()) && !line.ends_with('-');
            if !may_decide {
                continue;
            }
            let row = read_row(line).map_err(|reason| CodegenError::TileTable {
                line: index + 1,
                reason,
            })?;
            if row.class == class {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Reads a table.
    ///
    /// # Errors
    /// [`CodegenError::TileTable`] names the line that is none.
    pub fn parse(text: &str) -> Result<TileTable, CodegenError> {
        let mut lines = text.lines().enumerate();
        let wrong = |index: usize, reason: String| CodegenError::TileTable {
            line: index + 1,
            reason,
        };
        match lines.next() {
            Some((_, VERSION)) => {}
            _ => return Err(wrong(0, format!("the first line is not `{VERSION}`"))),
        }
        let mut rows: Vec<Row> = Vec::new();
        for (index, line) in lines {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let row = read_row(line).map_err(|reason| wrong(index, reason))?;
            if rows.iter().any(|other| other.class == row.class) {
                return Err(wrong(
                    index,
                    "there is a row of this class already".to_owned(),
                ));
            }
            rows.push(row);
        }
        Ok(TileTable { rows })
    }

    /// Puts a row in the place of the one of its class, or at the end.
    pub fn set(&mut self, row: Row) {
        match self.rows.iter_mut().find(|other| other.class == row.class) {
            Some(place) => *place = row,
            None => self.rows.push(row),
        }
    }
}

impl fmt::Display for TileTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![COLUMNS.map(str::to_owned)];
        lines[0][0].insert_str(0, "# ");
        lines.extend(self.rows.iter().map(words));
        let width = |column: usize| lines.iter().map(|line| line[column].len()).max();
        let widths: [usize; 12] = std::array::from_fn(|column| width(column).unwrap_or_default());
        writeln!(f, "{VERSION}")?;
        for line in &lines {
            let padded = line.iter().zip(widths);
            let padded: Vec<String> = padded
                .map(|(word, width)| format!("{word:<width$}"))
                .collect();
            writeln!(f, "{}", padded.join("  ").trim_end())?;
        }
        Ok(())
    }
}

const fn major_name(major: Major) -> &'static str {
    match major {
        Major::Depth => "depth",
        Major::Outer => "outer",
    }
}

fn type_name(element: ElementType, math: Math) -> &'static str {
    match math {
        Math::Full => element.name(),
        Math::Tf32 | Math::ThreeTf32 => math.name(),
    }
}

fn words(row: &Row) -> [String; 12] {
    let class = &row.class;
    let [left, right] = class.majors;
    let [rows, columns, depth] = class.extents;
    [
        class.architecture.name().to_owned(),
        type_name(class.element, class.math).to_owned(),
        major_name(left).to_owned(),
        major_name(right).to_owned(),
        if class.column_sums { "yes" } else { "no" }.to_owned(),
        rows.to_string(),
        columns.to_string(),
        depth.to_string(),
        format!("{}x{}", row.tile.rows, row.tile.columns),
        row.splits.to_string(),
        row.cycles.to_string(),
        row.us.map_or("-".to_owned(), |us| format!("{us:.1}")),
    ]
}

fn read_row(line: &str) -> Result<Row, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Ok(words) = <[&str; 12]>::try_from(words) else {
        return Err(format!(
            "a row has {} words: {}",
            COLUMNS.len(),
            COLUMNS.join(", ")
        ));
    };
    let number = |column: usize| -> Result<u64, String> {
        let word = words[column];
        let read = word.parse().ok().filter(|&number| number > 0);
        read.ok_or_else(|| format!("{} is `{word}`, not a number", COLUMNS[column]))
    };
    let one_of = |column: usize, names: [&str; 2]| -> Result<bool, String> {
        let word = words[column];
        match names.iter().position(|&name| name == word) {
            Some(place) => Ok(place == 0),
            None => Err(format!(
                "{} is `{word}`, neither {} nor {}",
                COLUMNS[column], names[0], names[1]
            )),
        }
    };
    let major = |column| {
        let is_depth = one_of(column, ["depth", "outer"])?;
        Ok::<_, String>(if is_depth { Major::Depth } else { Major::Outer })
    };
    let types = ElementType::ALL
        .map(|element| (element, Math::Full))
        .into_iter()
        .chain([
            (ElementType::F32, Math::Tf32),
            (ElementType::F32, Math::ThreeTf32),
        ]);
    let mut types = types.filter(|&(element, math)| type_name(element, math) == words[1]);
    let (element, math) = types
        .next()
        .ok_or_else(|| format!("there is no type `{}`", words[1]))?;
    let extent = |column| {
        let extent = number(column)?;
        if extent.is_power_of_two() {
            Ok(extent)
        } else {
            Err(format!("{} is {extent}, no power of two", COLUMNS[column]))
        }
    };
    let tile = words[8]
        .split_once('x')
        .and_then(|(rows, columns)| {
            Some(TileSize {
                rows: rows.parse().ok()?,
                columns: columns.parse().ok()?,
            })
        })
        .ok_or_else(|| format!("tile is `{}`; write one as 128x256", words[8]))?;
    let us = match words[11] {
        "-" => None,
        word => Some(
            word.parse()
                .ok()
                .filter(|us: &f64| us.is_finite() && *us > 0.0)
                .ok_or_else(|| format!("us is `{word}`, neither a time nor -"))?,
        ),
    };
    Ok(Row {
        class: Class {
            architecture: words[0]
                .parse()
                .map_err(|error: CodegenError| error.to_string())?,
            element,
            math,
            majors: [major(2)?, major(3)?],
            column_sums: one_of(4, ["yes", "no"])?,
            extents: [extent(5)?, extent(6)?, extent(7)?],
        },
        tile,
        splits: u32::try_from(number(9)?).map_err(|error| error.to_string())?,
        cycles: number(10)?,
        us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::KernelDescription;

    #[test]
    fn the_checked_in_table_reads_back() {
        let table = TileTable::checked_in().expect("a table");
        assert!(!table.rows.is_empty());
        assert_eq!(table.to_string(), CHECKED_IN);
    }

    #[test]
    fn only_what_was_measured_decides_and_only_for_its_class() {
        let row = "sm_80 bf16 depth outer no 4096 4096 512 64x128 2 1000";
        let text = |us: &str| format!("version 1\n\n# comment\n{row} {us}\n");
        let kernel = KernelDescription::product(ElementType::Bf16, 4000, 4096, 264);
        let product = |kernel: &KernelDescription| Contraction::of(kernel).unwrap().unwrap();
        let find = |text: &str, kernel: &KernelDescription, architecture| {
            let row = TileTable::choice_in(text, &product(kernel), architecture);
            row.expect("a table").map(|row| row.wish())
        };
        let wish = Wish {
            tile: Some(TileSize {
                rows: 64,
                columns: 128,
            }),
            splits: Some(2),
        };
        assert_eq!(find(&text("12.5"), &kernel, Architecture::Sm80), Some(wish));
        assert_eq!(find(&text("-"), &kernel, Architecture::Sm80), None);
        assert_eq!(find(&text("12.5"), &kernel, Architecture::Sm90a), None);
        for other in [
            KernelDescription { k: 256, ..kernel },
            KernelDescription { k: 257, ..kernel },
            KernelDescription { m: 4097, ..kernel },
            KernelDescription { batch: 2, ..kernel },
            KernelDescription {
                element: ElementType::F16,
                ..kernel
            },
        ] {
            assert_eq!(find(&text("12.5"), &other, Architecture::Sm80), None);
        }
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        let good = "sm_80 bf16 depth outer no 64 64 64 64x64 1 1000 -";
        for (line, reason) in [
            ("sm_80 bf16", "a row has 12 words"),
            (
                "sm_8 bf16 depth outer no 64 64 64 64x64 1 1000 -",
                "unknown target",
            ),
            (
                "sm_80 bf17 depth outer no 64 64 64 64x64 1 1000 -",
                "no type `bf17`",
            ),
            (
                "sm_80 bf16 deep outer no 64 64 64 64x64 1 1000 -",
                "left is `deep`",
            ),
            (
                "sm_80 bf16 depth outer no 60 64 64 64x64 1 1000 -",
                "rows is 60",
            ),
            (
                "sm_80 bf16 depth outer no 64 64 64 64 1 1000 -",
                "tile is `64`",
            ),
            (
                "sm_80 bf16 depth outer no 64 64 64 64x64 0 1000 -",
                "splits is `0`",
            ),
            (
                "sm_80 bf16 depth outer no 64 64 64 64x64 1 1000 -1",
                "us is `-1`",
            ),
            (good, "already"),
        ] {
            let text = format!("version 1\n{good}\n{line}\n");
            let said = TileTable::parse(&text).unwrap_err().to_string();
            assert!(said.contains("line 3") && said.contains(reason), "{said}");
        }
        let said = TileTable::parse("version 2\n").unwrap_err().to_string();
        assert!(said.contains("line 1"), "{said}");
    }
}
