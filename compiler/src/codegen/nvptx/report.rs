//! What is known of a kernel before it runs.

use std::fmt;

use super::planned::{self, Choice};
use super::ptx::{Plan, Ptx};
use super::sass::{ProductLoop, Sass};
use super::target::{Architecture, Limits};
use super::toolkit::{Cubin, Resources, Toolkit};
use crate::codegen::contraction::{Contraction, Major};
use crate::codegen::cost::Cost;
use crate::codegen::error::CodegenError;
use crate::codegen::tensor_memory_tiling::TensorMemorySchedule;
use crate::codegen::tiling::{CopyPath, Method, TileSchedule};
use crate::codegen::warpgroup_tiling::{NoWarpgroups, STAGE_DEPTH, StorePath, WarpgroupSchedule};

/// Registers are handed to warps in units of this size.
const REGISTER_UNIT: u32 = 256;

/// Shared memory is handed to blocks in units of this size, in bytes.
const SHARED_UNIT: u32 = 128;

/// What is known of a kernel before it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The entry point.
    pub entry: String,
    /// The architecture's name.
    pub architecture: &'static str,
    /// How the work was cut.
    pub plan: Plan,
    /// Why neither warpgroups nor tensor memory do it, on an architecture that has one of them.
    pub without_warpgroups: Option<NoWarpgroups>,
    /// What chose the tile.
    pub choice: Choice,
    /// What the cost model expects, for a product.
    pub cost: Option<Cost>,
    /// What the assembler says it takes.
    pub resources: Resources,
    /// Bytes of shared memory of a block, with those that the launch asks for.
    pub shared_bytes: u32,
    /// How many blocks share a multiprocessor.
    pub occupancy: Occupancy,
    /// Matrix instructions of the whole kernel.
    pub matrix_instructions: u32,
    /// Copies from global to shared memory of 16 bytes, or of a box of a tensor map.
    pub wide_copies: u32,
    /// The loop that does the products, if the depth is long enough for one.
    pub product_loop: Option<ProductLoop>,
    /// Warnings and advice of the assembler.
    pub messages: Vec<String>,
}

/// How many blocks share a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks.
    pub blocks: u32,
    /// Their warps.
    pub warps: u32,
    /// Warps that would fit at most.
    pub warps_at_most: u32,
    /// What keeps more blocks out.
    pub limit: &'static str,
}

impl Report {
    /// Assembles and disassembles a kernel, and collects what there is to know.
    ///
    /// # Errors
    /// What NVIDIA's programs report; see [`Toolkit`].
    pub fn of(ptx: &Ptx, toolkit: &Toolkit) -> Result<Report, CodegenError> {
        let cubin = toolkit.assemble(ptx)?;
        let sass = Sass::read(&toolkit.disassemble(&cubin)?)?;
        Ok(Report::from_parts(ptx, &cubin, &sass))
    }

    /// Collects what there is to know of a kernel that is already assembled and disassembled.
    pub fn from_parts(ptx: &Ptx, cubin: &Cubin, sass: &Sass) -> Report {
        let shared_bytes = cubin.resources.static_shared_bytes + ptx.launch.shared_bytes;
        let limits = ptx.target.architecture().limits();
        let wide_copies = sass
            .instructions()
            .iter()
            .filter(|instruction| {
                let wide = instruction.operation().contains(".128");
                instruction.family() == "UTMALDG" || instruction.family() == "LDGSTS" && wide
            })
            .count();
        Report {
            entry: ptx.entry.clone(),
            architecture: ptx.target.architecture().name(),
            plan: ptx.plan,
            without_warpgroups: ptx.without_warpgroups,
            choice: ptx.choice,
            cost: Contraction::of(&ptx.kernel)
                .ok()
                .flatten()
                .and_then(|product| planned::cost(&product, &ptx.plan, ptx.target)),
            resources: cubin.resources,
            shared_bytes,
            occupancy: Occupancy::of(
                &limits,
                cubin.resources.registers,
                ptx.launch.threads,
                shared_bytes,
            ),
            matrix_instructions: sass.matrix_instructions(),
            wide_copies: wide_copies as u32,
            product_loop: sass.product_loop().map(|round| match ptx.plan {
                // The instruction's text does not say how many columns it multiplies.
                Plan::TensorMemory(schedule) => ProductLoop {
                    tensor_cycles: round.matrix_instructions * schedule.tile.columns / 2,
                    ..round
                },
                _ => round,
            }),
            messages: cubin.messages.clone(),
        }
    }
}

