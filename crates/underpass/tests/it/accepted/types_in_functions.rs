//! Types and interfaces may stand inside functions.

#[test]
fn types_in_functions_travel() {
    use underpass::CallError;

    #[derive(underpass::Wire)]
    struct Local {
        field: u8,
    }

    #[underpass::interface]
    trait Inner {
        fn take(&self, local: Local) -> Result<Local, CallError>;
    }

    assert_eq!(InnerClient::descriptor().procedures[0].fixed_arguments, Some(1));
    let _ = |local: Local| local.field;
}
