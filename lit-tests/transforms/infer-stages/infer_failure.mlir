// RUN: not raddle-opt %s --infer-stages=stages=3 2>&1 >/dev/null | FileCheck %s --check-prefix=FEW
// RUN: not raddle-opt %s --infer-stages=stages=5000 2>&1 >/dev/null | FileCheck %s --check-prefix=MANY
// RUN: not raddle-opt %s --infer-stages 2>&1 >/dev/null | FileCheck %s --check-prefix=NONE
// RUN: sed -e 's|%0 = dist.gelu %x |%0 = dist.gelu %x {dist.stage = 1 : i64} |' -e 's|%1 = dist.relu %0 |%1 = dist.relu %0 {dist.stage = 0 : i64} |' %s > %t.mlir
// RUN: not raddle-opt %t.mlir --infer-stages=stages=2 2>&1 >/dev/null | FileCheck %s --check-prefix=ORDER
// RUN: sed -e 's|%0 = dist.gelu %x |%0 = dist.gelu %x {dist.stage = 1 : i64} |' %s > %t.room.mlir
// RUN: not raddle-opt %t.room.mlir --infer-stages=stages=2 2>&1 >/dev/null | FileCheck %s --check-prefix=ROOM
// RUN: sed -e 's|%0 = dist.gelu %x |%0 = dist.gelu %x {dist.stage = 7 : i64} |' %s > %t.beyond.mlir
// RUN: not raddle-opt %t.beyond.mlir --infer-stages=stages=2 2>&1 >/dev/null | FileCheck %s --check-prefix=BEYOND

// FEW: error: 2 forward ops cannot be 3 stages [E0645]
// MANY: error: 5000 stages are more than 1024 [E0645]
// NONE: error: no op has a 'dist.stage', and no number of stages is given [E0645]
// NONE: help: say how many, as in infer-stages{stages=4}, or label ops where stages begin
// ORDER: error: 'dist.relu' is labelled with stage 0, but an op before it with stage 1 [E0645]
// ROOM: error: the labels do not leave room for 2 stages [E0645]
// BEYOND: error: 'dist.gelu' has a 'dist.stage' that is none of 2 stages [E0645]
dist.mesh @mesh ["mp" = 1]
module @all attributes {dist.mesh = @mesh, dist.ranks = [{}]} {
  func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.kind = "step"} {
    %0 = dist.gelu %x : tensor<2xf32>
    %1 = dist.relu %0 : tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}
