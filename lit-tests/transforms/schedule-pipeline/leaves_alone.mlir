// RUN: raddle-opt %s --schedule-pipeline --remarks 2>&1 | FileCheck %s

// Nothing has a stage.

// CHECK: remark: nothing to schedule: no job and no op has a 'dist.stage'
// CHECK-NOT: dist.schedule

dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
}
