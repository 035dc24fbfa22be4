// A vocabulary in pieces: the rank's place says where its piece begins, and only maxima, sums and the labels' logits are sent.
// RUN: raddle-opt %s --lower-to-linalg --mlir-print-op-generic | mlir-opt | FileCheck %s

dist.mesh @mesh ["dp" = 2, "mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  // CHECK-LABEL: func.func @all_step
  // CHECK-SAME: (%[[IDS:.*]]: tensor<3xi64>, %[[TABLE:.*]]: tensor<4x2xf32>, %[[LABELS:.*]]: tensor<3xi64>)
  func.func @step(%ids: tensor<3xi64> {dist.layout = #dist.layout<[[]], []>}, %table: tensor<4x2xf32> {dist.layout = #dist.layout<[["mp"], []], []>}, %labels: tensor<3xi64> {dist.layout = #dist.layout<[[]], []>})
      -> (tensor<3xf32>, tensor<3x4xf32>) attributes {dist.kind = "step"} {
    // CHECK: %[[MP:.*]] = arith.constant 2 : i64
    // CHECK: call @raddle_coordinate(%[[MP]]) : (i64) -> index
    // CHECK: linalg.generic {{.*}} ins(%[[IDS]] : tensor<3xi64>) outs({{.*}} : tensor<3x2xf32>)
    // CHECK: tensor.extract %[[TABLE]]
    %0 = dist.embedding %ids, %table over ["mp"] : (tensor<3xi64>, tensor<4x2xf32>) -> tensor<3x2xf32>
    // CHECK: call @raddle_all_reduce_f32
    %1 = dist.all_reduce sum %0 over ["mp"] : tensor<3x2xf32>
    %2 = dist.matmul %1, %table {transpose_b = true} : (tensor<3x2xf32>, tensor<4x2xf32>) -> tensor<3x4xf32>
    // CHECK: arith.maximumf
    // CHECK: call @raddle_all_reduce_f32
    // CHECK: math.exp
    // CHECK: call @raddle_all_reduce_f32
    // CHECK: call @raddle_coordinate
    // CHECK: linalg.index 1 : index
    // CHECK: call @raddle_all_reduce_f32
    // CHECK-NOT: call @raddle
    // CHECK: math.log
    %loss, %softmax = dist.softmax_cross_entropy %2, %labels over ["mp"] : (tensor<3x4xf32>, tensor<3xi64>) -> (tensor<3xf32>, tensor<3x4xf32>)
    return %loss, %softmax : tensor<3xf32>, tensor<3x4xf32>
  }
}
