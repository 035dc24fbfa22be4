// RUN: raddle-opt %s --verify-spmd --diagnostic-format=plain -o %t 2>&1 | FileCheck %s

// The norm of a cut gradient is a part of the norm: added to a whole one it is each rank's own number.

// CHECK: warning: 'dist.add' makes a norm of what each rank has for itself: it adds 'b', which is whole along axis 'mp', to 'a', which is partial there
// CHECK-NEXT: note: 'dist.squared_l2_norm' makes it a part of a sum along 'mp'
// CHECK: help: reduce the squared norms of what is cut before they are added to the others, so that all ranks clip alike
// CHECK-NOT: {{(error|warning)}}:
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @step(%dw: tensor<8x16xf32> {dist.layout = #dist.layout<[["mp"], []], []>}, %db: tensor<16xf32> {dist.layout = #dist.layout<[[]], []>}) -> tensor<16xf32> attributes {dist.kind = "step"} {
      %nw = dist.squared_l2_norm %dw : (tensor<8x16xf32>) -> tensor<1xf32>
      %nb = dist.squared_l2_norm %db : (tensor<16xf32>) -> tensor<1xf32>
      %n = dist.add %nw, %nb : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
      %norm = dist.sqrt %n : tensor<1xf32>
      %g = dist.div %db, %norm : (tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
      return %g : tensor<16xf32>
    }
  }
}
