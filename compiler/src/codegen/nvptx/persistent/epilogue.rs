//! From sums in a warp's registers to the result: bias, auxiliary output, activation, derivative, accumulation.
//!
//! `wgmma`, and a read of tensor memory, leave a lane neighbours of two columns in rows eight apart. Everything elementwise
//! happens where the sums are. Results then go to global memory through the warp's buffers ([`super::staging`]); those whose
//! rows start at other addresses than multiples of 16 bytes are written from registers.

use inkwell::IntPredicate;
use inkwell::values::{FloatValue, IntValue, PointerValue};

use super::result_sums::{self, PanelSums};
use super::staging::{Buffers, Place, Staging, await_reads};
use super::{Kernel, Thread, Tile};
use crate::codegen::contraction::Contraction;
use crate::codegen::description::ElementType;
use crate::codegen::llvm::Emitter;
use crate::codegen::nvptx::elements::{self, Memory, Run};
use crate::codegen::nvptx::parts::Crew;
use crate::codegen::nvptx::thread::warp_barrier;
use crate::codegen::nvptx::{activation, ptx::Parameter};
use crate::codegen::warpgroup_tiling::{
    LINE_BYTES, PANEL_BYTES, PANEL_ROWS, PANELS, StorePath, WARPGROUP_ROWS, WarpgroupSchedule,
};

/// Columns that are finished at a time: what the widest buffer line holds.
pub(in crate::codegen::nvptx) const PANEL_COLUMNS: u32 = 64;

/// Numbers of a panel that one lane holds.
pub(in crate::codegen::nvptx) const PANEL_SUMS: usize = (PANEL_ROWS * PANEL_COLUMNS / 32) as usize;

/// Columns from one of a lane's pairs to the next.
const PAIR_STRIDE: u32 = 8;

/// Writes a warp's share of tiles.
pub(in crate::codegen::nvptx) struct Writer<'l, 'c> {
    kernel: &'l Kernel<'l>,
    lane: IntValue<'c>,
    /// First row of the warp's share within the tile.
    warp_row: IntValue<'c>,
    staging: Staging<'c>,
}

/// Where a lane's pairs of one panel lie in the result.
struct Panel<'c> {
    batch: Option<IntValue<'c>>,
    /// The warp's first row and the panel's first column.
    row: IntValue<'c>,
    column: IntValue<'c>,
    /// The lane's first row and column.
    lane_row: IntValue<'c>,
    lane_column: IntValue<'c>,
}

/// One of a lane's pairs of neighbours in a panel.
pub(super) struct Pair<'c> {
    /// Rows below the lane's first.
    pub row: u32,
    /// Columns right of the lane's first.
    pub column: u32,
    pub values: [FloatValue<'c>; 2],
}

/// What a warp has written, as it was before it was rounded.
pub(in crate::codegen::nvptx) struct Part<'c> {
    panel: Panel<'c>,
    pairs: Vec<Pair<'c>>,
}

impl<'l, 'c> Writer<'l, 'c> {
    /// The writer of a warp whose share of a tile starts at a row.
    pub(in crate::codegen::nvptx) fn emit(
        e: &Emitter<'c>,
        kernel: &'l Kernel<'l>,
        thread: &Thread<'c>,
        warp_row: IntValue<'c>,
    ) -> Self {
        let schedule = kernel.schedule;
        let start = e.add_const(thread.shared, schedule.panels_start());
        Writer {
            kernel,
            lane: thread.lane,
            warp_row,
            staging: Staging {
                lane_row: e.shr_const(thread.lane, 2),
                lane_column: e.shl_const(e.and_const(thread.lane, 3), 1),
                start: e.add(start, e.mul_const(thread.warp, PANELS * PANEL_BYTES)),
            },
        }
    }

    fn contraction(&self) -> &Contraction {
        self.kernel.contraction
    }

    fn schedule(&self) -> &WarpgroupSchedule {
        self.kernel.schedule
    }

