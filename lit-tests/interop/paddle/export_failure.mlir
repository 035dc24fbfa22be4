// What Paddle cannot say is an error at the op, and no file is written.

// RUN: rm -f %t.main %t.startup
// RUN: not raddle-translate --export-paddle --rank 0 --startup-out %t.startup -o %t.main %s 2>&1 | FileCheck %s
// RUN: not test -e %t.main
// RUN: not test -e %t.startup

module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @init() attributes {dist.kind = "init"} {
      return
    }
    func.func @step(%x: tensor<4xf32> {dist.layout = #dist.layout<[[]], []>}) -> tensor<4xf32> attributes {dist.kind = "step"} {
      // CHECK: error: 'dist.all_reduce' op runs over ["mp"], for which rank 0 has no ring
      // CHECK: help: add a ring over these axes to the mesh file and import again
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4xf32>
      // CHECK: error: 'dist.reshape' op cannot be exported: Paddle has nothing that means the same
      // CHECK: help: docs/paddle.md lists the ops that are exported
      %1 = dist.reshape %0 : (tensor<4xf32>) -> tensor<2x2xf32>
      %2 = dist.reshape %1 : (tensor<2x2xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }
  }
}
