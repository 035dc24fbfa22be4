// RUN: raddle-opt %s --allow-unregistered-dialect --split-input-file=//==== | FileCheck %s

// CHECK: "test.first"
// CHECK: {{^}}//===={{$}}
// CHECK: "test.second"
// CHECK-NOT: //====
"test.first"() : () -> ()
//====
"test.second"() : () -> ()
