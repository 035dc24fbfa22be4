// Runs the program on all ranks before and after each pass.
// RUN: not raddle-opt %s --promote-linear --fuse-linear --validate-each=7 --split-input-file 2>&1 >/dev/null | FileCheck %s

// CHECK: validated promote-linear: loss ×12 within {{.*}}, global ×12 within
// CHECK: validated fuse-linear: loss ×12
module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<4x6xf32>
    func.func @init() attributes {dist.kind = "init"} {
      %0 = dist.fill {value = 1.000000e+00 : f64} : tensor<4x6xf32>
      dist.store @w %0 : tensor<4x6xf32>
      return
    }
    func.func @step(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[["dp"], ["mp"]], []>}) -> tensor<2x6xf32> attributes {dist.kind = "step"} {
      %0 = dist.load @w : tensor<4x6xf32>
      %1 = dist.matmul %x, %0 : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
      %2 = dist.all_reduce sum %1 over ["mp"] : tensor<2x6xf32>
      return %2 : tensor<2x6xf32>
    }
  }
}

// -----

// CHECK: validate-each.mlir:[[@LINE+1]]:{{[0-9]+}}: error: the module has no 'dist.mesh'
module {
}
