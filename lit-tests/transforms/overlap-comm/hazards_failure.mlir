// RUN: raddle-opt %s --verify-streams --split-input-file --verify-diagnostics

// Nothing waits for the receive.
module attributes {dist.channels = ["pp:1>0"]} {
  dist.mesh @mesh ["pp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @f() -> tensor<4xf32> attributes {dist.kind = "forward"} {
      %0 = dist.recv {peer = {pp = 1 : i64}, tag = 0 : i64, dist.stream = "r"} : tensor<4xf32>
      dist.event_record {event = "got", stream = "r"}
      // expected-error @below {{a value that stream 'r' computes is read on stream 'compute' before it is known to be there}}
      %1 = dist.gelu %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }
  }
}

// -----

// An event that is recorded before the value does not help.
module {
  dist.mesh @mesh ["pp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @f(%x: tensor<4xf32>) attributes {dist.kind = "forward"} {
      dist.event_record {event = "ready", stream = "compute"}
      %0 = dist.gelu %x : tensor<4xf32>
      dist.event_wait {event = "ready", stream = "s"}
      // expected-error @below {{a value that stream 'compute' computes is read on stream 's' before it is known to be there}}
      dist.send %0 {peer = {pp = 1 : i64}, tag = 0 : i64, dist.stream = "s"} : tensor<4xf32>
      return
    }
  }
}

// -----

// A buffer that is freed, and may be written again, while it is being sent (Paddle #33996).
module {
  dist.mesh @mesh ["pp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @f(%x: tensor<4xf32>) attributes {dist.kind = "forward"} {
      %0 = dist.gelu %x : tensor<4xf32>
      %1 = dist.reshape %0 : (tensor<4xf32>) -> tensor<2x2xf32>
      dist.event_record {event = "ready", stream = "compute"}
      dist.event_wait {event = "ready", stream = "s"}
      // expected-note @below {{read here}}
      dist.send %1 {peer = {pp = 1 : i64}, tag = 0 : i64, dist.stream = "s"} : tensor<2x2xf32>
      dist.event_record {event = "sent", stream = "s"}
      // expected-error @below {{storage ends while stream 's' may still read it}}
      dist.free %0 : tensor<4xf32>
      return
    }
  }
}

// -----

// The same, one job later; the other function waits.
module {
  dist.mesh @mesh ["pp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32> {dist.value = "h"}) attributes {dist.kind = "forward"} {
      %0 = dist.gelu %x : tensor<4xf32>
      dist.event_record {event = "ready", stream = "compute"}
      dist.event_wait {event = "ready", stream = "s"}
      dist.send %0 {peer = {pp = 1 : i64}, tag = 0 : i64, dist.stream = "s"} : tensor<4xf32>
      dist.event_record {event = "sent", stream = "s"}
      return %0 : tensor<4xf32>
    }
    func.func @b(%h: tensor<4xf32> {dist.value = "h"}) attributes {dist.kind = "backward_b"} {
      // expected-error @below {{storage ends while the send of an earlier job on stream 's' may still read it}}
      dist.free %h : tensor<4xf32>
      return
    }
    func.func @w(%h: tensor<4xf32> {dist.value = "h"}) attributes {dist.kind = "backward_w"} {
      dist.event_wait {event = "sent", stream = "compute"}
      dist.free %h : tensor<4xf32>
      return
    }
  }
}

// -----

// A receive that cannot start before an unrelated one is through (Paddle #70360).
module {
  dist.mesh @mesh ["pp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @f() attributes {dist.kind = "forward"} {
      // expected-note @below {{it waits for this one}}
      %0 = dist.recv {peer = {pp = 1 : i64}, tag = 0 : i64, dist.stream = "r"} : tensor<4xf32>
      // expected-error @below {{this receive is queued on stream 'r' behind an unrelated one}}
      %1 = dist.recv {peer = {pp = 1 : i64}, tag = 1 : i64, dist.stream = "r"} : tensor<4xf32>
      return
    }
  }
}

// -----

// Both ways over one channel (Paddle #68141).
module attributes {dist.channels = ["pp"]} {
  dist.mesh @mesh ["pp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @f(%x: tensor<4xf32>) attributes {dist.kind = "forward"} {
      // expected-note @below {{the other way}}
      dist.send %x {peer = {pp = 1 : i64}, tag = 0 : i64, dist.channel = "pp"} : tensor<4xf32>
      // expected-error @below {{channel 'pp' carries messages both ways}}
      %1 = dist.recv {peer = {pp = 1 : i64}, tag = 1 : i64, dist.channel = "pp"} : tensor<4xf32>
      return
    }
  }
}

// -----

// Channels that ranks may open in different orders (Paddle #68847).
module attributes {dist.channels = ["pp:1>0", "pp:0>1"]} {
  dist.mesh @mesh ["pp" = 2]
  module @a attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    func.func @f(%x: tensor<4xf32>) attributes {dist.kind = "forward"} {
      // expected-error @below {{channel 'pp:0>1' is not in the module's list of channels, or that is not sorted}}
      dist.send %x {peer = {pp = 1 : i64}, tag = 0 : i64, dist.channel = "pp:0>1"} : tensor<4xf32>
      return
    }
  }
}
