// RUN: not raddle-opt %s --split-input-file --partition-stages='chunks=2' 2>&1 >/dev/null | FileCheck %s
// RUN: not raddle-opt %s --split-input-file --partition-stages='chunks=2' -o %t.out 2>/dev/null
// RUN: not ls %t.out

// Gradients do not flow to later stages, nor activations to earlier ones.
dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    %0 = dist.gelu %x {dist.role = "forward", dist.stage = 1 : i64} : tensor<2xf32>
    // CHECK: partition_failure.mlir:[[#@LINE+1]]:{{.*}}error: 'dist.relu' in the forward pass of stage 0 reads a value of the forward pass of stage 1 [E0641]
    %1 = dist.relu %0 {dist.role = "forward", dist.stage = 0 : i64} : tensor<2xf32>
    // CHECK: help: forward values flow to later stages, gradients to earlier ones
    return %1 : tensor<2xf32>
  }
}

// -----

dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    // CHECK: partition_failure.mlir:[[#@LINE+1]]:{{.*}}error: 'dist.gelu' has a 'dist.stage' that is no stage: an integer from 0 to 16383 [E0640]
    %0 = dist.gelu %x {dist.role = "forward", dist.stage = -1 : i64} : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}

// -----

// CHECK: error: 3 stages are not 2 on each rank [E0644]
// CHECK: help: the option 'chunks' has to divide the number of stages
dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    %0 = dist.gelu %x {dist.role = "forward", dist.stage = 2 : i64} : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}

// -----

dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  // CHECK: partition_failure.mlir:[[#@LINE+1]]:{{.*}}error: no forward op belongs to stage 1 of 4 [E0644]
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    %0 = dist.gelu %x {dist.role = "forward", dist.stage = 0 : i64} : tensor<2xf32>
    %1 = dist.gelu %0 {dist.role = "forward", dist.stage = 2 : i64} : tensor<2xf32>
    %2 = dist.gelu %1 {dist.role = "forward", dist.stage = 3 : i64} : tensor<2xf32>
    return %2 : tensor<2xf32>
  }
}

// -----

// CHECK: error: the axis 'pp' has 4 ranks, but 2 stages in 2 chunks take 1 [E0644]
dist.mesh @mesh ["pp" = 4]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    %0 = dist.gelu %x {dist.role = "forward", dist.stage = 0 : i64} : tensor<2xf32>
    %1 = dist.gelu %0 {dist.role = "forward", dist.stage = 1 : i64} : tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}

// -----

// A counter that two ranks would have to keep in step.
dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  dist.global @n buffer {layout = #dist.layout<[[]], []>} : tensor<2xf32>
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    %n = dist.load @n {dist.role = "forward", dist.stage = 0 : i64} : tensor<2xf32>
    %0 = dist.add %x, %n {dist.role = "forward", dist.stage = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %1 = dist.gelu %0 {dist.role = "forward", dist.stage = 1 : i64} : tensor<2xf32>
    %2 = dist.gelu %1 {dist.role = "forward", dist.stage = 2 : i64} : tensor<2xf32>
    %3 = dist.gelu %2 {dist.role = "forward", dist.stage = 3 : i64} : tensor<2xf32>
    // CHECK: partition_failure.mlir:[[#@LINE+1]]:{{.*}}error: @n is written in the forward pass, but several ranks of the pipeline use it [E0644]
    dist.store @n %3 {dist.role = "forward", dist.stage = 3 : i64} : tensor<2xf32>
    return %3 : tensor<2xf32>
  }
}

// -----

dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  // CHECK: partition_failure.mlir:[[#@LINE+1]]:{{.*}}error: 'other' has no place in a program that is to be partitioned [E0644]
  func.func @other() {
    return
  }
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    %0 = dist.gelu %x {dist.role = "forward", dist.stage = 1 : i64} : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}

// -----

// Stage programs whose transfers do not match.
dist.mesh @mesh ["pp" = 2]
module @first attributes {dist.mesh = @mesh, dist.ranks = [{pp = array<i64: 0>}]} {
  func.func @step(%x: tensor<2xf32>) attributes {dist.kind = "step"} {
    // CHECK: partition_failure.mlir:[[#@LINE+1]]:{{.*}}error: sends tensor<2xf32> with tag 5, but tensor<4xf32> is received [E0643]
    dist.send %x {dist.role = "forward", peer = {pp = 1 : i64}, tag = 5 : i64} : tensor<2xf32>
    // CHECK: partition_failure.mlir:[[#@LINE+1]]:{{.*}}error: 'dist.send' with tag 7 has no receive on the rank that it names [E0643]
    dist.send %x {dist.role = "forward", peer = {pp = 1 : i64}, tag = 7 : i64} : tensor<2xf32>
    return
  }
}
module @second attributes {dist.mesh = @mesh, dist.ranks = [{pp = array<i64: 1>}]} {
  func.func @step() attributes {dist.kind = "step"} {
    %0 = dist.recv {dist.role = "forward", peer = {pp = 0 : i64}, tag = 5 : i64} : tensor<4xf32>
    // CHECK: partition_failure.mlir:[[#@LINE+1]]:{{.*}}error: 'dist.recv' with tag 8 has no send on the rank that it names [E0643]
    %1 = dist.recv {dist.role = "forward", peer = {pp = 0 : i64}, tag = 8 : i64} : tensor<4xf32>
    return
  }
}

// -----

// A job cannot wait for a later one.
dist.mesh @mesh ["pp" = 1]
module @only attributes {dist.mesh = @mesh, dist.ranks = [{pp = array<i64: 0>}]} {
  func.func @step(%x: tensor<2xf32>) attributes {dist.kind = "step"} {
    %0 = dist.gelu %x {dist.role = "backward"} : tensor<2xf32>
    // CHECK: partition_failure.mlir:[[#@LINE+1]]:{{.*}}error: 'dist.relu' reads a value that is computed by a later job [E0641]
    %1 = dist.relu %0 {dist.role = "forward"} : tensor<2xf32>
    return
  }
}

// -----

// A step that updates in every micro-batch would become one that updates once.
dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 3 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[[]], []>} : tensor<2xf32>
  // CHECK: partition_failure.mlir:[[#@LINE+1]]:{{.*}}error: the step updates in each of 3 micro-batches, which no job does [E0644]
  func.func @step(%x: tensor<2xf32>) attributes {dist.kind = "step"} {
    %0 = dist.gelu %x {dist.role = "forward", dist.stage = 0 : i64} : tensor<2xf32>
    %1 = dist.gelu %0 {dist.role = "forward", dist.stage = 1 : i64} : tensor<2xf32>
    dist.store @w %1 {dist.role = "optimizer"} : tensor<2xf32>
    return
  }
}

// -----

// Not a function at all.
// CHECK-NOT: error
dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  dist.global @step parameter {layout = #dist.layout<[[]], []>} : tensor<2xf32>
}
