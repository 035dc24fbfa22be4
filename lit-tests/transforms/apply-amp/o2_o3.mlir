// RUN: raddle-opt %s --apply-amp=level=o2 | FileCheck %s
// RUN: raddle-opt %s --apply-amp=level=o3 | FileCheck %s --check-prefix=O3
// RUN: raddle-opt %s --apply-amp='level=o2 dtype=f16' --append-backward=optimizer=momentum --verify-each | FileCheck %s --check-prefix=TRAIN
// RUN: raddle-opt %s --apply-amp=level=o2 --validate-each=3 2>&1 >/dev/null | FileCheck %s --check-prefix=RUNS

// Level o2: parameters are narrow and have f32 copies, except those of the norm; norms and the loss compute in f32.

// RUNS: validated apply-amp: loss ×6 within

// CHECK: dist.global @scale parameter {layout = #dist.layout<{{\[\[\]\]}}, []>} : tensor<4xf32>
// CHECK: dist.global @w1 parameter {dist.master_weight, layout = {{.*}}} : tensor<4x8xbf16>
// CHECK: dist.global @b parameter {dist.master_weight, layout = {{.*}}} : tensor<4xbf16>
// CHECK: func.func @init
// CHECK: %[[ONE:.*]] = dist.fill {{.*}} : tensor<4xf32>
// CHECK-NEXT: dist.store @scale %[[ONE]] : tensor<4xf32>
// CHECK-NEXT: %[[NARROW:.*]] = dist.cast %[[ONE]] : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-NEXT: dist.store @b %[[NARROW]] : tensor<4xbf16>
// CHECK: dist.layer_norm {{.*}} -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
// CHECK-NEXT: %[[W1:.*]] = dist.load @w1 : tensor<4x8xbf16>
// CHECK-NEXT: %[[N:.*]] = dist.cast
// CHECK-NEXT: dist.matmul %[[N]], %[[W1]]
// The residual stream is narrow too.
// CHECK: %[[X:.*]] = dist.cast %arg0 : (tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK-NEXT: dist.add %{{.*}}, %[[X]] : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
// CHECK: dist.reduce_mean %{{.*}} : (tensor<2x4xf32>) -> tensor<f32>

// O3: dist.global @scale parameter {layout = {{.*}}} : tensor<4xbf16>
// O3: dist.layer_norm {{.*}} -> (tensor<2x4xbf16>, tensor<2xf32>, tensor<2xf32>)
// O3: dist.reduce_mean %{{.*}} : (tensor<2x4xf32>) -> tensor<f32>

// The copies are state; f16 asks for loss scaling.
// TRAIN: dist.global @w1_master state {{.*}}of = @w1} : tensor<4x8xf32>
// TRAIN: dist.store @w1_master %{{.*}} : tensor<4x8xf32>
// TRAIN: dist.update_loss_scaling
// TRAIN: dist.momentum {{.*}} -> (tensor<4xf32>, tensor<4xf32>)
// TRAIN: dist.momentum {{.*}} -> (tensor<4x8xf16>, tensor<4x8xf32>, tensor<4x8xf32>)
// TRAIN: dist.store @w1_master %{{.*}} {dist.role = "optimizer"} : tensor<4x8xf32>
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @scale parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    dist.global @w1 parameter {layout = #dist.layout<[[], ["mp"]], []>} : tensor<4x8xf32>
    dist.global @w2 parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x4xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    func.func @init() attributes {dist.kind = "init"} {
      %0 = dist.fill {value = 1.0 : f64} : tensor<4xf32>
      dist.store @scale %0 : tensor<4xf32>
      dist.store @b %0 : tensor<4xf32>
      %1 = dist.fill {value = 1.0 : f64} : tensor<4x8xf32>
      dist.store @w1 %1 : tensor<4x8xf32>
      %2 = dist.fill {value = 1.0 : f64} : tensor<8x4xf32>
      dist.store @w2 %2 : tensor<8x4xf32>
      return
    }
    func.func @step(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[[], []], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %scale = dist.load @scale : tensor<4xf32>
      %n, %mean, %variance = dist.layer_norm %x, %scale {begin_norm_axis = 1 : i64, epsilon = 1.0e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
      %w1 = dist.load @w1 : tensor<4x8xf32>
      %0 = dist.matmul %n, %w1 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
      %1 = dist.relu %0 : tensor<2x8xf32>
      %w2 = dist.load @w2 : tensor<8x4xf32>
      %2 = dist.matmul %1, %w2 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
      %3 = dist.all_reduce sum %2 over ["mp"] : tensor<2x4xf32>
      %b = dist.load @b : tensor<4xf32>
      %4 = dist.add %3, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
      %5 = dist.add %4, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      %6 = dist.reduce_mean %5 {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
      return %6 : tensor<f32>
    }
  }
}
