// RUN: raddle-opt %s --cse | FileCheck %s

module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    dist.global @v parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>

    // CHECK-LABEL: func.func @equal
    // CHECK-NEXT: %[[LOAD:.*]] = dist.load @w
    // CHECK-NEXT: %[[GELU:.*]] = dist.gelu %[[LOAD]]
    // CHECK-NEXT: dist.add %[[GELU]], %[[GELU]]
    func.func @equal() -> tensor<4xf32> {
      %0 = dist.load @w : tensor<4xf32>
      %1 = dist.gelu %0 : tensor<4xf32>
      %2 = dist.load @w : tensor<4xf32>
      %3 = dist.gelu %2 : tensor<4xf32>
      %4 = dist.add %1, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %4 : tensor<4xf32>
    }

    // What an importer notes for its exporter does not count.
    // CHECK-LABEL: func.func @annotated
    // CHECK-COUNT-1: dist.gelu
    // CHECK-NOT: dist.gelu
    // CHECK: return
    func.func @annotated(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = dist.gelu %x {paddle.names = ["a"]} : tensor<4xf32>
      %1 = dist.gelu %x {paddle.names = ["b"]} : tensor<4xf32>
      %2 = dist.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }

    // A store to another global does not matter.
    // CHECK-LABEL: func.func @other_store
    // CHECK-COUNT-1: dist.load @w
    // CHECK-NOT: dist.load @w
    // CHECK: return
    func.func @other_store() -> tensor<4xf32> {
      %0 = dist.load @w : tensor<4xf32>
      dist.store @v %0 : tensor<4xf32>
      %1 = dist.load @w : tensor<4xf32>
      %2 = dist.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }

    // Between blocks, what dominates counts; a sibling does not.
    // CHECK-LABEL: func.func @blocks
    // CHECK: %[[TOP:.*]] = dist.gelu
    // CHECK: ^bb1:
    // CHECK-NEXT: %[[RELU:.*]] = dist.relu %[[TOP]]
    // CHECK: ^bb2:
    // CHECK-NEXT: %[[OTHER:.*]] = dist.relu %[[TOP]]
    // CHECK-NEXT: return %[[OTHER]]
    func.func @blocks(%c: i1, %x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = dist.gelu %x : tensor<4xf32>
      cf.cond_br %c, ^bb1, ^bb2
    ^bb1:
      %1 = dist.gelu %x : tensor<4xf32>
      %2 = dist.relu %1 : tensor<4xf32>
      return %2 : tensor<4xf32>
    ^bb2:
      %3 = dist.relu %0 : tensor<4xf32>
      return %3 : tensor<4xf32>
    }
  }
}
