// One dash or two, standard input or a file.
// RUN: raddle-opt -allow-unregistered-dialect -mlir-print-op-generic -cse -verify-each %s | FileCheck %s
// RUN: raddle-opt --allow-unregistered-dialect --mlir-print-op-generic --cse --verify-each < %s | FileCheck %s
// RUN: raddle-opt --allow-unregistered-dialect --mlir-print-op-generic --cse --verify-each - < %s | FileCheck %s

// CHECK: "builtin.module"() ({
// CHECK:   "test.op"() : () -> ()
"test.op"() : () -> ()
