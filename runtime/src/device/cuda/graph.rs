//! Graphs: launches recorded once and started together.

use cudarc::driver::result;
use cudarc::driver::sys::{CUgraphExec, CUgraphInstantiate_flags, CUstreamCaptureMode};

use super::driver::Gpu;
use super::error::CudaError;
use super::stream::Stream;

/// Launches that one call starts, which spares the processor the work of starting each.
#[derive(Debug)]
pub struct Graph {
    gpu: Gpu,
    handle: CUgraphExec,
}

// SAFETY: a graph of the driver may be launched and destroyed from any thread whose current context is its own.
unsafe impl Send for Graph {}

impl Stream {
    /// Records what `work` starts on this stream, instead of starting it. The buffers in it must live as long as the graph
    /// is launched.
    ///
    /// # Errors
    /// Those of `work`, or [`CudaError::Call`]: some things cannot be recorded, such as waiting.
    pub fn capture(
        &self,
        work: impl FnOnce(&Stream) -> Result<(), CudaError>,
    ) -> Result<Graph, CudaError> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive.
        self.gpu.call("cuStreamBeginCapture", || unsafe {
            result::stream::begin_capture(self.handle, mode)
        })?;
        let worked = work(self);
        // The recording ends also where the work failed; the stream would be unusable otherwise.
        // SAFETY: the stream is alive and recording.
        let graph = self.gpu.call("cuStreamEndCapture", || unsafe {
            result::stream::end_capture(self.handle)
        });
        worked?;
        let graph = graph?;
        // SAFETY: the graph was just recorded.
        let handle = self.gpu.call("cuGraphInstantiate", || unsafe {
            result::graph::instantiate(graph, CUgraphInstantiate_flags(0))
        });
        // SAFETY: the graph is not used any more; what was made of it stands by itself.
        self.gpu.call("cuGraphDestroy", || unsafe {
            result::graph::destroy(graph)
        })?;
        Ok(Graph {
            gpu: self.gpu.clone(),
            handle: handle?,
        })
    }

    /// Starts everything in a graph.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn play(&self, graph: &Graph) -> Result<(), CudaError> {
        // SAFETY: the graph and the stream are alive.
        self.gpu.call("cuGraphLaunch", || unsafe {
            result::graph::launch(graph.handle, self.handle)
        })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made with this, destroyed once. There is nothing to be done about a failure.
        let _ = self.gpu.call("cuGraphExecDestroy", || unsafe {
            result::graph::exec_destroy(self.handle)
        });
    }
}
