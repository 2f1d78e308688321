//! `underpass doctor`: what this system allows, what is slower or weaker because of it, and what to
//! do about it.
//!
//! *Decides* what is looked at and how it is told. A reading is taken by [`reading`], judged by
//! [`judge`], and printed here. *Must not know:* channels, threads, calls.

mod judge;
mod reading;

use anstyle::{AnsiColor, Style};
use judge::{Finding, Judgement};
use reading::Reading;
use std::io::Write;
use std::process::ExitCode;

/// What `underpass doctor` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorOptions {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Looks at this system and prints what it finds. Fails if calls can't work here.
///
/// # Errors
/// The standard output can't be written.
pub fn run(options: &DoctorOptions) -> anyhow::Result<ExitCode> {
    let findings = judge::findings(&Reading::take());
    // Colours only on terminals, and not where $NO_COLOR is set.
    let mut out = anstream::stdout().lock();
    for finding in &findings {
        match options.json {
            true => writeln!(out, "{}", serde_json::to_string(finding)?)?,
            false => print(&mut out, finding)?,
        }
    }
    if !options.json {
        writeln!(out, "{}", summary(&findings))?;
    }
    let broken = findings.iter().any(|finding| finding.judgement == Judgement::Broken);
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Tries what changes the process that tries it. `underpass doctor` starts itself for that.
pub fn try_namespaces() -> ExitCode {
    match underpass_os::confine::leave_namespaces() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprint!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn print(out: &mut impl Write, finding: &Finding) -> std::io::Result<()> {
    let (word, colour) = match finding.judgement {
        Judgement::Good => ("good", AnsiColor::Green),
        Judgement::Slower => ("slower", AnsiColor::Yellow),
        Judgement::Weaker => ("weaker", AnsiColor::Yellow),
        Judgement::Broken => ("broken", AnsiColor::Red),
    };
    let style = Style::new().fg_color(Some(colour.into()));
    writeln!(out, "{style}{word:<7}{style:#} {:<14} {}", finding.check, finding.found)?;
    for (what, text) in [("so", &finding.consequence), ("try", &finding.remedy)] {
        if let Some(text) = text {
            writeln!(out, "{:23}{what}: {text}", "")?;
        }
    }
    Ok(())
}

fn summary(findings: &[Finding]) -> String {
    let count = |judgement| findings.iter().filter(|finding| finding.judgement == judgement).count();
    let (slower, weaker, broken) =
        (count(Judgement::Slower), count(Judgement::Weaker), count(Judgement::Broken));
    match (slower + weaker, broken) {
        (0, 0) => "Nothing is slower or weaker than it could be.".to_owned(),
        (_, 0) => format!("Calls work here; {slower} checks say slower, and {weaker} say weaker."),
        _ => format!("Calls don't work here: {broken} checks say broken."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_says_the_worst() {
        let finding = |judgement| Finding::new("kernel", judgement, "6.1".to_owned());
        let said =
            |verdicts: &[Judgement]| summary(&verdicts.iter().map(|v| finding(*v)).collect::<Vec<_>>());
        assert_eq!(said(&[Judgement::Good]), "Nothing is slower or weaker than it could be.");
        assert_eq!(
            said(&[Judgement::Good, Judgement::Slower, Judgement::Weaker]),
            "Calls work here; 1 checks say slower, and 1 say weaker."
        );
        assert_eq!(
            said(&[Judgement::Slower, Judgement::Broken]),
            "Calls don't work here: 1 checks say broken."
        );
    }

    #[test]
    fn a_finding_is_printed_with_its_remedy() {
        let mut out = Vec::new();
        let finding = Finding::new("landlock", Judgement::Weaker, "none".to_owned())
            .with("files are refused by seccomp alone", "Linux 6.7");
        print(&mut out, &finding).unwrap();
        let said = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        let below = " ".repeat(23);
        assert_eq!(
            said,
            format!(
                "weaker  landlock       none\n{below}so: files are refused by seccomp alone\n{below}try: Linux 6.7\n"
            )
        );
    }
}
