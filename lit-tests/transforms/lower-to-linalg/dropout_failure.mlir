// A mask that changes with the micro-batch is nothing that a compiled function can compute; without dropping there is no mask to speak of.
// RUN: not raddle-opt %s --lower-to-linalg 2>&1 | FileCheck %s
// CHECK-NOT: error
// CHECK: dropout_failure.mlir:[[#@LINE+6]]:{{[0-9]+}}: error: 'dist.dropout' cannot be lowered to linalg: its mask depends on the micro-batch, of which a compiled function knows nothing [E0721]
// CHECK-NOT: error
dist.mesh @mesh ["x" = 1]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    %0:2 = dist.dropout %x {rate = 0.0 : f64, seed = 1 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi1>)
    %1:2 = dist.dropout %0#0 {rate = 0.5 : f64, seed = 1 : i64} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi1>)
    return %1#0 : tensor<2xf32>
  }
}