    /// Writes one tile whose sums all are in registers: those of each block of 64 rows one after the other. The crew is
    /// all the warps that write the tile.
    pub(in crate::codegen::nvptx) fn write(
        &self,
        e: &Emitter<'c>,
        tile: &Tile<'c>,
        (crew, sums): (&Crew<'c>, &[FloatValue<'c>]),
    ) {
        let per_block = (self.schedule().columns / 2) as usize;
        let mut buffers = self.buffers();
        let mut panel_sums = Vec::new();
        for (block, sums) in (0..).zip(sums.chunks(per_block)) {
            for (index, sums) in (0..).zip(sums.chunks(PANEL_SUMS)) {
                let column = e.i32(index * PANEL_COLUMNS);
                let place = (block * WARPGROUP_ROWS, column);
                let part = self.write_part(e, tile, place, (sums, &mut buffers));
                if self.contraction().epilogue.result_sums {
                    panel_sums.push(self.sums_of(e, &part));
                }
            }
        }
        if !panel_sums.is_empty() {
            if self.buffers_per_tile() > 0 {
                await_reads(e, 0);
            }
            warp_barrier(e);
            self.sums_writer(crew, self.staging.start)
                .write(e, tile, &panel_sums);
        }
    }

    /// Sums of a part's columns over its rows.
    fn sums_of(&self, e: &Emitter<'c>, part: &Part<'c>) -> PanelSums<'c> {
        let columns: Vec<[FloatValue<'c>; 2]> = part
            .pairs
            .chunks(2)
            .map(|rows| self.add_rows(e, &part.panel, rows))
            .collect();
        PanelSums::of_lanes(e, self.lane, &columns)
    }

    fn sums_writer<'k>(
        &'k self,
        crew: &'k Crew<'c>,
        scratch: IntValue<'c>,
    ) -> result_sums::Writer<'k, 'c> {
        result_sums::Writer {
            kernel: self.kernel,
            crew,
            lane: self.lane,
            scratch,
        }
    }

    /// Keeps the sums of a part's columns, if they are wanted, in the warp's share of a scratch memory. The column has the
    /// number of the part's first one among those of all the warp's blocks of rows.
    pub(in crate::codegen::nvptx) fn keep_sums(
        &self,
        e: &Emitter<'c>,
        (crew, scratch): (&Crew<'c>, IntValue<'c>),
        (part, column): (&Part<'c>, IntValue<'c>),
    ) {
        if self.contraction().epilogue.result_sums {
            let sums = self.sums_of(e, part);
            self.sums_writer(crew, scratch).put(e, column, &sums);
        }
    }

    /// Adds up the sums that were kept of a tile, if any were.
    pub(in crate::codegen::nvptx) fn finish_sums(
        &self,
        e: &Emitter<'c>,
        (crew, scratch): (&Crew<'c>, IntValue<'c>),
        tile: &Tile<'c>,
    ) {
        if self.contraction().epilogue.result_sums {
            self.sums_writer(crew, scratch).finish(e, tile);
        }
    }

    /// The sums of a lane's two columns over its two rows, as far as they lie within the result.
    fn add_rows(
        &self,
        e: &Emitter<'c>,
        panel: &Panel<'c>,
        rows: &[Pair<'c>],
    ) -> [FloatValue<'c>; 2] {
        [0, 1].map(|side| {
            let inside = |pair: &Pair<'c>| {
                let value = pair.values[side];
                match self.inside_rows(e, panel, pair.row) {
                    Some(inside) => e.select(inside, value, e.f32(0.0)).into_float_value(),
                    None => value,
                }
            };
            e.add_float(inside(&rows[0]), inside(&rows[1]))
        })
    }

    /// No buffer of a tile is filled yet.
    pub(in crate::codegen::nvptx) fn buffers(&self) -> Buffers {
        Buffers::of_tile(self.buffers_per_tile())
    }

    /// Writes 16 rows of 64 columns, some rows below the warp's first and from a column of the tile on.
    pub(in crate::codegen::nvptx) fn write_part(
        &self,
        e: &Emitter<'c>,
        tile: &Tile<'c>,
        (below, column): (u32, IntValue<'c>),
        (sums, buffers): (&[FloatValue<'c>], &mut Buffers),
    ) -> Part<'c> {
        let row = e.add(tile.row, e.add_const(self.warp_row, below));
        let column = e.add(tile.column, column);
        let panel = Panel {
            batch: tile.batch,
            row,
            column,
            lane_row: e.add(row, self.staging.lane_row),
            lane_column: e.add(column, self.staging.lane_column),
        };
        let pairs = sums.chunks(2).zip(0..).map(|(pair, index)| Pair {
            row: index % 2 * PAIR_STRIDE,
            column: index / 2 * PAIR_STRIDE,
            values: [pair[0], pair[1]],
        });
        let pairs = self.write_panel(e, &panel, pairs.collect(), buffers);
        Part { panel, pairs }
    }

    /// Waits until nothing reads the warp's buffers any more.
    pub(in crate::codegen::nvptx) fn finish(&self, e: &Emitter<'c>) {
        if self.buffers_per_tile() > 0 {
            await_reads(e, 0);
        }
    }

    /// How many buffers a warp fills for one tile.
    fn buffers_per_tile(&self) -> u32 {
        let schedule = self.schedule();
        let output = self.contraction().output.element;
        let auxiliary = self.contraction().epilogue.auxiliary_output;
        let buffers = |path: Option<StorePath>, element: ElementType| match path {
            Some(StorePath::Tensor) => PANEL_COLUMNS * element.bytes() / LINE_BYTES,
            _ => 0,
        };
        let per_panel = buffers(Some(schedule.output), output)
            + buffers(schedule.auxiliary_output, auxiliary.unwrap_or(output));
        per_panel * (schedule.columns / PANEL_COLUMNS) * (schedule.group_rows() / WARPGROUP_ROWS)
    }

    /// Writes a panel, and gives its pairs as they are before they are rounded.
    fn write_panel(
        &self,
        e: &Emitter<'c>,
        panel: &Panel<'c>,
        mut pairs: Vec<Pair<'c>>,
        buffers: &mut Buffers,
    ) -> Vec<Pair<'c>> {
        let epilogue = self.contraction().epilogue;
        let element = self.contraction().output.element;
        if let Some(of) = epilogue.bias {
            self.add_bias(e, panel, (of, &mut pairs));
        }
        if let Some((path, of)) = self
            .schedule()
            .auxiliary_output
            .zip(epilogue.auxiliary_output)
        {
            let target = (Parameter::AuxiliaryOutput, of, path);
            self.put(e, panel, target, (&pairs, buffers));
        }
        for pair in &mut pairs {
            pair.values = pair
                .values
                .map(|value| activation::apply(e, epilogue.activation, value, element));
        }
        if let Some((activation, of)) = epilogue.derivative {
            let source = Source {
                parameter: Parameter::AuxiliaryInput,
                element: of,
                memory: Memory::Constant,
            };
            self.combine(e, panel, (source, &mut pairs), |e, value, input| {
                let stored_as = epilogue.derivative_stored_as;
                e.mul_float(
                    value,
                    activation::derivative(e, activation, input, stored_as),
                )
            });
        }
        if epilogue.accumulate {
            let source = Source {
                parameter: Parameter::Output,
                element,
                memory: Memory::Mutable,
            };
            self.combine(e, panel, (source, &mut pairs), |e, value, existing| {
                e.add_float(value, existing)
            });
        }
        let target = (Parameter::Output, element, self.schedule().output);
        self.put(e, panel, target, (&pairs, buffers));
        pairs
    }

    /// Adds the bias of the lane's columns, which its pairs of two rows share.
    fn add_bias(
        &self,
        e: &Emitter<'c>,
        panel: &Panel<'c>,
        (element, pairs): (ElementType, &mut [Pair<'c>]),
    ) {
        let pointer = self.kernel.pointer(e, Parameter::Bias, (None, 0));
        let columns = self.contraction().columns;
        let width = if columns.is_multiple_of(2) { 2 } else { 1 };
        let run = Run {
            element,
            count: width,
            memory: Memory::Constant,
        };
        for rows in pairs.chunks_mut(2) {
            let mut values = Vec::with_capacity(2);
            for part in (0..2).step_by(width as usize) {
                let column = e.add_const(panel.lane_column, rows[0].column + part);
                let column = match self.inside(e, panel, (None, rows[0].column + part)) {
                    Some(inside) => e.select_int(inside, column, e.i32(0)),
                    None => column,
                };
                let bytes = e.mul(e.widen(column), e.i64(element.bytes().into()));
                values.extend(elements::load(e, e.offset(pointer, bytes), run));
            }
            for pair in rows {
                for (value, &bias) in pair.values.iter_mut().zip(&values) {
                    *value = e.add_float(*value, bias);
                }
            }
        }
    }

    /// Combines each value with the element of a matrix that is laid out like the result.
    fn combine(
        &self,
        e: &Emitter<'c>,
        panel: &Panel<'c>,
        (source, pairs): (Source, &mut [Pair<'c>]),
        with: impl Fn(&Emitter<'c>, FloatValue<'c>, FloatValue<'c>) -> FloatValue<'c>,
    ) {
        let width = self.contraction().row_run(2);
        let run = Run {
            element: source.element,
            count: width,
            memory: source.memory,
        };
        let matrix = self.matrix(e, panel, (source.parameter, source.element));
        for pair in pairs {
            let mut values = Vec::with_capacity(2);
            for part in (0..2).step_by(width as usize) {
                let mut address = matrix.address(e, (pair.row, pair.column + part));
                let inside = self.inside(e, panel, (Some(pair.row), pair.column + part));
                match (inside, source.memory) {
                    // What others write must not be read, not even in vain.
                    (Some(inside), Memory::Mutable) => {
                        let zeros = vec![e.f32(0.0).into(); width as usize];
                        let loaded = e.values_when(inside, &zeros, |e| {
                            let loaded = elements::load(e, address, run);
                            loaded.into_iter().map(Into::into).collect()
                        });
                        values.extend(loaded.iter().map(|value| value.into_float_value()));
                        continue;
                    }
                    (Some(inside), Memory::Constant) => {
                        address = e.select(inside, address, matrix.start).into_pointer_value();
                    }
                    (None, _) => {}
                }
                values.extend(elements::load(e, address, run));
            }
            for (value, other) in pair.values.iter_mut().zip(values) {
                *value = with(e, *value, other);
            }
        }
    }

    /// Whether a column of the lane's, and a row of it if there is one, lie within the result; `None` if all always do.
    fn inside(
        &self,
        e: &Emitter<'c>,
        panel: &Panel<'c>,
        (row, column): (Option<u32>, u32),
    ) -> Option<IntValue<'c>> {
        let columns = self.contraction().columns;
        let is_ragged = !columns.is_multiple_of(self.schedule().columns.into());
        let row = row.and_then(|row| self.inside_rows(e, panel, row));
        let column = is_ragged.then(|| {
            let column = e.add_const(panel.lane_column, column);
            e.compare(IntPredicate::ULT, column, e.i32(columns as u32))
        });
        match (row, column) {
            (Some(row), Some(column)) => Some(e.and(row, column)),
            (row, column) => row.or(column),
        }
    }

    /// Whether a row of the lane's lies within the result; `None` if all always do.
    fn inside_rows(&self, e: &Emitter<'c>, panel: &Panel<'c>, row: u32) -> Option<IntValue<'c>> {
        let rows = self.contraction().rows;
        let is_ragged = !rows.is_multiple_of(self.schedule().rows.into());
        is_ragged.then(|| {
            let row = e.add_const(panel.lane_row, row);
            e.compare(IntPredicate::ULT, row, e.i32(rows as u32))
        })
    }

    /// Writes finished pairs.
    fn put(
        &self,
        e: &Emitter<'c>,
        panel: &Panel<'c>,
        (parameter, element, path): (Parameter, ElementType, StorePath),
        (pairs, buffers): (&[Pair<'c>], &mut Buffers),
    ) {
        match path {
            StorePath::Tensor => {
                // Two rows of eight columns per chunk of the pairs' list.
                let columns = LINE_BYTES / element.bytes();
                let per_buffer = (columns / PAIR_STRIDE * 2) as usize;
                for (index, pairs) in (0..).zip(pairs.chunks(per_buffer)) {
                    let buffer = self.staging.fill(e, (element, pairs), buffers);
                    let place = Place {
                        batch: panel.batch,
                        row: panel.row,
                        column: e.add_const(panel.column, index * columns),
                    };
                    self.staging
                        .send(e, self.kernel, (parameter, buffer), &place);
                }
            }
            StorePath::Direct(width) => {
                let matrix = self.matrix(e, panel, (parameter, element));
                for pair in pairs {
                    for (part, values) in (0..)
                        .step_by(width as usize)
                        .zip(pair.values.chunks(width as usize))
                    {
                        let address = matrix.address(e, (pair.row, pair.column + part));
                        let place = (Some(pair.row), pair.column + part);
                        let store = |e: &Emitter<'c>| elements::store(e, address, element, values);
                        match self.inside(e, panel, place) {
                            Some(inside) => e.when(inside, store),
                            None => store(e),
                        }
                    }
                }
            }
        }
    }

    /// A matrix that is laid out like the result, seen from the lane's first pair.
    fn matrix(
        &self,
        e: &Emitter<'c>,
        panel: &Panel<'c>,
        (parameter, element): (Parameter, ElementType),
    ) -> Matrix<'c> {
        let output = self.contraction().output;
        let bytes = u64::from(element.bytes());
        let batch = (panel.batch, output.batch_stride * bytes);
        let pointer = self.kernel.pointer(e, parameter, batch);
        let start = e.offset(pointer, e.i64(output.offset * bytes));
        let line_bytes = output.leading * bytes;
        let line = e.mul(e.widen(panel.lane_row), e.i64(line_bytes));
        let within = e.mul(e.widen(panel.lane_column), e.i64(bytes));
        Matrix {
            start,
            lane: e.offset(e.offset(start, line), within),
            line_bytes,
            element_bytes: bytes,
        }
    }
}

/// What is read beside the sums.
#[derive(Clone, Copy)]
struct Source {
    parameter: Parameter,
    element: ElementType,
    memory: Memory,
}

/// A matrix in global memory.
struct Matrix<'c> {
    /// Its first element.
    start: PointerValue<'c>,
    /// Where the lane's first pair would lie.
    lane: PointerValue<'c>,
    line_bytes: u64,
    element_bytes: u64,
}

impl<'c> Matrix<'c> {
    fn address(&self, e: &Emitter<'c>, (row, column): (u32, u32)) -> PointerValue<'c> {
        let bytes = u64::from(row) * self.line_bytes + u64::from(column) * self.element_bytes;
        e.offset(self.lane, e.i64(bytes))
    }
}
