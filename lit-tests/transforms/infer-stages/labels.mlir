// Backward ops follow their forward ops, the optimizer its gradients; a label keeps its place.
// RUN: raddle-opt %s --append-backward=optimizer=sgd --infer-stages=stages=2 | FileCheck %s
// RUN: raddle-opt %s --append-backward=optimizer=sgd --infer-stages=stages=2 --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: sed -e 's|%2 = dist.matmul %1, %w1 |%2 = dist.matmul %1, %w1 {dist.stage = 0 : i64} |' %s | raddle-opt - --infer-stages=stages=2 | FileCheck %s --check-prefix=KEPT
// Without a number the labels that are there are carried on.
// RUN: sed -e 's|%1 = dist.gelu %0 |%1 = dist.gelu %0 {dist.stage = 1 : i64} |' %s | raddle-opt - --infer-stages | FileCheck %s --check-prefix=CARRIED

// REMARK: remark: stage 0: 2 forward ops, {{.*}} us, sends 128 bytes [R0642]
// REMARK: remark: stage 1: 2 forward ops, {{.*}} us [R0642]

// CHECK: dist.matmul %{{.*}} {dist.role = "forward", dist.stage = 0 : i64}
// CHECK: dist.gelu %{{.*}} {dist.role = "forward", dist.stage = 0 : i64}
// CHECK: dist.matmul %{{.*}} {dist.role = "forward", dist.stage = 1 : i64}
// CHECK: dist.reduce_mean_grad {{.*}}dist.stage = 1 : i64
// CHECK: dist.matmul_grad {{.*}}dist.stage = 1 : i64
// CHECK: dist.gelu_grad {{.*}}dist.stage = 0 : i64
// CHECK: dist.matmul_grad {{.*}}dist.stage = 0 : i64
// CHECK: dist.sgd {{.*}}dist.stage = 0 : i64
// CHECK: dist.sgd {{.*}}dist.stage = 1 : i64

// KEPT: dist.matmul {{.*}}dist.stage = 0
// KEPT: dist.gelu {{.*}}dist.stage = 0
// KEPT: dist.matmul {{.*}}dist.stage = 0
// KEPT: dist.reduce_mean {{.*}}dist.stage = 1

// CARRIED: dist.matmul {{.*}}dist.stage = 0
// CARRIED: dist.gelu {{.*}}dist.stage = 1
// CARRIED: dist.matmul {{.*}}dist.stage = 1
// CARRIED: dist.reduce_mean {{.*}}dist.stage = 1
dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  dist.global @w0 parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  dist.global @w1 parameter {layout = #dist.layout<[[], []], []>} : tensor<16x16xf32>
  func.func @step(%x: tensor<2x16xf32> {dist.layout = #dist.layout<[[], []], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
    %w0 = dist.load @w0 : tensor<16x16xf32>
    %w1 = dist.load @w1 : tensor<16x16xf32>
    %0 = dist.matmul %x, %w0 : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
    %1 = dist.gelu %0 : tensor<2x16xf32>
    %2 = dist.matmul %1, %w1 : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
    %3 = dist.reduce_mean %2 {dims = array<i64: 0, 1>} : (tensor<2x16xf32>) -> tensor<f32>
    return %3 : tensor<f32>
  }
}
