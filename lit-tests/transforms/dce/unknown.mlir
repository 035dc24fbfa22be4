// RUN: raddle-opt %s --dce --allow-unregistered-dialect | FileCheck %s

// What an unknown op does is not known, so it stays.
// CHECK-LABEL: func.func @unknown
// CHECK-NEXT: "foo.bar"
// CHECK-NEXT: return
func.func @unknown() {
  %0 = "foo.bar"() : () -> i32
  %1 = arith.addi %0, %0 : i32
  return
}
