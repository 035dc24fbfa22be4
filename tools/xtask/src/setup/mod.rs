//! Set-up: looks at what is there, installs what is missing, says so, and is done in a moment when nothing is.

mod apt;
mod python;

use std::fs::{self, File};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Installs everything that building and testing need and that is not there yet.
///
/// # Errors
/// When something is missing and cannot be installed; the message holds the command to run by hand.
pub fn run(workspace: &Workspace) -> Result<()> {
    let start = Instant::now();
    fs::create_dir_all(&workspace.target)
        .with_context(|| format!("cannot make {}", workspace.target.display()))?;
    let lock = File::create(workspace.target.join(".setup.lock"))
        .context("cannot make the set-up lock")?;
    lock.lock().context("cannot take the set-up lock")?;
    let python_found = python::find_interpreter().is_some();
    let packages_changed = apt::install_missing(python_found)?;
    let environment_changed = python::install(workspace)?;
    let what = if packages_changed || environment_changed {
        "done"
    } else {
        "nothing to install"
    };
    println!("set-up: {what} ({:.1} s)", start.elapsed().as_secs_f64());
    Ok(())
}
