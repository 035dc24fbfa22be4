// What cannot be lowered is named, and nothing is printed.
// RUN: not raddle-opt %s --lower-to-linalg --allow-unregistered-dialect 2>&1 | FileCheck %s
// CHECK: refused_failure.mlir:[[#@LINE+4]]:{{[0-9]+}}: error: 'foo.bar' cannot be lowered to linalg: there is no lowering for it [E0721]
dist.mesh @mesh ["x" = 1]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    %y = "foo.bar"(%x) : (tensor<2xf32>) -> tensor<2xf32>
    return %y : tensor<2xf32>
  }
}
