//! A kernel with its buffers, for whoever launches one by itself.

use raddle_bundle::KernelImage;
use raddle_bundle::kernel::Access;

use super::{BufferId, Contents, KernelId, LaunchError, Launched, Launcher};

/// A loaded kernel, and a buffer behind each of its pointers.
#[derive(Debug)]
pub struct PreparedKernel {
    kernel: KernelId,
    buffers: Vec<BufferId>,
}

impl PreparedKernel {
    /// Loads a kernel, and fills what it reads, or reads and writes, with what `bytes` gives for the pointer of that number.
    ///
    /// # Errors
    /// As [`Launcher::load`] and [`Launcher::allocate`].
    pub fn load(
        launcher: &mut dyn Launcher,
        image: &KernelImage,
        bytes: impl Fn(usize) -> Vec<u8>,
    ) -> Result<Self, LaunchError> {
        let kernel = launcher.load(image)?;
        let pointers = image.parameters.iter().enumerate();
        let buffers = pointers.map(|(index, pointer)| {
            let size = pointer.bytes as usize;
            match pointer.access {
                Access::Writes | Access::Scratch => launcher.allocate(Contents::Unwritten(size)),
                Access::ZeroedScratch => launcher.allocate(Contents::Zeros(size)),
                Access::Reads | Access::Updates => {
                    launcher.allocate(Contents::Bytes(&bytes(index)))
                }
            }
        });
        let buffers = buffers.collect::<Result<_, _>>()?;
        Ok(Self { kernel, buffers })
    }

    /// Runs it and waits for it.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn launch(&self, launcher: &mut dyn Launcher) -> Result<Launched, LaunchError> {
        launcher.launch(self.kernel, &self.buffers)
    }

    /// The median of the microseconds of several launches, after two that warm up; `None` if the device has no clock.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn median_us(
        &self,
        launcher: &mut dyn Launcher,
        launches: usize,
    ) -> Result<Option<f64>, LaunchError> {
        let mut times = Vec::with_capacity(launches);
        for launch in 0..launches + 2 {
            let us = self.launch(launcher)?.kernel_us;
            if launch >= 2 {
                times.extend(us);
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times.get(times.len() / 2).copied())
    }

    /// What is behind the pointer of a number.
    ///
    /// # Errors
    /// As [`Launcher::read`].
    ///
    /// # Panics
    /// If the kernel has no such pointer.
    pub fn read(
        &self,
        launcher: &mut dyn Launcher,
        pointer: usize,
    ) -> Result<Vec<u8>, LaunchError> {
        launcher.read(self.buffers[pointer])
    }

    /// Gives the buffers back.
    ///
    /// # Errors
    /// As [`Launcher::free`].
    pub fn free(self, launcher: &mut dyn Launcher) -> Result<(), LaunchError> {
        let mut buffers = self.buffers.into_iter();
        buffers.try_for_each(|buffer| launcher.free(buffer))
    }
}
