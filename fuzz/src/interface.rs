//! The interface that the targets call, with types of every kind, and its implementation.
#![allow(clippy::missing_errors_doc, reason = "an interface of the fuzz targets")]

use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use underpass::{CallError, Wire};

/// A type that contains itself.
#[derive(Clone, Debug, PartialEq, Wire)]
pub struct Tree(pub Vec<Tree>);

/// An enum of every kind of variant.
#[derive(Clone, Debug, PartialEq, Wire)]
pub enum Shape {
    /// Unit.
    Nothing,
    /// Tuple.
    Circle(f64, char),
    /// Named.
    Box {
        /// Extent.
        width: u32,
        /// Extent.
        height: Option<i16>,
    },
    /// Recursive.
    Many(Vec<Shape>),
}

/// A struct to which fields were added.
#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(extensible)]
pub struct Extended {
    /// Text.
    pub name: String,
    /// A number with a default.
    #[underpass(since = 2, default = 7)]
    pub number: u32,
    /// Itself.
    #[underpass(since = 2)]
    pub parts: Vec<Extended>,
}

/// A struct of every kind of field.
#[derive(Clone, Debug, PartialEq, Wire)]
pub struct Fields {
    /// Of fixed size.
    pub plain: (u8, [bool; 3], i128),
    /// Text.
    pub name: String,
    /// A map.
    pub map: HashMap<String, Vec<u16>>,
    /// A sorted map.
    pub tree: BTreeMap<u8, Option<Box<Fields>>>,
    /// An enum.
    pub shape: Shape,
    /// A result.
    pub result: Result<u64, String>,
    /// A span.
    pub span: Duration,
}

/// The interface that the targets call.
#[underpass::interface]
pub trait Target {
    /// Does nothing.
    fn null(&self) -> Result<(), CallError>;
    /// Adds.
    fn add(&self, a: u32, b: u64) -> Result<u64, CallError>;
    /// Returns its argument.
    fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError>;
    /// Returns its argument.
    fn fields(&self, fields: Fields, shapes: &[Shape]) -> Result<Fields, CallError>;
    /// Returns the depth of a tree.
    fn depth(&self, tree: Tree) -> Result<u32, CallError>;
    /// Returns that many bytes.
    fn fill(&self, len: u32) -> Result<Vec<u8>, CallError>;
    /// Returns its argument.
    #[underpass(serde)]
    fn foreign(&self, #[underpass(serde)] value: Value) -> Result<Value, CallError>;
    /// Refuses.
    fn refuse(&self, why: &str) -> Result<(), CallError>;
    /// Returns its argument.
    fn extended(&self, value: Extended) -> Result<Extended, CallError>;
    /// Does nothing.
    #[underpass(since = 2)]
    fn added(&self) -> Result<(), CallError>;
    /// Gives an interface.
    #[underpass(since = 3)]
    fn give(&self) -> Result<TargetClient, CallError>;
    /// Returns its argument.
    #[underpass(since = 3)]
    fn pass(&self, others: Vec<TargetClient>) -> Result<Vec<TargetClient>, CallError>;
}

/// The implementation of [`Target`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Target for Nothing {
    fn null(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn add(&self, a: u32, b: u64) -> Result<u64, CallError> {
        Ok(u64::from(a).wrapping_add(b))
    }

    fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
        Ok(bytes.to_vec())
    }

    fn fields(&self, fields: Fields, shapes: &[Shape]) -> Result<Fields, CallError> {
        Ok(Fields { shape: Shape::Many(shapes.to_vec()), ..fields })
    }

    fn depth(&self, tree: Tree) -> Result<u32, CallError> {
        fn of(tree: &Tree) -> u32 {
            1 + tree.0.iter().map(of).max().unwrap_or(0)
        }
        Ok(of(&tree))
    }

    fn fill(&self, len: u32) -> Result<Vec<u8>, CallError> {
        // Some are out of band, and none is large.
        Ok(vec![7; len as usize % 100_000])
    }

    fn foreign(&self, value: Value) -> Result<Value, CallError> {
        Ok(value)
    }

    fn refuse(&self, why: &str) -> Result<(), CallError> {
        Err(CallError::Panicked(why.to_owned()))
    }

    fn extended(&self, value: Extended) -> Result<Extended, CallError> {
        Ok(value)
    }

    fn added(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn give(&self) -> Result<TargetClient, CallError> {
        Ok(TargetClient::new(Self))
    }

    fn pass(&self, others: Vec<TargetClient>) -> Result<Vec<TargetClient>, CallError> {
        Ok(others)
    }
}
