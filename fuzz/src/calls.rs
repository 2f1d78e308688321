//! The calls that an honest client makes.

use crate::interface::{Extended, Fields, Shape, TargetClient, Tree};
use serde_json::Value;
use underpass::CallError;
use underpass_rpc::fuzz::FuzzClient;
use underpass_wire::Serde;

/// Calls a procedure of the interface, without waiting.
///
/// # Errors
/// The error of any call.
pub fn call(client: &FuzzClient, procedure: u8, urgent: bool, len: u16) -> Result<(), CallError> {
    // One call in eight has its bytes out of band.
    let bytes = vec![7; usize::from(len) * usize::from(len % 8 == 7) * 2 + usize::from(len % 4096)];
    let fields = || Fields {
        plain: (1, [true; 3], -1),
        name: "name".to_owned(),
        map: [("key".to_owned(), vec![1, 2])].into(),
        tree: [(1, None)].into(),
        shape: Shape::Many(vec![Shape::Circle(0.5, 'c')]),
        result: Err("no".to_owned()),
        span: std::time::Duration::from_millis(5),
    };
    type To<T> = Result<T, CallError>;
    match procedure % 12 {
        0 => client.call::<_, To<()>>(0, &(), urgent),
        1 => client.call::<_, To<u64>>(1, &(&1u32, &2u64), urgent).map(drop),
        2 => client.call::<_, To<Vec<u8>>>(2, &(&bytes[..],), urgent).map(drop),
        3 => {
            let shapes = [Shape::Nothing, Shape::Box { width: 1, height: None }];
            client.call::<_, To<Fields>>(3, &(&fields(), &shapes[..]), urgent).map(drop)
        }
        4 => client.call::<_, To<u32>>(4, &(&Tree(vec![Tree(Vec::new())]),), urgent).map(drop),
        5 => client.call::<_, To<Vec<u8>>>(5, &(&u32::from(len),), urgent).map(drop),
        6 => client.call::<_, To<Serde<Value>>>(6, &(&Serde(Value::Null),), urgent).map(drop),
        7 => client.call::<_, To<()>>(7, &("no",), urgent),
        8 => {
            let value = Extended { name: "name".to_owned(), number: 1, parts: Vec::new() };
            client.call::<_, To<Extended>>(8, &(&value,), urgent).map(drop)
        }
        9 => client.call::<_, To<()>>(9, &(), urgent),
        10 => client.call::<_, To<TargetClient>>(10, &(), urgent).map(drop),
        _ => client.call::<_, To<Vec<TargetClient>>>(11, &(Vec::<TargetClient>::new(),), urgent).map(drop),
    }
}
