// A value keeps its name unless the variable of that name still holds something that is read later; a global's variable is
// written only by what goes into the global. The exported programs are imported again to see their names.

// RUN: raddle-translate --export-paddle --rank 1 --startup-out %t.startup -o %t.main %s
// RUN: echo '{"mesh": {"axes": ["mp"], "shape": [2]}, "rank": 1, "rings": {"5": [0, 1]}}' > %t.json
// RUN: raddle-translate --import-paddle %t.main --startup %t.startup --mesh %t.json 2>%t.err | FileCheck %s

module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}], paddle.ranks = [{rings = {"5" = ["mp"]}}]} {
    dist.global @v parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    // CHECK-LABEL: func.func @init()
    func.func @init() attributes {dist.kind = "init"} {
      // CHECK: dist.fill {{.*}}paddle.names = ["w"]
      %0 = dist.fill {value = 1.0 : f64} : tensor<4xf32>
      dist.store @w %0 : tensor<4xf32>
      // The same value goes into a second global by a copy.
      // CHECK: dist.identity {{.*}}paddle.names = ["v"]
      dist.store @v %0 : tensor<4xf32>
      return
    }
    // CHECK-LABEL: func.func @step(
    func.func @step(%x: tensor<4xf32> {dist.layout = #dist.layout<[[]], []>, paddle.name = "x"}) -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<4xf32>
      // x is read again: not in place.
      // CHECK: %[[A:.*]] = dist.relu %arg0 {{.*}}paddle.names = ["x@0"]
      %a = dist.relu %x {dist.role = "forward", paddle.names = ["x"]} : tensor<4xf32>
      // Now in place.
      // CHECK: %[[S:.*]] = dist.add %[[A]], %arg0 {{.*}}paddle.names = ["x"]
      %s = dist.add %a, %x {dist.role = "forward", paddle.names = ["x"]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      // CHECK: %[[SUM:.*]] = dist.all_reduce sum %[[S]] over ["mp"] {{.*}}paddle.names = ["x"]
      %sum = dist.all_reduce sum %s over ["mp"] {dist.role = "forward", paddle.names = ["x"]} : tensor<4xf32>
      // Never stored, so it must not end up in the global.
      // CHECK: %[[W:.*]] = dist.load @w
      // CHECK: %[[N:.*]] = dist.relu %[[W]] {{.*}}paddle.names = ["w@0"]
      %n = dist.relu %w {dist.role = "forward", paddle.names = ["w"]} : tensor<4xf32>
      // CHECK: %[[U:.*]] = dist.add %[[N]], %[[W]] {{.*}}paddle.names = ["w@1"]
      %u = dist.add %n, %w {dist.role = "optimizer"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      // The old value of the global is read after it is overwritten: it is set aside.
      // CHECK: %[[OLD:.*]] = dist.identity %[[W]] {{.*}}paddle.names = ["w@2"]
      // CHECK: %[[NEW:.*]] = dist.identity %[[U]] {{.*}}paddle.names = ["w"]
      // CHECK: dist.store @w %[[NEW]]
      dist.store @w %u : tensor<4xf32>
      // CHECK: %[[LATE:.*]] = dist.mul %[[SUM]], %[[OLD]]
      %late = dist.mul %sum, %w {dist.role = "forward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      // CHECK: %[[MEAN:.*]] = dist.reduce_mean %[[LATE]]
      %l = dist.reduce_mean %late {dims = array<i64: 0>, dist.role = "forward"} : (tensor<4xf32>) -> tensor<f32>
      // CHECK: return %[[MEAN]]
      return %l : tensor<f32>
    }
  }
}
