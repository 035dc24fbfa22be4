// RUN: raddle-opt %s --schedule-pipeline | FileCheck %s --check-prefix=CLASSIC
// RUN: raddle-opt %s --schedule-pipeline --remarks -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: raddle-opt %s --schedule-pipeline='kind=zb-h1 optimizer=none transfers' | FileCheck %s --check-prefix=H1
// RUN: raddle-opt %s --schedule-pipeline='kind=auto costs="f=1/3,b=2,w=1" memory-limit=2/3 time-limit=0.2' | FileCheck %s --check-prefix=AUTO
// RUN: raddle-opt %s --schedule-pipeline | raddle-opt --schedule-pipeline='kind=fthenb' | FileCheck %s --check-prefix=AGAIN
// RUN: raddle-opt %s --schedule-pipeline | raddle schedule --check /dev/stdin | FileCheck %s --check-prefix=CHECK

// Stages are read off the ops' labels, micro-batches off the class. Backwards are split because one op says which part it is of.

// REMARK: remark: scheduled: makespan 8 (bound 7)  span 8 (bound 7)

// CLASSIC: dist.mesh @mesh ["pp" = 2]
// CLASSIC-NEXT: dist.schedule {actions = ["0F0 0F1 0I0 0W0 0I1 0W1 0SYNC_STATE 0STEP", "1F0 1I0 1W0 1F1 1I1 1W1 1SYNC_STATE 1STEP"], chunks = 1 : i64, kind = "1f1b", microbatches = 2 : i64, placement = array<i64: 0, 1>, stages = 2 : i64}

// H1: dist.schedule {actions = ["0F0 0SEND_F0 {{.*}}", "1RECV_F0 1F0 {{.*}}"], chunks = 1 : i64, kind = "zb-h1"
// H1-NOT: STEP

// AUTO: dist.schedule {actions = ["0F0 {{.*}}0STEP", "{{.*}}"], chunks = 1 : i64, kind = "auto", microbatches = 2

// AGAIN: dist.schedule {actions = ["0F0 0F1 0I0
// AGAIN-SAME: kind = "fthenb"
// AGAIN-NOT: dist.schedule

// CHECK: /dev/stdin: 2 ranks, 2 stages, 2 micro-batches: complete and in order

dist.mesh @mesh ["pp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[[], []], []>} : tensor<4x4xf32>
  func.func @step(%x: tensor<4x4xf32>, %d: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {dist.kind = "step"} {
    %w = dist.load @w : tensor<4x4xf32>
    %0 = dist.matmul %x, %w {dist.role = "forward", dist.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = dist.matmul %0, %w {dist.role = "forward", dist.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = dist.matmul %d, %w {dist.role = "backward", dist.part = "b", dist.stage = 1 : i64, transpose_b = true} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = dist.matmul %2, %w {dist.role = "backward", dist.stage = 0 : i64, transpose_b = true} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
}