impl Occupancy {
    /// How many blocks of `threads` threads fit, each thread with `registers` registers and each block with
    /// `shared_bytes` bytes of shared memory.
    pub fn of(limits: &Limits, registers: u32, threads: u32, shared_bytes: u32) -> Occupancy {
        let warps = threads.div_ceil(32);
        let per_warp = (registers * 32).next_multiple_of(REGISTER_UNIT);
        let by_registers = (limits.registers / per_warp.max(REGISTER_UNIT)) / warps;
        let per_block = shared_bytes.next_multiple_of(SHARED_UNIT) + limits.reserved_shared_bytes;
        let by_shared = limits.shared_bytes / per_block;
        let bounds = [
            (by_registers, "registers"),
            (by_shared, "shared memory"),
            (limits.warps / warps, "warps"),
            (limits.blocks, "blocks"),
        ];
        let (blocks, limit) = bounds
            .into_iter()
            .min_by_key(|&(blocks, _)| blocks)
            .unwrap_or((0, "registers"));
        Occupancy {
            blocks,
            warps: blocks * warps,
            warps_at_most: limits.warps,
            limit,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            plan,
            resources,
            occupancy,
            ..
        } = self;
        writeln!(f, "kernel:               {}", self.entry)?;
        writeln!(f, "target:               {}", self.architecture)?;
        match plan {
            Plan::Product(schedule) => write_product(f, schedule)?,
            Plan::Warpgroups(schedule) => write_warpgroups(f, schedule)?,
            Plan::TensorMemory(schedule) => write_tensor_memory(f, schedule)?,
            Plan::ColumnSum(schedule) => writeln!(
                f,
                "path:                 sums of {} columns per block, {} elements at a time",
                schedule.block_columns(),
                schedule.run
            )?,
        }
        if let Some(reason) = self.without_warpgroups {
            let what = if self.architecture == Architecture::Sm100a.name() {
                "without tcgen05:     "
            } else {
                "without warpgroups:  "
            };
            writeln!(f, "{what} {}", reason.reason())?;
        }
        write_parts(f, plan)?;
        let launch = plan.launch();
        writeln!(
            f,
            "grid:                 {} blocks of {} threads",
            launch.blocks, launch.threads
        )?;
        writeln!(f, "registers:            {}", resources.registers)?;
        writeln!(f, "stack bytes:          {}", resources.stack_bytes)?;
        writeln!(
            f,
            "spill bytes:          {} stored, {} loaded",
            resources.spill_store_bytes, resources.spill_load_bytes
        )?;
        writeln!(f, "shared bytes:         {}", self.shared_bytes)?;
        writeln!(
            f,
            "occupancy:            {} blocks, {} of {} warps, limited by {}",
            occupancy.blocks, occupancy.warps, occupancy.warps_at_most, occupancy.limit
        )?;
        writeln!(f, "matrix instructions:  {}", self.matrix_instructions)?;
        writeln!(f, "16-byte copies:       {}", self.wide_copies)?;
        match self.product_loop {
            Some(round) => {
                writeln!(
                    f,
                    "main loop:            {} instructions, {} matrix, {} multiply-add, {} copies",
                    round.instructions,
                    round.matrix_instructions,
                    round.multiply_adds,
                    round.asynchronous_copies
                )?;
                if round.tensor_cycles > 0 {
                    let ratio = f64::from(round.stall_cycles) / f64::from(round.tensor_cycles);
                    writeln!(
                        f,
                        "stall/tensor cycles:  {}/{} = {ratio:.3}",
                        round.stall_cycles, round.tensor_cycles
                    )?;
                } else {
                    writeln!(f, "stall cycles:         {}", round.stall_cycles)?;
                }
            }
            None => writeln!(f, "main loop:            none")?,
        }
        if let Some(cost) = &self.cost {
            writeln!(f, "tile chosen by:       {}", self.choice)?;
            writeln!(f, "cost model:           {cost}")?;
        }
        for message in &self.messages {
            writeln!(f, "assembler:            {message}")?;
        }
        Ok(())
    }
}

/// What blocks hand each other, if anything.
fn write_parts(f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
    let (parts, terms) = match plan {
        Plan::Product(schedule) => (schedule.parts, schedule.depth * schedule.depth_tiles),
        Plan::Warpgroups(schedule) => (schedule.parts, STAGE_DEPTH * schedule.depth_tiles),
        Plan::TensorMemory(schedule) => {
            (schedule.tile.parts, STAGE_DEPTH * schedule.tile.depth_tiles)
        }
        Plan::ColumnSum(schedule) => (schedule.parts, 0),
    };
    if parts.splits_tiles() {
        let splits = parts.splits;
        writeln!(
            f,
            "split-K:              {splits} blocks share a tile, {terms} terms each"
        )?;
    }
    if let Some(count) = parts.column_parts.filter(|&count| count > 1) {
        writeln!(f, "sums of columns:      {count} parts")?;
    }
    let scratch = plan.scratch();
    if scratch.workspace_bytes > 0 {
        writeln!(
            f,
            "scratch bytes:        {} of workspace, {} of counters",
            scratch.workspace_bytes, scratch.counter_bytes
        )?;
    }
    Ok(())
}

