// RUN: raddle-opt %s --dce | FileCheck %s

module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>

    // A chain that nobody reads goes, with the load it starts from.
    // CHECK-LABEL: func.func @chain
    // CHECK-NEXT: return
    func.func @chain() {
      %0 = dist.load @w : tensor<4xf32>
      %1 = dist.gelu %0 : tensor<4xf32>
      %2 = dist.scale %1 {scale = 2.0 : f64} : tensor<4xf32>
      %3 = dist.uniform {min = 0.0 : f64, max = 1.0 : f64, seed = 0 : i64} : tensor<4xf32>
      return
    }

    // The other rank waits in the all_reduce, whether or not its result is read here.
    // CHECK-LABEL: func.func @effects
    // CHECK-NEXT: dist.all_reduce sum
    // CHECK-NEXT: dist.store @w
    // CHECK-NEXT: return
    func.func @effects(%x: tensor<4xf32>) {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4xf32>
      %1 = dist.gelu %0 : tensor<4xf32>
      dist.store @w %x : tensor<4xf32>
      return
    }

    // A loss over no axes meets nobody; one over the vocabulary's axes does.
    // CHECK-LABEL: func.func @losses
    // CHECK-NEXT: dist.softmax_cross_entropy %{{.*}}, %{{.*}} over ["mp"]
    // CHECK-NEXT: return
    func.func @losses(%x: tensor<2x4xf32>, %labels: tensor<2xi64>) {
      %0:2 = dist.softmax_cross_entropy %x, %labels : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<2xf32>, tensor<2x4xf32>)
      %1:2 = dist.softmax_cross_entropy %x, %labels over ["mp"] : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<2xf32>, tensor<2x4xf32>)
      return
    }

    // CHECK-LABEL: func.func @added
    // CHECK-NEXT: dist.accumulate @w
    // CHECK-NEXT: return
    func.func @added(%x: tensor<4xf32>) {
      dist.accumulate @w %x : tensor<4xf32>
      return
    }

    // CHECK-LABEL: func.func @used
    // CHECK-NEXT: %[[LOAD:.*]] = dist.load @w
    // CHECK-NEXT: %[[GELU:.*]] = dist.gelu %[[LOAD]]
    // CHECK-NEXT: return %[[GELU]]
    func.func @used() -> tensor<4xf32> {
      %0 = dist.load @w : tensor<4xf32>
      %1 = dist.gelu %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }
  }
}
