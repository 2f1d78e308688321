//! Values of every type, there and back.

use proptest::collection::{btree_map, hash_map, vec};
use proptest::prelude::*;
use std::sync::OnceLock;
use std::time::Duration;
use underpass_tests::{Everything, Plain, Probe, ProbeClient, Room, ServerProcess, Shape, Watchdog};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn client() -> &'static ProbeClient {
    static CLIENT: OnceLock<ProbeClient> = OnceLock::new();
    CLIENT.get_or_init(|| {
        // The server dies with the kernel thread that starts it, so that thread must last.
        let (name, started) = (Room::name("types"), std::sync::mpsc::channel());
        let own = name.clone();
        std::thread::spawn(move || {
            let _server = ServerProcess::start(SERVER, &own, "probe");
            started.0.send(()).unwrap();
            loop {
                std::thread::park();
            }
        });
        started.1.recv().unwrap();
        ProbeClient::import_within(&name, ServerProcess::soon()).unwrap()
    })
}

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Nothing),
        any::<f64>().prop_filter("NaN differs from itself", |f| !f.is_nan()).prop_map(Shape::Circle),
        any::<(u32, u32)>().prop_map(|(width, height)| Shape::Box { width, height }),
    ];
    leaf.prop_recursive(4, 20, 5, |inner| vec(inner, 0..5).prop_map(Shape::Many))
}

fn plain() -> impl Strategy<Value = Plain> {
    any::<(u64, (i16, i32), [bool; 3])>().prop_map(|(id, at, flags)| Plain { id, at, flags })
}

fn everything(depth: u32) -> BoxedStrategy<Everything> {
    let option = match depth {
        0 => Just(None).boxed(),
        _ => proptest::option::of(everything(depth - 1).prop_map(Box::new)).boxed(),
    };
    let number = any::<f32>().prop_filter("NaN differs from itself", |f| !f.is_nan());
    let scalars = (any::<(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128)>(), (number, -1e300..1e300f64));
    let texts = (
        any::<(bool, char, usize, isize)>(),
        any::<[u16; 4]>(),
        any::<Result<u8, String>>(),
        any::<String>(),
    );
    let lists = (
        vec(any::<u8>(), 0..300),
        vec(any::<(u32, String)>(), 0..5),
        hash_map(any::<String>(), any::<i64>(), 0..5),
        btree_map(any::<u8>(), vec(any::<u16>(), 0..5), 0..5),
    );
    let rest = (
        plain(),
        shape(),
        any::<(u32, u32)>().prop_map(|(s, ns)| Duration::new(s.into(), ns % 1_000_000_000)),
    );
    (scalars, texts, lists, rest, option)
        .prop_map(
            |(
                (integers, floats),
                (scalars, array, result, string),
                (bytes, list, map, tree),
                rest,
                option,
            )| {
                let (plain, shape, span) = rest;
                Everything {
                    integers,
                    floats,
                    scalars,
                    array,
                    option,
                    result,
                    string,
                    bytes,
                    list,
                    map,
                    tree,
                    plain,
                    shape,
                    span,
                }
            },
        )
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn values_of_every_type_come_back_unchanged(value in everything(2)) {
        let _watchdog = Watchdog::new("values_of_every_type_come_back_unchanged");
        prop_assert_eq!(client().everything(value.clone()).unwrap(), value);
    }

    #[test]
    fn borrowed_values_come_back_unchanged(shapes in vec(shape(), 0..10), name in any::<String>()) {
        let _watchdog = Watchdog::new("borrowed_values_come_back_unchanged");
        prop_assert_eq!(client().shapes(&shapes, &name).unwrap(), (shapes, name));
    }
}
