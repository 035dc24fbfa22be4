// RUN: not raddle-opt %s --append-backward --allow-unregistered-dialect --split-input-file --diagnostic-format=plain 2>&1 >/dev/null | FileCheck %s
// RUN: not raddle-opt %s --append-backward='lr=-1 beta2=1.0 clip-limit=0 decr-ratio=2' --split-input-file --allow-unregistered-dialect --diagnostic-format=plain 2>&1 >/dev/null | FileCheck %s --check-prefix=NUMBERS
// RUN: not raddle-opt %s --append-backward='lr=fast' 2>&1 >/dev/null | FileCheck %s --check-prefix=WORD
// RUN: not raddle-opt %s --append-backward='loss=%%77' --split-input-file --allow-unregistered-dialect --diagnostic-format=plain 2>&1 >/dev/null | FileCheck %s --check-prefix=NAME

// NUMBERS: error: option 'lr' of append-backward must be not negative
// NUMBERS: error: option 'beta2' of append-backward must be in [0, 1)
// NUMBERS: error: option 'clip-limit' of append-backward must be above 0
// NUMBERS: error: option 'decr-ratio' of append-backward must be between 0 and 1
// WORD: a number such as 0.5 or 1e-3
// NAME: error: the step has no value %77 to take as the loss

// CHECK: append_backward_failure.mlir:[[@LINE+8]]:{{[0-9]+}}: error: 'foo.unknown' op has no gradient
// CHECK: note: a parameter's gradient would have to pass through it on its way from the loss
module {
  dist.mesh @mesh ["dp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    func.func @step() -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<4xf32>
      %0 = "foo.unknown"(%w) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = dist.reduce_mean %0 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      return %1 : tensor<f32>
    }
  }
}

// -----

// Two ops without a gradient in the way are both named, and each once.
// CHECK: append_backward_failure.mlir:[[@LINE+10]]:{{[0-9]+}}: error: 'dist.relu_grad' op has no gradient
// CHECK: append_backward_failure.mlir:[[@LINE+7]]:{{[0-9]+}}: error: 'dist.all_reduce' op has no gradient with reduction 'max'
module {
  dist.mesh @mesh ["dp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    func.func @step() -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<4xf32>
      %0 = dist.all_reduce max %w over ["dp"] : tensor<4xf32>
      %1 = dist.relu_grad %w, %w : tensor<4xf32>
      %2 = dist.relu_grad %w, %w : tensor<4xf32>
      %3 = dist.sum %0, %1, %2 : tensor<4xf32>
      %4 = dist.reduce_mean %3 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      return %4 : tensor<f32>
    }
  }
}

// -----

// CHECK: append_backward_failure.mlir:[[@LINE+8]]:{{[0-9]+}}: error: the step returns no single float to take as the loss
// CHECK: help: return the loss from the step, or name it
module {
  dist.mesh @mesh ["dp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    func.func @step() -> tensor<4xf32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<4xf32>
      return %w : tensor<4xf32>
    }
  }
}

// -----

// CHECK: error: the step returns several floats, and none of them is named as the loss
module {
  dist.mesh @mesh ["dp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @step() -> (tensor<1xf32>, tensor<1xf32>) attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<1xf32>
      return %w, %w : tensor<1xf32>, tensor<1xf32>
    }
  }
}

// -----

// A bias that is added on every rank before the sum: there is no gradient of what is no program over the mesh.
// CHECK: append_backward_failure.mlir:[[@LINE+10]]:{{[0-9]+}}: error: 'dist.add' op adds 'b', which is whole along axis 'mp', to 'a', which is partial there
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x4xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    func.func @step(%x: tensor<2x8xf32> {dist.layout = #dist.layout<[[], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<8x4xf32>
      %b = dist.load @b : tensor<4xf32>
      %0 = dist.matmul %x, %w : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
      %1 = dist.add %0, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
      %2 = dist.all_reduce sum %1 over ["mp"] : tensor<2x4xf32>
      %3 = dist.reduce_mean %2 {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
      return %3 : tensor<f32>
    }
  }
}

// -----

// CHECK: error: the loss is a partial max along axis 'mp'
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"]], []>} : tensor<8xf32>
    func.func @step() -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<8xf32>
      %0 = dist.reduce_max %w {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
  }
}

// -----

// CHECK: error: the step is not a single block
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @step(%x: tensor<1xf32>) -> tensor<1xf32> attributes {dist.kind = "step"} {
      cf.br ^next
    ^next:
      return %x : tensor<1xf32>
    }
  }
}

// -----

// CHECK: error: 'dist.global' op has a 'dist.init' that says nothing
// CHECK: help: write `{kind = "fill"
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {dist.init = {kind = "zeros"}, layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @step() -> tensor<1xf32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<1xf32>
      return %w : tensor<1xf32>
    }
  }
}

// -----

// CHECK: error: init is not a single block, so nothing can be added to it
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func private @init() attributes {dist.kind = "init"}
    func.func @step() -> tensor<1xf32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<1xf32>
      return %w : tensor<1xf32>
    }
  }
}
