// RUN: raddle-opt %s --apply-amp --split-input-file --remarks --diagnostic-format=plain 2>&1 | FileCheck %s
// RUN: not raddle-opt %s --apply-amp=level=o4 2>&1 | FileCheck %s --check-prefix=LEVEL
// RUN: not raddle-opt %s --apply-amp=dtype=f8 2>&1 | FileCheck %s --check-prefix=DTYPE

// LEVEL: one of o1, o2, o3
// DTYPE: one of bf16, f16

// CHECK: remark: no rank class has a forward step to narrow
// CHECK: remark: the step has a backward pass already; run apply-amp before append-backward
module {
}

// -----

// CHECK: dist.matmul %{{.*}} -> tensor<2x2xf32>
module {
  dist.mesh @mesh ["dp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @step(%x: tensor<2x2xf32>) -> tensor<2x2xf32> attributes {dist.kind = "step"} {
      %0 = dist.matmul %x, %x {dist.role = "backward"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      return %0 : tensor<2x2xf32>
    }
  }
}

// -----

// Doubles and ops that nobody knows keep their types, and so do results.
// CHECK: dist.matmul %{{.*}} -> tensor<2x2xf64>
// CHECK: %[[P:.*]] = dist.matmul %{{.*}} -> tensor<2x2xbf16>
// CHECK: %[[W:.*]] = dist.cast %[[P]] : (tensor<2x2xbf16>) -> tensor<2x2xf32>
// CHECK: dist.send %[[W]]
// CHECK: return %{{.*}}, %[[W]] : tensor<2x2xf64>, tensor<2x2xf32>
module {
  dist.mesh @mesh ["dp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @step(%x: tensor<2x2xf64>, %y: tensor<2x2xf32>) -> (tensor<2x2xf64>, tensor<2x2xf32>) attributes {dist.kind = "step"} {
      %0 = dist.matmul %x, %x : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
      %1 = dist.matmul %y, %y : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      dist.send %1 {peer = {dp = 1 : i64}, tag = 0 : i64} : tensor<2x2xf32>
      return %0, %1 : tensor<2x2xf64>, tensor<2x2xf32>
    }
  }
}
