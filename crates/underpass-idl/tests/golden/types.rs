#[derive(Wire)]
#[underpass(crate = crate::mock)]
struct Stat {
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
    Labelled { label: String, tree: Vec<Tree> },
}

#[derive(Wire)]
enum Never {}
