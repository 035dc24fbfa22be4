// RUN: raddle-opt %s --verify-collectives --remarks -o %t 2>&1 | count 0

// Four stages of two classes each; the two ends of a stage's sends are crews of one class. Over an axis of size 1 nobody is met.
module {
  dist.mesh @mesh ["pp" = 3, "one" = 1, "mp" = 4]
  module @s0_first attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 0>, mp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %r = dist.all_reduce sum %x over ["one", "mp"] : tensor<4x8xf32>
      %alone = dist.all_reduce sum %x over ["one"] : tensor<4x8xf32>
      dist.send %r {peer = {pp = 1 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      %back = dist.recv {peer = {pp = 1 : i64}, tag = 2 : i64} : tensor<4x8xf32>
      %t = dist.all_reduce max %back over ["pp", "mp"] : tensor<4x8xf32>
      return
    }
  }
  module @s0_rest attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 0>, mp = array<i64: 1, 2, 3>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %r = dist.all_reduce sum %x over ["one", "mp"] : tensor<4x8xf32>
      dist.send %r {peer = {pp = 1 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      %back = dist.recv {peer = {pp = 1 : i64}, tag = 2 : i64} : tensor<4x8xf32>
      %t = dist.all_reduce max %back over ["pp", "mp"] : tensor<4x8xf32>
      return
    }
  }
  module @s1_first attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 1>, mp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %in = dist.recv {peer = {pp = 0 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      %r = dist.all_reduce sum %in over ["one", "mp"] : tensor<4x8xf32>
      %alone = dist.all_reduce sum %in over ["one"] : tensor<4x8xf32>
      dist.send %r {peer = {pp = 2 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      %back = dist.recv {peer = {pp = 2 : i64}, tag = 2 : i64} : tensor<4x8xf32>
      dist.send %back {peer = {pp = 0 : i64}, tag = 2 : i64} : tensor<4x8xf32>
      %t = dist.all_reduce max %back over ["pp", "mp"] : tensor<4x8xf32>
      return
    }
  }
  module @s1_rest attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 1>, mp = array<i64: 1, 2, 3>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %in = dist.recv {peer = {pp = 0 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      %r = dist.all_reduce sum %in over ["one", "mp"] : tensor<4x8xf32>
      dist.send %r {peer = {pp = 2 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      %back = dist.recv {peer = {pp = 2 : i64}, tag = 2 : i64} : tensor<4x8xf32>
      dist.send %back {peer = {pp = 0 : i64}, tag = 2 : i64} : tensor<4x8xf32>
      %t = dist.all_reduce max %back over ["pp", "mp"] : tensor<4x8xf32>
      return
    }
  }
  module @s2_first attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 2>, mp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %in = dist.recv {peer = {pp = 1 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      %r = dist.all_reduce sum %in over ["one", "mp"] : tensor<4x8xf32>
      %alone = dist.all_reduce sum %in over ["one"] : tensor<4x8xf32>
      dist.send %r {peer = {pp = 1 : i64}, tag = 2 : i64} : tensor<4x8xf32>
      %t = dist.all_reduce max %r over ["pp", "mp"] : tensor<4x8xf32>
      return
    }
  }
  module @s2_rest attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 2>, mp = array<i64: 1, 2, 3>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      %in = dist.recv {peer = {pp = 1 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      %r = dist.all_reduce sum %in over ["one", "mp"] : tensor<4x8xf32>
      dist.send %r {peer = {pp = 1 : i64}, tag = 2 : i64} : tensor<4x8xf32>
      %t = dist.all_reduce max %r over ["pp", "mp"] : tensor<4x8xf32>
      return
    }
  }
}
