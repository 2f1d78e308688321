//! How long functions are, by the lines of code that rustfmt has formatted.

use std::path::Path;

/// The most lines of a function, from its `fn` to its brace.
const LONGEST: usize = 60;

/// A function, and how many lines it has.
#[derive(Debug, PartialEq)]
pub struct Function<'a> {
    pub line: usize,
    pub name: &'a str,
    pub lines: usize,
}

/// What is wrong with the functions in the `source` of a file.
pub fn faults(file: &Path, source: &str) -> Vec<String> {
    let long = functions(source).into_iter().filter(|function| function.lines > LONGEST);
    let told = long.map(|Function { line, name, lines }| {
        let shown = file.display();
        format!(
            "{shown}:{line}: `{name}` has {lines} lines, more than {LONGEST}; split it by what its parts do"
        )
    });
    told.collect()
}

/// Whether all of a file is tests, or helps them.
pub fn is_of_tests(file: &Path) -> bool {
    file.components().any(|part| ["tests", "tests.rs"].iter().any(|name| part.as_os_str() == *name))
}

/// The functions of a file outside of its module of tests.
fn functions(source: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = source.lines().collect();
    let (mut found, mut next) = (Vec::new(), 0);
    while next < lines.len() {
        if lines[next].trim() == "#[cfg(test)]" && lines.get(next + 1).is_some_and(|line| line.ends_with('{'))
        {
            next += lines_of(&lines[next + 1..]);
        } else if let Some(name) = name(lines[next]) {
            found.push(Function { line: next + 1, name, lines: lines_of(&lines[next..]) });
        }
        next += 1;
    }
    found
}

/// The name of the function that begins in this line.
fn name(line: &str) -> Option<&str> {
    const BEFORE: [&str; 7] = ["\"C\"", "async", "const", "default", "extern", "pub", "unsafe"];
    let (before, rest) = line.split_once("fn ")?;
    let begins = before.split_whitespace().all(|word| BEFORE.contains(&word) || word.starts_with("pub("));
    begins.then(|| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
}

/// How many of `lines` belong to the item that begins with the first: up to a brace that closes, or
/// to the end of a declaration.
fn lines_of(lines: &[&str]) -> usize {
    let margin = lines[0].len() - lines[0].trim_start().len();
    let mut opened = false;
    for (at, line) in lines.iter().enumerate() {
        let outermost = line.len() - line.trim_start().len() == margin;
        if !opened && line.ends_with([';', '}']) && (outermost || !line.ends_with('}')) {
            return at + 1;
        }
        if opened && outermost && line.trim() == "}" {
            return at + 1;
        }
        opened |= outermost && line.ends_with('{');
    }
    lines.len()
}

#[test]
fn functions_are_measured() {
    let source = "\
pub(crate) fn one() -> u8 { 1 }

impl A {
    fn declared(
        &self,
    ) -> B;

    pub async fn three(&self) {
        if x { fn_of(y) }
    }

    unsafe fn with_where<T>(t: T)
    where
        T: Copy,
    {
        loop {
        }
    }
}

#[cfg(test)]
mod tests {
    fn unmeasured() {
    }
}
const fn last() {
    quote! {
        #vis fn generated() {}
    }
}
";
    let found: Vec<_> = functions(source).iter().map(|of| (of.line, of.name, of.lines)).collect();
    assert_eq!(
        found,
        [(1, "one", 1), (4, "declared", 3), (8, "three", 3), (12, "with_where", 7), (26, "last", 5)]
    );
}

#[test]
fn a_long_function_is_found() {
    let body = "    x();\n".repeat(LONGEST - 1);
    let file = Path::new("a.rs");
    assert_eq!(
        faults(file, &format!("fn f() {{\n{body}}}\n")),
        ["a.rs:1: `f` has 61 lines, more than 60; split it by what its parts do"]
    );
    assert!(faults(file, &format!("fn f() {{\n{}}}\n", &body[9..])).is_empty());
}
