//! Filling the table of tiles ([`super::tile_table`]): which kernels are worth a row, which ways to cut each are tried, and
//! what a row says of one.

use super::depth_shares::Wish;
use super::description::{ElementType, KernelDescription, KernelOp, MatrixLayout};
use super::error::CodegenError;
use super::math::Math;
use super::nvptx::{Architecture, Plan, Planned, Target};
use super::tile_table::{Class, Row, TileTable};
use super::tiling::TileSize;

/// Architectures that the table has rows for.
pub const ARCHITECTURES: [Architecture; 3] = [
    Architecture::Sm80,
    Architecture::Sm90a,
    Architecture::Sm100a,
];

/// Tokens, out features and in features of the kernels that are worth a row: squares, layers of language models, few tokens,
/// and a long depth.
pub const SHAPES: [[u64; 3]; 10] = [
    [1024, 1024, 1024],
    [2048, 2048, 2048],
    [4096, 4096, 4096],
    [8192, 8192, 8192],
    [4096, 16384, 4096],
    [4096, 4096, 16384],
    [16, 4096, 4096],
    [128, 8192, 8192],
    [512, 4096, 4096],
    [256, 256, 16384],
];

/// A way that the cost model expects to take so many times as long as the best one is not tried.
const HOPELESS: f64 = 2.5;

/// The kernels of some shapes that are worth a row: all four layouts of bf16, one of f16, tf32 and f32, and the gradient of
/// a weight with that of its bias.
pub fn kernels(shapes: &[[u64; 3]]) -> Vec<KernelDescription> {
    let mut kernels = Vec::new();
    for &[m, n, k] in shapes {
        let product = |element| KernelDescription::product(element, m, n, k);
        let (row, column) = (MatrixLayout::ROW_MAJOR, MatrixLayout::COLUMN_MAJOR);
        let bf16 = product(ElementType::Bf16);
        for (a, b) in [(row, row), (row, column), (column, row), (column, column)] {
            kernels.push(KernelDescription { a, b, ..bf16 });
        }
        kernels.push(product(ElementType::F16));
        kernels.push(KernelDescription {
            math: Math::Tf32,
            ..product(ElementType::F32)
        });
        kernels.push(product(ElementType::F32));
        // Its contraction has the in features as rows and sums over the tokens, which take each other's place here.
        kernels.push(KernelDescription {
            op: KernelOp::WeightGradient,
            output: ElementType::F32,
            bias: Some(ElementType::F32),
            ..KernelDescription::product(ElementType::Bf16, k, n, m)
        });
    }
    kernels
}

/// The ways to cut a kernel that are worth a try, the cost model's favourite first.
///
/// # Errors
/// What the description is refused for.
pub fn ways(kernel: &KernelDescription, target: Target) -> Result<Vec<Planned>, CodegenError> {
    let best = Planned::by_model(kernel, target)?;
    let cost = |planned: &Planned| planned.cost().map_or(f64::INFINITY, |cost| cost.total());
    let bound = cost(&best) * HOPELESS;
    let mut ways = vec![best];
    for rows in [16, 32, 64, 128, 256] {
        for columns in [64, 128, 256] {
            for splits in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] {
                let wish = Wish {
                    tile: Some(TileSize { rows, columns }),
                    splits: Some(splits),
                };
                let Ok(planned) = Planned::of(kernel, target, wish) else {
                    continue;
                };
                let is_new = ways.iter().all(|other| other.plan != planned.plan);
                if is_new && cost(&planned) <= bound {
                    ways.push(planned);
                }
            }
        }
    }
    ways[1..].sort_by(|x, y| cost(x).total_cmp(&cost(y)));
    Ok(ways)
}

/// What the table says of a way to cut a kernel; `None` if the kernel is in no class, or no product.
pub fn row(planned: &Planned, us: Option<f64>) -> Option<Row> {
    let product = planned.contraction.as_ref()?;
    let (tile, splits) = match planned.plan {
        Plan::Product(schedule) => ((schedule.rows, schedule.columns), schedule.parts.splits),
        Plan::Warpgroups(schedule) => ((schedule.rows, schedule.columns), schedule.parts.splits),
        Plan::TensorMemory(schedule) => (
            (schedule.tile.rows, schedule.tile.columns),
            schedule.tile.parts.splits,
        ),
        Plan::ColumnSum(_) => return None,
    };
    Some(Row {
        class: Class::of(product, planned.target.architecture())?,
        tile: TileSize {
            rows: tile.0,
            columns: tile.1,
        },
        splits,
        cycles: planned.cost()?.total().round() as u64,
        us,
    })
}

/// The table as the cost model alone fills it.
///
/// # Errors
/// What a description is refused for.
pub fn by_model(
    architectures: &[Architecture],
    shapes: &[[u64; 3]],
) -> Result<TileTable, CodegenError> {
    let mut table = TileTable::default();
    for &architecture in architectures {
        for kernel in kernels(shapes) {
            let planned = Planned::by_model(&kernel, Target::of(architecture))?;
            if let Some(row) = row(&planned, None) {
                table.set(row);
            }
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checked-in table has a row for every class, says of each what the cost model says today, and where nothing was
    /// measured, its choice.
    #[test]
    fn the_checked_in_table_is_fresh() {
        let remedy =
            "refill it with `raddle tune --device model -o compiler/src/codegen/tiles.txt`";
        let table = TileTable::checked_in().expect("a table");
        let fresh = by_model(&ARCHITECTURES, &SHAPES).expect("a table");
        for row in &fresh.rows {
            let kept = table.rows.iter().find(|kept| kept.class == row.class);
            let kept = kept.unwrap_or_else(|| panic!("no row {row:?}; {remedy}"));
            if kept.us.is_none() {
                assert_eq!(kept, row, "{remedy}");
            }
        }
        assert_eq!(table.rows.len(), fresh.rows.len(), "{remedy}");
    }

    #[test]
    fn the_favourite_comes_first_and_no_way_is_tried_twice() {
        for architecture in ARCHITECTURES {
            for kernel in kernels(&[[256, 256, 16384], [4096, 4096, 4096]]) {
                let target = Target::of(architecture);
                let ways = ways(&kernel, target).expect("ways");
                let favourite = Planned::by_model(&kernel, target).expect("a plan");
                assert_eq!(ways[0].plan, favourite.plan);
                let cost = |planned: &Planned| planned.cost().expect("a cost").total();
                for (index, way) in ways.iter().enumerate() {
                    let is_sorted = index < 2 || cost(way) >= cost(&ways[index - 1]);
                    assert!(is_sorted, "{architecture} {kernel:?}");
                    assert!(cost(way) <= cost(&ways[0]) * HOPELESS);
                    assert!(ways[..index].iter().all(|other| other.plan != way.plan));
                    assert!(row(way, None).is_some());
                }
            }
        }
    }
}
