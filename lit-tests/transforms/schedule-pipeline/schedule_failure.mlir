// RUN: split-file %s %t
// RUN: not raddle-opt %t/uneven.mlir --schedule-pipeline 2>&1 | FileCheck %s --check-prefix=UNEVEN
// RUN: not raddle-opt %t/two.mlir --schedule-pipeline=kind=zigzag 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not raddle-opt %t/two.mlir --schedule-pipeline='kind=1f1b microbatches=8 memory-limit=1' 2>&1 | FileCheck %s --check-prefix=MEMORY
// RUN: not raddle-opt %t/two.mlir --schedule-pipeline='costs="f=-1"' 2>&1 | FileCheck %s --check-prefix=COST
// RUN: not raddle-opt %t/twice.mlir --schedule-pipeline 2>&1 | FileCheck %s --check-prefix=TWICE

// RUN: not raddle-opt %t/many.mlir --schedule-pipeline=microbatches=3 2>&1 | FileCheck %s --check-prefix=MANY

// MANY: cannot schedule: 1f1b cannot have 3 micro-batches where the rank classes run 8
// UNEVEN: error: cannot schedule: 1f1b cannot lay 3 stages on 2 ranks evenly [S0020] [E0556]
// KIND: error: {{.*}}`zigzag` is not a schedule kind [S0021] [E0556]
// KIND: help: known kinds: fthenb
// MEMORY: error: {{.*}}rank 0 holds 2 activations, the limit is 1 [S0014] [E0556]
// MEMORY: help: the smallest limit that would do is 2
// COST: error: {{.*}}cost `f` is -1
// TWICE: error: {{.*}}stage 0 has jobs on ranks 0 and 1

//--- two.mlir
dist.mesh @mesh ["pp" = 2]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  func.func @step(%x: tensor<4xf32>) attributes {dist.kind = "step"} {
    %0 = dist.relu %x {dist.role = "forward", dist.stage = 0 : i64} : tensor<4xf32>
    %1 = dist.relu %0 {dist.role = "forward", dist.stage = 1 : i64} : tensor<4xf32>
    %2 = dist.relu_grad %x, %1 {dist.role = "backward", dist.stage = 1 : i64} : tensor<4xf32>
    return
  }
}
//--- many.mlir
dist.mesh @mesh ["pp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 8 : i64, dist.ranks = [{}]} {
  func.func @step(%x: tensor<4xf32>) attributes {dist.kind = "step"} {
    %0 = dist.relu %x {dist.stage = 1 : i64} : tensor<4xf32>
    return
  }
}
//--- uneven.mlir
dist.mesh @mesh ["pp" = 2]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  func.func @step(%x: tensor<4xf32>) attributes {dist.kind = "step"} {
    %0 = dist.relu %x {dist.stage = 2 : i64} : tensor<4xf32>
    return
  }
}
//--- twice.mlir
dist.mesh @mesh ["pp" = 2]
module @a attributes {dist.mesh = @mesh, dist.ranks = [{pp = array<i64: 0>}]} {
  func.func @f() attributes {dist.kind = "forward", dist.stage = 0 : i64} {
    return
  }
}
module @b attributes {dist.mesh = @mesh, dist.ranks = [{pp = array<i64: 1>}]} {
  func.func @f() attributes {dist.kind = "forward", dist.stage = 0 : i64} {
    return
  }
}
