// RUN: raddle-opt %s --cse | FileCheck %s

module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>

    // The other rank issues both.
    // CHECK-LABEL: func.func @collectives
    // CHECK-COUNT-2: dist.all_reduce
    func.func @collectives(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4xf32>
      %1 = dist.all_reduce sum %x over ["mp"] : tensor<4xf32>
      %2 = dist.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }

    // CHECK-LABEL: func.func @stored_between
    // CHECK-COUNT-2: dist.load @w
    func.func @stored_between(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = dist.load @w : tensor<4xf32>
      dist.store @w %x : tensor<4xf32>
      %1 = dist.load @w : tensor<4xf32>
      %2 = dist.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }

    // CHECK-LABEL: func.func @added_between
    // CHECK-COUNT-2: dist.load @w
    func.func @added_between(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = dist.load @w : tensor<4xf32>
      dist.accumulate @w %x : tensor<4xf32>
      %1 = dist.load @w : tensor<4xf32>
      %2 = dist.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }

    // What is added twice counts twice.
    // CHECK-LABEL: func.func @added_twice
    // CHECK-COUNT-2: dist.accumulate @w
    func.func @added_twice(%x: tensor<4xf32>) {
      dist.accumulate @w %x : tensor<4xf32>
      dist.accumulate @w %x : tensor<4xf32>
      return
    }

    // Two weights drawn alike are two draws.
    // CHECK-LABEL: func.func @draws
    // CHECK-COUNT-2: dist.uniform
    func.func @draws() -> tensor<4xf32> {
      %0 = dist.uniform {min = 0.0 : f64, max = 1.0 : f64, seed = 7 : i64} : tensor<4xf32>
      %1 = dist.uniform {min = 0.0 : f64, max = 1.0 : f64, seed = 7 : i64} : tensor<4xf32>
      %2 = dist.sub %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }

    // A forward computation repeated for the backward pass saves memory; it stays repeated.
    // CHECK-LABEL: func.func @recomputed
    // CHECK-COUNT-2: dist.gelu
    func.func @recomputed(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = dist.gelu %x {dist.role = "forward"} : tensor<4xf32>
      %1 = dist.gelu %x {dist.role = "backward"} : tensor<4xf32>
      %2 = dist.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }

    // CHECK-LABEL: func.func @different_attributes
    // CHECK-COUNT-2: dist.scale
    func.func @different_attributes(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = dist.scale %x {scale = 2.0 : f64} : tensor<4xf32>
      %1 = dist.scale %x {scale = 3.0 : f64} : tensor<4xf32>
      %2 = dist.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }
  }
}
