// Programs of single stages keep their transfers and become jobs.
// RUN: raddle-opt %s --partition-stages | FileCheck %s
// RUN: raddle-opt %s --partition-stages --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// REMARK: remark: jobs of a program that is cut along 'pp' already [R0640]
// CHECK-LABEL: module @first
// CHECK: func.func @forward(%{{.*}}: tensor<2xf32> {dist.input, dist.value = "arg0"}) -> (tensor<2xf32> {dist.value = "v0"}) attributes {dist.chunk = 0 : i64, dist.kind = "forward", dist.stage = 0 : i64}
// CHECK: dist.send {{.*}}tag = 5
// CHECK: func.func @backward(%{{.*}}: tensor<2xf32> {dist.value = "v0"})
// CHECK: dist.recv {{.*}}tag = 6
// CHECK-LABEL: module @second
// CHECK: func.func @forward() -> (tensor<2xf32> {dist.value = "v0"}) {{.*}}dist.stage = 1 : i64
// CHECK: func.func @backward(
dist.mesh @mesh ["pp" = 2]
module @first attributes {dist.mesh = @mesh, dist.ranks = [{pp = array<i64: 0>}]} {
  func.func @step(%x: tensor<2xf32>) attributes {dist.kind = "step"} {
    %0 = dist.gelu %x {dist.role = "forward"} : tensor<2xf32>
    dist.send %0 {dist.role = "forward", peer = {pp = 1 : i64}, tag = 5 : i64} : tensor<2xf32>
    %1 = dist.recv {dist.role = "backward", peer = {pp = 1 : i64}, tag = 6 : i64} : tensor<2xf32>
    %2 = dist.gelu_grad %0, %1 {dist.role = "backward"} : tensor<2xf32>
    return
  }
}
module @second attributes {dist.mesh = @mesh, dist.ranks = [{pp = array<i64: 1>}]} {
  func.func @step() attributes {dist.kind = "step"} {
    %0 = dist.recv {dist.role = "forward", peer = {pp = 0 : i64}, tag = 5 : i64} : tensor<2xf32>
    %1 = dist.gelu_grad %0, %0 {dist.role = "backward"} : tensor<2xf32>
    dist.send %1 {dist.role = "backward", peer = {pp = 0 : i64}, tag = 6 : i64} : tensor<2xf32>
    return
  }
}
