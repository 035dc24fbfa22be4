// Two stages, two micro-batches: forward and backward jobs with their transfers, and an optimizer whose norm spans the stages.
// RUN: raddle-opt %s --append-backward='optimizer=sgd clip=global-norm' --partition-stages | FileCheck %s
//
// RUN: raddle-opt %s --append-backward='optimizer=sgd clip=global-norm' --split-backward --partition-stages=axis=stage | FileCheck %s --check-prefix=SPLIT
//
// RUN: raddle-opt %s --append-backward='optimizer=sgd clip=global-norm' --partition-stages --validate-each=3 2>&1 >/dev/null | FileCheck %s --check-prefix=SAME
//
// Both stages on one rank: no transfers, values go from chunk to chunk by name.
// RUN: raddle-opt %s --append-backward=optimizer=sgd --partition-stages=chunks=2 | FileCheck %s --check-prefix=CHUNKS

// CHECK: dist.mesh @mesh ["pp" = 2, "mp" = 1]
// CHECK-LABEL: module @all_pp0 {{.*}}dist.microbatches = 2 : i64, dist.ranks = [{pp = array<i64: 0>}]
// CHECK: dist.global @w0 parameter
// CHECK-NOT: @w1
// CHECK: func.func @init()
// CHECK: func.func @forward(%{{.*}}: tensor<2x4xf32> {dist.input, dist.layout = {{.*}}, dist.value = "arg0"}) attributes {dist.chunk = 0 : i64, dist.kind = "forward", dist.stage = 0 : i64}
// CHECK: %[[Y:.*]] = dist.matmul
// CHECK-NEXT: dist.send %[[Y]] {{.*}}peer = {pp = 1 : i64}, tag = 0 : i64} : tensor<2x4xf32>
// CHECK-NEXT: return
// CHECK: func.func @backward(%{{.*}}: tensor<2x4xf32> {dist.input, {{.*}}dist.value = "arg0"})
// CHECK: dist.load @w0 {dist.role = "backward"
// CHECK: %[[D:.*]] = dist.recv {dist.layout = #dist.layout<{{\[\[\], \[\]\], \[\]}}>, {{.*}}peer = {pp = 1 : i64}, tag = 1 : i64} : tensor<2x4xf32>
// CHECK: dist.matmul_grad {{.*}}%[[D]]
// CHECK: dist.accumulate @w0_grad
// CHECK: func.func @optimizer() attributes {dist.kind = "optimizer"}
// CHECK: %[[N:.*]] = dist.squared_l2_norm
// CHECK-NEXT: dist.all_reduce sum %[[N]] over ["pp"]
// CHECK-NEXT: dist.sqrt
// CHECK: dist.store @w0

// CHECK-LABEL: module @all_pp1 {{.*}}dist.ranks = [{pp = array<i64: 1>}]
// CHECK-NOT: @w0
// CHECK: func.func @forward() -> (tensor<2x4xf32> {dist.value = "v0"}, tensor<2x4xf32> {dist.value = "v1"}, tensor<f32> {dist.loss, dist.result = 0 : i64}) {{.*}}dist.stage = 1 : i64
// CHECK: dist.recv {{.*}}peer = {pp = 0 : i64}, tag = 0 : i64} : tensor<2x4xf32>
// CHECK: func.func @backward(%{{.*}}: tensor<2x4xf32> {dist.value = "v0"}, %{{.*}}: tensor<2x4xf32> {dist.value = "v1"})
// CHECK: %[[G:.*]]:2 = dist.matmul_grad
// CHECK-NEXT: dist.send %[[G]]#0 {{.*}}peer = {pp = 0 : i64}, tag = 1 : i64}
// CHECK-NEXT: dist.accumulate @w1_grad %[[G]]#1

// SPLIT: dist.mesh @mesh ["stage" = 2, "mp" = 1]
// SPLIT-LABEL: module @all_stage1
// SPLIT: func.func @forward()
// SPLIT: func.func @backward_b({{.*}}dist.kind = "backward_b"
// SPLIT: dist.send
// SPLIT-NOT: dist.accumulate
// SPLIT: func.func @backward_w({{.*}}dist.kind = "backward_w"
// SPLIT: dist.accumulate @w1_grad
// SPLIT: func.func @optimizer()

// SAME: validated partition-stages: loss ×6 within {{.*}}, gradient ×6 within {{.*}}, global ×15 within

// CHUNKS: dist.mesh @mesh ["pp" = 1, "mp" = 1]
// CHUNKS-NOT: dist.send
// CHUNKS: func.func @forward_0({{.*}}) -> (tensor<2x4xf32> {dist.value = "[[V:v[0-9]]]"}) attributes {dist.chunk = 0
// CHUNKS: func.func @forward_1(%{{.*}}: tensor<2x4xf32> {dist.value = "[[V]]"}) {{.*}}attributes {dist.chunk = 1 : i64, dist.kind = "forward", dist.stage = 1 : i64}
// CHUNKS: func.func @backward_1
// CHUNKS: func.func @backward_0

dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{}]} {
  dist.global @w0 parameter {layout = #dist.layout<[[], []], []>} : tensor<4x4xf32>
  dist.global @w1 parameter {layout = #dist.layout<[[], []], []>} : tensor<4x4xf32>
  func.func @step(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[[], []], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
    %w0 = dist.load @w0 : tensor<4x4xf32>
    %w1 = dist.load @w1 : tensor<4x4xf32>
    %0 = dist.matmul %x, %w0 {dist.stage = 0 : i64} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = dist.matmul %0, %w1 {dist.stage = 1 : i64} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = dist.reduce_mean %1 {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
}
