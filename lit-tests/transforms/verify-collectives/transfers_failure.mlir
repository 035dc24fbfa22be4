// RUN: not raddle-opt %s --split-input-file --verify-collectives --diagnostic-format=plain 2>&1 | FileCheck %s

// In one function sends meet receives in order.

// CHECK: error: '@a' and '@b' come to calls that do not fit: they differ in 'tag', shape [E0401]
// CHECK-NEXT: note: in the 'step' functions
// CHECK-NEXT: note: @a, call 1 to {pp = 1}: dist.send {peer = {pp = 1 : i64}, tag = 1 : i64} : tensor<4x8xf32>
// CHECK-NEXT: note: @b, call 1 from {pp = 0}: dist.recv {peer = {pp = 0 : i64}, tag = 2 : i64} : tensor<8x4xf32>
module {
  dist.mesh @mesh ["pp" = 2, "mp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      dist.send %x {peer = {pp = 1 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 1>}]} {
    func.func @step() attributes {dist.kind = "step"} {
      %0 = dist.recv {peer = {pp = 0 : i64}, tag = 2 : i64} : tensor<8x4xf32>
      return
    }
  }
}

// -----

// Both send first: under rendezvous neither comes to its receive.

// CHECK: error: '@a' and '@b' come to calls that do not fit: they differ in direction: both are the same end [E0401]
module {
  dist.mesh @mesh ["pp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 0>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      dist.send %x {peer = {pp = 1 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      %0 = dist.recv {peer = {pp = 1 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 1>}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      dist.send %x {peer = {pp = 0 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      %0 = dist.recv {peer = {pp = 0 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      return
    }
  }
}

// -----

// A rank that sends to itself.

// CHECK: error: '@a' waits for itself [E0403]
module {
  dist.mesh @mesh ["pp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @step(%x: tensor<4x8xf32>) attributes {dist.kind = "step"} {
      dist.send %x {peer = {pp = 1 : i64}, tag = 1 : i64} : tensor<4x8xf32>
      return
    }
  }
}

// -----

// Jobs of a schedule run in an order of its own, so only tags and types count.

// CHECK: error: nobody receives tag 7 [E0404]
// CHECK-NEXT: note: '@a' sends 1 and '@b' receives 0 with tag 7
// CHECK: error: tag 9 carries something else than its receive takes [E0404]
// CHECK-NEXT: note: dist.recv {peer = {pp = 1 : i64}, tag = 9 : i64} : tensor<2xf32>
// CHECK-NEXT: note: '@b' sends 1 and '@a' receives 1 with tag 9
module {
  dist.mesh @mesh ["pp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 0>}]} {
    func.func @f(%x: tensor<4x8xf32>) attributes {dist.kind = "forward"} {
      dist.send %x {peer = {pp = 1 : i64}, tag = 7 : i64} : tensor<4x8xf32>
      return
    }
    func.func @b() attributes {dist.kind = "backward"} {
      %0 = dist.recv {peer = {pp = 1 : i64}, tag = 9 : i64} : tensor<2xf32>
      return
    }
  }
  module @b attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{pp = array<i64: 1>}]} {
    func.func @f(%x: tensor<4x8xf32>) attributes {dist.kind = "forward"} {
      return
    }
    func.func @b(%x: tensor<4x8xf32>) attributes {dist.kind = "backward"} {
      dist.send %x {peer = {pp = 0 : i64}, tag = 9 : i64} : tensor<4x8xf32>
      return
    }
  }
}
