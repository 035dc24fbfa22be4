// RUN: raddle-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics

// expected-error-re@+1 {{use of undeclared{{.*}}}}
"test.op"(%undefined) : (i32) -> ()

// -----

"test.op"(%undefined) : (i32) -> ()
// expected-error@above {{undeclared}}

// -----

// expected-error@below {{undeclared}}
"test.op"(%undefined) : (i32) -> ()

// -----

"test.op"(%undefined) : (i32) -> () // expected-error {{undeclared}}

// -----

"test.op"() : () -> ()
