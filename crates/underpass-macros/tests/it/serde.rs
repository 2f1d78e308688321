//! Types of serde in interfaces and derived types.
#![cfg(feature = "serde")]

use crate::mock;
use mock::{CallError, export};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use underpass_macros::{Wire, interface};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Query {
    Exact(String),
    Range { from: u32, to: u32 },
}

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
struct Hit {
    rank: u32,
    #[underpass(serde)]
    found: Value,
}

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
enum SearchError {
    Call(String),
    Bad(#[underpass(serde)] Query),
}

impl From<CallError> for SearchError {
    fn from(CallError(why): CallError) -> Self {
        Self::Call(why)
    }
}

type SearchResult<T> = Result<T, SearchError>;

#[interface(crate = mock)]
trait Search {
    fn find(
        &self,
        #[underpass(serde)] query: &Query,
        #[underpass(serde)] limits: (u8, Value),
        rank: u32,
    ) -> SearchResult<Hit>;
    #[underpass(serde)]
    fn raw(&self, #[underpass(serde)] text: &str, #[underpass(serde)] numbers: &[u8]) -> SearchResult<Value>;
}

struct Index;

impl Search for Index {
    fn find(&self, query: &Query, (limit, value): (u8, Value), rank: u32) -> SearchResult<Hit> {
        match query {
            Query::Range { from, to } if limit > 0 => Ok(Hit { rank, found: json!([from, to, value]) }),
            other => Err(SearchError::Bad(other.clone())),
        }
    }
    fn raw(&self, text: &str, numbers: &[u8]) -> SearchResult<Value> {
        Ok(json!({ text: numbers }))
    }
}

#[test]
fn they_travel() {
    export("search", Search::serve(Index));
    let client = SearchClient::import("search").unwrap();
    let found = client.find(&Query::Range { from: 1, to: 2 }, (1, json!(null)), 3);
    assert_eq!(found, Ok(Hit { rank: 3, found: json!([1, 2, null]) }));
    let exact = Query::Exact("x".into());
    assert_eq!(client.find(&exact, (1, json!(null)), 3), Err(SearchError::Bad(exact)));
    assert_eq!(client.raw("x", &[1, 2]), Ok(json!({ "x": [1, 2] })));
}

#[test]
fn the_descriptor_has_their_names() {
    let text = SearchClient::descriptor().text();
    assert!(
        text.contains(
            "find(query: Serde<Query>, limits: Serde<(u8, Value)>, rank: u32) -> Result<Hit, SearchError>"
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "raw(text: Serde<String>, numbers: Serde<Vec<u8>>) -> Result<Serde<Value>, SearchError>"
        ),
        "{text}"
    );
    assert!(text.contains("struct Hit { rank: u32, found: Serde<Value> }"), "{text}");
}
