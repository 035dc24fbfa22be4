//! Child processes: shown as they would be typed, run to the end, their output relayed and kept.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};

/// How a relayed command ended and what it said.
pub struct Relayed {
    /// Whether it exited with status 0.
    pub success: bool,
    /// Both its output streams, line by line, in the order they came.
    pub lines: Vec<String>,
}

/// Runs a command whose output streams are the caller's.
///
/// # Errors
/// When it cannot be started or does not exit with status 0.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command
        .status()
        .with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs a command, passing each line of its output on to standard output and keeping it.
///
/// # Errors
/// When the command cannot be started or waited for.
pub fn relay(command: &mut Command) -> Result<Relayed> {
    let shown = show(command);
    let mut child: Child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{shown}`"))?;
    let lines = Mutex::new(Vec::new());
    let streams: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|s| Box::new(s) as _),
        child.stderr.take().map(|s| Box::new(s) as _),
    ];
    thread::scope(|scope| {
        for stream in streams.into_iter().flatten() {
            scope.spawn(|| relay_stream(stream, &lines));
        }
    });
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{shown}`"))?;
    let lines = lines
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok(Relayed {
        success: status.success(),
        lines,
    })
}

/// The command as a person would type it.
pub fn show(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        let plain = !argument.is_empty()
            && argument
                .chars()
                .all(|c| c.is_alphanumeric() || "-_./=,:+@%".contains(c));
        text.push(' ');
        if plain {
            text.push_str(&argument);
        } else {
            text.push('\'');
            text.push_str(&argument.replace('\'', "'\\''"));
            text.push('\'');
        }
    }
    text
}

fn relay_stream(stream: impl Read, lines: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    let mut buffer = Vec::new();
    while let Ok(count) = reader.read_until(b'\n', &mut buffer) {
        if count == 0 {
            break;
        }
        let line = String::from_utf8_lossy(&buffer)
            .trim_end_matches('\n')
            .to_owned();
        buffer.clear();
        // A closed standard output is the reader's choice; the command still runs to its end.
        let _ = writeln!(std::io::stdout(), "{line}");
        lines
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_a_command_as_typed() {
        let mut command = Command::new("apt-get");
        command.args(["install", "-y", "a b", "it's", ""]);
        assert_eq!(show(&command), r#"apt-get install -y 'a b' 'it'\''s' ''"#);
    }

    #[test]
    fn relays_both_streams_and_the_status() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let mut relayed = relay(&mut command).unwrap();
        relayed.lines.sort();
        assert!(!relayed.success);
        assert_eq!(relayed.lines, ["err", "out"]);
    }

    #[test]
    fn a_failing_command_names_itself() {
        let error = run(Command::new("sh").args(["-c", "exit 4"])).unwrap_err();
        assert!(error.to_string().contains("`sh -c 'exit 4'`"), "{error}");
    }
}
