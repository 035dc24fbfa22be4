// The comparison accepts an equal program, and catches what goes wrong most often when a bias add is moved.
// RUN: raddle compare %s %s --seed 3 | FileCheck %s --check-prefix=SAME
//
// Added before the all-reduce on every rank, the bias counts twice.
// RUN: sed -e 's|%r0 = dist.all_reduce sum %p |%early = dist.add %p, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>  %r0 = dist.all_reduce sum %early |' \
// RUN:     -e 's|%y = dist.add %r0, %b .*|%y = dist.identity %r0 : tensor<2x3xf32>|' %s > %t.everywhere.mlir
// RUN: not raddle compare %s %t.everywhere.mlir 2>&1 | FileCheck %s --check-prefix=EVERYWHERE
//
// Without its reduction over the data axis, each replica trains its own bias.
// RUN: sed -e 's|%db1 = dist.all_reduce sum .*|%db1 = dist.identity %db0 : tensor<3xf32>|' %s > %t.lost.mlir
// RUN: not raddle compare %s %t.lost.mlir 2>&1 | FileCheck %s --check-prefix=LOST
//
// RUN: sed -e 's|%dw1 = dist.all_reduce sum %dw0 over \["dp"\]|%dw1 = dist.all_reduce sum %dw0 over ["mp"]|' %s > %t.swapped.mlir
// RUN: not raddle compare %s %t.swapped.mlir 2>&1 | FileCheck %s --check-prefix=SWAPPED
//
// RUN: sed -e 's|%ib1 = dist.broadcast %ib0 .*|%ib1 = dist.identity %ib0 : tensor<3xf32>|' %s > %t.init.mlir
// RUN: not raddle compare %s %t.init.mlir 2>&1 | FileCheck %s --check-prefix=INIT

// SAME: rank class{{ +}}ranks
// SAME-NEXT: all{{ +}}4{{ +}}14 → 14{{ +}}6 → 6{{ +}}2 → 2{{ +}}64 → 64
// SAME: loss{{ +}}12{{ +}}0.00e0{{ +}}0.00e0
// SAME-NEXT: gradient{{ +}}24{{ +}}0.00e0{{ +}}0.00e0
// SAME-NEXT: global{{ +}}36{{ +}}0.00e0{{ +}}0.00e0

// EVERYWHERE: error: loss '0 of micro-batch 0' on rank 0 in step 0 differs by

// LOST: error: gradient 'b' on rank 0 in step 0 differs by

// SWAPPED: error: gradient 'w' on rank 0 in step 0 differs by

// INIT: error: after init, global '@b' differs between ranks 0 and 1, across which its layout replicates it

dist.mesh @mesh ["dp" = 2, "mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<4x3xf32>
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<3xf32>
  dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
  func.func @init() attributes {dist.kind = "init"} {
    %iw0 = dist.uniform {max = 1.000000e+00 : f64, min = -1.000000e+00 : f64, seed = 0 : i64} : tensor<4x3xf32>
    %iw1 = dist.broadcast %iw0 over ["dp"] : tensor<4x3xf32>
    dist.store @w %iw1 : tensor<4x3xf32>
    %ib0 = dist.uniform {max = 1.000000e+00 : f64, min = -1.000000e+00 : f64, seed = 0 : i64} : tensor<3xf32>
    %ib1 = dist.broadcast %ib0 over ["dp", "mp"] : tensor<3xf32>
    dist.store @b %ib1 : tensor<3xf32>
    %ir0 = dist.fill {value = 1.000000e-01 : f64} : tensor<1xf32>
    %ir1 = dist.identity %ir0 : tensor<1xf32>
    dist.store @lr %ir1 : tensor<1xf32>
    return
  }
  func.func @step(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[["dp"], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
    %w = dist.load @w : tensor<4x3xf32>
    %b = dist.load @b : tensor<3xf32>
    %lr = dist.load @lr : tensor<1xf32>
    %p = dist.matmul %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    %r0 = dist.all_reduce sum %p over ["mp"] : tensor<2x3xf32>
    %y = dist.add %r0, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %a = dist.gelu %y : tensor<2x3xf32>
    %loss = dist.reduce_mean %a {dims = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<f32>
    %g0 = dist.fill {value = 1.000000e+00 : f64} : tensor<f32>
    %g1 = dist.reduce_mean_grad %a, %g0 {dims = array<i64: 0, 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %g2 = dist.gelu_grad %y, %g1 : tensor<2x3xf32>
    %ds, %db0 = dist.add_grad %r0, %b, %g2 : (tensor<2x3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>)
    %db1 = dist.all_reduce sum %db0 over ["dp"] : tensor<3xf32>
    %dx, %dw0 = dist.matmul_grad %x, %w, %ds : (tensor<2x4xf32>, tensor<4x3xf32>, tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<4x3xf32>)
    %dw1 = dist.all_reduce sum %dw0 over ["dp"] : tensor<4x3xf32>
    %w1 = dist.sgd %w, %dw1, %lr : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<1xf32>) -> tensor<4x3xf32>
    %b1 = dist.sgd %b, %db1, %lr : (tensor<3xf32>, tensor<3xf32>, tensor<1xf32>) -> tensor<3xf32>
    dist.store @w %w1 : tensor<4x3xf32>
    dist.store @b %b1 : tensor<3xf32>
    return %loss : tensor<f32>
  }
}
