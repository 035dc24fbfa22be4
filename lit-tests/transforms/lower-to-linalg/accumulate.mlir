// A sum over micro-batches is a parameter and a result; what is added is rounded to its type. A load sees what was written before it.
// RUN: raddle-opt %s --lower-to-linalg --mlir-print-op-generic | mlir-opt | FileCheck %s

dist.mesh @mesh ["x" = 1]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{}]} {
  dist.global @sum buffer {layout = #dist.layout<[[]], []>} : tensor<4xbf16>
  // CHECK-LABEL: func.func @all_step
  // CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[SUM:.*]]: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xbf16>)
  // CHECK-SAME: dist.loads = ["sum"], dist.stores = ["sum"]
  // CHECK: %[[NEW:.*]] = linalg.generic {{.*}} ins(%[[SUM]], %[[X]] : tensor<4xbf16>, tensor<4xf32>)
  // CHECK-NEXT: ^bb0(%[[A:.*]]: bf16, %[[B:.*]]: f32, %{{.*}}: bf16):
  // CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[A]] : bf16 to f32
  // CHECK-NEXT: %[[ROUNDED:.*]] = arith.truncf %[[B]] : f32 to bf16
  // CHECK-NEXT: %[[BACK:.*]] = arith.extf %[[ROUNDED]] : bf16 to f32
  // CHECK-NEXT: %[[ADDED:.*]] = arith.addf %[[WIDE]], %[[BACK]] : f32
  // CHECK-NEXT: arith.truncf %[[ADDED]] : f32 to bf16
  // CHECK: return %[[NEW]], %[[NEW]] : tensor<4xbf16>, tensor<4xbf16>
  func.func @step(%x: tensor<4xf32>) -> tensor<4xbf16> attributes {dist.kind = "step"} {
    dist.accumulate @sum %x : tensor<4xf32>
    %0 = dist.load @sum : tensor<4xbf16>
    return %0 : tensor<4xbf16>
  }
}
