// RUN: raddle-opt %s --split-input-file --verify-diagnostics

// Schedules: one in the top module, with lists that fit the placement and do every step once.

dist.schedule {actions = ["0F0 0B0", "1F0 1I0 1W0"], chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0, 1>, stages = 2 : i64}

// -----

module {
  module @inner {
    // expected-error @+1 {{'dist.schedule' op must stand in the top module}}
    dist.schedule {actions = ["0F0 0B0"], chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0>, stages = 1 : i64}
  }
}

// -----

// expected-note @+1 {{the first}}
dist.schedule {actions = ["0F0"], chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0>, stages = 1 : i64}
// expected-error @+1 {{'dist.schedule' op is a second schedule}}
dist.schedule {actions = ["0F0"], chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0>, stages = 1 : i64}

// -----

// expected-error @+1 {{'dist.schedule' op requires attribute 'actions', an array}}
"dist.schedule"() {chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0>, stages = 1 : i64} : () -> ()

// -----

// expected-error @+1 {{'dist.schedule' op has microbatches = 0, but must have at least 1}}
dist.schedule {actions = ["0F0"], chunks = 1 : i64, kind = "file", microbatches = 0 : i64, placement = array<i64: 0>, stages = 1 : i64}

// -----

// expected-error @+1 {{'dist.schedule' op has stages = 2, but 'placement' has 1 entries}}
dist.schedule {actions = ["0F0"], chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0>, stages = 2 : i64}

// -----

// expected-error @+1 {{'dist.schedule' op puts stage 0 on rank 1, but there are lists for 1 ranks}}
dist.schedule {actions = ["0F0"], chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 1>, stages = 1 : i64}

// -----

// expected-error @+1 {{'dist.schedule' op has chunks = 2, but 'placement' puts 1 stages on one rank}}
dist.schedule {actions = ["0F0"], chunks = 2 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0>, stages = 1 : i64}

// -----

// expected-error @+1 {{'dist.schedule' op has a list for rank 1, on which 'placement' puts no stage}}
dist.schedule {actions = ["0F0", ""], chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0>, stages = 1 : i64}

// -----

// expected-error @+1 {{'dist.schedule' op rank 0, action 1: `0X0` is no action: not of the form <stage><TYPE><microbatch>}}
dist.schedule {actions = ["0F0 0X0"], chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0>, stages = 1 : i64}

// -----

// expected-error @+1 {{'dist.schedule' op rank 0, action 1: `1F0` is of a stage of rank 1}}
dist.schedule {actions = ["0F0 1F0", "1F0"], chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0, 1>, stages = 2 : i64}

// -----

// expected-error @+1 {{'dist.schedule' op rank 0, action 0: `3F0` is of a stage beyond the 1}}
dist.schedule {actions = ["3F0"], chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0>, stages = 1 : i64}

// -----

// expected-error @+1 {{'dist.schedule' op rank 0, action 0: `0F7` is of a micro-batch beyond the 2}}
dist.schedule {actions = ["0F7 0F0"], chunks = 1 : i64, kind = "file", microbatches = 2 : i64, placement = array<i64: 0>, stages = 1 : i64}

// -----

// expected-error @+1 {{'dist.schedule' op has 1 compute steps, but 4611686018427387904 forwards are wanted}}
dist.schedule {actions = ["0F0"], chunks = 1 : i64, kind = "file", microbatches = 4611686018427387904 : i64, placement = array<i64: 0>, stages = 1 : i64}

// -----

// expected-error @+1 {{'dist.schedule' op never does 0W1}}
dist.schedule {actions = ["0F0 0F1 0B0 0I1"], chunks = 1 : i64, kind = "file", microbatches = 2 : i64, placement = array<i64: 0>, stages = 1 : i64}

// -----

dist.mesh @mesh ["pp" = 1]
// expected-note @+1 {{the class}}
module @all attributes {dist.mesh = @mesh, dist.microbatches = 4 : i64, dist.ranks = [{}]} {
}
// expected-error @+1 {{'dist.schedule' op has 1 micro-batches, but a rank class runs 4}}
dist.schedule {actions = ["0F0 0B0"], chunks = 1 : i64, kind = "file", microbatches = 1 : i64, placement = array<i64: 0>, stages = 1 : i64}
