// RUN: not raddle-opt %s --split-input-file --verify-collectives --diagnostic-format=plain 2>&1 | FileCheck %s

// Both sides of a mismatch are shown, with the number of the call among those over the same axes.

// CHECK: error: '@a' and '@b' come to calls that do not fit: they differ in 'reduction' [E0401]
// CHECK-NEXT: note: in the 'step' functions
// CHECK-NEXT: note: @a, call 2 over ["mp"]: dist.all_reduce sum over ["mp"] : tensor<4x8xf32>
// CHECK-NEXT: note: @b, call 2 over ["mp"]: dist.all_reduce max over ["mp"] : tensor<4x8xf32>
// CHECK-NEXT: help: all ranks of a group make the same calls in the same order
module {
  dist.mesh @mesh ["mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4x8xf32>
      %1 = dist.all_reduce sum %0 over ["mp"] : tensor<4x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4x8xf32>
      %1 = dist.all_reduce max %0 over ["mp"] : tensor<4x8xf32>
      return
    }
  }
}

// -----

// CHECK: error: '@a' and '@b' come to calls that do not fit: they differ in kind, 'dim', 'root' [E0401]
module {
  dist.mesh @mesh ["mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_gather %x over ["mp"] {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.broadcast %x over ["mp"] : tensor<4x8xf32>
      return
    }
  }
}

// -----

// CHECK: error: '@a' and '@b' come to calls that do not fit: they differ in shape [E0401]
module {
  dist.mesh @mesh ["mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %y = dist.reshape %x : (tensor<4x8xf32>) -> tensor<8x4xf32>
      %0 = dist.all_reduce sum %y over ["mp"] : tensor<8x4xf32>
      return
    }
  }
}

// -----

// CHECK: error: '@a' and '@b' come to calls that do not fit: they differ in element type [E0401]
module {
  dist.mesh @mesh ["mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_reduce sum %x over ["mp"] : tensor<4x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %y = dist.cast %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
      %0 = dist.all_reduce sum %y over ["mp"] : tensor<4x8xbf16>
      return
    }
  }
}

// -----

// CHECK: error: '@a' and '@b' come to calls that do not fit: they differ in 'dim' [E0401]
module {
  dist.mesh @mesh ["mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_gather %x over ["mp"] {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.all_gather %x over ["mp"] {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x16xf32>
      return
    }
  }
}

// -----

// CHECK: error: '@a' and '@b' come to calls that do not fit: they differ in 'root' [E0401]
module {
  dist.mesh @mesh ["mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.broadcast %x over ["mp"] : tensor<4x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %0 = dist.broadcast %x over ["mp"] {root = 1 : i64} : tensor<4x8xf32>
      return
    }
  }
}
