//! Endpoint, binding, dispatch, clerk and termination.
