// RUN: raddle-opt %s --append-backward --split-input-file --remarks --diagnostic-format=plain 2>&1 | FileCheck %s

// Diagnostics come first, then the modules.
// CHECK: leaves_alone.mlir:[[@LINE+6]]:{{[0-9]+}}: remark: no rank class has a function with dist.kind = "step" to differentiate
// CHECK-NEXT: remark: the step has a backward pass already; it stays as it is
// CHECK-NEXT: warning: the loss does not depend on parameter @unread, so nothing updates it
// CHECK-NEXT: warning: the loss does not depend on parameter @apart, so nothing updates it
// CHECK-NEXT: module {
// CHECK-NEXT: }
module {
}

// -----

// CHECK: func.func @step
// CHECK-NEXT: dist.load
// CHECK-NEXT: dist.fill
// CHECK-NEXT: dist.sgd
module {
  dist.mesh @mesh ["dp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @step() -> tensor<1xf32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<1xf32>
      %g = dist.fill {value = 1.0 : f64} : tensor<1xf32>
      %0 = dist.sgd %w, %g, %g : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
      return %w : tensor<1xf32>
    }
  }
}

// -----

// They are initialised all the same.
// CHECK-NOT: @apart_
// CHECK: @w_moment1
// CHECK: dist.store @apart
// CHECK: dist.store @unread
module {
  dist.mesh @mesh ["dp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @unread parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    dist.global @apart parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    func.func @step() -> (tensor<f32>, tensor<4xf32>) attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<4xf32>
      %a = dist.load @apart : tensor<4xf32>
      %0 = dist.relu %a : tensor<4xf32>
      %1 = dist.reduce_mean %w {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      return %1, %0 : tensor<f32>, tensor<4xf32>
    }
  }
}
