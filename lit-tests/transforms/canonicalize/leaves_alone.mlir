// RUN: raddle-opt %s --canonicalize | FileCheck %s

module {
  dist.mesh @mesh ["mp" = 1]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    // Rounding is part of what a cast does.
    // CHECK-LABEL: func.func @casts
    // CHECK-COUNT-2: dist.cast
    func.func @casts(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = dist.cast %x : (tensor<4xf32>) -> tensor<4xf16>
      %1 = dist.cast %0 : (tensor<4xf16>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }

    // 0.1 · 0.1 rounds; one factor would round differently.
    // CHECK-LABEL: func.func @scales
    // CHECK-COUNT-2: dist.scale
    func.func @scales(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = dist.scale %x {scale = 0.1 : f64} : tensor<4xf32>
      %1 = dist.scale %0 {scale = 0.1 : f64} : tensor<4xf32>
      return %1 : tensor<4xf32>
    }

    // A collective stays, though its group has one rank and nobody reads it.
    // CHECK-LABEL: func.func @collective
    // CHECK-NEXT: dist.all_reduce
    func.func @collective(%x: tensor<4xf32>) {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4xf32>
      return
    }
  }
}
