//! The pass manager calls what watches it, in order, and stops when told to.

mod programs;

use std::cell::RefCell;

use programs::{Spec, build};
use raddle_compiler::Error;
use raddle_compiler::pass::{Instrumentation, ManagerOptions, PassManager, Pipeline, State, Step};
use raddle_dialect::diag::{Diagnostic, Diagnostics};

/// Notes every call; stops after a pass if asked to.
struct Watcher<'a> {
    name: &'static str,
    calls: &'a RefCell<Vec<String>>,
    verified: bool,
    stop_after: Option<&'static str>,
}

impl Watcher<'_> {
    fn note(&self, when: &str, step: &Step, state: State) {
        let verified = matches!(state, State::Verified(_));
        let call = format!("{} {when} {} {verified}", self.name, step.def.name);
        self.calls.borrow_mut().push(call);
    }
}

impl Instrumentation for Watcher<'_> {
    fn needs_verified(&self) -> bool {
        self.verified
    }

    fn before_pass(&mut self, step: &Step, state: State) -> Result<(), Vec<Diagnostic>> {
        self.note("before", step, state);
        Ok(())
    }

    fn after_pass(&mut self, step: &Step, state: State) -> Result<(), Vec<Diagnostic>> {
        self.note("after", step, state);
        if self.stop_after == Some(step.def.name) {
            let loc = state.module().loc(state.module().root());
            return Err(vec![Diagnostic::error("E0601", loc, "seen enough")]);
        }
        Ok(())
    }
}

fn run(watchers: Vec<Watcher>) -> (Result<(), Error>, Vec<String>) {
    let mut diagnostics = Diagnostics::new();
    let pipeline = Pipeline::parse("builtin.module(cse,dce)", &mut diagnostics).expect("valid");
    let mut manager = PassManager::new(pipeline, ManagerOptions::default());
    for watcher in watchers {
        manager.watch(watcher);
    }
    let result = manager.run(build(&Spec::default()), &mut diagnostics);
    let messages = diagnostics.iter().map(|d| d.message.clone()).collect();
    (result.map(|_| ()), messages)
}

fn watcher<'a>(name: &'static str, calls: &'a RefCell<Vec<String>>) -> Watcher<'a> {
    Watcher {
        name,
        calls,
        verified: false,
        stop_after: None,
    }
}

#[test]
fn what_was_added_last_is_called_first_after_a_pass() {
    let calls = RefCell::default();
    let (result, _) = run(vec![watcher("a", &calls), watcher("b", &calls)]);
    assert_eq!(result, Ok(()));
    let expected = [
        "a before cse true",
        "b before cse true",
        "b after cse false",
        "a after cse false",
        "a before dce false",
        "b before dce false",
        "b after dce false",
        "a after dce false",
    ];
    assert_eq!(calls.take(), expected);
}

#[test]
fn a_watcher_gets_verified_modules_if_it_needs_them() {
    let calls = RefCell::default();
    let needs = Watcher {
        verified: true,
        ..watcher("a", &calls)
    };
    assert_eq!(run(vec![needs]).0, Ok(()));
    assert!(calls.take().iter().all(|call| call.ends_with("true")));
}

#[test]
fn a_watcher_can_stop_the_pipeline() {
    let calls = RefCell::default();
    let stops = Watcher {
        stop_after: Some("cse"),
        ..watcher("a", &calls)
    };
    let (result, messages) = run(vec![stops]);
    assert_eq!(result, Err(Error::Stopped("cse")));
    assert_eq!(messages, ["seen enough"]);
    assert_eq!(calls.take().len(), 2);
}