fn write_product(f: &mut fmt::Formatter<'_>, schedule: &TileSchedule) -> fmt::Result {
    let path = match schedule.method {
        Method::TensorCore => "mma.sync m16n8k16, cp.async, ldmatrix",
        Method::Tf32 => "mma.sync m16n8k8 on tf32, cp.async",
        Method::ThreeTf32 => "mma.sync m16n8k8 on tf32, three products, cp.async",
        Method::MultiplyAdd => "fused multiply-add, cp.async",
    };
    writeln!(f, "path:                 {path}")?;
    writeln!(
        f,
        "tile:                 {} x {} x {}, warp {} x {}, {} stages",
        schedule.rows,
        schedule.columns,
        schedule.depth,
        schedule.warp_rows,
        schedule.warp_columns,
        schedule.stages
    )?;
    writeln!(
        f,
        "copies:               A {}, B {}",
        copy_name(schedule.left.copy),
        copy_name(schedule.right.copy)
    )
}

fn write_warpgroups(f: &mut fmt::Formatter<'_>, schedule: &WarpgroupSchedule) -> fmt::Result {
    writeln!(
        f,
        "path:                 wgmma m64n{}k16, TMA, {} consumer warpgroups",
        schedule.columns, schedule.groups
    )?;
    writeln!(
        f,
        "tile:                 {} x {} x {STAGE_DEPTH}, warpgroup {} x {}, {} stages",
        schedule.rows,
        schedule.columns,
        schedule.group_rows(),
        schedule.columns,
        schedule.stages
    )?;
    write_ways(f, schedule)?;
    if let Some(split) = schedule.registers {
        writeln!(
            f,
            "registers shared:     {} producer, {} consumer",
            split.producer, split.consumer
        )?;
    }
    Ok(())
}

fn write_tensor_memory(f: &mut fmt::Formatter<'_>, schedule: &TensorMemorySchedule) -> fmt::Result {
    let tile = &schedule.tile;
    writeln!(
        f,
        "path:                 tcgen05.mma m128n{}k16, TMA, tensor memory",
        tile.columns
    )?;
    writeln!(
        f,
        "tile:                 {} x {} x {STAGE_DEPTH}, {} stages",
        tile.rows, tile.columns, tile.stages
    )?;
    writeln!(
        f,
        "tensor memory:        {} columns, {} accumulators",
        schedule.tensor_columns(),
        schedule.accumulators
    )?;
    write_ways(f, tile)
}

/// How operands and results are copied.
fn write_ways(f: &mut fmt::Formatter<'_>, schedule: &WarpgroupSchedule) -> fmt::Result {
    let major = |major| match major {
        Major::Depth => "K-major",
        Major::Outer => "MN-major",
    };
    writeln!(
        f,
        "copies:               A TMA {}, B TMA {}",
        major(schedule.left),
        major(schedule.right)
    )?;
    let store = match schedule.output {
        StorePath::Tensor => "TMA through shared memory".to_owned(),
        StorePath::Direct(elements) => format!("from registers, {elements} elements at a time"),
    };
    writeln!(f, "result:               {store}")
}

fn copy_name(copy: CopyPath) -> String {
    match copy {
        CopyPath::Async(bytes) => format!("cp.async {bytes} bytes"),
        CopyPath::Registers => "loads of single elements".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_follows_the_scarcest_resource() {
        let limits = Architecture::Sm80.limits();
        let of = |registers, threads, shared| {
            let occupancy = Occupancy::of(&limits, registers, threads, shared);
            (occupancy.blocks, occupancy.limit)
        };
        assert_eq!(of(255, 256, 98304), (1, "registers"));
        assert_eq!(of(128, 128, 65536), (2, "shared memory"));
        assert_eq!(of(128, 128, 32768), (4, "registers"));
        assert_eq!(of(32, 256, 0), (8, "registers"));
        assert_eq!(of(16, 256, 0), (8, "warps"));
        assert_eq!(of(16, 32, 0), (32, "blocks"));
        assert_eq!(of(255, 1024, 0), (0, "registers"));
    }
}
