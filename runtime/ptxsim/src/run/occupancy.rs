//! How many blocks of a kernel a multiprocessor holds at a time (CUDA C++ Programming Guide, "Compute Capabilities").

use crate::error::Error;
use crate::parse::Kernel;

use super::{Launch, Residency};

/// What a multiprocessor has.
#[derive(Clone, Copy, Debug)]
struct Multiprocessor {
    /// How many of them a usual device of the kind has.
    count: u32,
    threads: u32,
    blocks: u32,
    /// Bytes of shared memory, and the most of them for one block.
    shared_bytes: u32,
    block_shared_bytes: u32,
}

/// Registers of 32 bits of any multiprocessor, and the most of them for one thread.
const REGISTERS: u32 = 65536;
const THREAD_REGISTERS: u32 = 255;

/// Registers are given to warps in steps of so many.
const REGISTER_STEP: u32 = 256;

/// Shared memory that every block takes for itself.
const RESERVED_SHARED_BYTES: u32 = 1024;

/// The most shared memory that a kernel may declare, rather than ask for at its launch.
const DECLARED_SHARED_BYTES: u32 = 48 * 1024;

/// The most blocks of a cluster: beyond eight a kernel must say that it is not portable.
const MOST_RANKS: u32 = 16;

impl Multiprocessor {
    /// That of a target: A100, the smaller ones of its time and the next, H100, B200. An unknown one counts as the last.
    fn of(target: &str) -> Multiprocessor {
        let digits = target.trim_start_matches("sm_");
        let number = digits.trim_end_matches(|c: char| !c.is_ascii_digit());
        let kib = 1024;
        let (count, threads, blocks, shared, block_shared) = match number.parse().unwrap_or(100) {
            0..=80u32 => (108, 2048, 32, 164, 163),
            81..=86 => (84, 1536, 16, 100, 99),
            87 => (16, 1536, 16, 164, 163),
            88..=89 => (142, 1536, 24, 100, 99),
            90..=99 => (132, 2048, 32, 228, 227),
            100..=109 => (148, 2048, 32, 228, 227),
            _ => (188, 1536, 24, 100, 99),
        };
        Multiprocessor {
            count,
            threads,
            blocks,
            shared_bytes: shared * kib,
            block_shared_bytes: block_shared * kib,
        }
    }
}

/// How many blocks of a launch are resident at a time.
///
/// # Errors
/// [`Error::Launch`] if not even one cluster fits.
pub(super) fn residency(kernel: &Kernel, launch: &Launch) -> Result<Residency, Error> {
    let refused = |message: String| Err(Error::Launch(message));
    let has = Multiprocessor::of(&kernel.target);
    let (threads, cluster) = (launch.threads, launch.cluster);
    if kernel.static_shared_bytes > DECLARED_SHARED_BYTES {
        return refused(format!(
            "the kernel declares {} bytes of shared memory; more than {DECLARED_SHARED_BYTES} are asked for at the launch",
            kernel.static_shared_bytes
        ));
    }
    let shared = kernel
        .static_shared_bytes
        .saturating_add(launch.shared_bytes);
    if shared > has.block_shared_bytes {
        return refused(format!(
            "{shared} bytes of shared memory in a block; {} has {}",
            kernel.target, has.block_shared_bytes
        ));
    }
    if let Some(most) = kernel.most_threads.filter(|&most| threads > most) {
        return refused(format!(
            "{threads} threads in a block; the kernel is made for at most {most}"
        ));
    }
    if cluster == 0 || cluster > MOST_RANKS || !launch.blocks.is_multiple_of(cluster) {
        return refused(format!(
            "clusters of {cluster} blocks for {} blocks; it takes 1 to {MOST_RANKS}, and a multiple of that",
            launch.blocks
        ));
    }
    if let Some(required) = kernel.required_cluster.filter(|&other| other != cluster) {
        return refused(format!(
            "clusters of {cluster} blocks; the kernel requires {required}"
        ));
    }
    let registers = launch.registers.or(kernel.registers_at_entry());
    let by_registers = match registers {
        Some(registers) => {
            if registers > THREAD_REGISTERS
                || kernel.most_registers.is_some_and(|most| registers > most)
            {
                return refused(format!(
                    "{registers} registers of a thread; it has at most {}",
                    kernel.most_registers.unwrap_or(THREAD_REGISTERS)
                ));
            }
            let of_warp = (registers * 32).next_multiple_of(REGISTER_STEP);
            REGISTERS / (of_warp * (threads / 32)).max(1)
        }
        None => u32::MAX,
    };
    let of_each = [
        ("threads", has.threads / threads),
        ("blocks", has.blocks),
        ("registers", by_registers),
        (
            "shared memory",
            has.shared_bytes / (shared + RESERVED_SHARED_BYTES),
        ),
    ];
    let (limit, blocks) = of_each
        .into_iter()
        .min_by_key(|(_, blocks)| *blocks)
        .unwrap_or(("blocks", 0));
    if let Some(wanted) = kernel.resident.filter(|&wanted| wanted > blocks) {
        return refused(format!(
            "a multiprocessor's {limit} are enough for {blocks} blocks; the kernel says that it shall hold {wanted}"
        ));
    }
    let multiprocessors = launch.multiprocessors.unwrap_or(has.count);
    let clusters = blocks.saturating_mul(multiprocessors) / cluster;
    if clusters == 0 {
        return refused(format!(
            "no cluster of {cluster} blocks fits: {multiprocessors} multiprocessors hold {blocks} blocks each, by their {limit}"
        ));
    }
    Ok(Residency {
        multiprocessors,
        blocks,
        limit,
        clusters,
    })
}
