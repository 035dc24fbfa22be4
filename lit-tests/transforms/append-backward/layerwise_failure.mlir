// RUN: not raddle-opt %s --append-backward=optimizer=lamb --diagnostic-format=plain 2>&1 >/dev/null | FileCheck %s
// RUN: raddle-opt %s --append-backward='optimizer=lamb local-norms' | FileCheck %s --check-prefix=LOCAL
// RUN: not raddle-opt %s --apply-amp=level=o2 --append-backward=optimizer=decayed-adagrad --diagnostic-format=plain 2>&1 >/dev/null | FileCheck %s --check-prefix=COPY
// RUN: raddle-opt %s --append-backward=optimizer=dgc-momentum | FileCheck %s --check-prefix=DGC

// A layer-wise rate is one of whole parameters.
// CHECK: layerwise_failure.mlir:[[@LINE+17]]:{{[0-9]+}}: error: 'dist.global' op cannot be updated by 'dist.lamb', which takes the norm of 'param', of which each rank holds a piece
// CHECK: help: gather the parameter first, or take the norm of each piece

// LOCAL: dist.lamb {{.*}}local_norms = true

// COPY: error: 'dist.global' op is narrow, but 'dist.decayed_adagrad' updates no f32 copy
// COPY: help: take another optimizer

// DGC: func.func @step
// DGC: %[[STEP:.*]] = dist.load @current_step
// DGC-NEXT: %[[NEXT:.*]] = dist.scale %[[STEP]] {bias = 1.000000e+00 : f64, dist.role = "optimizer", scale = 1.000000e+00 : f64}
// DGC-NEXT: dist.store @current_step %[[NEXT]]
// DGC-NEXT: %[[RANKS:.*]] = dist.fill {dist.role = "optimizer", value = 1.000000e+00 : f64} : tensor<1xf32>
// DGC: dist.dgc_momentum %{{.*}}, %[[STEP]], %[[RANKS]]
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<4x4xf32>
    func.func @step(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[[], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<4x4xf32>
      %0 = dist.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %1 = dist.all_reduce sum %0 over ["mp"] : tensor<2x4xf32>
      %2 = dist.reduce_mean %1 {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
      return %2 : tensor<f32>
    }
  }
}
