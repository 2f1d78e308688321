/// Properties of a file.
#[derive(Wire)]
#[underpass(crate = crate::mock)]
struct Stat {
    /// In bytes.
    size: u64,
    r#type: Option<String>,
}

#[derive(Wire)]
struct Pair<T: Clone, const N: usize>(T, [u8; N])
where
    T: PartialEq;

#[derive(Wire)]
struct Nothing;

#[derive(Wire)]
enum Tree {
    Leaf,
    Node(Box<Tree>, Box<Tree>),
    /// With a text.
    Labelled { label: String, tree: Vec<Tree> },
}

#[derive(Wire)]
enum Never {}
